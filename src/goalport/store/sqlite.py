"""The store in a SQLite file: one thread writes, a few threads read, and what was saved outlives the program.

All saves that are queued while a transaction is written are committed together in the next one, so that many processes
share one wait for the disk. Statements are compiled once and run on the driver itself. The values in the records are
what JSON can say. Above, the platform saves and reads; nothing here knows what a process does.
"""

import asyncio
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Self, TypeVar

import anyio

from goalport.errors import StoreError
from goalport.store.records import ProcessRecord, StoredProcess
from goalport.store.rows import FamilyRows, ProcessRows, process_record, rows_of, stored_processes
from goalport.store.sqlite_file import DatabaseFile, OpenFile, Synchronous, compiled, spares_connection
from goalport.store.statements import ADDING, COUNTS, FAMILY, FIND, LIST, PARTS, REMOVING, ROOT, saving

__all__ = ["SqliteProcessStore"]

T = TypeVar("T")

_READERS: Final = 4
"""The most threads, each with a connection, that read at the same time."""
_SAVE = compiled(saving("sqlite"))
_ADD, _REMOVE = [compiled(each) for each in ADDING], [compiled(each) for each in REMOVING]
_FIND, _ROOT, _LIST, _COUNTS, _FAMILY = (compiled(each) for each in (FIND, ROOT, LIST, COUNTS, FAMILY))
_PARTS = [compiled(each) for each in PARTS]


