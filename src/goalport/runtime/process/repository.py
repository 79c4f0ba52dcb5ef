"""Finds processes by their ids, in the memory of this program or in the store.

A process that rests is saved to the store and released from memory. It is restored from its records when somebody asks
for it or continues it; while the program references it, it stays the same object. If its steps are stored, it is saved
between any two actions. Otherwise its family (the root process and all its sub-processes) is saved when nothing runs in
it any more. A stored family is saved under its lease, which this program acquires before it runs or changes anything of
the family. Stores in memory work the same way, but no other program competes for their leases. Below: the records.
Above: the platform.
"""

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from itertools import islice
from logging import getLogger
from time import monotonic
from types import MappingProxyType
from typing import Final, TypeVar
from weakref import WeakSet, WeakValueDictionary, ref

import anyio

from goalport.base.caller import Caller
from goalport.base.errors import LeaseHeld, LeaseLost, StoreError, Unreadable, Unstorable
from goalport.base.events import ProcessCreated
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.lifecycle import ID, ProcessStatus, Terminated
from goalport.runtime.process.listeners import EventLog
from goalport.runtime.process.recording import FamilyRecords, Make, Write, record_of, report_not_stored
from goalport.runtime.process.sizes import estimated_size
from goalport.store import EventRecord, Lease, ProcessRecord, ProcessStore, Seals, StoredProcess

_log = getLogger(__name__)
T = TypeVar("T")
_UNLOCKED: Final = nullcontext()
_NONE: Final[Mapping[str, int]] = MappingProxyType({})
_DUE_NOW: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The due time of a family in which something runs: as soon as nobody runs it."""
_MOST_BYTES: Final = 32 * 1024 * 1024
"""The most bytes that families may take that have ended and are not saved yet."""
_PROCESS_BYTES: Final = 30_000
"""About how many bytes a process takes while it is saved, besides its objects."""
_COPIES: Final = 2
"""An object counts twice: as it is in memory, and serialized."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
"""Seconds between two attempts to reach the store."""
_FULL_FAMILIES: Final = 100
"""The number of ended families whose processes stay in memory in full if the store is in memory."""


