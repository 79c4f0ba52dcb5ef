"""Arguments that a schema does not name, each with the nearest name that it knows.

Types alone would drop them in silence, and a model that misspells an optional argument would never learn of it.
`arguments` is above it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, cast

from goalport.words import offer

__all__ = ["strangers_in"]

_OPEN: Final = ("additionalProperties", "patternProperties", "allOf", "not", "if")
_BRANCHES: Final = ("anyOf", "oneOf")
_DEFINITIONS: Final = "#/$defs/"
_LONGEST: Final = 80
_DEEP: Final = frozenset({"object", "array", "number"})
_ODD: Final = frozenset({"nan", "inf", "infinity"})

Schema = Mapping[str, Any]


def strangers_in(schema: Schema, arguments: Mapping[str, Any]) -> Iterator[str]:
    """One line for each field that the schema does not know, and each number that JSON does not have, at any depth."""
    reader = _Reader(schema.get("$defs", {}))
    yield from reader.value(list(reader.branches(schema)), arguments, "")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads values beside the schemas that may describe them: one, or the branches of a union."""

    definitions: Schema

    def value(self, schemas: Sequence[Schema], value: object, path: str) -> Iterator[str]:
        if isinstance(value, Mapping):
            yield from self.fields(schemas, cast("Mapping[str, Any]", value), path)
        elif isinstance(value, list):
            inner = [branch for each in schemas for branch in self.branches(each.get("items"))]
            if any(each.get("type", "object") in _DEEP for each in inner):
                for index, each in enumerate(cast("list[object]", value)):
                    yield from self.value(inner, each, f"{path}[{index}]")
        elif _is_odd(value, schemas):
            yield f"{path[:_LONGEST]}: should be a number that JSON has; came {value}"

    def fields(self, schemas: Sequence[Schema], value: Mapping[str, Any], path: str) -> Iterator[str]:
        objects = [each for each in schemas if each.get("type") == "object"]
        fitting = [each for each in objects if _chosen(each, value)] or objects
        known = {name: None for each in fitting for name in each.get("properties", {})}
        closed = bool(objects) and not any(map(_is_open, schemas))
        for key, inner in value.items():
            place = f"{path}.{key}" if path else key
            if closed and key not in known:
                yield f"{place[:_LONGEST]}: unknown. {offer(key, known, none='There are no arguments.')}"
                continue
            described = (each.get("properties", {}).get(key, each.get("additionalProperties")) for each in fitting)
            yield from self.value([branch for each in described for branch in self.branches(each)], inner, place)

    def branches(self, schema: object) -> Iterator[Schema]:
        """The schemas that a schema stands for: what it refers to, or the members of its unions."""
        if not isinstance(schema, Mapping):
            return
        described = cast("Schema", schema)
        target = str(described.get("$ref", "")).removeprefix(_DEFINITIONS)
        if target in self.definitions:
            yield from self.branches(self.definitions[target])
            return
        members = [each for key in _BRANCHES for each in described.get(key, ())]
        for each in members:
            yield from self.branches(each)
        if not members or "properties" in described:
            yield described


def _is_open(schema: Schema) -> bool:
    """Whether it takes fields that it does not name."""
    return any(schema.get(key) for key in _OPEN) or not {"type", "const", "enum"} & schema.keys()


def _chosen(schema: Schema, value: Mapping[str, Any]) -> bool:
    """Whether a member of a union is not ruled out by the constants in its fields, which tell the members apart."""
    constants = {name: each["const"] for name, each in schema.get("properties", {}).items() if "const" in each}
    return all(name not in value or value[name] == constant for name, constant in constants.items())


def _is_odd(value: object, schemas: Sequence[Schema]) -> bool:
    """Whether a value is no finite number where the schemas want a number, by itself or as a text."""
    if isinstance(value, float):
        return not isfinite(value)
    kinds = {each.get("type") for each in schemas}
    return (
        isinstance(value, str)
        and "number" in kinds
        and "string" not in kinds
        and value.strip().lower().lstrip("+-") in _ODD
    )
