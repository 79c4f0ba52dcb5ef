"""The store in a SQLite file: one thread writes, a few threads read, and what was saved outlives the program.

All writes that are queued while a transaction is written are committed together in the next one, so that many processes
share one wait for the disk.
"""

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar, cast

import anyio

from goalport.base.errors import LeaseHeld, LeaseLost, StoreError
from goalport.store.database import DatabaseProcessStore
from goalport.store.operations import Commit, Operation
from goalport.store.sqlite_file import DatabaseFile, OpenFile, Synchronous, spares_connection
from goalport.store.statements import WORDS

T = TypeVar("T")

_READERS: Final = 4
"""The most threads, each with a connection, that read at the same time."""
_GATHER: Final = 0.02
"""Seconds after a transaction in which patient jobs are gathered for the next one: each transaction waits for the disk,
wakes the event loop, and makes other programs read their pages again."""
_LOOK: Final = 0.05
"""Seconds between checks whether another program has written something."""
_PAGES: Final = 1_000
"""The pages that are freed in one transaction, so that others can write in between."""


class SqliteProcessStore(DatabaseProcessStore):
    """Stores the records of processes in a SQLite file, which other programs of this machine may use too.

    Parameters: `synchronous` is `full`, so that saves survive a power failure, or `normal`: then saves survive a crash
    of the program, but the last ones may be lost if the machine stops. With `migrates=False` a file of an earlier
    version is refused and not changed. If another program has locked the file, calls wait at most `busy_seconds`. The
    file is opened on first use, or by `async with`, which also closes it after committing pending saves.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        synchronous: Synchronous = "full",
        busy_seconds: float = 5.0,
        migrates: bool = True,
    ) -> None:
        super().__init__(_SqliteDatabase(DatabaseFile(Path(path), synchronous, busy_seconds, migrates=migrates)))


class _SqliteDatabase:
    """A file with the thread that writes it, and a few that read it, each by a connection of its own."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file, self._writer = file, _Writer(file)
        self._readers = ThreadPoolExecutor(_READERS, "goalport-store-reader")
        self._idle: deque[OpenFile] = deque()
        """Connections that are not in use."""
        self._closed = False

    async def write(self, begin: Callable[[], Operation[T]], /, *, patient: bool = False) -> T:
        job = _Job(begin, patient=patient)
        self._writer.put(job)
        with anyio.CancelScope(shield=True):
            await job.done
        return cast("T", job.result)

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        if self._closed:
            raise self._file.closed()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, begin)

    def _read(self, begin: Callable[[], Operation[T]]) -> T:
        with self._file.in_words(), ExitStack() as stack:
            opened: OpenFile | None = None
            while self._idle and opened is None:
                with suppress(IndexError):  # another thread was faster
                    opened = self._idle.pop()
                if opened is not None and not self._file.current(opened):
                    opened.close()
                    opened = None
            opened = stack.enter_context(closing(opened or self._file.for_reading()))
            # All its statements see the same state of the database.
            opened.connection.execute("begin")
            self._file.check(opened.connection)
            result = _run(opened.connection.cursor(), begin())
            opened.connection.execute("rollback")
            stack.pop_all()
            self._idle.append(opened)
            return result

    async def wait_for_changes(self, seconds: float, /) -> None:
        watch = _Watch(time.monotonic() + seconds)
        self._writer.put(watch)
        await watch.done

    @property
    def free_bytes(self) -> int | None:
        return self._file.free_bytes

    async def trim(self) -> None:
        def trimmed() -> Operation[bool]:
            """Give unused pages back to the system. Returns whether there are more."""
            (row,) = yield "pragma freelist_count", {}
            unused: int = row["freelist_count"]
            for _ in range(min(unused, _PAGES)):
                # Python's driver takes one step of it at a time, and each gives back one page.
                yield "pragma incremental_vacuum", {}
            return unused > _PAGES

        self._writer.log_is_old = True
        while await self.write(trimmed):
            pass

    async def close(self) -> None:
        # Closing the last connection moves the log into the file, which only a writing connection can do.
        self._closed = True
        with anyio.CancelScope(shield=True):
            await asyncio.to_thread(self._readers.shutdown)
        while self._idle:
            self._idle.pop().close()
        await self._writer.close()


