"""Forms: how clients see and answer questions.

Each kind of question has its form in `FORMS`; no other module compares kinds. The handle, the companion tools and the
doors use the form; the command line and other goalport servers use the JSON Schema of the answer. `FlatForm` is the
same schema as MCP elicitation shows it: a flat object of texts, numbers, yes-or-no fields and choices. Nothing here
asks a question or records an answer.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic_core import from_json

from goalport.agents.domain import WaitFor
from goalport.agents.domain.wait_for import Choice, FormSubmission, TextInput, UrlVisit
from goalport.base.errors import BadInput
from goalport.base.words import corrections, limit_hint
from goalport.runtime.process import Question
from goalport.server.publish.portability import Schema, is_object
from goalport.server.publish.published_arguments import PublishedArguments
from goalport.tools.schemas import holds_secret

_ANSWER: Final = "answer"
"""The name of the only field of a form whose answer is not an object."""
_CONFIRMED: Final = "confirmed"
"""The name of the only field of a form that shows a yes-or-no question."""
_CHOICE: Final = "choice"
"""The name of the only field of a form with options."""
_ONCE: Final = "Once they say that it is done,"
_ASK: Final = "Ask the person; then"


@dataclass(frozen=True, slots=True)
class Form:
    """The form of the answer to one question."""

    kind: str
    """The name of this kind of question, as clients see it."""
    schema: Schema
    """The JSON Schema of the answer."""
    read: Callable[[Any], object]
    """Converts an answer from JSON to the expected object. Raises `BadInput` with one line for each wrong field."""
    ask_hint: str
    """Tells a model how to get the answer. The call that sends the answer, with null in its place, is appended."""
    answer_hint: str
    """Tells the model what to put in place of null."""
    url: str | None = None
    """The address that the person opens, if the question is answered there, else None."""
    calls_back: bool = False
    """Whether the page at `url` itself reports that it is done; a person's yes then only agrees to open it."""
    options: Sequence[Mapping[str, str]] = ()
    """The options to choose from: the `key` of each and the `label` that the person reads. Empty: a free answer."""

    def sent(self, answer: Any) -> Any:
        """The answer that a model sent. Objects and booleans that its host sent as JSON text (some do) are parsed."""
        if isinstance(answer, str):
            with suppress(ValueError):
                value, fields = cast("object", from_json(answer)), self.schema.get("properties", {})
                if isinstance(value, bool) and self._is_yes_or_no:
                    return value
                if isinstance(value, dict):
                    members = cast("dict[str, Any]", value)
                    return members if self.kind == "form" or members.keys() == fields.keys() else answer
        return answer

    def elicitation(self, protocol_version: str) -> Schema | None:
        """The schema of this form in an MCP elicitation; `protocol_version` is, for example, `2025-11-25`.

        None if the protocol has no fields for the answer, such as nested objects; the client then gets the handle.
        """
        if not self._is_yes_or_no:
            flat = FlatForm.of(self.schema)
            return None if flat is None else flat.schema(protocol_version)
        if self.calls_back:
            return None
        shown = {"title": "Yes"} if self.url is None else {"title": "It is done", "default": True}
        field = {"type": "boolean", **shown}
        return {"type": "object", "properties": {_CONFIRMED: field}, "required": [_CONFIRMED]}

    def elicited(self, content: Mapping[str, Any]) -> Any:
        """The answer, as `read` takes it, from what a person entered into the form of `elicitation`."""
        if self._is_yes_or_no:
            return content.get(_CONFIRMED)
        flat = FlatForm.of(self.schema)
        return dict(content) if flat is None else flat.answer(content)

    @property
    def _is_yes_or_no(self) -> bool:
        return self.schema.get("type") == "boolean"


def _fields_form(wait: WaitFor[Any]) -> Form:
    """The form of a question that a person answers with the fields of a type."""
    draft = cast("object", wait.prefill) if isinstance(wait, FormSubmission) else None
    schema, read = _answers(wait.response_type, draft=draft)
    answer_hint = (
        f"Put their answer in place of null, valid against this JSON Schema: {json.dumps(schema, ensure_ascii=False)}"
    )
    return Form("form", schema, read, _ASK, answer_hint)


