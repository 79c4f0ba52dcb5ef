"""The arguments of a call: the input schema that clients see, and the objects that a process starts from.

Arguments are validated here; nothing is started. All mistakes are reported in one list. Unknown arguments are mistakes
too: pydantic would ignore them silently, and a model that misspells an optional argument would never learn of it.
`goal_tools` and `prompts` are above, `portability` is below.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from goalport.blackboard import Typed
from goalport.domain import FRAMEWORK_FIELDS, UserInput
from goalport.errors import BadInput, DeclarationError
from goalport.publish.portability import DEFINITIONS, Schema, is_object, mapped, portable, snake_identifier
from goalport.tools.schemas import UNREADABLE, LabelledSchema, PlainSchema, holds_secret, why_not_json, without_fields
from goalport.words import corrections, offer, type_label, type_name, validation_problems

__all__ = ["PublishedArguments", "unknown_arguments"]

_MOST_LINES: Final = 20
"""How many unknown arguments an error names; searching for more would block the event loop."""
_OPEN: Final = ("additionalProperties", "patternProperties", "allOf", "not", "if")
_BRANCHES: Final = ("anyOf", "oneOf")
_LONGEST_PATH: Final = 80
_DEEP: Final = frozenset({"object", "array", "number"})
_NON_FINITE: Final = frozenset({"nan", "inf", "infinity"})


@dataclass(frozen=True, slots=True)
class PublishedArguments:
    """The arguments that a tool or prompt takes."""

    schema: Schema
    """The schema of an object with one property for each argument."""
    _parse: Callable[[Mapping[str, Any]], tuple[object, ...]]
    kinds: tuple[object, ...]
    """The start types, in order."""

    @property
    def closed_schema(self) -> Schema:
        """The schema, saying of each object that fields which it does not name are refused, as `read` does."""
        return _closed(self.schema)

    @classmethod
    def of(cls, starts: Sequence[object]) -> "PublishedArguments":
        """The arguments for these start types: the fields of a single object type, else one argument for each type.

        Raises `DeclarationError` for a type that cannot be read from JSON.
        """
        try:
            fields = cls._by_fields(starts[0]) if len(starts) == 1 else None
            return fields or cls.by_type(starts)
        except UNREADABLE as error:
            raise DeclarationError(
                f"The input {' and '.join(map(type_name, starts))}",
                expected="types that can be read from JSON",
                came=f"it cannot be ({why_not_json(tuple[*starts], error)})",
                fix="Start from a pydantic model or a dataclass whose fields JSON can express.",
            ) from error

    @classmethod
    def by_type(cls, starts: Sequence[object]) -> "PublishedArguments":
        """One argument for each of these start types, by the name of the type. Raises one of `UNREADABLE`."""
        return cls._by_name({snake_identifier(type_label(start)): start for start in starts})

    @classmethod
    def of_fields(cls, kind: object, otherwise: str) -> "PublishedArguments":
        """The arguments for one type: its fields if it is an object in JSON, else one argument named `otherwise`.

        They take milliseconds to make, and are wanted several times for each question, so the last ones are kept.
        """
        try:
            hash(kind)
        except TypeError:
            return cls._labelled(kind, otherwise)
        return _kept_fields(kind, otherwise)

    @classmethod
    def _labelled(cls, kind: object, otherwise: str) -> "PublishedArguments":
        return cls._by_fields(kind, LabelledSchema) or cls._by_name({otherwise: kind}, LabelledSchema)

    @classmethod
    def _by_fields(cls, kind: object, generator: type[PlainSchema] = PlainSchema) -> "PublishedArguments | None":
        adapter: TypeAdapter[object] = TypeAdapter(cast("type", kind))
        schema = _input_schema(kind, portable(adapter.json_schema(schema_generator=generator)))
        return (
            cls(schema, lambda arguments: (adapter.validate_python(arguments),), (kind,)) if is_object(schema) else None
        )

    @classmethod
    def _by_name(cls, starts: Mapping[str, object], generator: type[PlainSchema] = PlainSchema) -> "PublishedArguments":
        # A TypedDict and not a model: a model forbids the names of its methods as names of arguments.
        fields: Any = TypedDict("Arguments", dict(starts))  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
        adapter = TypeAdapter[dict[str, object]](fields)
        schema = portable(adapter.json_schema(schema_generator=generator))
        properties = {name: _input_schema(starts[name], each) for name, each in schema.get("properties", {}).items()}
        schema = {key: value for key, value in schema.items() if key != "title"} | {"properties": properties}
        kinds = tuple(starts.values())
        return cls(schema, lambda arguments: tuple(adapter.validate_python(arguments)[name] for name in starts), kinds)

    def begin(self, arguments: Mapping[str, Any]) -> tuple[Typed, ...]:
        """The objects of `read`, each with its start type, for a process to start from. Raises `BadInput`."""
        return tuple(map(Typed, self.read(arguments), self.kinds))

    def read(self, arguments: Mapping[str, Any]) -> tuple[object, ...]:
        """The objects to start from, in the order of the start types. Raises `BadInput` with one line per mistake."""
        unknown = list(islice(unknown_arguments(self.schema, arguments), _MOST_LINES + 1))
        try:
            objects = self._parse(arguments)
        except ValidationError as error:
            named = {each.partition(": ")[0] for each in unknown}
            refused = [each for each in self._refused(error, arguments) if each.partition(": ")[0] not in named]
            problems = [*unknown, *refused]
            raise BadInput(corrections(problems), problems) from None
        if unknown:
            raise BadInput(corrections(unknown), unknown)
        return objects

    def _refused(self, error: ValidationError, arguments: Mapping[str, Any]) -> Sequence[str]:
        known = self.schema.get("properties", {})
        return validation_problems(error, arguments, known, repeated=not holds_secret(self.schema))


@lru_cache(maxsize=256, typed=True)
def _kept_fields(kind: object, otherwise: str) -> PublishedArguments:
    return PublishedArguments._labelled(kind, otherwise)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _input_schema(start: object, schema: Schema) -> Schema:
    """The schema of a start type as clients see it: of `UserInput`, only its content."""
    if not (isinstance(start, type) and issubclass(start, UserInput)):
        return schema
    shown = without_fields(schema, FRAMEWORK_FIELDS)
    content = {**shown["properties"]["content"], "description": "What the user wants, in the user's words"}
    return {**shown, "properties": {**shown["properties"], "content": content}}


def unknown_arguments(schema: Schema, arguments: Mapping[str, Any]) -> Iterator[str]:
    """One line for each field that the schema does not name and each non-finite number, at any depth."""
    reader = _FieldReader(schema.get("$defs", {}))
    yield from reader.value(list(reader.branches(schema)), arguments, "")


@dataclass(frozen=True, slots=True)
class _FieldReader:
    """Compares values with the schemas that may describe them: one schema, or the members of a union."""

    definitions: Schema

    def value(self, schemas: Sequence[Schema], value: object, path: str) -> Iterator[str]:
        if isinstance(value, Mapping):
            yield from self.fields(schemas, cast("Mapping[str, Any]", value), path)
        elif isinstance(value, list):
            inner = [branch for each in schemas for branch in self.branches(each.get("items"))]
            if any(each.get("type", "object") in _DEEP for each in inner):
                for index, each in enumerate(cast("list[object]", value)):
                    yield from self.value(inner, each, f"{path}[{index}]")
        elif _is_non_finite(value, schemas):
            yield f"{path[:_LONGEST_PATH]}: should be a number that JSON has; came {value}"

    def fields(self, schemas: Sequence[Schema], value: Mapping[str, Any], path: str) -> Iterator[str]:
        objects = [each for each in schemas if each.get("type") == "object"]
        fitting = [each for each in objects if _constants_fit(each, value)] or objects
        known = {name: None for each in fitting for name in each.get("properties", {})}
        closed = bool(objects) and not any(map(_is_open, schemas))
        for key, inner in value.items():
            place = f"{path}.{key}" if path else key
            if closed and key not in known:
                yield f"{place[:_LONGEST_PATH]}: unknown. {offer(key, known, none='There are no arguments.')}"
                continue
            described = (each.get("properties", {}).get(key, each.get("additionalProperties")) for each in fitting)
            yield from self.value([branch for each in described for branch in self.branches(each)], inner, place)

    def branches(self, schema: object) -> Iterator[Schema]:
        """The schemas that a schema expands to: the target of its reference, or the members of its unions."""
        if not isinstance(schema, Mapping):
            return
        described = cast("Schema", schema)
        target = str(described.get("$ref", "")).removeprefix(DEFINITIONS)
        if target in self.definitions:
            yield from self.branches(self.definitions[target])
            return
        members = [each for key in _BRANCHES for each in described.get(key, ())]
        for each in members:
            yield from self.branches(each)
        if not members or "properties" in described:
            yield described


def _closed(schema: Schema) -> Schema:
    written = mapped(schema, _closed)
    is_closed = schema.get("type") == "object" and not _is_open(schema)
    return {**written, "additionalProperties": False} if is_closed else written


def _is_open(schema: Schema) -> bool:
    """Whether a schema accepts fields that it does not name."""
    return any(schema.get(key) for key in _OPEN) or not {"type", "const", "enum"} & schema.keys()


def _constants_fit(schema: Schema, value: Mapping[str, Any]) -> bool:
    """Whether no field of a value contradicts the constants (discriminators) of a union's member."""
    constants = {name: each["const"] for name, each in schema.get("properties", {}).items() if "const" in each}
    return all(name not in value or value[name] == constant for name, constant in constants.items())


def _is_non_finite(value: object, schemas: Sequence[Schema]) -> bool:
    """Whether a value is a non-finite number, or a text such as "NaN" where the schemas want a number."""
    if isinstance(value, float):
        return not isfinite(value)
    kinds = {each.get("type") for each in schemas}
    return (
        isinstance(value, str)
        and "number" in kinds
        and "string" not in kinds
        and value.strip().lower().lstrip("+-") in _NON_FINITE
    )
