"""Reciprocal rank fusion: one order made of several, by the ranks alone, since scores of two kinds cannot be added."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeVar

__all__ = ["fused", "window"]

K = TypeVar("K", bound=Hashable)

_DAMPING: Final = 60
"""How little the first ranks differ; 60 is the usual value."""
_WINDOW: Final = 50


def window(top_k: int) -> int:
    """How many results of each search are fused, so that so many are left."""
    return max(_WINDOW, 2 * top_k)


def fused(orders: Iterable[Sequence[K]]) -> list[tuple[K, float]]:
    """What is in any of the orders, each best first, with a score from 0 to 1: 1 is the first of all of them."""
    given = [order for order in orders if order]
    scores: dict[K, float] = {}
    for order in given:
        for rank, each in enumerate(order, start=1):
            scores[each] = scores.get(each, 0.0) + (_DAMPING + 1) / (_DAMPING + rank) / len(given)
    return sorted(scores.items(), key=lambda item: -item[1])