def _yes_no_form(wait: WaitFor[Any]) -> Form | None:
    if wait.response_type is not bool:
        return None
    answer_hint = "Put true in place of null for a yes, false for a no."
    return Form("confirmation", {"type": "boolean"}, _answers(bool)[1], _ASK, answer_hint)


def _choice_form(wait: WaitFor[Any]) -> Form | None:
    """The form of a question that a person answers with one of some options."""
    if not isinstance(wait, Choice):
        return None
    schema, read_option = _answers(wait.response_type, _CHOICE)

    def read(answer: Any) -> object:
        try:
            return wait.option(read_option(answer)).key
        except ValueError as error:
            told = f"{_CHOICE}: {error}"
            raise BadInput(corrections([told], of="answer"), [told]) from None

    options = [{"key": each.key, "label": each.label} for each in wait.options]
    shown = "; ".join(each.key if each.key == each.label else f"{each.key} ({each.label})" for each in wait.options)
    answer_hint = f"Put their option in place of null. The options are: {shown}"
    return Form(
        "choice", schema, read, "Show the person the options and let them choose; then", answer_hint, options=options
    )


def _text_form(wait: WaitFor[Any]) -> Form | None:
    if not isinstance(wait, TextInput):
        return None
    schema, read = _answers(wait.response_type, draft=wait.prefill or None)
    return Form("input", schema, read, _ASK, "Put their text in place of null.")


def _url_form(wait: WaitFor[Any]) -> Form | None:
    """The form of a question that a person answers by doing something at an address, which they open first."""
    if not isinstance(wait, UrlVisit):
        return None
    _, read_done = _answers(bool)

    def read(answer: Any) -> object:
        if (done := read_done(answer)) and wait.calls_back:
            told = f"{_ANSWER}: only the page itself says that it is done: open {wait.address}"
            raise BadInput(corrections([told], of="answer"), [told])
        return done

    once = "The page itself says when it is done; to wait for that," if wait.calls_back else _ONCE
    ask_hint = f"Show the person this address, which they open themselves: {wait.address} {once}"
    answer_hint = "Put true in place of null, or false if they refuse."
    return Form("url", {"type": "boolean"}, read, ask_hint, answer_hint, url=wait.address, calls_back=wait.calls_back)


FORMS: Final[Mapping[str, Callable[[WaitFor[Any]], Form | None]]] = {
    "form": _fields_form,
    "confirmation": _yes_no_form,
    "choice": _choice_form,
    "input": _text_form,
    "url": _url_form,
}
"""A function for each kind of question, in the order in which clients see the kinds; it returns None for other kinds.

The last function that returns a form is used; the first one takes every question.
"""


def form_of(question: Question) -> Form:
    """The form of a question. Raises one of `UNREADABLE` if its answer's type cannot be read from JSON."""
    return next(filter(None, (form(question.wait) for form in reversed(FORMS.values()))))


def _answers(kind: object, name: str = _ANSWER, draft: object = None) -> tuple[Schema, Callable[[Any], Any]]:
    """The schema of answers of the type `kind`, and a function that reads one; `draft` has values for missing fields.

    A type that is no object in JSON has one field, called `name`; its answer may also be the bare value.
    """
    arguments = PublishedArguments.of_fields(kind, name)
    schema, drafted = arguments.schema, dict[str, object]()
    fields = schema.get("properties", {})
    if draft is not None:
        values = TypeAdapter[object](cast("type", kind)).dump_python(draft, mode="json", by_alias=True, warnings=False)
        found = cast("dict[str, object]", values) if isinstance(values, dict) else {name: cast("object", values)}
        drafted = {field: each for field, each in found.items() if field in fields and not holds_secret(fields[field])}
        shown = {field: {**fields[field], "default": each} for field, each in drafted.items()}
        required = [each for each in schema.get("required", ()) if each not in drafted]
        schema = {key: value for key, value in schema.items() if key != "required"}
        schema |= {"properties": {**fields, **shown}, **({"required": required} if required else {})}

    def read(answer: Any) -> Any:
        if kind is bool or (not isinstance(answer, Mapping) and [*fields] == [name]):
            answer = {name: answer}
        if isinstance(answer, Mapping):
            answer = {**drafted, **cast("Mapping[str, object]", answer)}
        return arguments.read(answer, of="answer")[0]

    return schema, read


