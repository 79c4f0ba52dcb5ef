"""How clients see and answer questions: one class for each kind of question, and one table of the kinds.

A new kind is a class here, with the companion tool that takes its answers, and an entry in `FORMS`. No other module
compares kinds: the handle, the companion tools and the server use the form; the command line and other goalport
servers, which follow a handle, use the JSON Schema of the answer. A form does not ask the question and does not record
the answer. `companions`, `handle`, `serve` and the command line are above.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Protocol, cast, runtime_checkable

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from goalport.domain import WaitFor
from goalport.domain.wait_for import Choice, FormSubmission, Option, TextInput, UrlVisit
from goalport.errors import BadInput
from goalport.process import Question
from goalport.prompts import made_up
from goalport.publish.elicitation import FlatForm
from goalport.publish.portability import Schema, nodes
from goalport.publish.published_arguments import PublishedArguments
from goalport.words import corrections, validation_problems

__all__ = ["ANSWER_TOOLS", "FORMS", "Answer", "AnswerTool", "CompanionCall", "Form", "form_of", "tool_called"]

_ANSWER: Final = "answer"
"""The name of the only field of a form whose answer is not an object."""
_CHOICE: Final = "choice"
"""The name of the only field of a form with options."""


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


_SUBMIT: Final = AnswerTool(
    "submitFormAndResumeProcess",
    "Answer a form",
    "Answer a question of kind form, choice or input that a process waits for, with what the person said, and let the"
    " process go on. Ask the person; do not make up the answer. Gives the result, or the handle with what is asked"
    " next.",
    SubmitCall,
    "formData",
    "form",
)
_CONFIRM: Final = AnswerTool(
    "_confirm",
    "Confirm or decline",
    "Answer a question of kind confirmation or url that a process waits for, with the person's yes or no, and let the"
    " process go on. Ask the person first. Gives the result, or the handle with what is asked next.",
    ConfirmCall,
    "confirmed",
    "confirmation",
)
ANSWER_TOOLS: Final[Sequence[AnswerTool]] = (_SUBMIT, _CONFIRM)
"""The companion tools that take answers, in the order in which clients see them."""


@dataclass(frozen=True, slots=True)
class Form(ABC):
    """The form of the answer to one question, and the companion tool that takes it."""

    kind: ClassVar[str]
    """The name of this kind of question, as clients see it."""
    tool: ClassVar[AnswerTool]
    """The companion tool that takes its answers."""

    schema: Schema
    """The JSON Schema of the answer."""

    @classmethod
    @abstractmethod
    def of(cls, wait: WaitFor[Any]) -> "Form | None":
        """The form of an answer to what is asked; None if it is not of this kind.

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

    @property
    def options(self) -> Sequence[Mapping[str, str]]:
        """What can be chosen, of a question with options: the key of each, and the label that the person reads."""
        return ()

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


@dataclass(frozen=True, slots=True)
class YesNoForm(Form):
    """The form of a question that a person answers with yes or no."""

    kind = "confirmation"
    tool = _CONFIRM

    @classmethod
    def of(cls, wait: WaitFor[Any]) -> "Form | None":
        return cls({"type": "boolean"}) if wait.response_type is bool else None

    @property
    def example(self) -> Any:
        return True

    def read(self, answer: Any) -> object:
        try:
            return TypeAdapter(bool).validate_python(answer)
        except ValidationError as error:
            problems = validation_problems(error, answer, root=self.tool.argument)
            raise BadInput(corrections(problems, of="answer"), problems) from None

    def elicitation(self, era: str) -> Schema | None:
        name = self.tool.argument
        return {"type": "object", "properties": {name: {"type": "boolean", "title": "Yes"}}, "required": [name]}

    def elicited(self, content: Mapping[str, Any]) -> Any:
        return content.get(self.tool.argument)

    def instruction(self, call: str) -> str:
        return f"Ask the person; for a yes, {call} For a no, with confirmed false."


@dataclass(frozen=True, slots=True)
class UrlForm(YesNoForm):
    """The form of a question that a person answers by doing something at an address; they say only that it is done."""

    kind = "url"

    _address: str

    @classmethod
    def of(cls, wait: WaitFor[Any]) -> "Form | None":
        return cls({"type": "boolean"}, wait.address) if isinstance(wait, UrlVisit) else None

    @property
    def url(self) -> str | None:
        return self._address

    def elicitation(self, era: str) -> Schema | None:
        return None

    def elicited(self, content: Mapping[str, Any]) -> Any:
        return True

    def instruction(self, call: str) -> str:
        return (
            f"Show the person this address, which they open themselves: {self._address} Once they say that it is done,"
            f" {call} If they refuse, with confirmed false."
        )


