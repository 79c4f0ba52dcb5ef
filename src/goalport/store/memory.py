"""The store in the memory of the program: what it keeps ends with the program.

It keeps all processes that may go on, and a limited number of those that have ended. It keeps or drops families as a
whole.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from goalport.store.records import ProcessRecord, StoredProcess, parents_first

__all__ = ["InMemoryProcessStore"]

_MOST_LONG: Final = 10
"""The most long processes that are kept for each short one, if more end within `seconds`."""


class _Family:
    """A process that a caller started, with those that its actions started."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.members: dict[str, StoredProcess] = {}
        self.ended_at = 0.0
        self.queues: list[OrderedDict[str, _Family]] = []
        """The queues that contain this family."""

    def line_up(self, queue: "OrderedDict[str, _Family]") -> None:
        """Append the family to a queue."""
        queue[self.root] = self
        self.queues.append(queue)

    def leave(self) -> None:
        """Remove the family from all queues."""
        for each in self.queues:
            each.pop(self.root, None)
        self.queues.clear()

    @property
    def record(self) -> ProcessRecord:
        """The record of the root; of the eldest member as long as the root has none."""
        return (self.members.get(self.root) or next(iter(self.members.values()))).process

    @property
    def ended(self) -> bool:
        return all(each.process.ended for each in self.members.values())


class InMemoryProcessStore:
    """Keeps the records of processes in memory.

    Parameters: of short processes that have ended, the last `window` are kept. Of those that took a second or
    more, asked people or have a goal that is declared `long`, as many besides, and each for `seconds` after its end
    (ten times `window` at most). Of those that wait for people, there is room for `waiting`. Processes that go on are
    always kept. Of those that have ended, the newest `whole` keep everything; others keep only their outcome and their
    history.
    """

    durable = False

    def __init__(self, window: int = 1000, whole: int = 100, *, seconds: float = 3600.0, waiting: int = 10_000) -> None:
        self._window, self._most_whole, self._seconds, self.max_waiting = window, whole, seconds, waiting
        self._family_of: dict[str, _Family] = {}
        """The family of each process."""
        self._short: OrderedDict[str, _Family] = OrderedDict()
        self._long: OrderedDict[str, _Family] = OrderedDict()
        self._waiting: OrderedDict[str, _Family] = OrderedDict()
        self._whole: OrderedDict[str, _Family] = OrderedDict()

    async def save(self, changes: Sequence[StoredProcess], /) -> None:
        """Keep records; if there are too many of their kind, drop the family that ended first."""
        if not changes:
            return
        family = self._joined(changes)
        family.leave()
        if family.ended:
            self._keep_ended(family)
        elif family.record.status == "waiting":
            family.line_up(self._waiting)

    async def claim(self, process_id: str, /) -> bool:
        """Keep the family of a process until it is saved again. Returns False if it is unknown or was dropped."""
        family = self._family_of.get(process_id)
        if family is not None:
            family.leave()
        return family is not None

    async def find(self, process_id: str, /) -> ProcessRecord | None:
        """The record of a process; None if it is unknown or was dropped."""
        family = self._family_of.get(process_id)
        return family and family.members[process_id].process

    async def family(self, process_id: str, /) -> Sequence[StoredProcess]:
        """A process and all that belong to its family, the root first and each before those that it started."""
        family = self._family_of.get(process_id)
        return () if family is None else tuple(parents_first(tuple(family.members.values())))

    async def records(self) -> Sequence[ProcessRecord]:
        """The records of all processes that are kept, oldest first."""
        return [family.members[each].process for each, family in self._family_of.items()]

    async def counts(self) -> Mapping[str, int]:
        """How many processes that are kept have each status."""
        return Counter(family.members[each].process.status for each, family in self._family_of.items())

    async def surplus(self) -> Sequence[str]:
        """The ids of processes that wait for people and for which there is no room, longest waiting first."""
        return list(islice(self._waiting, max(len(self._waiting) - self.max_waiting, 0)))

    def _joined(self, changes: Sequence[StoredProcess]) -> _Family:
        root = changes[0].process.root
        family = self._family_of.get(root) or self._family_of.get(changes[0].process.id) or _Family(root)
        for each in changes:
            process_id = each.process.id
            known = family.members.get(process_id)
            family.members[process_id] = each if known is None else _added(known, each)
            self._family_of[process_id] = family
        return family

    def _keep_ended(self, family: _Family) -> None:
        family.ended_at = time.monotonic()
        family.line_up(self._long if family.record.long else self._short)
        if family.record.final:
            family.line_up(self._whole)
        if len(self._whole) > self._most_whole:
            _, oldest = self._whole.popitem(last=False)
            oldest.members = {name: _reduced(each) for name, each in oldest.members.items()}
        while len(self._short) > self._window:
            self._drop(self._short.popitem(last=False)[1])
        while len(self._long) > self._window and self._may_go(next(iter(self._long.values()))):
            self._drop(self._long.popitem(last=False)[1])

    def _may_go(self, family: _Family) -> bool:
        return time.monotonic() - family.ended_at >= self._seconds or len(self._long) > _MOST_LONG * self._window

    def _drop(self, family: _Family) -> None:
        family.leave()
        for each in family.members:
            del self._family_of[each]


def _added(known: StoredProcess, new: StoredProcess) -> StoredProcess:
    return new._replace(
        objects=[*known.objects, *new.objects],
        history=[*known.history, *new.history],
        spendings=[*known.spendings, *new.spendings],
    )


def _reduced(stored: StoredProcess) -> StoredProcess:
    """What is kept of a process that ended long ago."""
    result = [each for each in stored.objects if each.number == stored.process.result]
    return StoredProcess(stored.process, result, stored.history, stored.spendings, whole=False)
