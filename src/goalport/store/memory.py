"""The store in the memory of the program: what it keeps ends with the program.

It keeps all processes that may go on, and of those that have ended as many as there is room for. It keeps or drops
families as a whole. Objects of ended ones that are large are moved to files.
"""

import asyncio
from bisect import bisect_right
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, islice
from logging import getLogger
from operator import itemgetter
from pathlib import Path
from typing import Final, TypeVar

import anyio

from goalport.caller import Caller
from goalport.errors import LeaseLost, Unstorable
from goalport.store.codec import Codec
from goalport.store.encoder import StoredTypes
from goalport.store.ended import EndedFamilies
from goalport.store.memory_conversations import InMemoryConversations
from goalport.store.memory_families import Family
from goalport.store.object_files import ObjectFiles, without_values
from goalport.store.records import (
    EventRecord,
    JournalRecord,
    Lease,
    Message,
    ObjectRecord,
    ProcessRecord,
    QuestionRecord,
    Runner,
    StoredProcess,
    ValueCodec,
    parents_first,
)
from goalport.store.spill import Spilled

__all__ = ["InMemoryProcessStore"]

_log = getLogger(__name__)
R = TypeVar("R", ObjectRecord, QuestionRecord, JournalRecord)

_TOKEN: Final = 1
"""The token of each lease: no family changes hands."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_MOST_KEYS: Final = 100_000
_LARGE: Final = 64 * 1024
"""From how many bytes on the objects of a family that has ended are moved to a file, if memory becomes scarce."""
_SCARCE: Final = 4
"""Memory becomes scarce when all that have ended take one part of so many of what they may take."""


class InMemoryProcessStore:
    """Keeps the records of processes in memory; see `ProcessStore`.

    Parameters: of short processes that have ended, the last `window` are kept. Of those that took a second or
    more, asked people or have a goal that is declared `long`, as many besides, and each for `seconds` after its end
    (ten times `window` at most). All that have ended take about `remembered_bytes` of memory at most; for more, those
    that ended first are dropped, short ones before long ones. With a `folder`, large objects are moved to files there.
    Of those that wait for people, there is room for `waiting`. Processes that go on are always kept, and those that
    somebody watches. Conversations take as much memory again; those that were not used for longest are dropped first.
    """

    durable = False

    def __init__(
        self,
        window: int = 1000,
        *,
        seconds: float = 3600.0,
        waiting: int = 10_000,
        remembered_bytes: int = 64 * 1024 * 1024,
        folder: Path | None = None,
    ) -> None:
        self.max_waiting, self.remembered_bytes = waiting, remembered_bytes
        self.conversations = InMemoryConversations(remembered_bytes)
        types = StoredTypes()
        self._files = None if folder is None else ObjectFiles(folder, lambda _: Codec(types))
        self._moving = 0
        """How many bytes are on their way to files."""
        self._unmoved: deque[tuple[Family, int]] = deque()
        """The families, with their versions, that follow when some of these have arrived."""
        self._watched: Callable[[str], bool] = lambda _: False
        self._family_of: dict[str, Family] = {}
        """The family of each process."""
        self._ended = EndedFamilies[Family](
            window, seconds, remembered_bytes, self._drop, lambda each: self._watched(each.root)
        )
        self._waiting: OrderedDict[str, Family] = OrderedDict()
        self._asleep: dict[str, tuple[datetime, int]] = {}
        """When the families that nobody runs are to be woken, by their roots."""
        self._numbers = count(1)
        self._messages: dict[int, Message] = {}
        self._replies: dict[int, object] = {}
        self._keys: OrderedDict[str, tuple[str, str, datetime]] = OrderedDict()
        self._contexts: dict[str, object] = {}

    def attach(self, codec: Callable[[str], ValueCodec], watched: Callable[[str], bool], /) -> None:
        self._watched = watched
        if self._files is not None:
            self._files.codec = codec

    async def save(
        self,
        changes: Sequence[StoredProcess],
        lease: Lease,
        /,
        *,
        wake_at: datetime | None,
        release: bool,
        events: Sequence[EventRecord] = (),
    ) -> Lease:
        """Keep records; if there are too many of their kind, drop the family that ended first."""
        root, token, _ = lease
        if not token and not changes:
            return lease
        family = self._family_of.get(root)
        if family is None:
            if token:
                raise LeaseLost(root)
            if root not in [each.process.id for each in changes]:
                raise ValueError(f"Expected the record of process {root!r}, the first of its family.")
            family = self._family_of[root] = Family(root, next(self._numbers))
        elif token > _TOKEN:
            raise LeaseLost(root)
        else:
            self._free(family)
        family.wake_at, family.held = wake_at, True
        family.version += 1
        for each in changes:
            self._add(each, family)
        if events:
            known = family.events[-1].number if family.events else -1
            family.events += [each for each in events if each.number > known]
        if release:
            self._release(family)
        return Lease(root, _TOKEN, family.version)

    async def claim(self, process_id: str, /) -> Lease | None:
        """Keep the family of a process until its lease is given back; None: it is unknown or was dropped."""
        family = self._family_of.get(process_id)
        return None if family is None else self._claimed(family)

    async def runner(self, process_id: str, /) -> Runner | None:
        """None: this program alone knows what is kept here."""
        return None

    async def release(self, lease: Lease, /) -> None:
        family = self._family_of.get(lease.root)
        if family is not None and family.held and lease.token == _TOKEN:
            self._release(family)

    async def due_here(self) -> Sequence[Lease]:
        return ()

    async def due(self, limit: int, /, *, without: Collection[str] = ()) -> Sequence[Lease]:
        if not self._asleep:
            return ()
        now = datetime.now(UTC)
        asleep = self._asleep.items()
        due = sorted((at, number, root) for root, (at, number) in asleep if at <= now and root not in without)
        return [self._claimed(self._family_of[root]) for _, _, root in due[:limit]]

    async def heartbeat(self, seconds: float, /) -> None:
        """Nothing: nobody else could take a lease of this program."""

    async def wait_for_changes(self, seconds: float, /) -> None:
        """Wait: no other program writes here."""
        await anyio.sleep(seconds)

    async def versions(self, roots: Sequence[str], /) -> Mapping[str, int]:
        found = ((each, self._family_of.get(each)) for each in roots)
        return {root: family.version for root, family in found if family is not None and family.root == root}

    async def find(self, process_id: str, /) -> ProcessRecord | None:
        family = self._family_of.get(process_id)
        return family and family.members[process_id].process

    async def family(self, process_id: str, /) -> tuple[Sequence[StoredProcess], int]:
        family = self._family_of.get(process_id)
        if family is None:
            return (), 0
        members, version = tuple(parents_first(tuple(family.members.values()))), family.version
        if family.moved and self._files is not None:
            return await self._files.read(members, family.moved), version
        return members, version

    async def records(
        self,
        *,
        after: str = "",
        limit: int | None = None,
        caller: Caller | None = None,
        statuses: Collection[str] = (),
        newest_first: bool = False,
    ) -> Sequence[ProcessRecord]:
        if after and after not in self._family_of:
            return []
        ids = iter(reversed(self._family_of) if newest_first else self._family_of)
        if after:
            next(each for each in ids if each == after)  # the rest comes after it
        found = (self._family_of[each].members[each].process for each in ids)
        chosen = (
            each._replace(definition=None, state=None, seconds_run=0.0)
            for each in found
            if (caller is None or caller.same_as(each.caller)) and (not statuses or each.status in statuses)
        )
        return list(islice(chosen, limit))

    async def spent(self, caller: Caller, since: datetime, /) -> Mapping[str, float]:
        """Nothing: it has no process of another program."""
        return {}

    async def counts(self, *, without: Collection[str] = ()) -> Mapping[str, int]:
        kept = self._family_of.items()
        return Counter(family.members[each].process.status for each, family in kept if each not in without)

    async def overflow(self) -> Sequence[str]:
        return list(islice(self._waiting, max(len(self._waiting) - self.max_waiting, 0)))

    async def prune(self, *, older_than: timedelta | None = None, keep: int | None = None) -> int:
        before = _LONG_AGO if older_than is None else datetime.now(UTC) - older_than
        over = [each for each in dict.fromkeys(self._family_of.values()) if each.over]
        over.sort(key=lambda each: (each.finished_at, each.number), reverse=True)
        kept = over[:keep]
        dropped = [*over[len(kept) :], *(each for each in kept if each.finished_at < before)]
        for each in dropped:
            self._drop(each)
        return len(dropped)

    async def drop(self, root: str, /) -> bool:
        family = self._family_of.get(root)
        if family is None or family.root != root:
            return False
        for each in [each for each in self._messages.values() if each.process in family.members]:
            del self._messages[each.number]
            self._replies.pop(each.number, None)
        self._drop(family)
        return True

    async def send(self, process_id: str, value: object, /) -> int:
        message = Message(next(self._numbers), process_id, value)
        self._messages[message.number] = message
        return message.number

    async def held(self, roots: Sequence[str], /) -> Sequence[str]:
        return [each for each in roots if (found := self._family_of.get(each)) is not None and found.held]

    async def inbox(self) -> Sequence[Message]:
        open_ones = (each for each in self._messages.values() if each.number not in self._replies)
        return [each for each in open_ones if (found := self._family_of.get(each.process)) is not None and found.held]

    async def reply(self, number: int, value: object, /) -> None:
        if number in self._messages:
            self._replies.setdefault(number, value)

    async def replied(self, number: int, /) -> object:
        return self._replies.get(number)

    async def withdraw(self, number: int, /) -> bool:
        if self._messages.pop(number, None) is None:
            return self._replies.pop(number, None) is None
        return number not in self._replies

    async def join(self, key: str, digest: str, process_id: str, /, *, instead_of: str = "") -> tuple[str, str]:
        now = datetime.now(UTC)
        while self._keys and (len(self._keys) > _MOST_KEYS or next(iter(self._keys.values()))[2] < now - _DAY):
            self._keys.popitem(last=False)
        known = self._keys.get(key)
        if known is None or known[1] == instead_of:
            known = self._keys[key] = digest, process_id, now
            self._keys.move_to_end(key)
        return known[:2]

    async def events(self, root: str, /, after: int, limit: int) -> Sequence[EventRecord]:
        family = self._family_of.get(root)
        known = family.events if family is not None and family.root == root else []
        first = bisect_right(known, after, key=itemgetter(0))
        return known[first : first + limit]

    async def forget_keys(self, process_ids: Collection[str], /) -> None:
        for key, (_, process, _) in [*self._keys.items()]:
            if process.partition(":")[0] in process_ids:
                del self._keys[key]

    async def context_ids(self) -> Sequence[str]:
        return [*self._contexts]

    async def find_context(self, context_id: str, /) -> object:
        return self._contexts.get(context_id)

    async def save_context(self, context_id: str, value: object, /, *, instead_of: object) -> bool:
        if self._contexts.get(context_id) is not instead_of:
            return False
        self._contexts[context_id] = value
        return True

    async def delete_context(self, context_id: str, /) -> bool:
        return self._contexts.pop(context_id, None) is not None

    def _add(self, change: StoredProcess, family: Family) -> None:
        process_id = change.process.id
        known = family.members.get(process_id)
        if known is None:
            self._family_of[process_id] = family
            if change.over:
                change = change._replace(over=())
        elif change.whole:
            change = _added(known, change)
        family.members[process_id] = change

    def _claimed(self, family: Family) -> Lease:
        if not family.held:
            self._free(family)
            family.held = True
        return Lease(family.root, _TOKEN, family.version)

    def _free(self, family: Family) -> None:
        """Keep a family, and wake nobody for it."""
        self._ended.remove(family)
        self._waiting.pop(family.root, None)
        self._asleep.pop(family.root, None)

    def _release(self, family: Family) -> None:
        family.held = False
        if family.wake_at is not None:
            self._asleep[family.root] = family.wake_at, family.number
        if family.ended:
            self._keep_ended(family)
        elif family.record.status == "waiting":
            self._waiting[family.root] = family

    def _keep_ended(self, family: Family) -> None:
        size = family.object_bytes
        family.memory_bytes, family.file_bytes = family.record_bytes + size, family.moved_bytes
        if self._files is None or not self._is_to_be_moved(family, size):
            self._ended.add(family)
            return
        if self._moving and self._moving + size > self.remembered_bytes // _SCARCE:
            # What waits to be written is in memory still, so there is a limit to that too.
            self._ended.add(family)
            self._unmoved.append((family, family.version))
            return
        family.memory_bytes, family.file_bytes = family.record_bytes, size
        self._move(family, size)
        self._ended.add(family)  # which drops it, if there is no place: then it is empty

    def _move(self, family: Family, size: int) -> None:
        assert self._files is not None
        self._moving += size
        moving = self._files.move([*family.members.values()], long=family.long)
        asyncio.wrap_future(moving).add_done_callback(partial(self._moved, family, family.version, size))

    def _is_to_be_moved(self, family: Family, size: int) -> bool:
        scarce = self._ended.memory_bytes + family.memory_bytes > self.remembered_bytes // _SCARCE
        return scarce and size >= _LARGE and family.over

    def _moved(self, family: Family, version: int, size: int, moving: "asyncio.Future[Mapping[str, Spilled]]") -> None:
        """Keep objects in memory no longer, as soon as they are in a file."""
        self._moving -= size
        self._move_next()
        error = None if moving.cancelled() else moving.exception()
        if moving.cancelled() or family.version != version or family.held or family.root not in self._family_of:
            return
        if error is not None:
            if not isinstance(error, Unstorable):
                _log.warning("The objects of process %s stay in memory: %s", family.root, error)
            self._ended.recount(family, family.record_bytes + size, 0)
            return
        family.moved = moving.result()
        family.members = {process: without_values(each) for process, each in family.members.items()}
        self._ended.recount(family, family.record_bytes, family.moved_bytes)

    def _move_next(self) -> None:
        while self._unmoved and self._moving < self.remembered_bytes // _SCARCE:
            family, version = self._unmoved.popleft()
            known = family.root in self._family_of
            if known and family.version == version and not (family.held or family.moved):
                size = family.object_bytes
                self._move(family, size)
                self._ended.recount(family, family.record_bytes, size)

    def _drop(self, family: Family) -> None:
        self._free(family)
        for each in family.members:
            del self._family_of[each]
        family.members = {}  # it may be among the unmoved still


def _added(known: StoredProcess, new: StoredProcess) -> StoredProcess:
    """A process after a change: what has a number takes the place of what had it, or is added."""
    process, before = new.process, known.process
    if process.definition is None:
        process = process._replace(definition=before.definition)
    if process.state is None:
        process = process._replace(state=before.state)
    journal = [each for each in known.journal if each.action not in new.over] if new.over else known.journal
    return new._replace(
        process=process,
        objects=_merged(known.objects, new.objects),
        history=_continued(known.history, new.history, new.history_from),
        spendings=_continued(known.spendings, new.spendings, new.spendings_from),
        questions=_merged(known.questions, new.questions),
        journal=_merged(journal, new.journal),
        history_from=0,
        spendings_from=0,
        over=(),
    )


def _merged(known: Sequence[R], new: Sequence[R]) -> Sequence[R]:
    if not new:
        return known
    if not known or known[-1].number < new[0].number:
        return [*known, *new]
    return sorted({each.number: each for each in (*known, *new)}.values(), key=lambda each: each.number)


def _continued(known: Sequence[object], new: Sequence[object], start: int) -> Sequence[object]:
    return [*known[:start], *new, *known[start + len(new) :]] if new else known
