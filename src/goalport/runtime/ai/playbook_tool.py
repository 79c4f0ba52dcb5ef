"""A playbook: an agentic tool whose inner tools are unlocked by what was done so far.

Below: `agentic_tool`, and the tools that an interaction withholds. Above: authors of agents.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from goalport.runtime.ai.agentic_tool import AgenticTool
from goalport.runtime.ai.interaction import ToolUse, checked
from goalport.tools import Tool, tools_of


@dataclass(frozen=True, slots=True)
class Unlock:
    """When a tool of a playbook can be called: `after("search") & ~after("publish")`.

    `test` decides by the calls so far, failed ones among them; a condition of your own is an `Unlock` with another one.
    """

    test: Callable[[Sequence[ToolUse]], bool]

    def __and__(self, other: "Unlock") -> "Unlock":
        return Unlock(lambda uses: self.test(uses) and other.test(uses))

    def __or__(self, other: "Unlock") -> "Unlock":
        return Unlock(lambda uses: self.test(uses) or other.test(uses))

    def __invert__(self) -> "Unlock":
        return Unlock(lambda uses: not self.test(uses))


def after(tool: str | Tool | Callable[..., Any], *, times: int = 1) -> Unlock:
    """When a tool, or the tool of a name, has succeeded so many times."""
    name = tool if isinstance(tool, str) else tools_of(tool)[0].name
    return Unlock(lambda uses: sum(each.tool == name and not each.result.is_error for each in uses) >= times)


def after_calls(number: int) -> Unlock:
    """When so many calls have succeeded."""
    return Unlock(lambda uses: sum(not each.result.is_error for each in uses) >= number)


def after_artifact(kind: type) -> Unlock:
    """When a tool has returned an object of a type. Raises `TypeError` for what is no class."""
    checked((kind,), type, "the class of an object that a tool returns")
    return Unlock(lambda uses: any(isinstance(each.result.artifact, kind) for each in uses))


@dataclass(frozen=True, slots=True)
class _Locks:
    """Which tools wait for which condition."""

    by_name: tuple[tuple[str, Unlock], ...] = ()

    def __call__(self, uses: Sequence[ToolUse]) -> Collection[str]:
        """The names of the tools that are locked."""
        return {name for name, unlock in self.by_name if not unlock.test(uses)}


@dataclass(frozen=True)
class PlaybookTool(AgenticTool):
    """An agentic tool that unlocks its inner tools step by step.

    `PlaybookTool("research", "Researches").with_tools(search).with_locked(sum_up, unlock=after("search"))`: the inner
    model sees `sum_up` once a search has succeeded. What is unlocked stays so as long as its condition holds.
    """

    locks: _Locks = field(default_factory=_Locks)

    def with_locked(self, *tools: Tool | Callable[..., Any], unlock: Unlock) -> Self:
        """Let the inner model use these tools too, as soon as a condition holds. Raises `TypeError` for no `Unlock`."""
        checked((unlock,), Unlock, "a condition, like after('search') or Unlock(function)")
        locked = tools_of(*tools)
        locks = _Locks((*self.locks.by_name, *((each.name, unlock) for each in locked)))
        return replace(self.with_tools(*locked).with_withheld_tools(locks), locks=locks)
