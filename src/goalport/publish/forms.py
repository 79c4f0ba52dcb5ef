"""How questions are shown to clients and answered: one class for each kind of question, and one table of the kinds.

A new kind is a class here, with the call that takes its answers, and an entry in `FORMS`. Nobody else compares kinds:
the handle, the companion tools and the server ask the form, and the command line and other goalports, which follow a
handle, go by the JSON Schema of the answer. A form neither asks nor settles anything. Above: `companions`, `handle`,
`serve` and the command line.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Protocol, runtime_checkable

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import from_json

from goalport.process import Question
from goalport.prompts import made_up
from goalport.publish.arguments import PublishedArguments
from goalport.publish.portable_schemas import Schema

__all__ = ["FORMS", "Answer", "CompanionCall", "FieldsForm", "Form", "YesNoForm", "form_answered_by", "form_of"]

_BARE: Final = "answer"
"""The one field of a form whose answer is no object."""


def _from_text(value: object) -> object:
    """What a text holds as JSON: some hosts send the objects in arguments so."""
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
        """The question; None: the only open one of its kind."""
        ...

    @property
    def answer(self) -> object:
        """What the person said, as it came."""
        ...


@dataclass(frozen=True, slots=True)
class Form(ABC):
    """What an answer to one question looks like, and the companion tool that takes it."""

    kind: ClassVar[str]
    """What clients are told that the question is."""
    tool: ClassVar[str]
    """The name of the companion tool."""
    title: ClassVar[str]
    description: ClassVar[str]
    """What the tool is for, as clients and their models read it."""
    call: ClassVar[type[CompanionCall]]
    """The arguments of the tool; each is an `Answer`."""
    argument: ClassVar[str]
    """The name of the argument that holds the answer."""

    schema: Schema
    """The JSON Schema of the answer."""

    @classmethod
    @abstractmethod
    def of(cls, answer_type: object) -> "Form | None":
        """The form of an answer of this type; None when questions of this kind have other answers.

        Raises one of `UNREADABLE` for a type that no JSON can be read as.
        """

    @property
    @abstractmethod
    def example(self) -> Any:
        """An answer of the form, for whoever has to see one."""

    @abstractmethod
    def read(self, answer: Any) -> object:
        """The object that an answer stands for. Raises `BadInput` with a line per field."""

    @abstractmethod
    def instruction(self, call: str) -> str:
        """What a model does to get the answer; `call` says how it is sent, with the example in it."""


class Confirm(CompanionCall):
    """Yes or no."""

    confirmed: bool = Field(strict=True, description="Whether the person said yes")
    question_id: str | None = Field(
        None, alias="questionId", description="The id of the question; needed only when several are to be confirmed"
    )

    @property
    def answer(self) -> object:
        """What the person said, as it came."""
        return self.confirmed


@dataclass(frozen=True, slots=True)
class YesNoForm(Form):
    """A person says yes or no."""

    kind = "confirmation"
    tool = "_confirm"
    title = "Confirm or decline"
    description = (
        "Answer a question of kind confirmation that a process waits for, with the person's yes or no, and let the"
        " process go on. Ask the person first. Gives the result, or the handle with what is asked next."
    )
    call = Confirm
    argument = "confirmed"

    @classmethod
    def of(cls, answer_type: object) -> "Form | None":
        return cls({"type": "boolean"}) if answer_type is bool else None

    @property
    def example(self) -> Any:
        return True

    def read(self, answer: Any) -> object:
        return answer

    def instruction(self, call: str) -> str:
        return f"Ask the person; for a yes, {call} For a no, with confirmed false."


class Submit(CompanionCall):
    """Here is what the form asked for."""

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


@dataclass(frozen=True, slots=True)
class FieldsForm(Form):
    """A person fills in the fields of a type."""

    kind = "form"
    tool = "submitFormAndResumeProcess"
    title = "Answer a form"
    description = (
        "Answer a question of kind form that a process waits for, with what the person said, and let the process go on."
        " Ask the person; do not make up the answer. Gives the result, or the handle with what is asked next."
    )
    call = Submit
    argument = "formData"

    _arguments: PublishedArguments

    @classmethod
    def of(cls, answer_type: object) -> "Form | None":
        arguments = PublishedArguments.of_fields(answer_type, _BARE)
        return cls(arguments.schema, arguments)

    @property
    def example(self) -> Any:
        return made_up(self.schema, brief=True)

    def read(self, answer: Any) -> object:
        return self._arguments.read(answer)[0]

    def instruction(self, call: str) -> str:
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"Ask the person; then {call} formData is their answer, valid against this JSON Schema: {schema}"


FORMS: Final[Sequence[type[Form]]] = (YesNoForm, FieldsForm)
"""The kinds of questions. The first that takes the type of the answer is the form; the last takes every type."""


def form_answered_by(call: Answer) -> type[Form]:
    """The kind of question that a call answers."""
    return next(each for each in FORMS if isinstance(call, each.call))


def form_of(question: Question) -> Form:
    """The form of a question. Raises one of `UNREADABLE` for an answer that no JSON can be read as."""
    return next(filter(None, (each.of(question.response_type) for each in FORMS)))
