"""Checks arguments against a JSON Schema, in words for a model, and converts numbers that were sent as text.

For tools that are known by their schema alone; where there is a type, pydantic validates. Nothing here raises: the
caller decides what follows from a problem.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, cast

from goalport.words import field_path, one_line

__all__ = ["coerce_numbers", "schema_fault", "schema_problems"]

_MESSAGE_LIMIT = 300
_MOST_ERRORS = 5_000
"""Beyond this, describing each error would keep the event loop from its other work."""


def schema_fault(schema: Mapping[str, object]) -> str:
    """Why a mapping is no valid JSON Schema; empty when it is one."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as error:
        return _line(field_path(error.absolute_path), error.message)
    return ""


def schema_problems(schema: Mapping[str, object], arguments: Mapping[str, object]) -> tuple[str, ...]:
    """One line for each place where the arguments violate a JSON Schema."""
    from jsonschema import Draft202012Validator
    from referencing.jsonschema import EMPTY_REGISTRY

    # The empty registry prevents that the references of a foreign schema are fetched from the network.
    validator: Any = Draft202012Validator(dict(schema), registry=EMPTY_REGISTRY)
    errors = islice(validator.iter_errors(dict(arguments)), _MOST_ERRORS)
    found = sorted(errors, key=lambda each: list(map(str, each.absolute_path)))
    return tuple(_line(field_path(each.absolute_path), each.message) for each in found)


def _line(path: str, message: str) -> str:
    words = one_line(message, _MESSAGE_LIMIT)
    return f"{path}: {words}" if path else words


_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")


def coerce_numbers(schema: Mapping[str, object], value: Mapping[str, object]) -> dict[str, object]:
    """A copy in which strings are converted to numbers where the schema allows a number and no string."""
    return cast("dict[str, object]", _coerced(schema, value))


def _coerced(schema: object, value: object) -> object:
    if not isinstance(schema, Mapping):
        return value
    rules = cast("Mapping[str, object]", schema)
    match value:
        case Mapping():
            inner = rules.get("properties")
            known = cast("Mapping[str, object]", inner if isinstance(inner, Mapping) else {})
            rest = rules.get("additionalProperties")
            members = cast("Mapping[str, object]", value)
            return {name: _coerced(known.get(name, rest), each) for name, each in members.items()}
        case list():
            return [_coerced(rules.get("items"), each) for each in cast("Sequence[object]", value)]
        case str():
            return _number(_types(rules), value.strip(), value)
        case _:
            return value


def _types(rules: Mapping[str, object]) -> set[object]:
    """The types that a schema allows, by its `type` and `anyOf` alone."""
    said = rules.get("type")
    found: set[object] = set(cast("list[object]", said)) if isinstance(said, list) else {said}
    for each in cast("Sequence[object]", rules.get("anyOf") or ()):
        if isinstance(each, Mapping):
            found |= _types(cast("Mapping[str, object]", each))
    return found


def _number(types: set[object], text: str, otherwise: str) -> object:
    if "string" in types:
        return otherwise
    if types & {"integer", "number"} and _INTEGER.fullmatch(text):
        return int(text)
    if "number" in types and _NUMBER.fullmatch(text):
        return float(text)
    return otherwise
