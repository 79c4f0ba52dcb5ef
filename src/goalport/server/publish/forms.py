"""How clients see and answer questions: one class for each kind of question, and one table of the kinds.

A new kind is a class here, and an entry in `FORMS`. No other module compares kinds: the handle, the companion tools and
the server use the form; the command line and other goalport servers, which follow a handle, use the JSON Schema of the
answer. A form does not ask the question and does not record the answer. `companions`, `handle`, `doors.mcp` and the
command line are above.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from goalport.agents.domain import WaitFor
from goalport.agents.domain.wait_for import Choice, FormSubmission, Option, TextInput, UrlVisit
from goalport.base.errors import BadInput
from goalport.base.words import corrections, validation_problems
from goalport.runtime.process import Question
from goalport.server.publish.elicitation import FlatForm
from goalport.server.publish.portability import Schema
from goalport.server.publish.published_arguments import PublishedArguments
from goalport.tools.schemas import holds_secret

_ANSWER: Final = "answer"
"""The name of the only field of a form whose answer is not an object."""
_CONFIRMED: Final = "confirmed"
"""The name of the only field where a client shows a yes or no as a form."""
_ONCE_DONE: Final = "Once they say that it is done,"
_CHOICE: Final = "choice"
"""The name of the only field of a form with options."""


@dataclass(frozen=True, slots=True)
class Form(ABC):
    """The form of the answer to one question."""

    kind: ClassVar[str]
    """The name of this kind of question, as clients see it."""

    schema: Schema
    """The JSON Schema of the answer."""

    @classmethod
    @abstractmethod
    def of(cls, wait: WaitFor[Any]) -> "Form | None":
        """The form of an answer to what is asked; None if it is not of this kind.

        Raises one of `UNREADABLE` for a type that cannot be read from JSON.
        """

    @abstractmethod
    def read(self, answer: Any) -> object:
        """The object made from an answer. Raises `BadInput` with one line for each wrong field."""

    def sent(self, answer: Any) -> Any:
        """The answer that a model sent: some hosts send the objects and booleans in arguments as JSON texts."""
        if not isinstance(answer, str):
            return answer
        with suppress(ValueError):
            value = cast("object", from_json(answer))
            fields = self.schema.get("properties", {})
            if isinstance(value, Mapping) and (
                self.kind == "form" or cast("Mapping[str, Any]", value).keys() == fields.keys()
            ):
                return cast("Mapping[str, Any]", value)
            if isinstance(value, bool) and self.schema.get("type") == "boolean":
                return value
        return answer

    @abstractmethod
    def instruction(self, call: str) -> str:
        """What a model does to get the answer; `call` is the sentence that says how to send it, with null for it."""

    @property
    def url(self) -> str | None:
        """The address that the person opens, of a question that is answered there; None for all others."""
        return None

    @property
    def calls_back(self) -> bool:
        """Whether the page at the address says when it is done; a person's yes only agrees to open it then."""
        return False

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

    @classmethod
    def of(cls, wait: WaitFor[Any]) -> "Form | None":
        return cls({"type": "boolean"}) if wait.response_type is bool else None

    def read(self, answer: Any) -> object:
        try:
            return TypeAdapter(bool).validate_python(answer)
        except ValidationError as error:
            raise _refusal(validation_problems(error, answer, root=_ANSWER)) from None

    def elicitation(self, era: str) -> Schema | None:
        name = _CONFIRMED
        return {"type": "object", "properties": {name: {"type": "boolean", "title": "Yes"}}, "required": [name]}

    def elicited(self, content: Mapping[str, Any]) -> Any:
        return content.get(_CONFIRMED)

    def instruction(self, call: str) -> str:
        return f"Ask the person; then {call} Put true in place of null for a yes, false for a no."


