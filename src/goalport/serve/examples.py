"""A value that a JSON Schema describes, so that a call can be shown as it is sent.

Pure. It takes what the schema offers (a default, an example, the first of an enumeration) before it makes a value up;
patterns are the one thing that it does not follow. `forms` is above it.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from math import ceil, floor
from typing import Any, Final, cast

from goalport.serve.schemas import DEFINITIONS, Schema

__all__ = ["example_of"]

_DEEPEST: Final = 12
_TEXT: Final = "..."
_BOUNDS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_FORMATS: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "duration": "PT1H",
    "email": "name@example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "time": "12:00:00Z",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def example_of(schema: Schema) -> Any:
    """A value of the schema: of an object the required fields, or all where none is required."""
    return _value(schema, schema.get("$defs", {}), _DEEPEST)


def _value(schema: Mapping[str, Any], definitions: Mapping[str, Schema], depth: int) -> Any:
    for offered in (schema.get("default"), schema.get("const"), *schema.get("examples", ()), *schema.get("enum", ())):
        if offered is not None and offered != {}:
            return offered
    for inner in _described_by(schema, definitions):
        return _value(inner, definitions, depth)
    kinds: Any = schema.get("type", "object" if "properties" in schema else "string")
    match kinds if isinstance(kinds, str) else kinds[0]:
        case "object":
            return _fields(schema, definitions, depth - 1) if depth else {}
        case "array":
            return _items(schema, definitions, depth - 1) if depth else []
        case "integer" | "number" as kind:
            return _number(schema, whole=kind == "integer")
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return _text(schema)


def _described_by(schema: Mapping[str, Any], definitions: Mapping[str, Schema]) -> list[Schema]:
    """What it refers to, or the members of its union, null and what leads back to where it stands last."""
    target = str(schema.get("$ref", "")).removeprefix(DEFINITIONS)
    if target in definitions:
        return [definitions[target]]
    members = cast("list[Schema]", [each for key in ("anyOf", "oneOf", "allOf") for each in schema.get(key, ())])
    return sorted(members, key=lambda each: 2 * ("$ref" in each) + (each.get("type") == "null"))


def _fields(schema: Mapping[str, Any], definitions: Mapping[str, Schema], depth: int) -> dict[str, Any]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    wanted = schema.get("required") or properties
    found = {name: _value(properties.get(name, {}), definitions, depth) for name in wanted}
    others = schema.get("additionalProperties")
    if found or not isinstance(others, dict) or "$ref" in others:
        return found
    return {"name": _value(cast("Schema", others), definitions, depth)}


def _items(schema: Mapping[str, Any], definitions: Mapping[str, Schema], depth: int) -> list[Any]:
    usual = 0 if "$ref" in (schema.get("items") or {}) else min(1, schema.get("maxItems", 1))
    number = max(schema.get("minItems", 0), usual)
    inner: Schema = schema.get("items") or {}
    # The items of a tuple, which has a fixed length, are published as the union of its types, in their order.
    is_fixed = number == schema.get("maxItems")
    kinds: Sequence[Schema] = schema.get("prefixItems") or (is_fixed and inner.get("anyOf")) or [inner]
    return [_value(each, definitions, depth) for each in islice(cycle(kinds), number)]


def _number(schema: Mapping[str, Any], *, whole: bool) -> float:
    """1 where the bounds allow it, else a number beside or between them."""
    step = schema.get("multipleOf", 1)
    bounds = [schema[name] for name in _BOUNDS if name in schema]
    steps = [step * (around(each / step) + more) for each in bounds for around in (ceil, floor) for more in (0, 1, -1)]
    offered = [1, step, 0, *steps, *bounds, sum(bounds) / 2]
    exact = whole or "multipleOf" in schema
    return next((each for each in offered if not (exact and each % step) and _is_within(schema, each)), 1)


def _is_within(schema: Mapping[str, Any], number: float) -> bool:
    least, most = schema.get("minimum", number), schema.get("maximum", number)
    above, below = schema.get("exclusiveMinimum", number - 1), schema.get("exclusiveMaximum", number + 1)
    return least <= number <= most and above < number < below


def _text(schema: Mapping[str, Any]) -> str:
    text = _FORMATS.get(schema.get("format", ""), _TEXT)
    return text.ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]