class SqliteProcessStore:
    """Keeps the records of processes in a SQLite file, which other programs of this machine may use too.

    Parameters: `synchronous` is `full`, so that what was saved survives even when the power fails, or `normal`, with
    which it survives the end of the program, however sudden, and the last saves may be lost when the machine stops.
    A file that another program has locked is waited for, `busy_seconds` at most. The file is opened when it is first
    needed, or by `async with`, which also closes it; saves that are under way are committed before.
    """

    durable = True

    def __init__(self, path: Path, *, synchronous: Synchronous = "full", busy_seconds: float = 5.0) -> None:
        self._file = DatabaseFile(path, synchronous, busy_seconds)
        self._writer = _Writer(self._file)
        self._readers = _Readers(self._file)

    async def __aenter__(self) -> Self:
        await self._writer.commit(())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Commit what was saved, and close the file. A store that is closed stays closed."""
        # The last connection to be closed folds the log into the file, and only one that writes can do that.
        await self._readers.close()
        await self._writer.close()

    @property
    def max_waiting(self) -> int:
        """A file has room for any number of processes that wait."""
        return sys.maxsize

    async def save(self, changes: Sequence[StoredProcess], /) -> None:
        """Commit the records of processes of one family, all or none.

        Once it has begun, cancelling waits until it is known whether they are committed. Raises `StoreError`.
        """
        if changes:
            await self._writer.commit([rows_of(each) for each in changes])

    async def claim(self, process_id: str, /) -> bool:
        """Whether the process is known; a file never drops one."""
        return await self.find(process_id) is not None

    async def find(self, process_id: str, /) -> ProcessRecord | None:
        """The record of a process; None if it is unknown."""

        def found(connection: sqlite3.Connection) -> ProcessRecord | None:
            row = connection.execute(_FIND, {"id": process_id}).fetchone()
            return None if row is None else process_record(row)

        return await self._readers.read(found)

    async def family(self, process_id: str, /) -> Sequence[StoredProcess]:
        """A process and all that belong to its family, the root first and each before those that it started."""
        return await self._readers.read(lambda connection: _family(connection, process_id))

    async def records(self) -> Sequence[ProcessRecord]:
        """The records of all processes, oldest first."""
        return await self._readers.read(
            lambda connection: [process_record(row) for row in connection.execute(_LIST).fetchall()]
        )

    async def counts(self) -> Mapping[str, int]:
        """How many processes have each status."""
        return await self._readers.read(lambda connection: dict(map(tuple, connection.execute(_COUNTS).fetchall())))

    async def surplus(self) -> Sequence[str]:
        """None: there is always room."""
        return ()


def _family(connection: sqlite3.Connection, process_id: str) -> Sequence[StoredProcess]:
    connection.execute("begin")
    try:
        row = connection.execute(_ROOT, {"id": process_id}).fetchone()
        if row is None:
            return ()
        root = {"root": row["root"]}
        found = (connection.execute(each, root).fetchall() for each in (_FAMILY, *_PARTS))
        return stored_processes(FamilyRows(*found))
    finally:
        connection.execute("rollback")


class _End(asyncio.Future[None]):
    """The end of a commit. Who is cancelled waits for it: a transaction cannot be called back, so it must be known."""

    def cancel(self, msg: object = None) -> bool:
        return False


@dataclass(frozen=True, slots=True, eq=False)
class _Commit:
    """A save that waits for its transaction."""

    changes: Sequence[ProcessRows]
    done: _End

    def write(self, cursor: sqlite3.Cursor) -> None:
        for change in self.changes:
            ((number, version),) = cursor.execute(_SAVE, change.process).fetchall()
            if version > 1:
                for remove in _REMOVE:
                    cursor.execute(remove, {"process": number})
            parts = (change.objects, change.history, change.spendings, change.questions, change.journal)
            for add, rows in zip(_ADD, parts, strict=True):
                for row in rows:
                    row["process"] = number
                    cursor.execute(add, row)


class _Writer:
    """The one thread that writes, and the queue before it."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._opened: OpenFile | None = None
        self._queue: SimpleQueue[_Commit | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def commit(self, changes: Sequence[ProcessRows]) -> None:
        """Return when the changes are committed; raise `StoreError` when they are not."""
        commit = _Commit(changes, _End())
        with self._lock:
            if self._closed:
                raise self._file.closed()
            self._queue.put(commit)
            if self._thread is None:
                # At the end of the program nobody waits any more for what is still in the queue.
                self._thread = threading.Thread(target=self._run, name="goalport-store", daemon=True)
                self._thread.start()
        with anyio.CancelScope(shield=True):
            await commit.done

    async def close(self) -> None:
        """Commit what is in the queue, and end the thread."""
        with self._lock:
            closed, self._closed = self._closed, True
            thread = self._thread
            if not closed:
                self._queue.put(None)
        if thread is not None:
            with anyio.CancelScope(shield=True):
                await asyncio.to_thread(thread.join)

    def _run(self) -> None:
        batch: Sequence[_Commit] = ()
        try:
            while batch := self._batch():
                self._write(batch)
        finally:
            self._disconnect()
            self._refuse(batch)

    def _batch(self) -> Sequence[_Commit]:
        """All saves that are in the queue, at least one; none: the store is closed."""
        batch: list[_Commit] = []
        while (commit := self._queue.get()) is not None:
            batch.append(commit)
            if self._queue.empty():
                return batch
        if batch:
            # The end stays in the queue, behind what is committed now.
            self._queue.put(None)
        return batch

    def _write(self, batch: Sequence[_Commit]) -> None:
        """Write saves in one transaction; if one of them fails, each in its own, so that the others do not suffer."""
        try:
            connection = self._begun()
        except StoreError as error:
            return _settle(batch, error)
        try:
            with self._guarded():
                cursor = connection.cursor()
                for each in batch:
                    each.write(cursor)
                connection.execute("commit")
        except StoreError as error:
            if len(batch) == 1:
                return _settle(batch, error)
            for each in batch:
                self._write([each])
        else:
            _settle(batch, None)
        return None

    def _begun(self) -> sqlite3.Connection:
        """A connection to the file that is there now, in a transaction."""
        with self._guarded():
            if self._opened is None or not self._file.current(self._opened):
                self._disconnect()
                self._opened = self._file.for_writing()
            connection = self._opened.connection
            connection.execute("begin immediate")
            # A newer program may have changed the schema since the file was opened.
            self._file.check(connection)
            return connection

    @contextmanager
    def _guarded(self) -> Generator[None]:
        """Raises errors as `StoreError`, after it has ended the transaction and, where need be, the connection."""
        try:
            with self._file.in_words():
                yield
        except StoreError as error:
            if self._opened is not None and spares_connection(error):
                if self._opened.connection.in_transaction:
                    self._opened.connection.execute("rollback")
            else:
                self._disconnect()
            raise

    def _disconnect(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._opened = None

    def _refuse(self, batch: Sequence[_Commit]) -> None:
        """Refuse what nobody is going to write any more, because a bug has ended the thread."""
        with self._lock:
            self._closed = True
        _settle(batch, self._file.closed())
        while not self._queue.empty():
            if (commit := self._queue.get()) is not None:
                _settle([commit], self._file.closed())


def _settle(commits: Sequence[_Commit], error: StoreError | None) -> None:
    """Tell those who wait, each in the event loop in which it waits."""
    loops = {each.done.get_loop() for each in commits}
    for loop in loops:
        waiting = [each.done for each in commits if each.done.get_loop() is loop]
        with suppress(RuntimeError):  # A loop that is closed has nobody who waits.
            loop.call_soon_threadsafe(_tell, waiting, error)


def _tell(waiting: Sequence[_End], error: StoreError | None) -> None:
    for each in waiting:
        if each.done():
            continue
        if error is None:
            each.set_result(None)
        else:
            each.set_exception(StoreError(error.where, error.problem, error.fix))


class _Readers:
    """A few threads that read, each by a connection of its own."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._idle: deque[OpenFile] = deque()
        self._threads = ThreadPoolExecutor(_READERS, "goalport-store-reader")
        self._closed = False

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What a function reads, in a thread. Raises `StoreError`."""
        if self._closed:
            raise self._file.closed()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, work)

    async def close(self) -> None:
        """Wait for those who read, and close the connections."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            await asyncio.to_thread(self._threads.shutdown)
        while self._idle:
            self._idle.pop().close()

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._file.in_words(), ExitStack() as stack:
            opened = stack.enter_context(closing(self._connection()))
            result = work(opened.connection)
            stack.pop_all()
            self._idle.append(opened)
            return result

    def _connection(self) -> OpenFile:
        while True:
            try:
                opened = self._idle.pop()
            except IndexError:
                return self._file.for_reading()
            if self._file.current(opened):
                return opened
            opened.close()
