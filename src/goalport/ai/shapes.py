"""The form in which a model is asked for a value of a type, and how what it wrote becomes one.

Many providers take only an object at the root of a schema, so that anything else is wrapped: `{"result": …}`. Pydantic
describes and validates; nothing here asks a model. Above: `binding`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, cast

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model
from pydantic_core import from_json, to_json

from goalport.ai.json_text import json_of
from goalport.ai.schemas import asked_schema
from goalport.ai.validating import Services
from goalport.errors import DeclarationError
from goalport.llm import OutputSpec
from goalport.prompts import made_up
from goalport.tools import argument_problems
from goalport.tools.schema_errors import UNREADABLE, why_not_json
from goalport.words import type_label, type_name

__all__ = ["Bound", "Declined", "Outcome", "OutputShape", "Unreadable", "Violating", "output_shape"]

_RESULT: Final = "result"
_FAILURE: Final = "failure"
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Bound:
    """The reply is a value of the type."""

    value: object


@dataclass(frozen=True, slots=True)
class Declined:
    """The model says that it knows too little."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The reply is no JSON."""

    reason: str


@dataclass(frozen=True, slots=True)
class Violating:
    """The reply breaks rules of the type; a line for each place."""

    violations: tuple[str, ...]


Outcome = Bound | Declined | Unreadable | Violating
"""What became of a reply."""


@dataclass(frozen=True, slots=True)
class OutputShape:
    """A type as a model is asked for it."""

    kind: object
    spec: OutputSpec
    plain: TypeAdapter[Any]
    """Of the type itself."""
    wire: TypeAdapter[Any]
    """Of what the model writes: the type, or the object around it."""
    wrapped: bool
    may_decline: bool
    properties: Callable[[str], bool] | None = None
    """Which fields are asked for; what comes for others does not count."""
    example: str = ""
    """A made-up reply that would be taken, as JSON; empty when none can be made up."""
    services: Services | None = None
    """What validators of the type are given as their context."""

    @property
    def name(self) -> str:
        """How messages call the type."""
        return type_name(self.kind)

    def read(self, text: str) -> Outcome:
        """What a model's text is. A value without the object that should be around it is taken as well."""
        found = json_of(text)
        if found is None:
            return self._bare(text)
        decoded: object = from_json(found)
        if self.properties:
            decoded = _kept(decoded, self.properties)
            found = to_json(decoded).decode()
        if self.may_decline and (declined := _declined(decoded)) is not None:
            return declined
        if not self.wrapped or not _has_result(decoded):
            return self._validated(self.plain, found, decoded)
        outcome = self._validated(self.wire, found, decoded)
        if isinstance(outcome, Bound):
            return Bound(getattr(outcome.value, _RESULT))
        bare = self._validated(self.plain, found, decoded)
        return bare if isinstance(bare, Bound) else outcome

    def take(self, value: object) -> Outcome:
        """An object that is of the type already, or can be taken for it."""
        if value is None:
            return Unreadable("nothing came")
        try:
            return Bound(self.plain.validate_python(value, context=self.services))
        except ValidationError as error:
            return Violating(argument_problems(error, value, ()))

    def _validated(self, adapter: TypeAdapter[Any], text: str, decoded: object) -> Outcome:
        try:
            return Bound(adapter.validate_json(text, context=self.services))
        except ValidationError as error:
            return Violating(argument_problems(error, decoded, ()))

    def _bare(self, text: str) -> Outcome:
        """A word, where one would do: models forget to write JSON for an enum's member or a text."""
        bare = text.strip()
        if self.wrapped and bare and bare[0] not in "{[`":
            try:
                return Bound(self.plain.validate_python(bare, context=self.services))
            except ValidationError:
                pass
        return Unreadable(_why_unreadable(bare) if bare else "nothing came")


def _why_unreadable(text: str) -> str:
    try:
        from_json(text)
    except (TypeError, ValueError) as error:
        return f"it is no JSON ({error})"
    return "it is no JSON"


