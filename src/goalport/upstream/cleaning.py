"""JSON Schemas from outside, whose titles and descriptions are made fit to be shown to models and people.

What such a text says is still somebody else's word; this takes away only what hides or floods.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from goalport.words import cleaned

__all__ = ["cleaned_schema"]

_WORDS: Final = ("description", "title")
_IN_SCHEMA: Final = 1_000
_DEEPEST: Final = 30


def cleaned_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """A copy of a JSON Schema whose titles and descriptions are clean. Raises `ValueError` for one that is too deep."""
    return cast("dict[str, object]", _clean(schema, _DEEPEST))


def _clean(value: object, depth: int) -> object:
    if not depth:
        raise ValueError(f"a schema of more than {_DEEPEST} levels")
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        return {name: _clean_member(name, member, depth) for name, member in members.items()}
    if isinstance(value, list | tuple):
        return [_clean(each, depth - 1) for each in cast("Sequence[object]", value)]
    return value


def _clean_member(name: str, member: object, depth: int) -> object:
    # Only where it is a text: a property may be called `title`, and then it is a schema.
    return cleaned(member, _IN_SCHEMA) if name in _WORDS and isinstance(member, str) else _clean(member, depth - 1)
