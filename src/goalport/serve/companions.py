"""The companion tools: what a client calls with a handle to follow a process, answer it or end it.

Only their declarations, which are the same for every goal; `resuming` does what they say. They are published when some
goal may answer with a handle, and publish no output schema: they answer with the output of any goal.
"""

from dataclasses import dataclass
from typing import Any, Final

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from goalport.serve.arguments import Arguments

__all__ = ["CANCEL", "COMPANIONS", "CONFIRM", "STATUS", "SUBMIT", "Cancel", "Companion", "Confirm", "Look", "Submit"]

STATUS: Final = "process_status"
SUBMIT: Final = "submitFormAndResumeProcess"
CONFIRM: Final = "_confirm"
CANCEL: Final = "process_cancel"

_LONGEST_WAIT: Final = 25.0


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

    form_data: dict[str, Any] = Field(
        alias="formData", description="The person's answer, valid against the schema of the question"
    )
    question_id: str | None = Field(
        None, alias="questionId", description="The id of the question; needed only when several forms are open"
    )


class Confirm(_OfProcess):
    """Yes or no."""

    confirmed: bool = Field(strict=True, description="Whether the person said yes")
    question_id: str | None = Field(
        None, alias="questionId", description="The id of the question; needed only when several are to be confirmed"
    )


class Cancel(_OfProcess):
    """Nobody wants it any more."""


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


COMPANIONS: Final = (
    Companion.of(
        STATUS,
        "Status of a process",
        "Look how a process stands that another tool has answered with a handle for (processId, status, questions)."
        " Gives its result once it has one, its open questions when it waits for a person, else the handle again.",
        Look,
        ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
    Companion.of(
        SUBMIT,
        "Answer a form",
        "Answer a question of kind form that a process waits for, with what the person said, and let the process go on."
        " Ask the person; do not make up the answer. Gives the result, or the handle with what is asked next.",
        Submit,
        ToolAnnotations(destructive_hint=False),
    ),
    Companion.of(
        CONFIRM,
        "Confirm or decline",
        "Answer a question of kind confirmation that a process waits for, with the person's yes or no, and let the"
        " process go on. Ask the person first. Gives the result, or the handle with what is asked next.",
        Confirm,
        ToolAnnotations(destructive_hint=True),
    ),
    Companion.of(
        CANCEL,
        "Cancel a process",
        "End a process that nobody wants any more, whether it runs or waits for a person. What it did stays done.",
        Cancel,
        ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False),
    ),
)
