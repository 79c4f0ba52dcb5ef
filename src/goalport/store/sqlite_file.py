"""The file of a SQLite store: it is made, opened, brought to the newest schema, and its errors are put into words.

Nothing here runs in the event loop: opening a file may wait for another program that has locked it.
"""

import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from goalport.base.errors import OlderSchema, StoreError
from goalport.base.files import make_private
from goalport.store.tables import EXPANSIONS, LATEST_VERSION, MIGRATIONS, steps_after

Synchronous = Literal["full", "normal"]

_PASSING: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG}
_VERSION: Final = "SELECT coalesce(max(version), 0), coalesce(max(abs(version)), 0) FROM schema_version"
_LARGEST_LOG: Final = 64 * 2**20
"""Bytes that the write-ahead log keeps after a checkpoint."""
_PAUSE: Final = 0.01
"""Seconds between attempts to switch to the write-ahead log; SQLite itself does not wait there."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A connection, and which file it is connected to."""

    connection: sqlite3.Connection
    identity: tuple[int, int] | None
    """The device and the number of the file; None for a connection that is not used again."""

    def close(self) -> None:
        self.connection.close()


class DatabaseFile:
    """A database in a file that programs on this machine share.

    Folder and file are made when they are first needed, for the user alone. A file that was there and vanishes is not
    made again, because the processes that go on would leave halves of themselves in the new one. `options` are added to
    the URI by which SQLite opens the file, such as `&vfs=unix-excl`.
    """

    def __init__(self, path: Path, synchronous: Synchronous, busy_seconds: float, options: str = "") -> None:
        self.path, self._options = path.absolute(), options
        self._synchronous, self._busy_seconds = synchronous, busy_seconds
        self.migrates = True
        """Whether a file that is older is changed; otherwise it is refused."""
        self._seen = False

    def current(self, opened: OpenFile) -> bool:
        """Whether a connection leads to the file that is at the path now."""
        return opened.identity is not None and opened.identity == self._identity()

    @property
    def free_bytes(self) -> int | None:
        """The space left on its disk; None while its folder is not there."""
        with suppress(OSError):
            return shutil.disk_usage(self.path.parent).free
        return None

    def for_writing(self) -> OpenFile:
        """A connection that writes, to a file that has the newest schema. Raises `StoreError`."""
        with self.in_words():
            if not self._seen:
                self._make()
            identity = self._identity()
            if identity is None:
                raise self._vanished()
            if not _writable(self.path):
                # SQLite would make a log that cannot be written either, and that would stay.
                raise self._error(*_WORDS[sqlite3.SQLITE_READONLY])
            with ExitStack() as stack:
                connection = stack.enter_context(closing(self._connection("mode=rw")))
                if not self.step(connection):
                    connection.execute("pragma auto_vacuum=incremental")
                self._use_log(connection)
                self._migrate(connection)
                self._seen = True
                stack.pop_all()
                return OpenFile(connection, identity)

    def for_reading(self) -> OpenFile:
        """A connection that only reads. If the file is not there or is older, it is made or changed first."""
        with self.in_words():
            identity = self._identity()
            if identity is not None:
                unchanging = self._unchanging()
                with ExitStack() as stack:
                    mode = "mode=ro&immutable=1" if unchanging else "mode=ro"
                    connection = stack.enter_context(closing(self._connection(mode)))
                    if self.step(connection) >= len(MIGRATIONS):
                        self._seen = True
                        stack.pop_all()
                        return OpenFile(connection, None if unchanging else identity)
            with closing(self.for_writing()) as made:
                return OpenFile(self._connection("mode=ro"), made.identity)

    @contextmanager
    def in_words(self) -> Generator[None]:
        """Raises errors of SQLite and of the system as `StoreError`."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._worded(error) from error
        except OSError as error:
            raise self._error(
                f"{error.strerror or error}.", "Name another place, or let this program write there."
            ) from error
        except (ValueError, OverflowError) as error:
            raise self._error(f"A value is not as it must be: {error}.", "Nothing was written.") from error

    def _connection(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?{mode}{self._options}",
            uri=True,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.row_factory = sqlite3.Row
        return connection

    def _unchanging(self) -> bool:
        """Whether the file can be read without a log, because it has none and this program could not make one."""
        if _writable(self.path) and _writable(self.path.parent):
            return False
        log = Path(f"{self.path}-wal")
        return not log.exists() or not log.stat().st_size

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(found.st_mode):
            raise self._error("It is no file.", "Name a file.")
        return found.st_dev, found.st_ino

    def _make(self) -> None:
        make_private(self.path.parent)
        if self._identity() is None:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))

    def _use_log(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self._busy_seconds
        connection.execute(f"pragma synchronous={self._synchronous}")
        connection.execute(f"pragma journal_size_limit={_LARGEST_LOG}")
        # What is deleted is overwritten; pages that hold nothing else are given back to the system instead.
        connection.execute("pragma secure_delete=fast")
        while True:
            try:
                (mode,) = connection.execute("pragma journal_mode=wal").fetchone()
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
            else:
                break
        if mode != "wal":
            raise self._error(
                "Its file system does not let programs share memory and locks, as network file systems do not.",
                "Put it on a disk of this machine, or use PostgreSQL.",
            )

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise `StoreError` unless an open database still has the schema that this program knows."""
        version, _ = connection.execute(_VERSION).fetchone()
        if version != LATEST_VERSION:
            raise self._newer(version)

    def step(self, connection: sqlite3.Connection) -> int:
        """The last step to the schema; 0: the database is empty. Raises `StoreError` if it is not ours or newer."""
        tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
        if "schema_version" not in tables:
            if tables:
                raise self._error("It is a database of another program.", "Name another file.")
            return 0
        version, step = connection.execute(_VERSION).fetchone()
        if version > LATEST_VERSION:
            raise self._newer(version)
        return step

    def _migrate(self, connection: sqlite3.Connection) -> None:
        step = self.step(connection)
        if self._seen and not step:
            raise self._vanished()
        if 0 < step < len(MIGRATIONS) and not self.migrates:
            raise OlderSchema(str(self.path))
        for number, statements in steps_after(step, "sqlite"):
            with _exclusively(connection):
                if self.step(connection) >= number:
                    continue
                for each in statements:
                    connection.execute(each)
                made = -number if number in EXPANSIONS else number
                connection.execute("INSERT INTO schema_version VALUES (?, ?)", (made, time.time_ns() // 1000))

    def closed(self) -> StoreError:
        return self._error("It is closed.", "Open another one.")

    def _newer(self, version: int) -> StoreError:
        return self._error(
            f"A newer goalport has changed it to schema {version}, and this one knows {LATEST_VERSION} at most.",
            "Install that goalport again, or name another file.",
        )

    def _vanished(self) -> StoreError:
        return self._error("It is no longer there.", "Put it back, or start again without it.")

    def _error(self, problem: str, fix: str) -> StoreError:
        return StoreError(str(self.path), problem, fix)

    def _worded(self, error: sqlite3.Error) -> StoreError:
        problem, fix = _WORDS.get(_code(error), ("SQLite cannot use it: {error}.", "Nothing was written."))
        return self._error(problem.format(error=error, seconds=self._busy_seconds), fix)


def spares_connection(error: StoreError) -> bool:
    """Whether a connection is of use after an error: the cause lies in what was written, or goes away by itself."""
    match error.__cause__:
        case sqlite3.Error() as cause:
            return _code(cause) in _PASSING
        case ValueError() | OverflowError():
            return True
        case _:
            return False


def _code(error: sqlite3.Error) -> int:
    """The kind of an error without its details; 0: it did not come from SQLite itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


@contextmanager
def _exclusively(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("begin exclusive")
    try:
        yield
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


_WORDS: Final = {
    sqlite3.SQLITE_FULL: ("The disk is full.", "Free some space. Nothing was written; it works again by itself."),
    sqlite3.SQLITE_READONLY: (
        "It cannot be written.",
        "Let this program write the file and its folder. Nothing was written; it works again by itself.",
    ),
    sqlite3.SQLITE_CANTOPEN: ("It cannot be opened.", "Let this program read and write the file and its folder."),
    sqlite3.SQLITE_NOTADB: ("It is no SQLite database.", "Name another file, or move this one away."),
    sqlite3.SQLITE_CORRUPT: ("It is damaged: {error}.", "Put a copy back that is whole, or name another file."),
    sqlite3.SQLITE_BUSY: (
        "Another program has kept it locked for more than {seconds:g} s.",
        "Try again, or end that program. Nothing was written.",
    ),
    sqlite3.SQLITE_PROTOCOL: (
        "Its file system does not keep locks, as network file systems do not.",
        "Put it on a disk of this machine, or use PostgreSQL.",
    ),
    sqlite3.SQLITE_IOERR: (
        "The system cannot read or write it: {error}.",
        "Look at the disk, its space and the limits of this program. Nothing was written; it works again by itself.",
    ),
}
"""What is wrong and what to do, by the kind of error."""
