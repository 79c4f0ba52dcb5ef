"""A goal as an MCP tool: what is published of it, and what its call starts.

Data, made once at publication; `calls` runs it. One goal tool may stand for several goals of one agent that share a
published name and an output type.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_types import Tool

from goalport.domain import Agent, Goal
from goalport.serve.arguments import Arguments
from goalport.serve.function_tool import annotations_of
from goalport.serve.output import Output

__all__ = ["GoalTool"]


@dataclass(frozen=True, slots=True)
class GoalTool:
    """A tool that starts a process of one agent from one set of start types."""

    tool: Tool
    agent: Agent
    goals: tuple[str, ...]
    """The full names of the goals; reaching any of them will do."""
    arguments: Arguments
    output: Output
    detached: bool
    """Whether the process outlives the request that waits for it."""

    @classmethod
    def of(cls, name: str, agent: Agent, goals: Sequence[Goal], starts: Sequence[object]) -> "GoalTool":
        """The tool for goals that share a name, from these start types."""
        first = goals[0]
        arguments, output = Arguments.of(starts), Output.of(first.output)
        tool = Tool(
            name=name,
            title=first.export.title or None,
            description=first.export.description or first.description,
            input_schema=arguments.schema,
            output_schema=output.schema,
            annotations=annotations_of(first.export),
        )
        detached = any(goal.export.on_disconnect == "detach" for goal in goals)
        return cls(tool, agent, tuple(goal.name for goal in goals), arguments, output, detached)
