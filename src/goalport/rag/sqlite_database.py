"""The SQLite database of an index of documents: its tables, its file, and the threads that read and write it.

An index can be made again from the documents, so a commit does not wait for the disk: what was written survives the end
of the program, however sudden, and when the machine stops the last documents may be missing, each as a whole. One
thread writes; a few read, which see the state before a transaction until it is committed. In memory, one connection
does both. Below: `operations`. Above: `sqlite_store` and `sqlite_search`.
"""

import asyncio
import os
import re
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from goalport.errors import StoreError
from goalport.rag.embedding_state import VectorColumn
from goalport.rag.operations import Batch, Operation, Rows, Statement
from goalport.rag.rows import storable
from goalport.words import listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SqliteIndex", "performed"]

T = TypeVar("T")

_VERSION: Final = 1
_APPLICATION: Final = 0x67707278
"""Says in the head of the file that it is an index of goalport."""
_READERS: Final = 4
_TABLES: Final = """
create table facts (name text primary key, value) without rowid;
create table documents (
    id integer primary key autoincrement, element text not null unique, uri text not null unique,
    restricted integer not null, title text not null, content_hash text not null, stored_at text not null,
    chunks integer not null, metadata text not null);
create index documents_restricted on documents (restricted) where restricted;
create table readers (
    document integer not null, reader text not null, primary key (document, reader)) without rowid;
create table sections (
    id integer primary key, document integer not null, element text not null unique, parent text not null,
    number integer not null, title text not null, path text not null, start integer not null, body text,
    metadata text not null);
create index sections_document on sections (document, number);
create table chunks (
    id integer primary key autoincrement, document integer not null, number integer not null,
    element text not null unique, parent text not null, first integer not null, past integer not null,
    metadata text not null, path text not null, title text not null, body text not null, shown text, urtext text);
create index chunks_document on chunks (document, number);
create table vectors (chunk integer primary key, document integer not null, vector blob not null);
create table new_vectors (chunk integer primary key, document integer not null, vector blob not null);
create virtual table chunk_stems using fts5 (
    title, body, content = 'chunks', content_rowid = 'id', tokenize = "porter unicode61 remove_diacritics 2");
create virtual table chunk_words using fts5 (
    title, body, content = 'chunks', content_rowid = 'id', tokenize = "unicode61 remove_diacritics 2");
create virtual table chunk_vocabulary using fts5vocab (chunk_words, 'row');
insert into facts values ('changes', 0), ('chunks', 0), ('embeddings', random() / 2);
"""
"""In `chunks`, `title` and `body` are what is indexed, `shown` is the text where it differs from `body`, and `urtext`
the text in the document where it differs from what is shown. In `sections`, `body` is null for one that holds others.
In `facts`, `changes` counts the transactions and `embeddings` those that changed vectors of chunks that were there
before, from a number that another index does not have; `model` and `dimensions` say who made the vectors."""

_NAMES: Final = frozenset(re.findall(r"create (?:virtual )?table (\w+)", _TABLES))


def performed(connection: sqlite3.Connection, operation: Operation[T]) -> T:
    """What an operation gives on a connection."""
    rows: Rows | None = None
    while True:
        try:
            step = operation.send(cast("Rows", rows))
        except StopIteration as end:
            return cast("T", end.value)
        if isinstance(step, Batch):
            connection.executemany(step.sql, step.rows)
            rows = ()
        else:
            values = [storable(each) if isinstance(each, str) else each for each in step.values]
            rows = connection.execute(step.sql, values).fetchall()


