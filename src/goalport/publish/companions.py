"""The companion tools, which a client calls with a handle to follow, answer or end a process, or to read its result.

This module declares them; `serve.companion_calls` carries them out. The tools that take answers are declared beside the
kinds of questions, in `forms`. A companion tool is published when some goal may answer with a handle or with a link to
a large result. It publishes no output schema, since it answers with the output of any goal.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mcp_types import Tool, ToolAnnotations
from pydantic import Field

from goalport.publish.answer_tools import ANSWER_TOOLS, CompanionCall
from goalport.publish.published_arguments import PublishedArguments

__all__ = [
    "CANCEL",
    "READ",
    "STATUS",
    "CancelCall",
    "Companion",
    "ReadCall",
    "StatusCall",
    "handle_tools",
    "result_tool",
]

STATUS: Final = "process_status"
CANCEL: Final = "process_cancel"
READ: Final = "read_result"

_LONGEST_WAIT: Final = 25.0
"""Seconds that a call of `process_status` may wait."""
_READ_ONLY: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_DESTRUCTIVE: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


class StatusCall(CompanionCall):
    """The arguments of `process_status`."""

    wait_seconds: float = Field(
        0.0,
        alias="waitSeconds",
        ge=0,
        le=_LONGEST_WAIT,
        description="The most seconds to wait for the process to end or to ask something",
    )


class CancelCall(CompanionCall):
    """The arguments of `process_cancel`."""


class ReadCall(CompanionCall):
    """The arguments of `read_result`."""

    page: int = Field(1, ge=1, description="The number of the page, from 1")


@dataclass(frozen=True, slots=True)
class Companion:
    """One of the companion tools."""

    tool: Tool
    arguments: PublishedArguments

    @classmethod
    def of(
        cls, name: str, title: str, description: str, call: type[CompanionCall], hints: ToolAnnotations
    ) -> "Companion":
        """A companion tool whose arguments are the fields of the model `call`.

        The name and the docstring of the model do not reach clients, since the tool has a title and a description.
        """
        arguments = PublishedArguments.of([call])
        schema = {key: value for key, value in arguments.schema.items() if key not in {"title", "description"}}
        tool = Tool(name=name, title=title, description=description, input_schema=schema, annotations=hints)
        return cls(tool, arguments)


def handle_tools(goals: Iterable[ToolAnnotations | None]) -> tuple[Companion, ...]:
    """The tools for goals that may answer with a handle; `goals` are the hints of those goals.

    An answer resumes a goal, so the tools that take answers are destructive or open-world if one of the goals is.
    """
    hints = [each or ToolAnnotations() for each in goals]
    answering = ToolAnnotations(
        read_only_hint=False,
        destructive_hint=any(each.destructive_hint is not False and not each.read_only_hint for each in hints),
        idempotent_hint=False,
        open_world_hint=any(each.open_world_hint is not False for each in hints),
    )
    return (
        Companion.of(
            STATUS,
            "Status of a process",
            "Get the status of a process for which another tool has answered with a handle (processId, status,"
            " questions). Gives its result once it has one, its open questions while it waits for a person, else the"
            " handle again.",
            StatusCall,
            _READ_ONLY,
        ),
        *(Companion.of(each.name, each.title, each.description, each.call, answering) for each in ANSWER_TOOLS),
        Companion.of(
            CANCEL,
            "Cancel a process",
            "End a process whose result nobody wants any more, whether it is running or waits for a person. What it has"
            " done stays done.",
            CancelCall,
            _DESTRUCTIVE,
        ),
    )


def result_tool() -> Companion:
    """The tool for results that are too large for one answer."""
    return Companion.of(
        READ,
        "Read a large result",
        "Read one page of the result of a process, when another tool has answered that it is too large for one answer"
        " (processId, pages). Gives a line about the page, then the page unchanged.",
        ReadCall,
        _READ_ONLY,
    )
