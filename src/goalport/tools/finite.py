"""Numbers that JSON does not have: NaN and the infinities, and where they are in a value.

Pure. `outputs` and `schemas` are above, and the server, which must not send them.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from math import isfinite
from typing import Final, cast

__all__ = ["may_hold_odd_numbers", "odd_numbers", "odd_numbers_in_words"]

_MOST: Final = 5
_SIGNS: Final = ("null", "NaN", "Infinity")


def may_hold_odd_numbers(written: str) -> bool:
    """Whether a value that was written as this JSON is worth a look: pydantic writes NaN as null or by its name."""
    return any(sign in written for sign in _SIGNS)


def odd_numbers_in_words(value: object) -> str:
    """What to say of the first few of them, and what to do instead; empty when there are none."""
    found = list(islice(odd_numbers(value), _MOST))
    if not found:
        return ""
    return f"{' and '.join(found)}, and JSON has no such number. Return None or a text where there is no number."


def odd_numbers(value: object, path: str = "") -> Iterator[str]:
    """A phrase for each NaN or infinity in JSON-like data, with its place: `sizes[0] is inf`."""
    if isinstance(value, float):
        if not isfinite(value):
            yield f"{path or 'it'} is {value}"
    elif isinstance(value, Mapping):
        for key, each in cast("Mapping[object, object]", value).items():
            yield from odd_numbers(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(cast("list[object]", value)):
            yield from odd_numbers(each, f"{path}[{index}]")
