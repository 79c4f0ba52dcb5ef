"""Arguments that a schema does not name, each with the nearest name that it knows.

Types alone would drop them in silence, and a model that misspells an optional argument would never learn of it.
`arguments` is above it.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, cast

__all__ = ["strangers_in"]

_OPEN: Final = ("additionalProperties", "patternProperties", "anyOf", "oneOf", "allOf", "$ref")
_LONGEST: Final = 80
_MOST: Final = 20


def strangers_in(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Iterator[str]:
    """One line for each field that the schema does not know, at any depth that it describes."""
    return _in_value(schema, arguments, "")


def _in_value(schema: Mapping[str, Any], value: object, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _in_object(schema, cast("Mapping[str, Any]", value), path)
    elif isinstance(value, list) and _nested(schema.get("items")):
        items: Mapping[str, Any] = schema["items"]
        for index, each in enumerate(cast("list[object]", value)):
            yield from _in_value(items, each, f"{path}[{index}]")


def _in_object(schema: Mapping[str, Any], value: Mapping[str, Any], path: str) -> Iterator[str]:
    known: Mapping[str, Any] = schema.get("properties", {})
    closed = schema.get("type") == "object" and not any(schema.get(key) for key in _OPEN)
    for key, inner in value.items():
        place = f"{path}.{key}" if path else key
        if key not in known:
            if closed:
                yield f"{place[:_LONGEST]}: unknown.{_offer(key, known)}"
        elif _nested(known[key]):
            yield from _in_value(known[key], inner, place)


def _nested(schema: object) -> bool:
    return isinstance(schema, Mapping) and ("properties" in schema or "items" in schema)


def _offer(key: str, known: Mapping[str, Any]) -> str:
    if not known:
        return " There are no arguments."
    near = get_close_matches(key[:_LONGEST], known, n=1)
    return f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(list(known)[:_MOST])}."
