"""A type that a model is asked for: its JSON Schema, and how the model's text is read as a value of the type.

Many providers accept only an object at the root of a schema, so any other type is wrapped: `{"result": …}`. Pydantic
describes and validates; nothing here asks a model. Above: `structured_output`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar, cast, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import from_json, to_json

from goalport.agents.domain import FRAMEWORK_FIELDS, UserInput
from goalport.base.errors import DeclarationError
from goalport.base.words import type_label, type_name, validation_problems
from goalport.models.llm import OutputSpec
from goalport.models.prompts import made_up, only_fields
from goalport.runtime.ai.json_text import json_of
from goalport.tools.schemas import UNREADABLE, PlainSchema, rooted, why_not_json, without_fields

_RESULT: Final = "result"
_FAILURE: Final = "failure"
_LONGEST_NAME = 64
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
class UnreadableOutput:
    """The reply is not JSON."""

    reason: str


@dataclass(frozen=True, slots=True)
class InvalidOutput:
    """The reply breaks rules of the type."""

    violations: tuple[str, ...]
    """One line for each place where it does."""


Output = ValidOutput | DeclinedOutput | UnreadableOutput | InvalidOutput
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
        if found is None:
            return self._read_unquoted(text)
        decoded: object = from_json(found)
        if self.properties:
            decoded = _wanted_fields(decoded, self.properties)
            found = to_json(decoded).decode()
        if self.may_decline and (declined := _declined(decoded)) is not None:
            return declined
        if not (self.wrapped and _has_result(decoded)):
            return self._validated(self.plain, found, decoded)
        outcome = self._validated(self.wire, found, decoded)
        if isinstance(outcome, ValidOutput):
            return ValidOutput(getattr(outcome.value, _RESULT))
        bare = self._validated(self.plain, found, decoded)
        return bare if isinstance(bare, ValidOutput) else outcome

    def take(self, value: object) -> Output:
        """Read an object that is a value of the type already, or that pydantic can convert to one."""
        if value is None:
            return UnreadableOutput("nothing came")
        try:
            return ValidOutput(self.plain.validate_python(value, context=self.services))
        except ValidationError as error:
            return InvalidOutput(validation_problems(error, value))

    def _validated(self, adapter: TypeAdapter[Any], text: str, decoded: object) -> Output:
        try:
            return ValidOutput(adapter.validate_json(text, context=self.services))
        except ValidationError as error:
            return InvalidOutput(validation_problems(error, decoded))

    def _read_unquoted(self, text: str) -> Output:
        """Read text that is not JSON: models write an enum's member or a string without quotes."""
        bare = text.strip()
        if self.wrapped and bare and bare[0] not in "{[`":
            try:
                return ValidOutput(self.plain.validate_python(bare, context=self.services))
            except ValidationError:
                pass
        if not bare:
            return UnreadableOutput("nothing came")
        try:
            from_json(bare)
        except (TypeError, ValueError) as error:
            return UnreadableOutput(f"it is no JSON ({error})")
        return UnreadableOutput("it is no JSON")


def output_type(
    kind: object, *, may_decline: bool = False, properties: Callable[[str], bool] | None = None
) -> OutputType:
    """The output type for a type. Raises `DeclarationError` for a type whose values JSON cannot express."""
    try:
        hash(kind)
    except TypeError:
        return _output(kind, may_decline=may_decline, properties=properties)
    if properties:
        return _output(kind, may_decline=may_decline, properties=properties)
    return _cached_output(kind, may_decline)


def _output(kind: Any, *, may_decline: bool, properties: Callable[[str], bool] | None = None) -> OutputType:
    try:
        plain: TypeAdapter[Any] = TypeAdapter(kind)
        schema = output_schema(plain, kind, properties)
        wrapped = may_decline or schema.get("type") != "object"
        wire = TypeAdapter(_wrapper(kind, may_decline=may_decline)) if wrapped else plain
        schema = output_schema(wire, kind, properties) if wrapped else schema
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
    return replace(output, example=_example(output))


@lru_cache(maxsize=256, typed=True)
def _cached_output(kind: object, may_decline: bool) -> OutputType:  # noqa: FBT001 - a key of the cache
    return _output(kind, may_decline=may_decline)


