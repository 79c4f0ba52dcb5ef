"""The companion tools, which a client calls with a handle to follow, answer or end a process, or to read its result.

This module declares them; `serve.companion_calls` carries them out. The tools that take answers are declared by the
kinds of questions, in `forms`. A companion tool is published when some goal may answer with a handle or with a link to
a large result. It publishes no output schema, since it answers with the output of any goal.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mcp_types import Tool, ToolAnnotations
from pydantic import Field

from goalport.publish.arguments import PublishedArguments
from goalport.publish.forms import FORMS, CompanionCall

__all__ = [
    "CANCEL",
    "READ",
    "STATUS",
    "Cancel",
    "Companion",
    "Look",
    "Read",
    "following",
    "reading",
]

STATUS: Final = "process_status"
CANCEL: Final = "process_cancel"
READ: Final = "read_result"

_LONGEST_WAIT: Final = 25.0
_LOOKING: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)

_ENDING: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
_STATUS: Final = (
    "Look how a process stands that another tool has answered with a handle for (processId, status, questions). Gives"
    " its result once it has one, its open questions when it waits for a person, else the handle again."
)
_CANCEL: Final = (
    "End a process that nobody wants any more, whether it runs or waits for a person. What it did stays done."
)
_READ: Final = (
    "Read a page of the result of a process, when another tool has answered that it is too large for one answer"
    " (processId, pages). Gives a line about the page, then the page as it is."
)


class Look(CompanionCall):
    """How does it stand?"""

    wait_seconds: float = Field(
        0.0,
        alias="waitSeconds",
        ge=0,
        le=_LONGEST_WAIT,
        description="Wait so long, at most, for it to end or to ask something",
    )


class Cancel(CompanionCall):
    """Nobody wants it any more."""


class Read(CompanionCall):
    """What is its result?"""

    page: int = Field(1, ge=1, description="Which page, from 1")


@dataclass(frozen=True, slots=True)
class Companion:
    """One of the companion tools."""

    tool: Tool
    arguments: PublishedArguments

    @classmethod
    def of(
        cls, name: str, title: str, description: str, takes: type[CompanionCall], hints: ToolAnnotations
    ) -> "Companion":
        """A companion tool whose arguments are the fields of the model `takes`."""
        arguments = PublishedArguments.of([takes])
        return cls(
            Tool(
                name=name,
                title=title,
                description=description,
                input_schema=arguments.schema,
                annotations=hints,
            ),
            arguments,
        )


def following(goals: Iterable[ToolAnnotations | None]) -> tuple[Companion, ...]:
    """The tools for goals that may answer with a handle; `goals` are the hints of those goals.

    An answer resumes a goal, so the tools that take answers are destructive or open-world if one of the goals is.
    """
    told = [each or ToolAnnotations() for each in goals]
    answering = ToolAnnotations(
        read_only_hint=False,
        destructive_hint=any(each.destructive_hint is not False and not each.read_only_hint for each in told),
        idempotent_hint=False,
        open_world_hint=any(each.open_world_hint is not False for each in told),
    )
    return (
        Companion.of(STATUS, "Status of a process", _STATUS, Look, _LOOKING),
        *(Companion.of(each.tool, each.title, each.description, each.call, answering) for each in reversed(FORMS)),
        Companion.of(CANCEL, "Cancel a process", _CANCEL, Cancel, _ENDING),
    )


def reading() -> Companion:
    """The tool for results that are too large for one answer."""
    return Companion.of(READ, "Read a large result", _READ, Read, _LOOKING)