@cache
def _text(statement: str) -> str:
    """A statement in the syntax of SQLite."""
    return statement.format_map(WORDS["sqlite"])


def _run(cursor: sqlite3.Cursor, operation: Operation[T]) -> T:
    """Run an operation, and return its result."""
    rows: Sequence[Any] | None = None
    while True:
        try:
            statement, values = operation.send(cast("Any", rows))
        except StopIteration as end:
            return end.value
        if isinstance(values, Mapping):
            rows = cursor.execute(_text(statement), values).fetchall()
        else:
            cursor.executemany(_text(statement), values)
            rows = ()


class _Job:
    """A queued operation."""

    def __init__(self, begin: Callable[[], Operation[object]], *, patient: bool) -> None:
        self.begin = begin
        self.patient = patient
        """Whether nobody waits for it, so that it may be committed a little later, with others."""
        self.done = Commit[object]()
        self.result: object = None
        self.error: Exception | None = None

    def run(self, cursor: sqlite3.Cursor) -> None:
        """Run the operation. A lease error is its own failure: it has written nothing, and other jobs continue."""
        self.result = self.error = None
        try:
            self.result = _run(cursor, self.begin())
        except (LeaseLost, LeaseHeld) as error:
            self.error = error

    def settle(self) -> None:
        """Pass the result of the transaction to the caller."""
        if self.error is not None:
            self.done.set_exception(self.error)
        else:
            self.done.set_result(self.result)