def output_shape(
    kind: object, *, may_decline: bool = False, properties: Callable[[str], bool] | None = None
) -> OutputShape:
    """The shape of a type. Raises `DeclarationError` for one whose values JSON cannot express."""
    try:
        hash(kind)
    except TypeError:
        return _shape(kind, may_decline=may_decline, properties=properties)
    return (
        _shape(kind, may_decline=may_decline, properties=properties) if properties else _known_shape(kind, may_decline)
    )


def _shape(kind: Any, *, may_decline: bool, properties: Callable[[str], bool] | None = None) -> OutputShape:
    try:
        plain: TypeAdapter[Any] = TypeAdapter(kind)
        schema = asked_schema(plain, kind, properties)
        wrapped = may_decline or schema.get("type") != "object"
        wire = TypeAdapter(_wrapper(kind, may_decline=may_decline)) if wrapped else plain
        schema = asked_schema(wire, kind, properties) if wrapped else schema
    except UNREADABLE as error:
        raise _no_json(kind, error) from error
    description = schema.get("description")
    spec = OutputSpec(_spec_name(kind), schema, description if isinstance(description, str) else "")
    shape = OutputShape(kind, spec, plain, wire, wrapped, may_decline, properties)
    return replace(shape, example=_example(shape))


@lru_cache(maxsize=256, typed=True)
def _known_shape(kind: object, may_decline: bool) -> OutputShape:  # noqa: FBT001 - a key of the cache
    return _shape(kind, may_decline=may_decline)


def _example(shape: OutputShape) -> str:
    made = made_up(shape.spec.schema)
    if shape.may_decline and isinstance(made, dict):
        made = {**cast("dict[str, object]", made), _FAILURE: None}
    written = to_json(made, indent=2).decode()
    return written if isinstance(shape.read(written), Bound) else ""


def _wrapper(kind: Any, *, may_decline: bool) -> type[BaseModel]:
    fields: dict[str, Any] = {_RESULT: (kind, ...)}
    if may_decline:
        result = Field(default=None, description="What was asked for; null if there is not enough information.")
        failure = Field(default=None, description="What information is missing; null if there is a result.")
        fields = {_RESULT: (kind | None, result), _FAILURE: (str | None, failure)}
    return create_model("Reply", **fields)


def _declined(decoded: object) -> Declined | None:
    if decoded is None:
        return Declined("")
    if not _is_wrapped(decoded):
        return None
    reply = cast("Mapping[str, object]", decoded)
    return Declined(str(reply.get(_FAILURE) or "")) if reply.get(_RESULT) is None else None


def _has_result(decoded: object) -> bool:
    return isinstance(decoded, Mapping) and _RESULT in decoded


def _is_wrapped(decoded: object) -> bool:
    if not isinstance(decoded, Mapping):
        return False
    keys = cast("Mapping[str, object]", decoded).keys()
    return bool(keys) and keys <= {_RESULT, _FAILURE}


def _kept(decoded: object, wanted: Callable[[str], bool]) -> object:
    """What was asked for of a reply, or of the objects that it is a list of."""
    if _is_wrapped(decoded):
        return {name: _kept(each, wanted) for name, each in cast("Mapping[str, object]", decoded).items()}
    if isinstance(decoded, list):
        return [_kept(each, wanted) for each in cast("list[object]", decoded)]
    if isinstance(decoded, Mapping):
        return {name: each for name, each in cast("Mapping[str, object]", decoded).items() if wanted(name)}
    return decoded


def _spec_name(kind: object) -> str:
    return type_label(kind)[:_LONGEST_NAME] or "Reply"


def _no_json(kind: object, error: Exception) -> DeclarationError:
    return DeclarationError(
        f"The type {type_name(kind)}, asked of a model",
        expected="a type whose values JSON can express",
        came=f"it is not ({why_not_json(kind, error)})",
        fix="Use numbers, strings, enums, lists, dicts, dataclasses, TypedDicts or pydantic models.",
    )
