"""What a query looks for, and how much each part of it tells: rare words tell much, and common ones little.

Chunks with the rarest words are weighed first; the others can often be left alone. Above: the full-text search of each
database, which says how it finds a part.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from goalport.rag.query import Group, Leaf, Word, leaves

__all__ = ["SATURATION", "TITLE_WEIGHT", "Term", "enough", "rarest_of", "rarity", "telling"]

TITLE_WEIGHT: Final = 0.5
"""How much words in the titles above a text add to their weight in the text. It is weighed apart, by how rare a word is
in titles: added to the words of the text, titles would hardly count in a text that has the words anyway."""
SATURATION: Final = 1.2
"""The parameter k1 of BM25: how soon more of the same word counts no more."""
_CANDIDATES: Final = 1_000
"""How many chunks with the rarest words of a query are weighed, before those are looked at that have none of them."""
_LIKELY: Final = 0.6
"""The share of the most that it could add which a word hardly exceeds, unless it is there again and again."""


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a query, as often as it is found."""

    found: int
    """The number of chunks that have it."""
    rarest: int
    """The number of chunks that have the rarest of its spellings."""

    def most(self, chunks: int) -> float:
        """The most that it can add to the weight of a chunk, but for titles."""
        return rarity(self.rarest, chunks) * (1 + SATURATION)


TermT = TypeVar("TermT", bound=Term)


def rarity(found: int, chunks: int) -> float:
    """How much it tells that a chunk has what so many of all chunks have."""
    return math.log((chunks - found + 0.5) / (found + 0.5)) if 2 * found < chunks else 1e-6


def telling(tree: Group) -> list[Leaf]:
    """What is looked for: without words that say nothing, unless they are required or there are no others."""
    every = list(dict.fromkeys(leaves(tree)))
    needed = set(_required(tree))
    telling = [each for each in every if not (isinstance(each, Word) and each.is_common) or each in needed]
    return telling or every


def rarest_of(terms: Sequence[TermT]) -> tuple[TermT, ...]:
    """The rarest term, and the next ones as long as few enough chunks have one of them; none if those are all."""
    kept: list[TermT] = []
    for each in sorted(terms, key=lambda each: each.found):
        if kept and sum(one.found for one in kept) + each.found > _CANDIDATES:
            return tuple(kept)
        kept.append(each)
    return ()


def enough(terms: Sequence[Term], rare: Sequence[Term], chunks: int) -> float:
    """The weight that no chunk is likely to have which has none of the rare terms."""
    return _LIKELY * sum(each.most(chunks) for each in terms if each not in rare)


def _required(group: Group) -> Iterator[Leaf]:
    for each in (*group.required, *group.optional):
        if isinstance(each, Group):
            yield from _required(each)
        elif each in group.required:
            yield each
