"""Keeping the few largest of many things, in memory that does not grow with the many.

Pure. Listing and history, above, push tens of thousands of things and keep hundreds.
"""

import heapq
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Largest(Generic[Thing]):
    """The `size` things with the largest keys; of two equal keys the name that sorts first wins, whatever the order."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[float, _Reversed, Thing]] = []

    def push(self, key: float, name: str, thing: Thing) -> None:
        """Offer a thing; no two things may have the same key and name."""
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, (key, _Reversed(name), thing))
        elif key >= self._heap[0][0]:
            heapq.heappushpop(self._heap, (key, _Reversed(name), thing))

    def ordered(self) -> tuple[Thing, ...]:
        """List what was kept, the largest first."""
        return tuple(thing for _, _, thing in sorted(self._heap, key=lambda kept: kept[:2], reverse=True))


class _Reversed(str):
    """A name that sorts backwards, so that in a list from large to small names come in their usual order."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)
