"""Numbers that a model sent as text, where a JSON Schema asks for numbers.

For tools that are known by their schema alone; where there is a signature, pydantic does it. It refuses nothing:
whoever asks validates what comes back.
"""

import re
from collections.abc import Mapping, Sequence
from typing import cast

__all__ = ["numbers_of_texts"]

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")


def numbers_of_texts(schema: Mapping[str, object], value: Mapping[str, object]) -> dict[str, object]:
    """A copy in which texts are numbers wherever the schema takes a number and no text."""
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
    """The types that a schema takes, as far as it says so plainly."""
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
