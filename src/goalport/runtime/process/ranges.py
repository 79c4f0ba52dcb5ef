"""Numbers as ranges: those of a long run, of which most follow one another. Above: the recorder of a process."""

from collections.abc import Callable, Sequence, Set as AbstractSet
from typing import NamedTuple

from goalport.agents.blackboard import Entry
from goalport.store import persistent


@persistent("goalport.process.persistence:Ranges")
class Ranges(NamedTuple):
    """Numbers, of which most follow one another."""

    ranges: Sequence[tuple[int, int]]
    """The first number of each range, and the one after its last."""

    @property
    def numbers(self) -> AbstractSet[int]:
        """All the numbers."""
        return frozenset(number for first, end in self.ranges for number in range(first, end))


class GrowingRanges:
    """The numbers of entries as ranges, made on from where they were if the entries are the same and more.

    A checkpoint of a long run then costs no more than one of a short run.
    """

    def __init__(self) -> None:
        self._entries: Sequence[Entry] = ()
        self._ranges: list[tuple[int, int]] = []

    def of(self, entries: Sequence[Entry], number_of: Callable[[Entry], int]) -> Sequence[tuple[int, int]]:
        """The numbers of entries; `number_of` says that of each."""
        known = len(self._entries)
        if entries[:known] != self._entries:
            known, self._ranges = 0, []
        for number in map(number_of, entries[known:]):
            if self._ranges and self._ranges[-1][1] == number:
                self._ranges[-1] = self._ranges[-1][0], number + 1
            else:
                self._ranges.append((number, number + 1))
        self._entries = entries
        return tuple(self._ranges)
