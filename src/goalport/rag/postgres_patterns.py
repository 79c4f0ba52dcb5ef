r"""Regular expressions of Python in the dialect of PostgreSQL, as far as the two differ where people notice.

PostgreSQL reads `\b` as a backspace, lets a dot match the end of a line, and knows neither `(?P<name>…)` nor flags of
several letters as Python does. What it cannot do at all, it refuses. Above: `postgres_search`.
"""

import re
from typing import Final

__all__ = ["translated"]

_FLAGS: Final = re.compile(r"\(\?([aimsux]+)\)")
_ESCAPE_OR_NAME: Final = re.compile(r"\\(.)|\(\?P<\w+>", re.DOTALL)
_ESCAPES: Final = {"b": r"\y", "B": r"\Y"}
_LINES: Final = {(False, False): "p", (False, True): "s", (True, False): "n", (True, True): "w"}
"""The option of PostgreSQL for the flags `m` and `s` of Python."""


def translated(regex: str) -> str:
    """The pattern as PostgreSQL reads it."""
    found = _FLAGS.match(regex)
    flags = found[1] if found else ""
    options = _LINES["m" in flags, "s" in flags] + "".join(each for each in "ix" if each in flags)
    return f"***:(?{options}){_ESCAPE_OR_NAME.sub(_replaced, regex[found.end() if found else 0 :])}"


def _replaced(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[0]) if found[1] is not None else "("
