"""Text from outside, made fit to be shown to models and people: bounded, and without characters that nobody sees.

What such a text says is still somebody else's word; this takes away only what hides or floods.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final, cast

__all__ = ["cleaned", "cleaned_schema"]

_KEPT: Final = "\n\t"
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
"""Categories of Unicode: control and format characters (zero width, direction, tags), what has no meaning by itself."""
_JOINERS: Final = "\u200c\u200d"
"""Needed inside words of several scripts and inside emoji; they hide nothing by themselves."""
_WORDS: Final = ("description", "title")
_IN_SCHEMA: Final = 1_000
_DEEPEST: Final = 30


def cleaned(text: str, limit: int) -> str:
    """The text without hidden characters, and cut where it is longer than `limit`."""
    shown = "".join(each for each in text[: 2 * limit] if _visible(each)).strip()
    return shown if len(shown) <= limit and len(text) <= 2 * limit else f"{shown[:limit]}…"


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


def _visible(character: str) -> bool:
    return character in _KEPT or character in _JOINERS or unicodedata.category(character) not in _HIDDEN
