"""A goal as an MCP tool: its definition, what a call starts, and how long and for whom the process runs (`Terms`).

Immutable data, made at publication; `serve` runs it. One goal tool may stand for several goals of one agent that share
a published name and an output type. The terms depend on the goals alone, so a later call with the handle of a process
follows it on the terms of the first call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mcp_types import Tool

from goalport.domain import Agent, Goal
from goalport.process import AgentProcess
from goalport.publish.arguments import PublishedArguments
from goalport.publish.function_tool import annotations_of
from goalport.publish.handle import HANDLE, LARGE, or_instead
from goalport.publish.names import published_name
from goalport.publish.output import OutputFormat

__all__ = ["GoalTool", "Terms"]

_SILENT: Final = 45.0
"""Seconds that a call waits for the result when its client gets no progress: most hosts time out after 60."""
_WATCHED: Final = 240.0
"""Seconds that it waits when its client gets progress: some hosts time out after 300 all the same."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a goal's process relates to the calls that wait for it, and how its output is written."""

    name: str
    """The name of the tool that was called."""
    output: OutputFormat
    detached: bool
    """Whether the process outlives the request that waits for it."""
    hands_over: bool
    """Whether a call may be answered with a handle in place of the result."""
    wait_budget: float | None = None

    @classmethod
    def of(cls, name: str, goals: Sequence[Goal], *, may_wait: bool, asks_models: bool = False) -> "Terms":
        """The terms of goals that share one tool; `asks_models` is the default where an export does not set `long`."""
        exports = [goal.export for goal in goals]
        return cls(
            name,
            OutputFormat.of(goals[0].output),
            any(each.on_disconnect == "detach" for each in exports),
            may_wait or any(asks_models if each.long is None else each.long for each in exports),
            next((each.wait_budget for each in exports if each.wait_budget is not None), None),
        )

    @classmethod
    def of_process(cls, process: AgentProcess) -> "Terms":
        """The terms of a process that a caller follows by its handle."""
        goals = [process.scope.goals[name] for name in process.goals]
        return cls.of(published_name(process.agent, goals[0]), goals, may_wait=True)

    def seconds(self, *, watched: bool) -> float | None:
        """Seconds that a request waits before it is answered with the handle; None means without limit."""
        if not self.hands_over:
            return None
        return self.wait_budget or (_WATCHED if watched else _SILENT)


@dataclass(frozen=True, slots=True)
class GoalTool:
    """A tool that starts a process of one agent from objects of one set of start types."""

    tool: Tool
    agent: Agent
    goals: tuple[str, ...]
    """The full names of the goals; the process is done when it has reached one of them."""
    arguments: PublishedArguments
    terms: Terms

    @classmethod
    def of(
        cls, agent: Agent, goals: Sequence[Goal], starts: Sequence[object], terms: Terms, apart: str = ""
    ) -> "GoalTool":
        """The tool for goals that share a name, from these start types; its description begins with `apart`.

        `apart` comes first since some hosts show the model only the beginning of a description.
        """
        first, arguments, output = goals[0], PublishedArguments.of(starts), terms.output
        instead = [*([HANDLE] if terms.hands_over else ()), *([LARGE] if output.may_be_large else ())]
        tool = Tool(
            name=terms.name,
            title=first.export.title or None,
            description=apart + (first.export.description or first.description),
            input_schema=arguments.schema,
            output_schema=or_instead(output.schema, *instead),
            annotations=annotations_of(first.export),
        )
        return cls(tool, agent, tuple(goal.name for goal in goals), arguments, terms)
