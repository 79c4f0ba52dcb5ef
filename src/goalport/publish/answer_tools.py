"""The companion tools that take the answers to questions, and the arguments of their calls.

What a question of each kind is answered with is in `forms`, above. `companions` publishes the tools beside others.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol, runtime_checkable

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import from_json

__all__ = ["ANSWER_TOOLS", "CONFIRM", "SUBMIT", "Answer", "AnswerTool", "CompanionCall", "tool_called"]


def _from_text(value: object) -> object:
    """The value of a JSON text, anything else unchanged: some hosts send objects in arguments as JSON texts."""
    if isinstance(value, str):
        with suppress(ValueError):
            return from_json(value)
    return value


class CompanionCall(BaseModel):
    """The arguments of a call of a companion tool, which is always about one process."""

    model_config = ConfigDict(frozen=True)

    process_id: str = Field(alias="processId", description="The processId of the handle")


@runtime_checkable
class Answer(Protocol):
    """The arguments of a call that answers a question."""

    @property
    def process_id(self) -> str: ...

    @property
    def question_id(self) -> str | None:
        """The id of the question; None stands for the only open question of this kind."""
        ...

    @property
    def answer(self) -> object:
        """What the person said, as it came."""
        ...


class ConfirmCall(CompanionCall):
    """The arguments of `_confirm`."""

    confirmed: bool = Field(strict=True, description="Whether the person said yes")
    question_id: str | None = Field(
        None, alias="questionId", description="The id of the question; needed only when several are to be confirmed"
    )

    @property
    def answer(self) -> object:
        """What the person said, as it came."""
        return self.confirmed


class SubmitCall(CompanionCall):
    """The arguments of `submitFormAndResumeProcess`."""

    form_data: Annotated[dict[str, Any], BeforeValidator(_from_text)] = Field(
        alias="formData", description="The person's answer; it has to be valid against the JSON Schema of the question"
    )
    question_id: str | None = Field(
        None, alias="questionId", description="The id of the question; needed only when several forms are open"
    )

    @property
    def answer(self) -> object:
        """What the person said, as it came."""
        return self.form_data


@dataclass(frozen=True, slots=True)
class AnswerTool:
    """A companion tool that takes answers."""

    name: str
    title: str
    description: str
    """Read by clients and models."""
    call: type[CompanionCall]
    """The model of its arguments; it is an `Answer`."""
    argument: str
    """The name of the argument that holds the answer."""
    takes: str
    """What it takes, in a word for errors."""


SUBMIT: Final = AnswerTool(
    "submitFormAndResumeProcess",
    "Answer a form",
    "Answer a question of kind form, choice or input that a process waits for, with what the person said, and let the"
    " process go on. Ask the person; do not make up the answer. Gives the result, or the handle with what is asked"
    " next.",
    SubmitCall,
    "formData",
    "form",
)
CONFIRM: Final = AnswerTool(
    "_confirm",
    "Confirm or decline",
    "Answer a question of kind confirmation or url that a process waits for, with the person's yes or no, and let the"
    " process go on. Ask the person first. Gives the result, or the handle with what is asked next.",
    ConfirmCall,
    "confirmed",
    "confirmation",
)
ANSWER_TOOLS: Final[Sequence[AnswerTool]] = (SUBMIT, CONFIRM)
"""The companion tools that take answers, in the order in which clients see them."""


def tool_called(call: Answer) -> AnswerTool:
    """The companion tool that was called to answer."""
    return next(each for each in ANSWER_TOOLS if isinstance(call, each.call))
