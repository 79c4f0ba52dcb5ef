"""A goal as an MCP tool: what is published of it, what its call starts, and the terms on which it runs for its callers.

Data, made once at publication; `serve` runs it. One goal tool may stand for several goals of one agent that share a
published name and an output type. The terms come from the goals alone, so that a process can be followed on the same
terms by whoever comes later with its handle.
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
"""Seconds that hosts wait for an answer when they hear nothing meanwhile: most give up after 60."""
_WATCHED: Final = 240.0
"""Seconds when they hear of progress: some give up after five minutes all the same."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What whoever called a goal may expect."""

    name: str
    """What the caller called."""
    output: OutputFormat
    detached: bool
    """Whether the process outlives the request that waits for it."""
    hands_over: bool
    """Whether a handle may come in place of the result."""
    wait_budget: float | None = None

    @classmethod
    def of(cls, name: str, goals: Sequence[Goal], *, may_wait: bool, asks_models: bool = False) -> "Terms":
        """The terms of goals that are one tool. What asks models is long where nothing else is said."""
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
        """The terms of a process that somebody has the handle of."""
        goals = [process.scope.goals[name] for name in process.goals]
        return cls.of(published_name(process.agent, goals[0]), goals, may_wait=True)

    def seconds(self, *, watched: bool) -> float | None:
        """How long a request waits before it answers with the handle; None: for as long as it takes."""
        if not self.hands_over:
            return None
        return self.wait_budget or (_WATCHED if watched else _SILENT)


@dataclass(frozen=True, slots=True)
class GoalTool:
    """A tool that starts a process of one agent from one set of start types."""

    tool: Tool
    agent: Agent
    goals: tuple[str, ...]
    """The full names of the goals; reaching any of them will do."""
    arguments: PublishedArguments
    terms: Terms

    @classmethod
    def of(
        cls, agent: Agent, goals: Sequence[Goal], starts: Sequence[object], terms: Terms, apart: str = ""
    ) -> "GoalTool":
        """The tool for goals that share a name, from these start types; `apart` is said first of it.

        Some hosts show the model no more than the beginning of a description.
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
