"""A family of processes in memory, and about how much of the memory it takes. Above: the store in memory."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from goalport.store.records import EventRecord, ObjectRecord, ProcessRecord, StoredProcess
from goalport.store.sizes import estimated_size
from goalport.store.spill import Spilled

__all__ = ["Family"]

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_PROCESS: Final = 4_000
"""About how many bytes a process takes in memory besides its objects, its history and its events."""
_ENTRY: Final = 500
"""About how many bytes an event or an entry of the history takes."""
_MANY: Final = 32
"""The number of objects or entries from which on those are not measured again that were measured before."""


class Measured:
    """What of a process has been measured; of a long one, each time only what is new is looked at."""

    __slots__ = ("bytes", "entries", "objects", "stepped")

    def __init__(self) -> None:
        self.objects = self.bytes = self.entries = 0
        self.stepped = False
        """Whether the history has entries with what models replied."""

    def object_bytes(self, objects: Sequence[ObjectRecord]) -> int:
        """About how many bytes the objects of the process take, to which some may have been added."""
        if len(objects) < self.objects:  # they were moved to a file meanwhile
            self.objects = self.bytes = 0
        self.bytes += sum(estimated_size(each.value) for each in objects[self.objects :])
        self.objects = len(objects)
        return self.bytes

    def has_steps(self, history: Sequence[object]) -> bool:
        """Whether the history of the process, to which some entries may have been added, has any with steps."""
        self.stepped = self.stepped or any(getattr(each, "steps", ()) for each in history[self.entries :])
        self.entries = len(history)
        return self.stepped


class Family:
    """A process that a caller started, with those that its actions started."""

    def __init__(self, root: str, number: int) -> None:
        self.root, self.number = root, number
        self.members: dict[str, StoredProcess] = {}
        self.events: list[EventRecord] = []
        self.version = 0
        self.held = True
        """Whether something runs it."""
        self.wake_at: datetime | None = None
        self.ended_at = 0.0
        self.memory_bytes = self.file_bytes = 0
        self.moved: Mapping[str, Spilled] = {}
        """The objects that are in a file, by their processes."""
        self._measured: dict[str, Measured] = {}
        """What has been measured of members with many objects or a long history."""

    def _measured_of(self, member: StoredProcess) -> Measured:
        process_id, size = member.process.id, max(len(member.objects), len(member.history))
        known = self._measured.get(process_id)
        if known is None:
            known = Measured()
            if size > _MANY:
                self._measured[process_id] = known
        return known

    @property
    def record(self) -> ProcessRecord:
        """The record of the root; of the eldest member as long as the root has none."""
        return (self.members.get(self.root) or next(iter(self.members.values()))).process

    @property
    def finished_at(self) -> datetime:
        return self.record.finished_at or _LONG_AGO

    @property
    def over(self) -> bool:
        """Whether nothing can happen in it any more."""
        return (
            not self.held
            and self.record.finished_at is not None
            and all(each.process.final for each in self.members.values())
        )

    @property
    def long(self) -> bool:
        return self.record.long

    @property
    def object_bytes(self) -> int:
        """About how many bytes the objects take that are in memory."""
        return sum(self._measured_of(each).object_bytes(each.objects) for each in self.members.values())

    @property
    def moved_bytes(self) -> int:
        """How many bytes the objects take that are in a file."""
        return sum(each.size for each in self.moved.values()) if self.moved else 0

    @property
    def record_bytes(self) -> int:
        """About how many bytes everything else takes."""
        size = _ENTRY * len(self.events)
        for each in self.members.values():
            size += _PROCESS + _ENTRY * (len(each.history) + len(each.spendings))
            if each.journal:
                size += sum(estimated_size(step.value) for step in each.journal)
            if self._measured_of(each).has_steps(each.history):  # what models replied, if that is kept
                size += estimated_size(each.history)
        return size

    @property
    def ended(self) -> bool:
        return all(each.process.ended for each in self.members.values())
