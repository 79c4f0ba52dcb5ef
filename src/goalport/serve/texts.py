"""Texts on their way out: no longer than a reader needs, and of characters that every JSON writer takes."""

from typing import Final

__all__ = ["one_line", "plain"]

_LONGEST_LINE: Final = 500
_LONGEST: Final = 20_000


def plain(text: str, longest: int = _LONGEST) -> str:
    """The text without lone surrogates, which no UTF-8 can hold, cut where it is too long."""
    cut = text if len(text) <= longest else f"{text[:longest]}…"
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """The first line of a text."""
    return plain(text.partition("\n")[0], _LONGEST_LINE)