@dataclass(frozen=True, slots=True)
class UrlForm(YesNoForm):
    """The form of a question that a person answers by doing something at an address, which they open first."""

    kind = "url"

    _visit: UrlVisit

    @classmethod
    def of(cls, wait: WaitFor[Any]) -> "Form | None":
        return cls({"type": "boolean"}, wait) if isinstance(wait, UrlVisit) else None

    @property
    def url(self) -> str | None:
        return self._visit.address

    @property
    def calls_back(self) -> bool:
        return self._visit.calls_back

    def read(self, answer: Any) -> object:
        done = YesNoForm.read(self, answer)
        if done and self.calls_back:
            raise _refusal([f"{_ANSWER}: only the page itself says that it is done: open {self.url}"])
        return done

    def elicitation(self, era: str) -> Schema | None:
        """The form by which a person who has opened the address says that it is done; none if the page says so."""
        name = _CONFIRMED
        done = {name: {"type": "boolean", "title": "It is done", "default": True}}
        return None if self.calls_back else {"type": "object", "properties": done, "required": [name]}

    def instruction(self, call: str) -> str:
        once = "The page itself says when it is done; to wait for that," if self.calls_back else _ONCE_DONE
        return (
            f"Show the person this address, which they open themselves: {self.url} {once} {call} Put true in place of"
            " null, or false if they refuse."
        )


@dataclass(frozen=True, slots=True)
class FieldsForm(Form):
    """The form of a question that a person answers with the fields of a type."""

    kind = "form"

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

    def read(self, answer: Any) -> object:
        if not isinstance(answer, Mapping) and [*self.schema["properties"]] == [self._only]:
            answer = {self._only: answer}
        return _read(self._arguments, {**self._drafted, **answer} if isinstance(answer, Mapping) else answer)

    def instruction(self, call: str) -> str:
        schema = json.dumps(self.schema, ensure_ascii=False)
        return (
            f"Ask the person; then {call} Put their answer in place of null, valid against this JSON Schema: {schema}"
        )


@dataclass(frozen=True, slots=True)
class TextForm(FieldsForm):
    """The form of a question that a person answers with a text."""

    kind = "input"

    @classmethod
    def of(cls, wait: WaitFor[Any]) -> "Form | None":
        if not isinstance(wait, TextInput):
            return None
        return cls._of_type(wait.response_type, _ANSWER, wait.prefill or None)

    def instruction(self, call: str) -> str:
        return f"Ask the person; then {call} Put their text in place of null."


@dataclass(frozen=True, slots=True)
class ChoiceForm(Form):
    """The form of a question that a person answers with one of some options."""

    kind = "choice"

    _arguments: PublishedArguments
    _wait: Choice[Any]

    @classmethod
    def of(cls, wait: WaitFor[Any]) -> "Form | None":
        if not isinstance(wait, Choice):
            return None
        arguments = PublishedArguments.of_fields(wait.response_type, _CHOICE)
        return cls(arguments.schema, arguments, wait)

    @property
    def options(self) -> Sequence[Mapping[str, str]]:
        return [{"key": each.key, "label": each.label} for each in self._wait.options]

    def read(self, answer: Any) -> object:
        given = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {_CHOICE: answer}
        chosen = _read(self._arguments, given)
        try:
            return self._wait.option(chosen).key
        except ValueError as error:
            raise _refusal([f"{_CHOICE}: {error}"]) from None

    def instruction(self, call: str) -> str:
        shown = "; ".join(_named(each) for each in self._wait.options)
        put = "Put their option in place of null."
        return f"Show the person the options and let them choose; then {call} {put} The options are: {shown}"


def _read(arguments: PublishedArguments, answer: Any) -> Any:
    try:
        return arguments.read(answer)[0]
    except BadInput as error:
        raise _refusal(error.problems) from None


def _refusal(problems: Sequence[str]) -> BadInput:
    return BadInput(corrections(problems, of="answer"), problems)


def _named(option: Option[Any]) -> str:
    return option.key if option.key == option.label else f"{option.key} ({option.label})"


def _drafted(kind: object, draft: object, schema: Schema, name: str) -> dict[str, object]:
    """The values of a draft as JSON, by the names of their fields; not those of secrets."""
    values = TypeAdapter[object](cast("type", kind)).dump_python(draft, mode="json", by_alias=True, warnings=False)
    found = cast("dict[str, object]", values) if isinstance(values, dict) else {name: cast("object", values)}
    fields = schema.get("properties", {})
    return {name: value for name, value in found.items() if name in fields and not holds_secret(fields[name])}


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


def form_of(question: Question) -> Form:
    """The form of a question. Raises one of `UNREADABLE` if its answer's type cannot be read from JSON."""
    return next(filter(None, (each.of(question.wait) for each in reversed(FORMS))))
