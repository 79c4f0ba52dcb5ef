"""Which of the words of an index are spelled nearly as one that is looked for."""

from collections.abc import Iterable
from typing import Final

from goalport.rag.query import Fuzzy

__all__ = ["MOST_LOOKED_AT", "beginnings", "nearest"]

MOST_LOOKED_AT: Final = 200_000
"""How many words of an index are compared with one that may be spelled wrongly."""
_MOST_SPELLINGS: Final = 20


def beginnings(wanted: str) -> list[str]:
    """The letters that a word may begin with: its first or, if that is wrong, its second."""
    return list(dict.fromkeys(wanted[:2]))


def nearest(leaf: Fuzzy, wanted: str, words: Iterable[str]) -> tuple[str, ...]:
    """The words that are spelled nearly so, the nearest first; the wanted word itself if there are none."""
    letters = set(wanted)
    near = sorted(
        (distance, word)
        for word in words
        if len(letters ^ set(word)) <= 2 * leaf.edits and (distance := _edits(wanted, word, leaf.edits)) <= leaf.edits
    )
    return tuple(word for _, word in near[:_MOST_SPELLINGS]) or (wanted,)


def _edits(one: str, other: str, most: int) -> int:
    """How many characters differ, by optimal string alignment; a number above `most` means more than that."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, here in enumerate(one, start=1):
        line = [row]
        for column, there in enumerate(other, start=1):
            cost = min(last[column] + 1, line[-1] + 1, last[column - 1] + (here != there))
            if row > 1 and column > 1 and here == other[column - 2] and one[row - 2] == there:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        if min(line) > most:
            return most + 1
        before, last = last, line
    return last[-1]
