"""A state machine: an agentic tool whose inner tools depend on a state, which calls of tools change.

Below: `agentic_tool`, and the tools that an interaction withholds. Above: authors of agents.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from goalport.base.errors import DeclarationError
from goalport.runtime.ai.agentic_tool import AgenticTool
from goalport.runtime.ai.interaction import ToolUse
from goalport.tools import Tool, tools_of


@dataclass(frozen=True, slots=True)
class _Machine:
    """The states, and the tools of each."""

    initial: Hashable = None
    tools: tuple[tuple[Hashable, str, Hashable], ...] = ()
    """State, name of the tool, and the state after a call that succeeds; None: the same one."""

    def state(self, uses: Sequence[ToolUse]) -> Hashable:
        """The state after these calls."""
        state = self.initial
        for each in uses:
            if not each.result.is_error:
                leads = (then for of, name, then in self.tools if (of, name) == (state, each.tool) and then is not None)
                state = next(leads, state)
        return state

    def __call__(self, uses: Sequence[ToolUse]) -> Collection[str]:
        """The names of the tools that are not of the current state."""
        state = self.state(uses)
        here = {name for of, name, _ in self.tools if of == state}
        return {name for _, name, _ in self.tools} - here


@dataclass(frozen=True)
class StateMachineTool(AgenticTool):
    """An agentic tool whose inner tools depend on a state.

    `StateMachineTool("order", "Takes an order").in_state("open", add).in_state("open", pay, then="paid")`: the first
    state that is named is the initial one. A successful call of a tool with `then` leads to that state. A state may be
    any hashable value, for example a member of an enumeration. Tools of `with_tools` are offered in all states.
    """

    machine: _Machine = field(default_factory=_Machine)

    def in_state(self, state: Hashable, *tools: Tool | Callable[..., Any], then: Hashable = None) -> Self:
        """Let the inner model use these tools in a state. Raises `DeclarationError` for None as a state."""
        if state is None:
            raise DeclarationError(
                f"StateMachineTool {self.name!r}",
                expected="a state, such as a text or a member of an enumeration",
                came="it is None",
                fix='Name the state: in_state("open", …).',
            )
        added = tools_of(*tools)
        initial = state if self.machine.initial is None else self.machine.initial
        machine = _Machine(initial, (*self.machine.tools, *((state, each.name, then) for each in added)))
        return replace(self.with_tools(*added).with_withheld_tools(machine), machine=machine)
