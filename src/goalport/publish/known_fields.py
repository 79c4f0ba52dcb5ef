"""The fields that a schema names: which fields of a value are unknown, and which of its numbers JSON does not have.

A schema is read once: what it says of a place in a value is kept from the first value that comes there. Nothing else is
validated here. `published_arguments` is above, `portability` is below.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from types import NoneType
from typing import Any, Final, cast

from goalport.publish.portability import DEFINITIONS, Schema, mapped
from goalport.words import offer

__all__ = ["KnownFields", "closed"]

_OPEN: Final = ("additionalProperties", "patternProperties", "allOf", "not", "if")
_BRANCHES: Final = ("anyOf", "oneOf")
_LONGEST_PATH: Final = 80
_DEEP: Final = frozenset({"object", "array", "number"})
_ALWAYS_RIGHT: Final = frozenset({int, bool, NoneType})
_NON_FINITE: Final = frozenset({"nan", "inf", "infinity"})


class KnownFields:
    """The fields that the values of one schema may have, at any depth."""

    def __init__(self, schema: Schema) -> None:
        self._definitions: Schema = schema.get("$defs", {})
        self._places: dict[tuple[int, ...], _Place] = {}
        self._root = self.place([schema])

    def mistakes(self, value: Mapping[str, Any]) -> Iterator[str]:
        """One line for each field that the schema does not name and each non-finite number, at any depth."""
        return self._root.mistakes(value, "")

    def place(self, schemas: Iterable[object]) -> "_Place":
        """The place of values that these schemas describe; the same one for the same schemas."""
        branches = {id(branch): branch for each in schemas for branch in self._branches(each)}
        key = tuple(branches)
        if key not in self._places:
            self._places[key] = _Place(self, tuple(branches.values()))
        return self._places[key]

    def _branches(self, schema: object) -> Iterator[Schema]:
        """The schemas that a schema expands to: the target of its reference, or the members of its unions."""
        if not isinstance(schema, Mapping):
            return
        described = cast("Schema", schema)
        target = str(described.get("$ref", "")).removeprefix(DEFINITIONS)
        if target in self._definitions:
            yield from self._branches(self._definitions[target])
            return
        members = [each for key in _BRANCHES for each in described.get(key, ())]
        for each in members:
            yield from self._branches(each)
        if not members or "properties" in described:
            yield described


class _Place:
    """A place in a value: what one schema says of it, or the members of a union."""

    __slots__ = (
        "_constants",
        "_fields",
        "_is_closed",
        "_is_number",
        "_items",
        "_known",
        "_objects",
        "_schemas",
        "is_deep",
    )

    def __init__(self, known: KnownFields, schemas: Sequence[Schema]) -> None:
        self._known = known
        self._schemas = schemas
        self._objects = [each for each in schemas if each.get("type") == "object"]
        self._constants = [*map(_constants, self._objects)]
        self._is_closed = bool(self._objects) and not any(map(_is_open, schemas))
        kinds = {each.get("type") for each in schemas}
        self._is_number = "number" in kinds and "string" not in kinds
        self._fields: dict[tuple[int, ...], _Fields] = {}
        """The fields of the members of a union that a value may be, by the identity of these members."""
        self._items: _Place | None = None
        self.is_deep = any(each.get("type", "object") in _DEEP for each in schemas)
        """Whether a value here may hold a mistake at all, if it is an item of a list."""

    def mistakes(self, value: object, path: str) -> Iterator[str]:
        """One line for each mistake in a value, whose place in the whole is `path`."""
        if isinstance(value, Mapping):
            yield from self._mistakes_in_fields(cast("Mapping[str, Any]", value), path)
        elif isinstance(value, list):
            items = self._items = self._items or self._known.place(each.get("items") for each in self._schemas)
            if items.is_deep:
                for index, each in enumerate(cast("list[object]", value)):
                    if items.may_refuse(each):
                        yield from items.mistakes(each, f"{path}[{index}]")
        elif self._is_non_finite(value):
            yield f"{path[:_LONGEST_PATH]}: should be a number that JSON has; came {value}"

    def _mistakes_in_fields(self, value: Mapping[str, Any], path: str) -> Iterator[str]:
        fields = self._fields_of(value)
        for name, inner in value.items():
            place = fields.place(name)
            if place is None:
                where, unknown = _below(path, name), offer(name, fields.names, none="There are no arguments.")
                yield f"{where[:_LONGEST_PATH]}: unknown. {unknown}"
            elif place.may_refuse(inner):
                yield from place.mistakes(inner, _below(path, name))

    def may_refuse(self, value: object) -> bool:
        """Whether there may be a mistake in a value; it is cheap, and says no to most."""
        kind = type(value)
        if kind is str:
            return self._is_number
        return not isfinite(cast("float", value)) if kind is float else kind not in _ALWAYS_RIGHT

    def _is_non_finite(self, value: object) -> bool:
        """Whether a value is a non-finite number, or a text such as "NaN" where the schemas want a number."""
        if isinstance(value, float):
            return not isfinite(value)
        return isinstance(value, str) and self._is_number and value.strip().lower().lstrip("+-") in _NON_FINITE

    def _fields_of(self, value: Mapping[str, Any]) -> "_Fields":
        members = self._objects
        if any(self._constants):
            described = zip(self._objects, self._constants, strict=True)
            members = [each for each, constants in described if _fit(constants, value)] or members
        key = tuple(map(id, members))
        if key not in self._fields:
            self._fields[key] = _Fields(self._known, members, is_closed=self._is_closed)
        return self._fields[key]


class _Fields:
    """The fields of an object at one place."""

    __slots__ = ("_is_closed", "_known", "_members", "_others", "_places", "names")

    def __init__(self, known: KnownFields, members: Sequence[Schema], *, is_closed: bool) -> None:
        self._known = known
        self._members = members
        self._is_closed = is_closed
        self._places: dict[str, _Place] = {}
        self._others: _Place | None = None
        self.names = {name: None for each in members for name in each.get("properties", {})}
        """The names that are known, in order."""

    def place(self, name: str) -> _Place | None:
        """The place of the value of a field; None if there may be no such field."""
        found = self._places.get(name)
        if found is None and name in self.names:
            schemas = (each.get("properties", {}).get(name, each.get("additionalProperties")) for each in self._members)
            found = self._places[name] = self._known.place(schemas)
        elif found is None and not self._is_closed:
            found = self._others or self._known.place(each.get("additionalProperties") for each in self._members)
            self._others = found
        return found


def closed(schema: Schema) -> Schema:
    """The schema, saying of each object that fields which it does not name are refused, as `KnownFields` does."""
    written = mapped(schema, closed)
    is_closed = schema.get("type") == "object" and not _is_open(schema)
    return {**written, "additionalProperties": False} if is_closed else written


def _is_open(schema: Schema) -> bool:
    """Whether a schema accepts fields that it does not name."""
    return any(schema.get(key) for key in _OPEN) or not {"type", "const", "enum"} & schema.keys()


def _constants(schema: Schema) -> Mapping[str, object]:
    """The constants (discriminators) among the fields of a union's member."""
    return {name: each["const"] for name, each in schema.get("properties", {}).items() if "const" in each}


def _fit(constants: Mapping[str, object], value: Mapping[str, Any]) -> bool:
    """Whether no field of a value contradicts the constants of a union's member."""
    return all(name not in value or value[name] == constant for name, constant in constants.items())


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