def _read_in(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """What a function reads from one state of the database."""
    connection.execute("begin")
    result = work(connection)
    connection.execute("rollback")
    return result


def _is_read_only(path: Path) -> bool:
    """Whether there is something in a file, and this program can write neither more into it nor files beside it."""
    if not path.is_file() or not path.stat().st_size:
        return False
    return not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is at a path; None: there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _popped(connections: deque[sqlite3.Connection]) -> sqlite3.Connection | None:
    """One of these connections; None: other threads have taken all."""
    try:
        return connections.pop()
    except IndexError:
        return None


def _close(connections: deque[sqlite3.Connection]) -> None:
    while connection := _popped(connections):
        connection.close()


def _array(value: bytes) -> "NDArray[np.float32]":
    import numpy as np

    return np.frombuffer(value, np.float32)


class SqliteIndex:
    """An index in a file, which is made when it is first needed, or in memory."""

    vectors = VectorColumn(
        place="?",
        selected="vectors.vector",
        dimensions="length(vector) / 4",
        written=lambda vector: vector.tobytes(),
        array=_array,
        changed=Statement("update facts set value = value + 1 where name = 'embeddings'"),
    )

    def __init__(self, path: Path | None, busy_seconds: float = 5.0) -> None:
        self._writing: sqlite3.Connection | None = None
        self._idle: deque[sqlite3.Connection] = deque()
        self._left: deque[sqlite3.Connection] = deque()
        """Connections to files that are no longer there."""
        self._path = None if path is None else path.absolute()
        self._busy_seconds = busy_seconds
        self._writers = ThreadPoolExecutor(1, "goalport-index-writer")
        self._readers = ThreadPoolExecutor(_READERS, "goalport-index-reader") if path else self._writers
        self._lock = threading.Lock()
        self._file: tuple[int, int] | None = None
        """The file that these connections have open; there may be another one at the path by now."""
        self._closed = False

    @property
    def where(self) -> str:
        """Where it is, for people."""
        return "in memory" if self._path is None else str(self._path)

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        return await self.using(lambda connection: performed(connection, begin()))

    async def using(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What a function reads, in a thread, from one state of the database. Raises `StoreError`."""
        return await self._in(self._readers, self._read, work)

    async def write(self, begin: Callable[[], Operation[T]], /) -> T:
        def write(connection: sqlite3.Connection) -> T:
            return performed(connection, begin())

        return await self._in(self._writers, self._write, write)

    @property
    def is_there(self) -> bool:
        return self._path is None or self._path.exists()

    async def tidy(self) -> None:
        def empty_log() -> None:
            if self._path is not None:
                self._writer().execute("pragma wal_checkpoint(truncate)")

        await asyncio.get_running_loop().run_in_executor(self._writers, empty_log)

    async def lack(self) -> None:
        """Nothing: numpy compares the vectors."""

    async def close(self) -> None:
        """Wait for what is under way, and close the file."""
        self._closed = True
        await asyncio.to_thread(self._shut)

    def error(self, problem: str, fix: str) -> StoreError:
        return StoreError(self.where, problem, fix)

    async def _in(self, threads: ThreadPoolExecutor, run: Callable[[Any], Any], work: Callable[..., T]) -> T:
        if self._closed:
            raise self.error("It is closed.", "Open another one.")
        return cast("T", await asyncio.get_running_loop().run_in_executor(threads, run, work))

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._in_words():
            if self._path is None:
                return work(self._writer())
            self._leave_other_file(self._path)
            if self._writing is None and _is_read_only(self._path):
                with closing(self._read_only(self._path)) as connection:
                    return _read_in(connection, work)
            idle = self._idle
            connection = _popped(idle) or self._reader(self._path)
            with ExitStack() as stack:
                stack.enter_context(closing(connection))
                result = _read_in(connection, work)
                stack.pop_all()
            (idle if idle is self._idle else self._left).append(connection)
            return result

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._in_words():
            if self._path is not None:
                self._leave_other_file(self._path)
            _close(self._left)
            connection = self._writer()
            connection.execute("begin immediate")
            try:
                result = work(connection)
                connection.execute("update facts set value = value + 1 where name = 'changes'")
                connection.execute("commit")
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")
            return result

    def _writer(self) -> sqlite3.Connection:
        with self._lock:
            if self._writing is None:
                if self._path is not None:
                    if self._path.exists() and not self._path.is_file():
                        raise self.error("It is no file.", "Name a file; if it is not there yet, it is made.")
                    self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
                with ExitStack() as stack:
                    connection = stack.enter_context(closing(self._connection(self._path or ":memory:")))
                    connection.execute("pragma journal_mode = wal")
                    connection.execute("pragma synchronous = normal")
                    connection.execute("pragma secure_delete = fast")
                    self._prepare(connection)
                    stack.pop_all()
                self._writing = connection
                self._file = None if self._path is None else _identity(self._path)
            return self._writing

    def _leave_other_file(self, path: Path) -> None:
        """Let go of a file that was removed or replaced: otherwise it would be read and written, though it is gone."""
        with self._lock:
            if self._writing is not None and self._file != _identity(path):
                # The writer may be in use in its thread, which closes it later, as it does with the others.
                self._left.append(self._writing)
                idle, self._writing, self._idle = self._idle, None, deque()
                while connection := _popped(idle):
                    self._left.append(connection)

    def _reader(self, path: Path) -> sqlite3.Connection:
        self._writer()
        with ExitStack() as stack:
            connection = stack.enter_context(closing(self._connection(path)))
            connection.execute("pragma query_only = on")
            stack.pop_all()
        return connection

    def _read_only(self, path: Path) -> sqlite3.Connection:
        """A connection for one reading of a file that this program cannot write."""
        # SQLite reads such a file together with the `-wal` of who writes it. Without that file nobody does, and SQLite
        # would have to make it, unless it is told that nothing changes: which holds for one reading, not for the next.
        unchanging = "" if Path(f"{path}-wal").exists() else "&immutable=1"
        with ExitStack() as stack:
            connection = stack.enter_context(
                closing(self._connection(f"{path.as_uri()}?mode=ro{unchanging}", uri=True))
            )
            self._check(connection)
            stack.pop_all()
        return connection

    def _connection(self, path: Path | str, *, uri: bool = False) -> sqlite3.Connection:
        return sqlite3.connect(path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False, uri=uri)

    def _check(self, connection: sqlite3.Connection) -> bool:
        """Whether the tables are there. Raises `StoreError` for a database that is another's or newer."""
        (version,) = connection.execute("pragma user_version").fetchone()
        (application,) = connection.execute("pragma application_id").fetchone()
        tables = {name for (name,) in connection.execute("select name from sqlite_master")}
        if tables and application != _APPLICATION:
            raise self.error("It is a database of another program.", "Name another file.")
        if version > _VERSION:
            raise self.error(
                f"A newer goalport made it (version {version}, and this one knows {_VERSION} at most).",
                "Install that goalport again, or name another file and ingest the documents into it.",
            )
        if tables and (missing := _NAMES - tables):
            raise self.error(
                f"It is damaged: it has no {listed(sorted(missing))}.",
                "Remove the file, and ingest the documents again.",
            )
        return bool(tables)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables of a new database. Raises `StoreError` for one that is another's or newer."""
        connection.execute("begin immediate")
        try:
            if not self._check(connection):
                for statement in _TABLES.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"pragma application_id = {_APPLICATION}")
                connection.execute(f"pragma user_version = {_VERSION}")
            connection.execute("commit")
        finally:
            if connection.in_transaction:
                connection.execute("rollback")

    @contextmanager
    def _in_words(self) -> Generator[None]:
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise self.error(
                f"Two elements have the same id or URI: {error}.", "Give each its own. Nothing was written."
            ) from error
        except sqlite3.Error as error:
            problem, fix = _WORDS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, _UNKNOWN)
            raise self.error(problem.format(error=error, seconds=self._busy_seconds), fix) from error
        except OSError as error:
            raise self.error(
                f"{error.strerror or error}.", "Name another place, or let this program write there."
            ) from error

    def __del__(self) -> None:
        # A store is often a variable of a module, or of a test, and nobody closes it.
        self._close_all()

    def _shut(self) -> None:
        self._readers.shutdown()
        self._writers.shutdown()
        self._close_all()

    def _close_all(self) -> None:
        _close(self._idle)
        _close(self._left)
        if self._writing is not None:
            self._writing.close()
            self._writing = None


_UNKNOWN: Final = ("SQLite cannot use it: {error}.", "Nothing was written.")
_WORDS: Final = {
    sqlite3.SQLITE_FULL: ("The disk is full.", "Free some space. Nothing was written."),
    sqlite3.SQLITE_READONLY: ("It cannot be written.", "Let this program write the file and its folder."),
    sqlite3.SQLITE_CANTOPEN: ("It cannot be opened.", "Let this program read and write the file and its folder."),
    sqlite3.SQLITE_NOTADB: ("It is no SQLite database.", "Name another file, or move this one away."),
    sqlite3.SQLITE_CORRUPT: ("It is damaged: {error}.", "Remove the file, and ingest the documents again."),
    sqlite3.SQLITE_BUSY: (
        "Another program has kept it locked for more than {seconds:g} s.",
        "Try again, or end that program. Nothing was written.",
    ),
}