class AgentProcessRepository:
    """The processes of a platform, in memory or in the store.

    Parameters: `store` keeps the records. `write` and `make` convert what processes run with. `seals` encrypts secrets.
    """

    def __init__(self, store: ProcessStore, write: Write, make: Make, seals: Seals | None = None) -> None:
        self.store = store
        self.family_records = FamilyRecords(write, make, seals, durable=store.durable)
        self.is_stored = self.family_records.stored
        self._kept_in_memory: dict[str, AgentProcess] = {}
        """The processes that run, and those whose records are incomplete."""
        self._in_memory: WeakValueDictionary[str, AgentProcess] = WeakValueDictionary()
        """All processes in the memory of the program."""
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        """The lock for saving a family and for acquiring or releasing its lease, by the id of its root."""
        self._perhaps_stored: WeakSet[AgentProcess] = WeakSet()
        """The roots whose first save may or may not have been committed."""
        self._leases: dict[str, Lease] = {}
        """The leases of this program, by the id of the root."""
        self.announce: Callable[[], Awaitable[None]] | None = None
        """Registers this program with the others, which take over processes of dead programs; None: not needed."""
        self._ended: deque[AgentProcess] = deque(maxlen=0 if store.durable else _FULL_FAMILIES)
        self._unsaved: dict[AgentProcess, int] = {}
        """The estimated bytes of each family that has ended and is not saved yet, by its root."""
        self._refused: dict[AgentProcess, StoreError] = {}
        """Those unsaved families that the store has refused, with the error."""
        self._waiting: dict[AgentProcess, None] = {}
        """The processes that wait for memory before they begin, in order of arrival."""
        store.attach(self._is_watched)

    def _is_watched(self, root_id: str) -> bool:
        """Whether somebody waits for a process of a family or follows it; False if none of it is in memory."""
        root = self._in_memory.get(root_id)
        return root is not None and any(each.watched for each in root.family)

    def keep_in_memory(self, process: AgentProcess) -> None:
        """Keep a process that begins to run in memory until its family is stored."""
        if not process.options.ephemeral:
            self._kept_in_memory[process.id] = self._in_memory[process.id] = process

    def may_be_stored(self, process: AgentProcess) -> bool:
        """Whether the store has records of the family of a process, as far as this program knows."""
        return process.root in self._perhaps_stored or self.is_stored(process.root)

    def drop(self, process: AgentProcess) -> None:
        """Forget a process that did not begin."""
        self._kept_in_memory.pop(process.id, None)
        self._in_memory.pop(process.id, None)

    def may_run(self, process: AgentProcess) -> bool:
        """Whether this program may run and change a process without asking the store first.

        It may if it has the lease of the family, or if it created the family and has stored nothing of it yet.
        """
        root = process.root
        return root.id in self._leases or not self.is_stored(root)

    async def enter(self, process: AgentProcess) -> bool:
        """Prepare the store for a process that begins to run. Returns False if another program has its family.

        Waits while ended families that are not saved yet take too much memory. Raises `StoreError` if the store cannot
        be reached and the process's steps are to be stored, or memory is short. If a new process may have been stored
        despite an error, this waits for the store: otherwise another program would start it later.
        """
        root = process.root
        if process.options.ephemeral:
            return True
        if self.is_stored(root):
            if not await retried(process, lambda: self.claim(process)):
                return False
            if process.durable:
                await self.checkpoint(process)
        elif process.durable:
            async with self._lock(root):
                try:
                    await self._commit_records(root, process)
                except StoreError as error:
                    if not error.unknown:
                        raise
                    self._perhaps_stored.add(root)
                    await retried(process, lambda: self._commit_records(root, process))
        elif process.status is ProcessStatus.NOT_STARTED and process.parent is None and self._is_full:
            await self._wait_for_room(process)
        return not process.remote

    async def claim(self, process: AgentProcess) -> bool:
        """Acquire the lease of a process's family, to run or change it. Returns False if another program has it.

        Changes of another program are read first. Raises `StoreError`, and `Unreadable`.
        """
        root = process.root
        async with self._lock(root):
            if root.id in self._leases or not self.is_stored(root):
                return True
            if self.announce is not None:
                await self.announce()
            try:
                lease = await self.store.claim(root.id)
            except LeaseHeld:
                return False
            if lease is None:
                self.family_records.forget(root)
                return True
            if lease.version != root.version:
                try:
                    await self._reload(root)
                except Unreadable:
                    await self.store.release(lease)
                    raise
            self._note_lease(root, lease)
            return True

    def _note_lease(self, root: AgentProcess, lease: Lease) -> None:
        """Note that this program has the lease of a family, and may run it."""
        self._leases[root.id] = lease
        if log := root.log:
            log.continue_at(lease.version + lease.token)
        for each in root.family:
            each.remote = False

    async def claim_for(self, process: AgentProcess, change: Callable[[], None]) -> None:
        """Acquire the lease of a family if possible, and call `change` in any case; it has to check for the lease."""
        try:
            if not await self.claim(process):
                _log.warning("Process %s is not continued here: another program runs it.", process.id)
        finally:
            change()
        await self.release(process)

    async def release(self, process: AgentProcess) -> None:
        """Release the lease of a family if nothing of it runs here, and no outcome is still to be stored."""
        root = process.root
        async with self._lock(root):
            needed = (each.busy or (each.withholds_outcome and not each.remote) for each in root.family)
            if root.id in self._leases and not any(needed):
                if root.log and root.log.unstored:
                    await self._commit(root, {}, release=True)
                else:
                    await self.store.release(self._leases.pop(root.id))
                for each in root.family:
                    self._kept_in_memory.pop(each.id, None)

    async def hand_over(self, process: AgentProcess, wake_at: datetime) -> int | None:
        """Release a family for other programs to run; it is due from `wake_at` on. Raises `LeaseLost`."""
        root = process.root
        async with self._lock(root):
            lease_before = self._leases.pop(root.id, None)

            async def leave(lease: Lease) -> Lease:
                events = tuple(root.log.unstored) if root.log else ()
                return await self.store.save((), lease, wake_at=wake_at, release=True, events=events)

            try:
                lease = lease_before and await retried(process, lambda: leave(lease_before))
            finally:
                self._stop_running(root)
                process.release()
            return lease and lease.version

    async def when_stored(self, process: AgentProcess) -> AgentProcess:
        """Return a process that has begun, as soon as it is stored if its steps are stored."""
        while process.durable and process.outcome is None and not self.is_stored(process):
            await process.changed()
        return process

    async def checkpoint(self, process: AgentProcess) -> None:
        """Store a process between two actions; wait for the store as long as it takes."""
        root = process.root
        async with self._lock(root):
            if process.remote or not self.is_stored(root):
                return
            await retried(process, lambda: self._commit_records(root, process))

    async def _commit_records(self, root: AgentProcess, process: AgentProcess) -> None:
        try:
            changes = self.family_records.checkpoint(process)
        except Unstorable as error:
            report_not_stored(process, error)
            for each in root.family:
                each.durable = False
        else:
            if changes:
                await self._commit(root, changes, release=False)

    async def store_steps(self, process: AgentProcess) -> None:
        """Store the new steps of a process's running actions; wait for the store as long as it takes."""
        root = process.root
        async with self._lock(root):
            if process.remote or not self.is_stored(process):
                return
            change = self.family_records.steps(process)
            if change.journal or change.ended_actions or change.spendings:
                await retried(process, lambda: self._commit(root, {process: change}, release=False))

    async def save(self, process: AgentProcess) -> None:
        """Store the processes of a family that rest; store a new family only when nothing runs in it."""
        if process.options.ephemeral:
            return
        root = process.root
        async with self._lock(root):  # records are increments, so their order counts
            if not self.is_stored(root):
                try:
                    await self._save_first(root)
                except Exception as error:
                    report_not_stored(process, error)
            elif not process.remote:
                await retried(process, lambda: self._commit_resting(root))

    async def _save_first(self, root: AgentProcess) -> None:
        """Save a new family, if nothing runs in it any more."""
        family = [each for each in root.subtree if not each.options.ephemeral]
        if [each for each in family if each.driven or each.outcome is None]:
            return
        changes = self.family_records.resting(root)
        if not self.store.durable:
            await self._commit(root, changes, release=True)
            return
        # Its caller may have the answer already: what waits for the disk has to be counted and limited.
        objects = (value for each in family for value in each.blackboard.history)
        self._refused.pop(root, None)
        self._unsaved[root] = _PROCESS_BYTES * len(family) + _COPIES * sum(map(estimated_size, objects))
        try:
            await self._commit(root, changes, release=True)
        except StoreError as error:
            self._refused[root] = error
            raise
        except BaseException:
            del self._unsaved[root]
            raise
        else:
            del self._unsaved[root]
        finally:
            unsaved = sum([*self._unsaved.values()])
            everybody = unsaved <= _MOST_BYTES // 2 or len(self._refused) == len(self._unsaved)
            for each in [*self._waiting][: None if everybody else int(unsaved <= _MOST_BYTES)]:
                each.listeners.on_loop(each.notify_waiters)

    @property
    def _is_full(self) -> bool:
        """Whether no process may begin, since unsaved ended families take too much memory."""
        return bool(self._unsaved) and sum([*self._unsaved.values()]) > _MOST_BYTES

    async def _wait_for_room(self, process: AgentProcess) -> None:
        """Wait until the process may begin, or its end is requested.

        If the store has refused all unsaved families, one of them is saved again. Raises `StoreError` if it is refused
        again.
        """
        self._waiting[process] = None
        try:
            while self._is_full and process.end_requested is None:
                if len(self._refused) < len(self._unsaved):
                    await process.changed()
                    continue
                root = next(iter(self._refused))
                await self.save(root)
                if error := self._refused.get(root):
                    raise StoreError(error.where, error.problem, error.fix)
        finally:
            del self._waiting[process]

    async def save_all(self) -> None:
        """Try again to store the resting processes that are kept in memory only."""
        for process in tuple(self._kept_in_memory.values()):
            if not self.is_stored(process.root):
                await self.save(process)

    async def _commit_resting(self, root: AgentProcess) -> None:
        """Save the resting processes of a family, and release its lease if nothing of it runs."""
        changes = self.family_records.resting(root)
        unwritable = self.family_records.unwritable
        release = not any(each.busy or (each in unwritable and not each.over) for each in root.family)
        if changes or (release and root.id in self._leases):
            await self._commit(root, changes, release=release)

    async def _commit(
        self, root: AgentProcess, changes: Mapping[AgentProcess, StoredProcess], *, release: bool
    ) -> None:
        """Save records of a family under the lease of this program."""
        lease, log = self._leases.get(root.id) or Lease(root.id), root.log
        events, wake_at = tuple(log.unstored) if log else (), _due_at(root.subtree) if release else _DUE_NOW
        if self.announce is not None and not release:
            await self.announce()
        try:
            new = await self.store.save([*changes.values()], lease, wake_at=wake_at, release=release, events=events)
        except LeaseLost:
            self._stop_running(root, lost=True)
            return
        root.version = new.version
        if release:
            self._leases.pop(root.id, None)
        else:
            self._leases[root.id] = new
        if log:
            log.confirm(events)
        for each, stored in changes.items():
            if self.family_records.confirm(each, stored) and not each.driven:  # it may have been continued meanwhile
                self._kept_in_memory.pop(each.id, None)
        if release and root.over:
            self._ended.append(root)

    async def erase(self, root_id: str) -> bool:
        """Delete all stored data of a family in which nothing runs here, by the id of its root.

        Returns False, and deletes nothing, if another program runs it. Raises `StoreError`.
        """
        async with self._locks.setdefault(root_id, anyio.Lock()):
            try:
                await self.store.drop(root_id)
            except LeaseHeld:
                return False
            if root := self._in_memory.get(root_id):
                self._stop_running(root)
                self.family_records.forget(root)
                for each in root.family:
                    self.drop(each)
            return True

    async def check_leases(self) -> None:
        """Stop families whose leases other programs have taken over, because this one was blocked for too long."""
        leases = [*self._leases]
        for root_id in set(leases).difference(await self.store.held(leases) if leases else ()):
            root = self._in_memory.get(root_id)
            if root is None:
                continue
            async with self._lock(root):  # the lease may have been released and acquired again meanwhile
                if root_id in self._leases and not await self.store.held([root_id]):
                    self._stop_running(root, lost=True)

    def _stop_running(self, root: AgentProcess, *, lost: bool = False) -> None:
        """Stop running a family here; `lost`: another program has taken it over."""
        if lost:
            _log.warning("Another program goes on with process %s.", root.id)
        self._leases.pop(root.id, None)
        root.version = None
        if log := root.log:
            log.forget()
        for each in root.family:
            self._kept_in_memory.pop(each.id, None)
            each.detach()

    def release_from_memory(self, process: AgentProcess) -> None:
        """Release a stored process at rest from memory, now that nobody follows it any more."""
        if self.is_stored(process) and not process.busy and self.family_records.is_complete(process):
            self._kept_in_memory.pop(process.id, None)

    def open_log(self, root: AgentProcess, *, new: bool = False) -> None:
        """Record the events of a family from now on; for a `new` family the first event is `ProcessCreated`."""
        if root.log is None:
            here = ref(root)  # the log must not keep it alive

            def holds() -> bool:
                process = here()
                return process is not None and self.may_run(process)

            root.log = EventLog(holds, dialogue=root.platform.keep_journals)
            if new:
                created = ProcessCreated(root.agent.name, root.caller.id, process_id=root.id, at=root.created_at)
                root.log.on_event(created)
            root.listeners.add(root.log)

    async def store_events(self, seconds: float) -> None:
        """Store the events that have waited longer than `seconds` for the next save of their family."""
        since = monotonic() - seconds
        for root in [each for each in self._in_memory.values() if each.log and each.log.waiting_since <= since]:
            known = self._locks.get(root.id)
            if known is None or not known.locked():
                async with self._lock(root):
                    if root.id in self._leases:
                        await self._commit(root, {}, release=False)

    async def events(self, root: AgentProcess, after: int, limit: int) -> Sequence[EventRecord]:
        """The next events of a family after number `after`, in order, stored or not."""
        if root.log is None:
            return await self.store.events(root.id, after, limit)
        return await root.log.read(self.store, root.id, after, limit)

    def _lock(self, root: AgentProcess) -> AbstractAsyncContextManager[object]:
        """The lock of a family. A store in memory needs none, since its methods never suspend."""
        return self._locks.setdefault(root.id, anyio.Lock()) if self.store.durable else _UNLOCKED

    def live(self, process_id: str) -> AgentProcess | None:
        """The process of that id in the memory of this program; None: it is not there."""
        return self._kept_in_memory.get(process_id) or self._in_memory.get(process_id)

    async def find(self, process_id: str) -> AgentProcess | None:
        """The process of that id, from memory or the store; None if it is unknown or was dropped."""
        known = self.live(process_id)
        if known is not None:
            root = known.root
            if root.id in self._leases or (known.id in self._kept_in_memory and not self.is_stored(root)):
                return known
            if root.version is not None and (await self.store.versions([root.id])).get(root.id) == root.version:
                return known
        if not ID.fullmatch(process_id):
            return None
        stored, version = await self.store.family(process_id)
        if not stored:
            return None
        known = self._in_memory.get(process_id)
        if known is not None:  # it may have been read or changed here meanwhile
            root = known.root
            if root.id in self._leases or (root.version is not None and root.version >= version):
                return known
        return self._read(stored, version).get(process_id)

    async def refresh(self, process: AgentProcess) -> None:
        """Update a family that another program runs from the store."""
        async with self._lock(root := process.root):
            if root.id not in self._leases:
                await self._reload(root)

    async def take_over(self, lease: Lease) -> AgentProcess | None:
        """The root of a family whose lease the store gave to us; None: it was released since. Raises `Unreadable`."""
        async with self._locks.setdefault(lease.root, anyio.Lock()):
            if lease.root in self._leases:  # already taken over here, and perhaps changed since
                return self._in_memory[lease.root]
            if not await self.store.held([lease.root]):
                return None
            stored, version = await self.store.family(lease.root)
            found = self._read(stored, version)
            self._note_lease(found[lease.root], lease)
            return found[lease.root]

    async def orphans(self) -> Mapping[str, Lease]:
        """The leases of due families, by root, that the store assigned to this program without its knowledge."""
        return {each.root: each for each in await self.store.due_here() if each.root not in self._leases}

    async def give_back(self, lease: Lease) -> None:
        """Release a due family that cannot continue here."""
        self._leases.pop(lease.root, None)
        await self.store.release(lease)

    @property
    def watched(self) -> Sequence[AgentProcess]:
        """The processes that somebody here waits for or follows, and that this program does not run."""
        return [each for each in self._in_memory.values() if each.watched and each.root.id not in self._leases]

    async def refresh_watched(self) -> None:
        """Update the families that somebody watches here and that another program has changed."""
        roots = {root.id: root for each in self.watched if self.is_stored(root := each.root)}
        versions = await self.store.versions([*roots]) if roots else _NONE
        for root_id, root in roots.items():
            if versions.get(root_id) != root.version:
                async with self._lock(root):
                    if root_id in self._leases or any(each.driven for each in root.family):
                        continue
                    try:
                        await self._reload(root)
                    except Unreadable as error:  # the program that runs it may be a newer one
                        _log.warning("Process %s is not followed here any more: %s", root.id, error)
                        for each in root.family:
                            each.detach(closing=True)

    async def _reload(self, root: AgentProcess) -> None:
        stored, version = await self.store.family(root.id)
        if stored:
            self._read(stored, version)
            return
        self.family_records.forget(root)
        for each in root.family:
            each.settle(Terminated("It has ended, and was dropped from the store before this program saw how."))

    def _read(self, stored: Sequence[StoredProcess], version: int) -> dict[str, AgentProcess]:
        """The processes of a family as the store has them; objects in this program's memory are updated."""
        here = {
            each.process.id: self._in_memory[each.process.id] for each in stored if each.process.id in self._in_memory
        }
        counts_before = {each: len(each.progress.history) for each in here.values()}
        found = self.family_records.restored(stored, here)
        for process in found if self.store.durable else ():
            process.durable = True
        for process, count in counts_before.items():
            process.emit_missed(count)
        self._in_memory.update((each.id, each) for each in found)
        root = found[0]
        if log := root.log:
            log.forget()
        elif self.store.durable or root.options.keep_events:
            self.open_log(root)
        root.version = version
        return {each.id: each for each in found}

    async def counts(self) -> Mapping[str, int]:
        """The number of processes with each status, including those in this program's memory."""
        kept = dict(self._kept_in_memory)  # before the query: a process may be saved and released during it
        counts = Counter(await self.store.counts(without=kept.keys()))
        counts.update(str(each.status) for each in kept.values())
        return counts

    async def records(self) -> list[ProcessRecord]:
        """The records of all processes, oldest first; those in this program's memory as they are now."""
        kept = dict(self._kept_in_memory)  # before the query: a process may be saved and released during it
        records = {each.id: each for each in await self.store.records()}
        ids = {*records, *kept, *self._kept_in_memory}
        records.update((each.id, record_of(each)) for each in {**kept, **self._in_memory}.values() if each.id in ids)
        return sorted(records.values(), key=lambda each: each.created_at)

    async def page_of_records(
        self, caller: Caller | None, *, after: str, limit: int, statuses: Collection[str], newest_first: bool
    ) -> Sequence[ProcessRecord]:
        """At most `limit` records, after the process `after`, of the processes of a caller or of all.

        A store that outlives the program does not know processes yet that are stored only when they end.
        """
        if self.store.durable:
            return await self.store.records(
                after=after, limit=limit, caller=caller, statuses=statuses, newest_first=newest_first
            )
        known = await self.records()
        ordered = known[::-1] if newest_first else known
        begin = next((place for place, each in enumerate(ordered, 1) if each.id == after), len(known)) if after else 0
        own = (each for each in ordered[begin:] if caller is None or caller.same_as(each.caller))
        return [*islice((each for each in own if not statuses or each.status in statuses), limit)]


async def retried(process: AgentProcess, work: Callable[[], Awaitable[T]]) -> T | None:
    """Call a function that needs the store, and retry while it is away. None: another program runs the process."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await work()
        except StoreError as error:
            if process.remote:
                return None
            if pause == _FIRST_PAUSE:
                _log.warning("Process %s waits for the store: %s", process.id, error)
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _due_at(family: Sequence[AgentProcess]) -> datetime | None:
    """When a resting family must continue: when a question expires, or at once if something is to run."""
    if [each for each in family if each.ready]:
        return _DUE_NOW
    asked = [each for process in family if not process.over for each in process.open_questions]
    return min([each.expires_at for each in asked if each.expires_at is not None], default=None)
