"""A goal as an MCP tool: what is published of it, and what its call starts.

Data, made once at publication; `calls` runs it. One goal tool may stand for several goals of one agent that share a
published name and an output type.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_types import Tool

from goalport.domain import Agent, Goal
from goalport.publish.arguments import Arguments
from goalport.publish.function_tool import annotations_of
from goalport.publish.handle import HANDLE, LARGE, or_instead
from goalport.publish.terms import Terms

__all__ = ["GoalTool"]


@dataclass(frozen=True, slots=True)
class GoalTool:
    """A tool that starts a process of one agent from one set of start types."""

    tool: Tool
    agent: Agent
    goals: tuple[str, ...]
    """The full names of the goals; reaching any of them will do."""
    arguments: Arguments
    terms: Terms

    @classmethod
    def of(
        cls, agent: Agent, goals: Sequence[Goal], starts: Sequence[object], terms: Terms, apart: str = ""
    ) -> "GoalTool":
        """The tool for goals that share a name, from these start types; `apart` is said first of it.

        Some hosts show the model no more than the beginning of a description.
        """
        first, arguments, output = goals[0], Arguments.of(starts), terms.output
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
