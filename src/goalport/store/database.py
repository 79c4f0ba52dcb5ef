"""The store in a database: the protocol of a store, said in operations that a database carries out.

Each database of its own module is one `Database`: it begins and ends transactions, and runs their statements on its
driver. The values in the records are what JSON can say. Above, the platform saves and reads; nothing here knows what a
process does.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Protocol, Self, TypeVar

from goalport.caller import Caller
from goalport.errors import StoreError
from goalport.store import operations
from goalport.store.conversation_operations import (
    ConversationRows,
    delete_conversation,
    find_conversation,
    list_conversations,
    messages_of,
    processes_of,
)
from goalport.store.conversations import ConversationRecord, MessageRecord, words_of
from goalport.store.operations import Operation, Operations
from goalport.store.programs import Program
from goalport.store.records import EventRecord, Lease, Message, ProcessRecord, Runner, StoredProcess
from goalport.store.rows import event_row, microseconds, rows_of
from goalport.store.statements import Dialect

__all__ = ["Commit", "Database", "DatabaseProcessStore"]

T = TypeVar("T")

_BATCH: Final = 200
"""How many families are dropped in one transaction."""
_RESERVE: Final = 256 * 1024
"""The bytes that a disk must have left for new work: what goes on is to be saved there."""
_PROBE: Final = "goalport: can this be written?"
_PROBE_BYTES: Final = 65_536
"""As much as a process with a few results, since a full disk may still have room for a row."""
_FOUND: Final = 10_000
"""How many families to be dropped are looked for at a time."""


class Database(Protocol):
    """Runs operations, each in one transaction. An operation is begun anew when its transaction has to be."""

    @property
    def dialect(self) -> Dialect:
        """How it speaks."""
        ...

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        """What an operation that only reads returns. Raises `StoreError`."""
        ...

    async def write(self, begin: Callable[[], Operation[T]], /, *, patient: bool = False) -> T:
        """What an operation returns, once it is committed. Raises what the operation raises, and `StoreError`.

        Once it has begun, cancelling waits until it is known whether it is committed. A patient operation may wait a
        little for others that are committed with it.
        """
        ...

    async def wait_for_changes(self, seconds: float, /) -> None:
        """Return when another program may have written something, or after `seconds`."""
        ...

    @property
    def free_bytes(self) -> int | None:
        """The space left on its disk; None: that cannot be seen from here."""
        ...

    async def trim(self) -> None:
        """Give the space of what was dropped back, if the database does not do so itself."""
        ...

    async def close(self) -> None:
        """Commit what was written, and let the database go. A database that is closed stays closed."""
        ...


class ObservedDatabase:
    """A database whose transactions are told of, and of which it is known whether the last write failed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.dialect: Dialect = database.dialect
        self.wait_for_changes, self.trim, self.close = database.wait_for_changes, database.trim, database.close
        self.refused = False
        """Whether the last write failed."""
        self.tell: Callable[[str, float, bool], None] = lambda _kind, _seconds, _failed: None
        """Called after each `read` or `write` with its seconds, and whether the database failed."""

    @property
    def free_bytes(self) -> int | None:
        return self._database.free_bytes

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        with self._timed("read"):
            return await self._database.read(begin)

    async def write(self, begin: Callable[[], Operation[T]], /, *, patient: bool = False) -> T:
        with self._timed("write"):
            return await self._database.write(begin, patient=patient)

    @contextmanager
    def _timed(self, kind: str) -> Generator[None]:
        begun, failed = time.monotonic(), False
        try:
            yield
        except StoreError:
            failed = True
            raise
        finally:
            self.refused = failed if kind == "write" else self.refused
            self.tell(kind, time.monotonic() - begun, failed)


class Commit(asyncio.Future[T]):
    """The end of a transaction. Who is cancelled waits for it: a commit cannot be called back, so it must be known."""

    def cancel(self, msg: object = None) -> bool:
        return False