_TITLED_CHOICES: Final = "2025-11-25"
"""The first protocol version with choices that have titles, several choices, and defaults of all fields."""
_FORMATS: Final = frozenset({"date", "date-time", "email", "uri"})
_COMBINATORS: Final = ("anyOf", "oneOf")
_OPEN: Final = ("additionalProperties", "patternProperties")
_KEPT: Final[Mapping[str, Sequence[str]]] = {
    "string": ("minLength", "maxLength", "pattern"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}
_LIMITS: Final = (
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "minItems", "maxItems", "format"),
)
"""The keywords that restrict a value of the right type, in the order in which a person reads them."""
_DEFAULTS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


class _CannotBeShownError(Exception):
    """A schema has something for which the protocol has no field."""


@dataclass(frozen=True, slots=True)
class FieldChoice:
    """A value that can be chosen. The protocol has texts only, so others are shown as JSON."""

    text: str
    value: object
    title: str


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of an answer."""

    name: str
    schema: Schema
    """The JSON Schema of its value, without the alternative null."""
    key_required: bool
    """Whether the answer must have it, if only as null."""
    nullable: bool
    choices: tuple[FieldChoice, ...] = ()
    group: str = ""
    """The name of the nested object that has the field; empty: the answer itself has it."""

    @classmethod
    def of(cls, name: str, given: Schema, *, key_required: bool, whole: bool) -> "FormField":
        """A field, with its type in the protocol and its choices.

        Raises `_CannotBeShownError` if the protocol has no such field, unless `whole` allows what it cannot show.
        """
        schema, nullable = _without_null(given)
        field = cls(name, schema, key_required, nullable)
        several, choices, has_null = schema.get("type") == "array", None, False
        items = schema.get("items") if several else schema
        with suppress(_CannotBeShownError):
            if isinstance(items, dict) and not (several and "prefixItems" in schema):
                inner, has_null = _without_null(cast("Schema", items))
                choices = tuple(_choices(inner))
        kind = ("array" if several else "string") if choices else str(schema.get("type"))
        # The specification forbids asking for secrets in a form.
        can_be_shown = (choices or kind in _DEFAULTS) and not (has_null or field.secret)
        if choices is not None and can_be_shown and len({each.text for each in choices}) == len(choices):
            return replace(field, schema={**schema, "type": kind}, choices=choices)
        if whole:
            return field
        raise _CannotBeShownError

    @property
    def required(self) -> bool:
        """Whether the person has to fill it in."""
        return self.key_required and not self.nullable

    @property
    def secret(self) -> bool:
        """Whether what is typed must not be seen."""
        return bool(self.schema.get("writeOnly") or self.schema.get("format") == "password")

    def shown(self, *, titled: bool) -> Schema:
        """The schema of the field in an elicitation; `titled`: the version knows titles of choices and all defaults.

        Raises `_CannotBeShownError`.
        """
        schema, kind, default = self.schema, str(self.schema["type"]), self.default
        limits = () if self.choices and kind == "string" else _KEPT[kind]
        shown: Schema = {"type": kind}
        shown |= {key: schema[key] for key in ("title", "description", *limits) if key in schema}
        if kind == "integer" and "exclusiveMinimum" in schema:
            shown["minimum"] = floor(schema["exclusiveMinimum"]) + 1
        if kind == "integer" and "exclusiveMaximum" in schema:
            shown["maximum"] = ceil(schema["exclusiveMaximum"]) - 1
        if self.choices:
            several, texts = kind == "array", [each.text for each in self.choices]
            if several and not titled:
                raise _CannotBeShownError
            options = [{"const": each.text, "title": each.title} for each in self.choices]
            if all(each.title == each.text for each in self.choices):
                shown |= {"items": {"type": "string", "enum": texts}} if several else {"enum": texts}
            elif not titled or ("enumNames" in schema and not several):
                # Titles that came in the older keyword are shown in it: clients of all versions know it.
                shown |= {"enum": texts, "enumNames": [each.title for each in self.choices]}
            else:
                shown |= {"items": {"anyOf": options}} if several else {"oneOf": options}
        elif schema.get("format") in _FORMATS:
            shown["format"] = schema["format"]
        if default is not None and (titled or kind == "boolean"):
            shown["default"] = default
        # What the protocol has no keyword for is said in words.
        unsaid = ["multipleOf"] if kind == "integer" else ["exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
        notes = [limit_hint(key, schema[key]) for key in unsaid if key in schema]
        notes += [f"format: {schema['format']}"] if schema.get("format", "date") not in _FORMATS else []
        notes += [] if default is None or "default" in shown else [f"default: {default}"]
        if told := "; ".join(filter(None, notes)):
            shown["description"] = f"{shown['description']} ({told})" if shown.get("description") else told
        return shown

    @property
    def limits(self) -> Sequence[str]:
        """The restrictions of its value, in words for a person who does not see its schema: `at least 1`."""
        limits = [(key, self.schema[key]) for key in _LIMITS if key in self.schema]
        told = [limit_hint(*each) for each in limits if each != ("minLength", 1)]  # nobody answers with no text
        return [*filter(None, told)]

    @property
    def default(self) -> object:
        """The default that the field shows: for choices a text, or a list of texts. None: there is no default."""
        default, kind = self.schema.get("default"), str(self.schema.get("type"))
        if not self.choices:
            fits = isinstance(default, _DEFAULTS.get(kind, object)) and (kind == "boolean") == isinstance(default, bool)
            return default if fits else None
        texts = {_as_json(each.value): each.text for each in self.choices}
        if kind != "array":
            return texts.get(_as_json(default))
        chosen = [texts.get(_as_json(each)) for each in cast("list[object]", default or [])]
        return chosen if default is not None and None not in chosen else None

    @property
    def takes_empty_text(self) -> bool:
        """Whether an empty text is a value of it, and not the lack of one."""
        if self.choices:
            return any(each.text == "" for each in self.choices)
        return self.schema.get("type") == "string" and not self.schema.get("minLength") and "format" not in self.schema

    def values(self, content: Mapping[str, Any]) -> Iterator[object]:
        """Yields the value for the answer from what a client sent; yields nothing if the field is missing."""
        value = content.get(self.name)
        if value is None or (value == "" and not self.required and not self.takes_empty_text):
            if self.nullable and (self.key_required or self.name in content):
                yield None
            return
        values = {each.text: each.value for each in self.choices}
        if isinstance(value, list):
            items = cast("list[object]", value)
            yield [values.get(each, each) if isinstance(each, str) else each for each in items]
        else:
            yield values.get(value, value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class _Group:
    """A nested object, whose fields a form that is filled in line by line shows among the other fields."""

    name: str
    key_required: bool
    nullable: bool
    default: Mapping[str, object]

    def fields(self, schema: Schema) -> Iterator[FormField]:
        """Its fields, as `address.city`."""
        optional, required = self.nullable or not self.key_required, schema.get("required", ())
        for name, each in cast("Mapping[str, Schema]", schema["properties"]).items():
            described = {**each, "default": self.default[name]} if name in self.default else dict(each)
            if optional and name not in self.default:
                described.pop("default", None)  # it would make an object that nobody wanted
            key_required = name in required and not optional and name not in self.default
            yield replace(
                FormField.of(f"{self.name}.{name}", described, key_required=key_required, whole=True), group=self.name
            )


@dataclass(frozen=True, slots=True)
class FlatForm:
    """The fields of an answer that is an object."""

    fields: tuple[FormField, ...]
    _groups: tuple[_Group, ...] = ()

    @classmethod
    def of(cls, schema: Schema, *, whole: bool = False) -> "FlatForm | None":
        """The form of an answer with this JSON Schema; None where MCP elicitation has no fields for it.

        `whole` also makes the fields that the protocol lacks, such as secrets, lists and fields of nested objects
        (`address.city`). The result is then None only if the answer is no object with known fields.
        """
        if not is_object(schema) or not ("properties" in schema or not any(map(schema.get, _OPEN))):
            return None
        required, fields, groups = schema.get("required", ()), list[FormField](), list[_Group]()
        try:
            for name, each in cast("Mapping[str, object]", schema.get("properties", {})).items():
                described, key_required = cast("Schema", each) if isinstance(each, dict) else {}, name in required
                inner, nullable = _without_null(described)
                if whole and is_object(inner) and inner.get("properties") and not any(map(inner.get, _OPEN)):
                    default = cast("Mapping[str, object]", inner.get("default") or {})
                    groups.append(_Group(name, key_required, nullable, default))
                    fields += groups[-1].fields(inner)
                else:
                    fields.append(FormField.of(name, described, key_required=key_required, whole=whole))
        except _CannotBeShownError:
            return None
        return cls(tuple(fields), tuple(groups))

    def schema(self, protocol_version: str) -> Schema | None:
        """The schema of an elicitation in a version of the protocol; None where that version has no fields for it."""
        try:
            properties = {each.name: each.shown(titled=protocol_version >= _TITLED_CHOICES) for each in self.fields}
        except _CannotBeShownError:
            return None
        required = [each.name for each in self.fields if each.required]
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def answer(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, from what a client sent. Unknown members stay in it, so that validation refuses them."""
        names = {each.name for each in self.fields}
        answer = {key: value for key, value in content.items() if key not in names}
        values = [(each, value) for each in self.fields for value in each.values(content)]
        for group in self._groups:
            given = {each.name[len(group.name) + 1 :]: value for each, value in values if each.group == group.name}
            filled = any(each is not None for each in given.values()) or (given and group.default)
            if group.name in answer or not (filled or group.key_required):
                continue
            answer[group.name] = None if group.nullable and not filled else {**group.default, **given}
        return answer | {each.name: value for each, value in values if not each.group}


