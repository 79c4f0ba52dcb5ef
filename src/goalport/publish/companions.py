"""The companion tools: what a client calls with a handle to follow a process, answer it or end it, or read its result.

Only their declarations; `resuming` does what they say. They are published when some goal may answer with a handle, or
with a link to a large result, and publish no output schema: they answer with the output of any goal.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import from_json

from goalport.publish.arguments import Arguments

__all__ = [
    "CANCEL",
    "CONFIRM",
    "READ",
    "STATUS",
    "SUBMIT",
    "Answer",
    "Cancel",
    "Companion",
    "Confirm",
    "Look",
    "Read",
    "Submit",
    "following",
    "reading",
]

STATUS: Final = "process_status"
SUBMIT: Final = "submitFormAndResumeProcess"
CONFIRM: Final = "_confirm"
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
_SUBMIT: Final = (
    "Answer a question of kind form that a process waits for, with what the person said, and let the process go on."
    " Ask the person; do not make up the answer. Gives the result, or the handle with what is asked next."
)
_CONFIRM: Final = (
    "Answer a question of kind confirmation that a process waits for, with the person's yes or no, and let the process"
    " go on. Ask the person first. Gives the result, or the handle with what is asked next."
)
_CANCEL: Final = (
    "End a process that nobody wants any more, whether it runs or waits for a person. What it did stays done."
)
_READ: Final = (
    "Read a page of the result of a process, when another tool has answered that it is too large for one answer"
    " (processId, pages). Gives a line about the page, then the page as it is."
)


def _from_text(value: object) -> object:
    """What a text holds as JSON: some hosts send the objects in arguments so."""
    if isinstance(value, str):
        with suppress(ValueError):
            return from_json(value)
    return value


class _OfProcess(BaseModel):
    model_config = ConfigDict(frozen=True)

    process_id: str = Field(alias="processId", description="The processId of the handle")


class Look(_OfProcess):
    """How does it stand?"""

    wait_seconds: float = Field(
        0.0,
        alias="waitSeconds",
        ge=0,
        le=_LONGEST_WAIT,
        description="Wait so long, at most, for it to end or to ask something",
    )


class Submit(_OfProcess):
    """Here is what the form asked for."""

    kind: ClassVar = "form"

    form_data: Annotated[dict[str, Any], BeforeValidator(_from_text)] = Field(
        alias="formData", description="The person's answer, valid against the schema of the question"
    )
    question_id: str | None = Field(
        None, alias="questionId", description="The id of the question; needed only when several forms are open"
    )

    @property
    def answer(self) -> object:
        """What the person said, as it came."""
        return self.form_data


class Confirm(_OfProcess):
    """Yes or no."""

    kind: ClassVar = "confirmation"

    confirmed: bool = Field(strict=True, description="Whether the person said yes")
    question_id: str | None = Field(
        None, alias="questionId", description="The id of the question; needed only when several are to be confirmed"
    )

    @property
    def answer(self) -> object:
        """What the person said, as it came."""
        return self.confirmed


Answer = Submit | Confirm
"""What answers a question: one class for each kind of `forms`."""


class Cancel(_OfProcess):
    """Nobody wants it any more."""


class Read(_OfProcess):
    """What is its result?"""

    page: int = Field(1, ge=1, description="Which page, from 1")


@dataclass(frozen=True, slots=True)
class Companion:
    """One of the companion tools."""

    tool: Tool
    arguments: Arguments

    @classmethod
    def of(
        cls, name: str, title: str, description: str, takes: type[_OfProcess], hints: ToolAnnotations
    ) -> "Companion":
        """A companion tool that takes the fields of a model."""
        arguments = Arguments.of([takes])
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
    """The tools for goals that may answer with a handle.

    An answer lets the goal go on, so what may come of it is what may come of the goals: `goals` are their hints.
    """
    told = [each or ToolAnnotations() for each in goals]
    resuming = ToolAnnotations(
        read_only_hint=False,
        destructive_hint=any(each.destructive_hint is not False and not each.read_only_hint for each in told),
        idempotent_hint=False,
        open_world_hint=any(each.open_world_hint is not False for each in told),
    )
    return (
        Companion.of(STATUS, "Status of a process", _STATUS, Look, _LOOKING),
        Companion.of(SUBMIT, "Answer a form", _SUBMIT, Submit, resuming),
        Companion.of(CONFIRM, "Confirm or decline", _CONFIRM, Confirm, resuming),
        Companion.of(CANCEL, "Cancel a process", _CANCEL, Cancel, _ENDING),
    )


def reading() -> Companion:
    """The tool for results that are too large for one answer."""
    return Companion.of(READ, "Read a large result", _READ, Read, _LOOKING)