@dataclass(frozen=True, slots=True)
class FieldsForm(Form):
    """The form of a question that a person answers with the fields of a type."""

    kind = "form"
    tool = _SUBMIT

    _arguments: PublishedArguments
    _drafted: Mapping[str, object]
    """The values that the person finds in the form, which count where a field is left out."""
    _only: str
    """The name of the only field, if the answer is not an object."""

    @classmethod
    def of(cls, wait: WaitFor[Any]) -> "Form | None":
        draft = cast("object", wait.prefill) if isinstance(wait, FormSubmission) else None
        return cls._of_type(wait.response_type, _ANSWER, draft)

    @classmethod
    def _of_type(cls, kind: object, name: str, draft: object = None) -> "FieldsForm":
        arguments = PublishedArguments.of_fields(kind, name)
        drafted = {} if draft is None else _drafted(kind, draft, arguments.schema, name)
        return cls(_with_defaults(arguments.schema, drafted), arguments, drafted, name)

    @property
    def example(self) -> Any:
        return made_up(self.schema, brief=True)

    def read(self, answer: Any) -> object:
        if not isinstance(answer, Mapping) and [*self.schema["properties"]] == [self._only]:
            answer = {self._only: answer}
        return self._arguments.read({**self._drafted, **answer} if isinstance(answer, Mapping) else answer)[0]

    def instruction(self, call: str) -> str:
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"Ask the person; then {call} formData is their answer, valid against this JSON Schema: {schema}"


@dataclass(frozen=True, slots=True)
class TextForm(FieldsForm):
    """The form of a question that a person answers with a text."""

    kind = "input"

    @classmethod
    def of(cls, wait: WaitFor[Any]) -> "Form | None":
        if not isinstance(wait, TextInput):
            return None
        return cls._of_type(wait.response_type, _ANSWER, wait.prefill or None)


@dataclass(frozen=True, slots=True)
class ChoiceForm(Form):
    """The form of a question that a person answers with one of some options."""

    kind = "choice"
    tool = _SUBMIT

    _arguments: PublishedArguments
    _wait: Choice[Any]

    @classmethod
    def of(cls, wait: WaitFor[Any]) -> "Form | None":
        if not isinstance(wait, Choice):
            return None
        arguments = PublishedArguments.of_fields(wait.response_type, _CHOICE)
        return cls(arguments.schema, arguments, wait)

    @property
    def example(self) -> Any:
        return {_CHOICE: self._wait.options[0].key}

    @property
    def options(self) -> Sequence[Mapping[str, str]]:
        return [{"key": each.key, "label": each.label} for each in self._wait.options]

    def read(self, answer: Any) -> object:
        given = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {_CHOICE: answer}
        (chosen,) = self._arguments.read(given)
        try:
            return self._wait.option(chosen).key
        except ValueError as error:
            problems = [f"{_CHOICE}: {error}"]
            raise BadInput(corrections(problems, of="answer"), problems) from None

    def instruction(self, call: str) -> str:
        shown = "; ".join(_named(each) for each in self._wait.options)
        return f"Show the person the options and let them choose; then {call} The options are: {shown}"


def _named(option: Option[Any]) -> str:
    return option.key if option.key == option.label else f"{option.key} ({option.label})"


def _drafted(kind: object, draft: object, schema: Schema, name: str) -> dict[str, object]:
    """The values of a draft as JSON, by the names of their fields; not those of secrets."""
    values = TypeAdapter[object](cast("type", kind)).dump_python(draft, mode="json", by_alias=True, warnings=False)
    found = cast("dict[str, object]", values) if isinstance(values, dict) else {name: cast("object", values)}
    fields = schema.get("properties", {})
    return {name: value for name, value in found.items() if name in fields and not _is_secret(fields[name])}


def _is_secret(schema: Schema) -> bool:
    return any(each.get("writeOnly") or each.get("format") == "password" for each in nodes(schema))


def _with_defaults(schema: Schema, values: Mapping[str, object]) -> Schema:
    """A schema of an object whose fields have these values as defaults, and so need not be filled in."""
    if not values:
        return schema
    drafted = {name: {**schema["properties"][name], "default": value} for name, value in values.items()}
    required = [each for each in schema.get("required", ()) if each not in values]
    rest = {key: value for key, value in schema.items() if key != "required"}
    properties = {**schema["properties"], **drafted}
    return {**rest, "properties": properties, **({"required": required} if required else {})}


FORMS: Final[Sequence[type[Form]]] = (FieldsForm, YesNoForm, ChoiceForm, TextForm, UrlForm)
"""The kinds of questions, in the order in which clients see them.

The last kind that takes what is asked is used; the first kind takes everything.
"""


def tool_called(call: Answer) -> AnswerTool:
    """The companion tool that was called to answer."""
    return next(each for each in ANSWER_TOOLS if isinstance(call, each.call))


def form_of(question: Question) -> Form:
    """The form of a question. Raises one of `UNREADABLE` if its answer's type cannot be read from JSON."""
    return next(filter(None, (each.of(question.wait) for each in reversed(FORMS))))