def _example(output: OutputType) -> str:
    made = made_up(output.spec.schema)
    if output.may_decline and isinstance(made, dict):
        made = {**cast("dict[str, object]", made), _FAILURE: None}
    written = to_json(made, indent=2).decode()
    return written if isinstance(output.read(written), ValidOutput) else ""


def _wrapper(kind: Any, *, may_decline: bool) -> type[BaseModel]:
    fields: dict[str, Any] = {_RESULT: (kind, ...)}
    if may_decline:
        result = Field(default=None, description="What was asked for; null if there is not enough information.")
        failure = Field(default=None, description="What information is missing; null if there is a result.")
        fields = {_RESULT: (kind | None, result), _FAILURE: (str | None, failure)}
    return create_model("Reply", **fields)


def _wanted_fields(decoded: object, wanted: Callable[[str], bool]) -> object:
    """The reply with the fields that were asked for only, also where it is wrapped in an object."""
    if not _is_wrapped(decoded):
        return only_fields(decoded, wanted)
    return {name: only_fields(each, wanted) for name, each in cast("Mapping[str, object]", decoded).items()}


def _declined(decoded: object) -> DeclinedOutput | None:
    if decoded is None:
        return DeclinedOutput("")
    if not _is_wrapped(decoded):
        return None
    reply = cast("Mapping[str, object]", decoded)
    return DeclinedOutput(str(reply.get(_FAILURE) or "")) if reply.get(_RESULT) is None else None


def _has_result(decoded: object) -> bool:
    return isinstance(decoded, Mapping) and _RESULT in decoded


def _is_wrapped(decoded: object) -> bool:
    if not isinstance(decoded, Mapping):
        return False
    keys = cast("Mapping[str, object]", decoded).keys()
    return bool(keys) and keys <= {_RESULT, _FAILURE}


def output_schema(adapter: TypeAdapter[Any], kind: object, properties: Callable[[str], bool] | None) -> Schema:
    """The JSON Schema by which a model is asked for what an adapter validates; framework fields are left out.

    `properties` decides which fields of `kind`, or of the items of a list, are asked for. Raises `DeclarationError`
    when it would leave out a field without a default.
    """
    generator = _filtered(kind, properties) if properties else _OutputSchema
    return rooted(adapter.json_schema(mode="validation", schema_generator=generator))


class _OutputSchema(PlainSchema):
    def dataclass_schema(self, schema: Any) -> Schema:
        found = super().dataclass_schema(schema)
        return without_fields(found, FRAMEWORK_FIELDS) if issubclass(schema["cls"], UserInput) else found


def _filtered(kind: object, wanted: Callable[[str], bool]) -> type[GenerateJsonSchema]:
    """A generator of schemas that leaves out the unwanted fields of a class."""
    classes = (kind, *get_args(kind))

    class Filtered(_OutputSchema):
        def model_schema(self, schema: Any) -> Schema:
            return self._kept(super().model_schema(schema), schema["cls"])

        def dataclass_schema(self, schema: Any) -> Schema:
            return self._kept(super().dataclass_schema(schema), schema["cls"])

        def typed_dict_schema(self, schema: Any) -> Schema:
            return self._kept(super().typed_dict_schema(schema), schema.get("cls"))

        def _kept(self, found: Schema, of: object) -> Schema:
            if of not in classes:
                return found
            unwanted = frozenset(name for name in found.get("properties", {}) if not wanted(name))
            if needed := sorted(unwanted.intersection(found.get("required", ()))):
                raise DeclarationError(
                    f"The properties of {getattr(of, '__name__', of)} that a model is asked for",
                    expected="all that have no default",
                    came=f"{', '.join(needed)} would be left out",
                    fix="Keep them, or give them defaults.",
                )
            return without_fields(found, unwanted)

    return Filtered


class _Validation(Protocol):
    """What pydantic gives a validator: its `ValidationInfo`."""

    @property
    def context(self) -> object: ...


def service_of(info: _Validation, kind: type[T]) -> T:
    """The platform's service of a type, for the validator of a type that a model is asked for.

    Raises `ValueError`, which the validation reports, where there is no such service: also when the value is not
    validated for an `Ai` of a platform. User guide, section 3.8.2 ("Validation").
    """
    found = info.context.find(kind) if isinstance(info.context, Services) else None
    if not isinstance(found, kind):
        raise ValueError(f"There is no service of type {kind.__name__} here. Give it to AgentPlatform(services=[…])")  # noqa: TRY004 - pydantic takes it for a violation
    return found