class DatabaseConversations:
    """Keeps conversations in a database, which other programs may use too; see `ConversationStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(
        self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = (), /
    ) -> ConversationRecord | None:
        rows = ConversationRows(conversation, messages)
        return await self._database.write(partial(rows.save, self._database.dialect))

    async def find(self, conversation_id: str, /) -> ConversationRecord | None:
        return await self._database.read(partial(find_conversation, conversation_id))

    async def messages(self, conversation_id: str, /) -> Sequence[MessageRecord]:
        return await self._database.read(partial(messages_of, conversation_id))

    async def list(
        self,
        *,
        caller: Caller | None = None,
        chatbot: str = "",
        search: str = "",
        after: str = "",
        limit: int = 50,
    ) -> Sequence[ConversationRecord]:
        words = words_of(search)
        return await self._database.read(partial(list_conversations, caller, chatbot, words, after, limit))

    async def processes(self, conversation_id: str, /) -> Sequence[str]:
        return await self._database.read(partial(processes_of, conversation_id))

    async def delete(self, conversation_id: str, /) -> bool:
        deleted = await self._database.write(partial(delete_conversation, conversation_id))
        if deleted:
            await self._database.trim()
        return deleted


class DatabaseProcessStore:
    """Keeps the records of processes in a database, which other programs may use too; see `ProcessStore`."""

    durable = True

    def __init__(self, database: Database) -> None:
        self._database = self.database = ObservedDatabase(database)
        self.conversations = DatabaseConversations(self._database)
        self._program = Program.this()
        self._operations = Operations(database.dialect, self._program)
        self._has_heartbeat = False

    async def __aenter__(self) -> Self:
        await self._database.write(operations.nothing)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Give all leases back, commit what was saved, and close the database. A store that is closed stays closed."""
        if self._has_heartbeat:
            self._has_heartbeat = False
            with suppress(StoreError):  # the others notice when nothing is heard of this program any more
                await self._database.write(self._operations.leave)
        await self._database.close()

    @property
    def max_waiting(self) -> int:
        """A database has room for any number of processes that wait."""
        return sys.maxsize

    def attach(self, watched: Callable[[str], bool], /) -> None:
        """Nothing: there is room for every process."""

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
        """Commit records of a family. Once that has begun, cancelling waits until it is known whether they are."""
        if not lease.token and not changes:
            return lease
        if not lease.token and all(each.process.id != lease.root for each in changes):
            raise ValueError(f"Expected the record of process {lease.root!r}, the first of its family.")
        rows = [rows_of(each) for each in changes]
        wake = None if wake_at is None else microseconds(wake_at)
        happened = event_row(events)
        save = partial(self._operations.save, rows, lease, wake, happened, release=release)
        return await self._database.write(save, patient=not lease.token and not any(map(_asked_for, changes)))

    async def claim(self, process_id: str, /) -> Lease | None:
        return await self._database.write(partial(self._operations.claim, process_id))

    async def runner(self, process_id: str, /) -> Runner | None:
        return await self._database.read(partial(self._operations.runner, process_id))

    async def release(self, lease: Lease, /) -> None:
        await self._database.write(partial(self._operations.release, lease))

    async def due(self, limit: int, /, *, without: Collection[str] = ()) -> Sequence[Lease]:
        some, dead = await self._database.read(partial(self._operations.awaited, limit, without))
        if not some and not dead:
            return ()
        return await self._database.write(partial(self._operations.due, limit, without, dead))

    async def due_here(self) -> Sequence[Lease]:
        return await self._database.read(self._operations.due_here)

    async def heartbeat(self, seconds: float, /) -> None:
        await self._database.write(partial(self._operations.heartbeat, seconds, first=not self._has_heartbeat))
        self._has_heartbeat = True

    async def check_writes(self) -> None:
        """Raise `StoreError` if nothing more can be written. After a write that failed, another one tries it."""
        free = self._database.free_bytes
        if free is not None and free < _RESERVE:
            raise StoreError("of processes", "Its disk is full.", "Free some space. It works again by itself.")
        if self._database.refused:
            await self._database.write(partial(self._operations.save_context, _PROBE, "x" * _PROBE_BYTES, None))
            await self._database.write(partial(operations.delete_context, _PROBE))

    async def wait_for_changes(self, seconds: float, /) -> None:
        await self._database.wait_for_changes(seconds)

    async def versions(self, roots: Sequence[str], /) -> Mapping[str, int]:
        return await self._database.read(partial(operations.versions, roots))

    async def held(self, roots: Sequence[str], /) -> Sequence[str]:
        return await self._database.read(partial(self._operations.held, roots))

    async def send(self, process_id: str, value: object, /) -> int:
        return await self._database.write(partial(operations.send, process_id, value))

    async def inbox(self) -> Sequence[Message]:
        return await self._database.read(self._operations.inbox)

    async def reply(self, number: int, value: object, /) -> None:
        await self._database.write(partial(operations.reply, number, value))

    async def replied(self, number: int, /) -> object:
        return await self._database.read(partial(operations.replied, number))

    async def withdraw(self, number: int, /) -> bool:
        return await self._database.write(partial(operations.withdraw, number))

    async def join(self, key: str, digest: str, process_id: str, /, *, instead_of: str = "") -> tuple[str, str]:
        return await self._database.write(partial(self._operations.join, key, digest, process_id, instead_of))

    async def forget_keys(self, process_ids: Collection[str], /) -> None:
        await self._database.write(partial(operations.forget_keys, process_ids))
        await self._database.trim()

    async def context_ids(self) -> Sequence[str]:
        return await self._database.read(operations.context_ids)

    async def find_context(self, context_id: str, /) -> object:
        return await self._database.read(partial(operations.find_context, context_id))

    async def save_context(self, context_id: str, value: object, /, *, instead_of: object) -> bool:
        return await self._database.write(partial(self._operations.save_context, context_id, value, instead_of))

    async def delete_context(self, context_id: str, /) -> bool:
        deleted = await self._database.write(partial(operations.delete_context, context_id))
        if deleted:
            await self._database.trim()
        return deleted

    async def events(self, root: str, /, after: int, limit: int) -> Sequence[EventRecord]:
        return await self._database.read(partial(operations.events, root, after, limit))

    async def find(self, process_id: str, /) -> ProcessRecord | None:
        return await self._database.read(partial(operations.find, process_id))

    async def family(self, process_id: str, /) -> tuple[Sequence[StoredProcess], int]:
        return await self._database.read(partial(operations.family, process_id))

    async def records(
        self,
        *,
        after: str = "",
        limit: int | None = None,
        caller: Caller | None = None,
        statuses: Collection[str] = (),
        newest_first: bool = False,
    ) -> Sequence[ProcessRecord]:
        return await self._database.read(
            partial(operations.records, after, limit, caller, statuses, newest_first=newest_first)
        )

    async def spent(self, caller: Caller, since: datetime, /) -> Mapping[str, float]:
        return await self._database.read(partial(operations.spent, caller, since))

    async def counts(self, *, without: Collection[str] = ()) -> Mapping[str, int]:
        return await self._database.read(partial(operations.counts, without))

    async def size_and_age(self) -> tuple[int, float]:
        """How many bytes the database takes, and for how many seconds the oldest open question has waited; 0: none."""
        return await self._database.read(self._operations.size_and_age)

    async def overflow(self) -> Sequence[str]:
        """None: there is always room."""
        return ()

    async def prune(self, *, older_than: timedelta | None = None, keep: int | None = None) -> int:
        """Drop families that have ended, a few in each transaction, so that others can write meanwhile."""
        total = 0
        if older_than is not None:
            age = older_than // timedelta(microseconds=1)
            total += await self._prune(partial(self._operations.too_old, age, _FOUND))
        if keep is not None:
            total += await self._prune(partial(self._operations.too_many, keep, _FOUND))
        return total

    async def drop(self, root: str, /) -> bool:
        dropped = await self._database.write(partial(self._operations.drop, root))
        if dropped:
            await self._database.trim()
        return dropped

    async def _prune(self, find: Callable[[], Operation[Sequence[str]]]) -> int:
        total, dropped = 0, -1
        while dropped:
            found, dropped = await self._database.read(find), 0
            for first in range(0, len(found), _BATCH):
                some = found[first : first + _BATCH]
                dropped += await self._database.write(partial(self._operations.prune, some))
                await self._database.trim()
            total += dropped
        return total


def _asked_for(change: StoredProcess) -> bool:
    """Whether somebody may soon want to know what the record says: the process goes on, or its caller comes back."""
    return change.process.long or not change.process.final
