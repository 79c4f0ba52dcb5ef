"""A type that a model is asked for: its JSON Schema, and how the model's text is read as a value of the type.

Many providers accept only an object at the root of a schema, so any other type is wrapped: `{"result": …}`. JSON is
found in a whole reply (`json_of`), or while a reply is written (`JsonValues`). Pydantic describes and validates;
nothing here asks a model. Above: `structured_output`.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeVar, cast, get_args

from pydantic import Field, TypeAdapter, ValidationError, ValidationInfo, create_model
from pydantic_core import from_json, to_json

from goalport.agents.domain import FRAMEWORK_FIELDS, UserInput
from goalport.base.errors import DeclarationError
from goalport.base.words import type_label, type_name, validation_problems
from goalport.models.llm import OutputSpec
from goalport.models.prompts import made_up, only_fields
from goalport.tools.schemas import UNREADABLE, PlainSchema, rooted, why_not_json, without_fields

_RESULT: Final = "result"
_FAILURE: Final = "failure"
_LONGEST_NAME = 64
_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_THOUGHT_BEGINS: Final = ("<think>", "<thinking>")
_THOUGHT_ENDS: Final = re.compile(r"</think(?:ing)?>")
_FENCE: Final = "```"
_OPENING = re.compile(r"[{\[]")
_BEGINNING = re.compile(r"""\{\s*["']|\[\s*["'\[{]""")
"""How JSON begins, unlike braces and brackets among words."""
_BRACKET_OR_TEXT = re.compile(r'[{}\[\]]|"(?:[^"\\\n]|\\.)*+"?')
_MOST_SEARCHED: Final = 1_000_000
"""Characters that are read in vain before the search ends: a text may consist of unfinished objects only."""
T = TypeVar("T")
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ValidOutput:
    """The reply is a value of the type."""

    value: object


@dataclass(frozen=True, slots=True)
class DeclinedOutput:
    """The model says that it knows too little."""

    reason: str


@dataclass(frozen=True, slots=True)
class InvalidOutput:
    """The reply breaks rules of the type, or is no JSON."""

    violations: tuple[str, ...]
    """One line for each place where it does."""
    readable: bool = True


Output = ValidOutput | DeclinedOutput | InvalidOutput
"""How a reply was read."""


@dataclass(frozen=True, slots=True)
class Services:
    """The context that pydantic hands to validators: a way to the services of the platform."""

    find: Callable[[type], object | None]
    """Gives the service of a type, or None."""


@dataclass(frozen=True, slots=True)
class OutputType:
    """A type that a model is asked for."""

    kind: object
    """The type, as it is written in an annotation."""
    spec: OutputSpec
    plain: TypeAdapter[Any]
    """Validates the type itself."""
    wire: TypeAdapter[Any]
    """Validates what the model writes: the type, or the object that it is wrapped in."""
    wrapped: bool
    """Whether the model writes the value as the `result` of an object."""
    may_decline: bool
    """Whether the model may say that it knows too little."""
    properties: Callable[[str], bool] | None = None
    """Decides by name which fields are asked for; values for other fields are ignored."""
    example: str = ""
    """A made-up reply that is valid, as JSON; empty when none can be made up."""
    services: Services | None = None
    """The context for the validators of the type."""

    @property
    def name(self) -> str:
        """The name of the type in messages."""
        return type_name(self.kind)

    def read(self, text: str) -> Output:
        """Read a model's text. A value without the object that it should be wrapped in is accepted too."""
        found = json_of(text)
        if found is None:  # models write an enum's member or a string without quotes
            bare = text.strip()
            if self.wrapped and bare and bare[0] not in "{[`" and isinstance(outcome := self.take(bare), ValidOutput):
                return outcome
            problem = f"it is no JSON ({json_error(bare)})" if bare else "nothing came"
            return InvalidOutput((problem,), readable=False)
        decoded = read = cast("object", from_json(found))
        fields = cast("dict[str, object]", read) if isinstance(read, dict) else {}
        is_wrapped = bool(fields) and fields.keys() <= {_RESULT, _FAILURE}
        if wanted := self.properties:
            several: object = {name: only_fields(each, wanted) for name, each in fields.items()}
            decoded = several if is_wrapped else only_fields(decoded, wanted)
            found = to_json(decoded).decode()
        if self.may_decline and decoded is None:
            return DeclinedOutput("")
        if self.may_decline and is_wrapped and fields.get(_RESULT) is None:
            return DeclinedOutput(str(fields.get(_FAILURE) or ""))
        if not (self.wrapped and _RESULT in fields):
            return self._validated(self.plain, found, decoded)
        outcome = self._validated(self.wire, found, decoded)
        if isinstance(outcome, ValidOutput):
            return ValidOutput(getattr(outcome.value, _RESULT))
        bare = self._validated(self.plain, found, decoded)
        return bare if isinstance(bare, ValidOutput) else outcome

    def take(self, value: object) -> Output:
        """Read an object that is a value of the type already, or that pydantic can convert to one."""
        if value is None:
            return InvalidOutput(("nothing came",), readable=False)
        try:
            return ValidOutput(self.plain.validate_python(value, context=self.services))
        except ValidationError as error:
            return InvalidOutput(validation_problems(error, value))

    def _validated(self, adapter: TypeAdapter[Any], text: str, decoded: object) -> Output:
        try:
            return ValidOutput(adapter.validate_json(text, context=self.services))
        except ValidationError as error:
            return InvalidOutput(validation_problems(error, decoded))


def output_type(
    kind: object, *, may_decline: bool = False, properties: Callable[[str], bool] | None = None
) -> OutputType:
    """The output type for a type. Raises `DeclarationError` for a type whose values JSON cannot express."""
    try:
        hash(kind)
    except TypeError:
        return _output(kind, may_decline, properties)
    return _output(kind, may_decline, properties) if properties else _cached_output(kind, may_decline)


def _output(kind: Any, may_decline: bool, properties: Callable[[str], bool] | None = None) -> OutputType:  # noqa: FBT001 - a key of the cache
    try:
        plain: TypeAdapter[Any] = TypeAdapter(kind)
        wire, schema = plain, output_schema(plain, kind, properties)
        if wrapped := may_decline or schema.get("type") != "object":
            fields: dict[str, Any] = {_RESULT: (kind, ...)}
            if may_decline:
                result = Field(default=None, description="What was asked for; null if there is not enough information.")
                failure = Field(default=None, description="What information is missing; null if there is a result.")
                fields = {_RESULT: (kind | None, result), _FAILURE: (str | None, failure)}
            wire = TypeAdapter(create_model("Reply", **fields))
            schema = output_schema(wire, kind, properties)
    except UNREADABLE as error:
        raise DeclarationError(
            f"The type {type_name(kind)}, asked of a model",
            expected="a type whose values JSON can express",
            came=f"it is not ({why_not_json(kind, error)})",
            fix="Use numbers, strings, enums, lists, dicts, dataclasses, TypedDicts or pydantic models.",
        ) from error
    name, description = type_label(kind)[:_LONGEST_NAME] or "Reply", schema.get("description")
    spec = OutputSpec(name, schema, description if isinstance(description, str) else "")
    output = OutputType(kind, spec, plain, wire, wrapped, may_decline, properties)
    made = made_up(schema)
    if may_decline and isinstance(made, dict):
        made = {**cast("dict[str, object]", made), _FAILURE: None}
    example = to_json(made, indent=2).decode()
    return replace(output, example=example) if isinstance(output.read(example), ValidOutput) else output


_cached_output = lru_cache(maxsize=256, typed=True)(_output)


def output_schema(adapter: TypeAdapter[Any], kind: object, properties: Callable[[str], bool] | None) -> Schema:
    """The JSON Schema for a model, of the values that an adapter validates, without framework fields.

    `properties` decides which fields of `kind`, or of the items of a list, are asked for. Raises `DeclarationError`
    when it would leave out a field without a default.
    """
    wanted = {"classes": (kind, *get_args(kind)), "wanted": staticmethod(properties)} if properties else {}
    generator = type("_Wanted", (_OutputSchema,), wanted)
    return rooted(adapter.json_schema(mode="validation", schema_generator=generator))


class _OutputSchema(PlainSchema):
    """Leaves out framework fields, and of some classes the fields that are not wanted."""

    classes: tuple[object, ...] = ()
    wanted: Callable[[str], bool]

    def model_schema(self, schema: Any) -> Schema:
        return self._filtered(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: Any) -> Schema:
        found = self._filtered(super().dataclass_schema(schema), schema["cls"])
        return without_fields(found, FRAMEWORK_FIELDS) if issubclass(schema["cls"], UserInput) else found

    def typed_dict_schema(self, schema: Any) -> Schema:
        return self._filtered(super().typed_dict_schema(schema), schema.get("cls"))

    def _filtered(self, found: Schema, of: object) -> Schema:
        if of not in self.classes:
            return found
        unwanted = frozenset(name for name in found.get("properties", {}) if not self.wanted(name))
        if needed := sorted(unwanted.intersection(found.get("required", ()))):
            raise DeclarationError(
                f"The properties of {getattr(of, '__name__', of)} that a model is asked for",
                expected="all that have no default",
                came=f"{', '.join(needed)} would be left out",
                fix="Keep them, or give them defaults.",
            )
        return without_fields(found, unwanted)


def service_of(info: ValidationInfo[Any], kind: type[T]) -> T:
    """The platform's service of a type, for the validator of a type that a model is asked for.

    Raises `ValueError`, which the validation reports, where there is no such service: also when the value is not
    validated for an `Ai` of a platform. User guide, section 3.8.2 ("Validation").
    """
    found = info.context.find(kind) if isinstance(info.context, Services) else None
    if not isinstance(found, kind):
        raise ValueError(f"There is no service of type {kind.__name__} here. Give it to AgentPlatform(services=[…])")  # noqa: TRY004 - pydantic takes it for a violation
    return found


def json_of(text: str) -> str | None:
    """The JSON text of a reply, without thoughts, fences and words around it; None when there is no valid JSON."""
    if not json_error(text):
        return text.strip()
    # Behind the last end mark no thought is whole, and a search from each beginning would take quadratic time.
    end = text.rfind("</think") + len("</thinking>")
    answer = (_THOUGHTS.sub("", text[:end]) + text[end:]).strip()
    blocks = (each.partition("\n") for each in answer.split(_FENCE)[1:-1:2])  # those that are closed
    fenced = (block for kind, _, block in blocks if kind.strip().lower() in {"", "json"})
    candidates = chain([answer], fenced, _embedded(answer))
    return next((each.strip() for each in candidates if not json_error(each)), None)


def _embedded(text: str) -> Iterator[str]:
    """The first object in the text, or the first list when there is no object.

    An object that cannot be read is skipped with everything in it: a part of an answer is not an answer.
    """
    place, searched, lists = 0, 0, list[str]()
    while (opening := _OPENING.search(text, place)) and searched < _MOST_SEARCHED:
        start, depth, end = opening.start(), 0, len(text)  # if it was cut off, it ends with the text
        for found in _BRACKET_OR_TEXT.finditer(text, start):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
            if not depth:
                end = found.end()
                break
        place, searched = start + 1, searched + end - start
        if json_error(text[start:end]):
            place = end if _BEGINNING.match(text, start) else place
        elif opening[0] == "{":
            yield text[start:end]
            return
        else:
            lists.append(text[start:end])
    yield from lists[:1]


def json_error(text: str) -> str:
    """What a parser says of a text that is no JSON; empty: it is JSON."""
    try:
        from_json(text)
    except (TypeError, ValueError) as error:  # the former for half a surrogate pair, which is no text of JSON
        return str(error) or type(error).__name__
    return ""


class JsonValues:
    """Reads JSON values out of a text that is still being written, each as soon as it is whole.

    Objects end with their closing brace; with `lines`, any value ends with its line. A list around the objects, and a
    fence, words or thoughts before them, are skipped.
    """

    def __init__(self, *, lines: bool) -> None:
        self._lines = lines
        self._begun = False
        """Whether anything but thoughts has come."""
        self._text = ""
        self._at = 0
        self._start = -1
        """Where the object that is being read begins; negative between two objects."""
        self._depth = 0
        self._quoted = False
        self._escaped = False

    @property
    def unfinished(self) -> str:
        """The text of an object that is not whole yet."""
        return "" if self._start < 0 else self._text[self._start :]

    def feed(self, text: str) -> Iterator[str]:
        """The values that become whole with a further piece of text."""
        # Only the object that is being read is kept: texts grow long, and appending to a long one takes time.
        kept = self._at if self._start < 0 else self._start
        self._text, self._at, self._start = self._text[kept:] + text, self._at - kept, min(self._start, 0)
        if self._begun or not self._is_thinking():
            self._begun = True
            if not self._lines:
                yield from self._whole_objects()
            while self._lines and (end := self._text.find("\n", self._at)) >= 0:
                line, self._at = self._text[self._at : end].strip(), end + 1
                if line and not line.startswith(_FENCE):
                    yield line

    def end(self) -> Iterator[str]:
        """The value that no line break follows."""
        return self.feed("\n")

    def _is_thinking(self) -> bool:
        """Whether only thoughts, or what may become thoughts, have come; if not, skip the thoughts."""
        text_so_far = self._text.lstrip()
        if not text_so_far.startswith(_THOUGHT_BEGINS):
            return any(begin.startswith(text_so_far.rstrip()) for begin in _THOUGHT_BEGINS)
        end = _THOUGHT_ENDS.search(self._text)
        self._at = end.end() if end else 0
        return end is None

    def _whole_objects(self) -> Iterator[str]:
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if self._start < 0:
                if char != "{":
                    continue
                self._start = self._at - 1
            if self._escaped:
                self._escaped = False
                continue
            if self._quoted:
                self._escaped, self._quoted = char == "\\", char != '"'
                continue
            self._quoted = char == '"'
            self._depth += (char == "{") - (char == "}")
            if self._depth == 0:
                yield self._text[self._start : self._at]
                self._start = -1