def _without_null(schema: Schema) -> tuple[Schema, bool]:
    """A schema without the alternative null, and whether it had one. If one alternative is left, that is the schema."""
    enum, nullable = schema.get("enum"), False
    if enum is not None and None in enum:
        schema, nullable = {**schema, "enum": [each for each in enum if each is not None]}, True
    if isinstance(kinds := schema.get("type"), list):
        left = [each for each in cast("list[str]", kinds) if each != "null"]
        nullable = nullable or len(left) < len(cast("list[str]", kinds))
        schema = {**schema, "type": left[0] if len(left) == 1 else left}
    for key in _COMBINATORS:
        if key in schema:
            members = [each for each in schema[key] if each != {"type": "null"}]
            nullable = nullable or len(members) < len(schema[key])
            beside = {name: value for name, value in schema.items() if name != key}
            # A single option stays an option: it has its own title.
            only = members[0] if len(members) == 1 and "const" not in members[0] else None
            kinds = {str(each.get("type")): each for each in members if not {"enum", "const"} & each.keys()}
            if len(members) == len(kinds) and kinds.keys() == {"number", "string"}:
                only = kinds["string"]  # a Decimal: its text is exact
            schema = {**beside, key: members} if only is None else {**only, **beside}
    return schema, nullable


def _choices(schema: Schema) -> Iterator[FieldChoice]:
    """The choices of a schema; none if it is no choice. Raises `_CannotBeShownError`."""
    members = [each for key in _COMBINATORS for each in schema.get(key, ())]
    values: Sequence[object] = schema.get("enum", ())
    if "const" in schema:
        values, titles = [schema["const"]], [None]
    else:
        named = {_as_json(each["const"]): each.get("title") for each in members if "const" in each}
        # Servers of older revisions have titles in `enumNames`.
        titles: Sequence[object] = schema.get("enumNames") or [named.get(_as_json(each)) for each in values]
    for value, title in zip(values, titles, strict=False):
        if isinstance(value, dict | list):
            raise _CannotBeShownError
        text = value if isinstance(value, str) else _as_json(value)
        yield FieldChoice(text, value, title if isinstance(title, str) else text)
    for member in () if values else members:
        if "const" in member:
            yield from _choices({"enum": [member["const"]], "enumNames": [member.get("title")]})
        elif "enum" in member:
            yield from _choices(member)
        else:
            raise _CannotBeShownError


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
