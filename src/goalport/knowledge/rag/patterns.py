"""Regular expressions that models write, matched by the library `regex`, which gives up in time and lets others run.

Python's `re` cannot be interrupted, and keeps every other thread waiting: `(a+)+$` over a long text would hold the
server for hours.
"""

import math
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final
from unicodedata import normalize

from goalport.base.errors import BadInput
from goalport.base.words import first_line

_LONGEST: Final = 1_000
_MOST_REPEATED: Final = 100_000
"""The product of all numbers of repetitions: the library makes copies of what is repeated."""


def matcher(regex: str) -> Callable[[str, float], bool]:
    """What says whether a text matches, however its characters are composed, within so many seconds.

    Raises `BadInput` for a pattern that is none or too long, and so does what it returns for one that takes too long.
    """
    if len(regex) > _LONGEST:
        raise BadInput(f"Expected a pattern of at most {_LONGEST} characters, but it has {len(regex)}. Shorten it.")
    if math.prod(int(each) or 1 for each in re.findall(r"\{(?:\d*,)?(\d+)", regex)) > _MOST_REPEATED:
        raise too_slow(regex)
    library: Any = import_module("regex")
    try:
        pattern = library.compile(normalize("NFC", regex))
    except (library.error, OverflowError, RecursionError, ValueError) as error:
        raise BadInput(f"{first_line(regex, 80)!r} is no regular expression of Python: {error}.") from error

    def matches(text: str, seconds: float) -> bool:
        try:
            return pattern.search(normalize("NFC", text), timeout=seconds, concurrent=True) is not None
        except TimeoutError as error:
            raise too_slow(regex) from error

    return matches


def too_slow(regex: str) -> BadInput:
    """That a pattern was given up."""
    return BadInput(
        f"The pattern {first_line(regex, 80)!r} takes too long. Repeat nothing that itself repeats, as in (a+)+, and "
        "look for a part that is always there."
    )
