"""Texts on their way out: no longer than a reader needs, and of characters that every JSON writer takes."""

import re
from typing import Final

__all__ = ["counted", "indented", "one_line", "plain"]

_LONGEST_LINE: Final = 500
_LONGEST: Final = 20_000
_UNSEEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but for tab and line feed, and the marks that turn the direction of a text."""


def counted(number: int, what: str) -> str:
    """A number of things: `1 tool`, `2 tools`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def indented(text: str) -> str:
    """A text of several lines whose later lines stay below its first, and do not pass for lines of their own."""
    return text.strip().replace("\n", "\n      ")


def plain(text: str, longest: int = _LONGEST) -> str:
    """The text without what no reader sees, cut where it is too long.

    Lone surrogates fit into no UTF-8; control characters steer terminals; marks of direction make a text read otherwise
    than it is written.
    """
    cut = text if len(text) <= longest else f"{text[:longest]}…"
    kept = _UNSEEN.sub("", cut)
    return kept if kept.isascii() else kept.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """The first line of a text."""
    return plain(text.partition("\n")[0], _LONGEST_LINE)