class _Watch:
    """A caller that waits for changes."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.settle = partial(self.done.set_result, None)


class _Writer:
    """The writing thread, and its queue."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._opened: OpenFile | None = None
        self._queue: SimpleQueue[_Job | _Watch | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._hurry = threading.Event()
        """Set when a job is queued that somebody waits for."""
        self._written = 0.0
        """The time of the last commit."""
        self._thread: threading.Thread | None = None
        self._closed = False
        self.log_is_old = False
        """Whether the log may contain deleted data: it is emptied after the next transaction, or later."""
        self._watches: list[_Watch] = []
        self._next_look = 0.0
        self._seen = -1
        """SQLite's `data_version`, which changes for a connection when another one has written."""

    def put(self, item: _Job | _Watch) -> None:
        """Queue a job or a watch. Raises `StoreError` if the writer is closed."""
        with self._lock:
            if self._closed:
                raise self._file.closed()
            self._queue.put(item)
            if isinstance(item, _Job) and not item.patient:
                self._hurry.set()
            if self._thread is None:
                # A daemon: at the end of the program nobody waits for queued jobs any more.
                self._thread = threading.Thread(target=self._run, name="goalport-store", daemon=True)
                self._thread.start()

    async def close(self) -> None:
        """Commit what is in the queue, and end the thread."""
        with self._lock:
            closed, self._closed = self._closed, True
            thread = self._thread
            if not closed:
                self._queue.put(None)
                self._hurry.set()
        if thread is not None:
            with anyio.CancelScope(shield=True):
                await asyncio.to_thread(thread.join)

    def _run(self) -> None:
        batch: Sequence[_Job] = ()
        try:
            while batch := self._batch():
                self._write(batch)
                self._written = time.monotonic()
        finally:
            self._disconnect()
            # The rest fails, because the store is closed or a bug has ended the thread.
            with self._lock:
                self._closed = True
            rest: list[_Job | _Watch] = [*batch, *self._watches]
            while not self._queue.empty():
                rest += [each] if (each := self._queue.get()) is not None else []
            _settle(rest, self._file.closed())

    def _batch(self) -> Sequence[_Job]:
        """All queued jobs, at least one; empty: the store is closed. Patient jobs may wait for more."""
        self._hurry.clear()
        batch: list[_Job] = []
        while (item := self._next()) is not None:
            if isinstance(item, _Watch):
                self._watches.append(item)
            else:
                batch.append(item)
            if batch and self._queue.empty():
                pause = self._written + _GATHER - time.monotonic()
                if pause > 0 and all(each.patient for each in batch):
                    self._hurry.wait(pause)
                if self._queue.empty():
                    return batch
        if batch:
            # The closing mark stays in the queue, for after this batch.
            self._queue.put(None)
        return batch

    def _next(self) -> _Job | _Watch | None:
        """The next item of the queue. Meanwhile, check for changes for the watches."""
        while self._watches or self.log_is_old:
            pause = self._next_look - time.monotonic()
            if pause <= 0:
                self._look()
                continue
            with suppress(Empty):
                return self._queue.get(timeout=pause)
        return self._queue.get()

    def _look(self) -> None:
        if self.log_is_old:
            self._empty_log()
        now = time.monotonic()  # after the log, since readers may delay that for longer than `_LOOK`
        self._next_look, before = now + _LOOK, self._seen
        with suppress(sqlite3.Error):  # who writes next gets to know
            if self._opened is not None:
                (self._seen,) = self._opened.connection.execute("pragma data_version").fetchone()
        changed = self._seen != before
        over = [each for each in self._watches if changed or now >= each.until or each.done.done()]
        if over:
            self._watches = [each for each in self._watches if each not in over]
            _settle(over)

    def _empty_log(self) -> None:
        """Move the log into the file, and truncate it, if no reader prevents that."""
        if self._opened is None:
            self.log_is_old = False  # it was removed with its last connection
            return
        connection = self._opened.connection
        with suppress(sqlite3.Error):  # who writes next gets to know
            (patience,) = connection.execute("pragma busy_timeout").fetchone()
            connection.execute("pragma busy_timeout = 50")
            busy, *_ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
            connection.execute(f"pragma busy_timeout = {int(patience)}")
            self.log_is_old = bool(busy)

    def _write(self, batch: Sequence[_Job]) -> None:
        """Run jobs in one transaction; if it fails, each in its own, so that one cannot fail the others."""
        begun = False
        try:
            with self._guarded():
                if self._opened is None or not self._file.current(self._opened):
                    self._disconnect()
                    self._opened = self._file.for_writing()
                connection = self._opened.connection
                connection.execute("begin immediate")
                # A newer program may have changed the schema since the file was opened.
                self._file.check(connection)
                begun, cursor = True, connection.cursor()
                for each in batch:
                    each.run(cursor)
                connection.execute("commit")
                if self.log_is_old:
                    self._empty_log()
        except StoreError as error:
            if len(batch) == 1 or not begun:
                _settle(batch, error)
                return
            for each in batch:
                self._write([each])
        else:
            _settle(batch)

    @contextmanager
    def _guarded(self) -> Generator[None]:
        """Raises errors as `StoreError`, after a rollback or, if necessary, closing the connection."""
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
        self._opened, self._seen = None, -1


def _settle(waiting: Sequence[_Job | _Watch], error: StoreError | None = None) -> None:
    """Pass the results to the waiting callers, each in its own event loop."""
    for each in waiting:
        if error is not None and isinstance(each, _Job):
            each.error = StoreError(error.where, error.problem, error.fix, unknown=error.unknown)

    def tell(those: Sequence[_Job | _Watch]) -> None:
        for each in those:
            if not each.done.done():
                each.settle()

    for loop in {each.done.get_loop() for each in waiting}:
        with suppress(RuntimeError):  # A loop that is closed has nobody who waits.
            loop.call_soon_threadsafe(tell, [each for each in waiting if each.done.get_loop() is loop])
