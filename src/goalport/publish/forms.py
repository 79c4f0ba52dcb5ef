"""How clients see and answer questions: one class for each kind of question, and one table of the kinds.

A new kind is a class here, with the call that takes its answers, and an entry in `FORMS`. No other module compares
kinds: the handle, the companion tools and the server use the form; the command line and other goalport servers, which
follow a handle, use the JSON Schema of the answer. A form does not ask the question and does not record the answer.
`companions`, `handle`, `serve` and the command line are above.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Protocol, runtime_checkable

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from goalport.errors import BadInput
from goalport.process import Question
from goalport.prompts import made_up
from goalport.publish.elicitation import FlatForm
from goalport.publish.portability import Schema
from goalport.publish.published_arguments import PublishedArguments
from goalport.words import corrections, validation_problems

__all__ = ["FORMS", "Answer", "CompanionCall", "FieldsForm", "Form", "YesNoForm", "form_answered_by", "form_of"]

_ANSWER: Final = "answer"
"""The name of the only field of a form whose answer is not an object."""


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


@dataclass(frozen=True, slots=True)
class Form(ABC):
    """The form of the answer to one question, and the companion tool that takes it."""

    kind: ClassVar[str]
    """The name of this kind of question, as clients see it."""
    tool: ClassVar[str]
    """The name of the companion tool."""
    title: ClassVar[str]
    description: ClassVar[str]
    """The description of the companion tool, read by clients and models."""
    call: ClassVar[type[CompanionCall]]
    """The model of the tool's arguments; it is an `Answer`."""
    argument: ClassVar[str]
    """The name of the argument that holds the answer."""

    schema: Schema
    """The JSON Schema of the answer."""

    @classmethod
    @abstractmethod
    def of(cls, answer_type: object) -> "Form | None":
        """The form of an answer of this type; None if this kind of question does not take the type.

        Raises one of `UNREADABLE` for a type that cannot be read from JSON.
        """

    @property
    @abstractmethod
    def example(self) -> Any:
        """An example of an answer, as JSON data."""

    @abstractmethod
    def read(self, answer: Any) -> object:
        """The object made from an answer. Raises `BadInput` with one line for each wrong field."""

    @abstractmethod
    def instruction(self, call: str) -> str:
        """What a model does to get the answer; `call` is the sentence that says how to send it, with an example."""

    @property
    def url(self) -> str | None:
        """The address that the person opens, of a question that is answered there; None for all others."""
        return None

    def elicitation(self, era: str) -> Schema | None:
        """The schema that MCP elicitation shows as a form, in a version of the protocol such as `2025-11-25`.

        None where the protocol has no fields for the answer; its client gets the handle.
        """
        flat = FlatForm.of(self.schema)
        return None if flat is None else flat.schema(era)

    def elicited(self, content: Mapping[str, Any]) -> Any:
        """The answer for `read` in what the person entered into a form of `elicitation`."""
        flat = FlatForm.of(self.schema)
        return dict(content) if flat is None else flat.answer(content)


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


@dataclass(frozen=True, slots=True)
class YesNoForm(Form):
    """The form of a question that a person answers with yes or no."""

    kind = "confirmation"
    tool = "_confirm"
    title = "Confirm or decline"
    description = (
        "Answer a question of kind confirmation that a process waits for, with the person's yes or no, and let the"
        " process go on. Ask the person first. Gives the result, or the handle with what is asked next."
    )
    call = ConfirmCall
    argument = "confirmed"

    @classmethod
    def of(cls, answer_type: object) -> "Form | None":
        return cls({"type": "boolean"}) if answer_type is bool else None

    @property
    def example(self) -> Any:
        return True

    def read(self, answer: Any) -> object:
        try:
            return TypeAdapter(bool).validate_python(answer)
        except ValidationError as error:
            problems = validation_problems(error, answer, root=self.argument)
            raise BadInput(corrections(problems, of="answer")) from None

    def elicitation(self, era: str) -> Schema | None:
        return {
            "type": "object",
            "properties": {self.argument: {"type": "boolean", "title": "Yes"}},
            "required": [self.argument],
        }

    def elicited(self, content: Mapping[str, Any]) -> Any:
        return content.get(self.argument)

    def instruction(self, call: str) -> str:
        return f"Ask the person; for a yes, {call} For a no, with confirmed false."


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
class FieldsForm(Form):
    """The form of a question that a person answers with the fields of a type."""

    kind = "form"
    tool = "submitFormAndResumeProcess"
    title = "Answer a form"
    description = (
        "Answer a question of kind form that a process waits for, with what the person said, and let the process go on."
        " Ask the person; do not make up the answer. Gives the result, or the handle with what is asked next."
    )
    call = SubmitCall
    argument = "formData"

    _arguments: PublishedArguments

    @classmethod
    def of(cls, answer_type: object) -> "Form | None":
        arguments = PublishedArguments.of_fields(answer_type, _ANSWER)
        return cls(arguments.schema, arguments)

    @property
    def example(self) -> Any:
        return made_up(self.schema, brief=True)

    def read(self, answer: Any) -> object:
        return self._arguments.read(answer)[0]

    def instruction(self, call: str) -> str:
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"Ask the person; then {call} formData is their answer, valid against this JSON Schema: {schema}"


FORMS: Final[Sequence[type[Form]]] = (FieldsForm, YesNoForm)
"""The kinds of questions, in the order in which clients see them and their tools.

The last kind that takes the type of the answer is used; the first kind takes every type.
"""


def form_answered_by(call: Answer) -> type[Form]:
    """The kind of question that a call of a companion tool answers."""
    return next(each for each in FORMS if isinstance(call, each.call))


def form_of(question: Question) -> Form:
    """The form of a question. Raises one of `UNREADABLE` if its answer's type cannot be read from JSON."""
    return next(filter(None, (each.of(question.response_type) for each in reversed(FORMS))))
