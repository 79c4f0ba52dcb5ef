"""A SQLite file: it is created, opened and migrated to the newest schema, and errors are put into words.

Nothing here runs in the event loop: opening a file may wait for another program that has locked it. The functions serve
every store in such a file; `DatabaseFile` is that of the store of processes.
"""

import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from goalport.base.errors import OlderSchema, StoreError
from goalport.base.files import make_private
from goalport.store.tables import EXPANSIONS, LATEST_VERSION, MIGRATIONS, steps_after

Synchronous = Literal["full", "normal"]

_LARGEST_LOG: Final = 64 * 2**20
"""Bytes that the write-ahead log keeps after a checkpoint."""
_PAUSE: Final = 0.01
"""Seconds between attempts to switch to the write-ahead log; SQLite itself does not wait there."""
_NETWORK: Final = "Put it on a disk of this machine, or use PostgreSQL."
_WORDS: Final[Mapping[int, tuple[str, str]]] = {
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
    sqlite3.SQLITE_PROTOCOL: ("Its file system does not keep locks, as network file systems do not.", _NETWORK),
    sqlite3.SQLITE_IOERR: (
        "The system cannot read or write it: {error}.",
        "Look at the disk, its space and the limits of this program. Nothing was written; it works again by itself.",
    ),
}
"""The problem and the fix, by the primary code of the error."""
_Worded = Callable[[str, str], StoreError]
"""Creates an error from a problem and a fix."""


@contextmanager
def in_words(error: _Worded, busy_seconds: float, words: Mapping[int, tuple[str, str]] = _WORDS) -> Generator[None]:
    """Raises errors of SQLite and of the system as `StoreError`; `words` override some texts."""
    try:
        yield
    except sqlite3.Error as cause:
        kind = _kind(cause)
        problem, fix = words.get(kind) or _WORDS.get(kind) or ("SQLite cannot use it: {error}.", "Nothing was written.")
        raise error(problem.format(error=cause, seconds=busy_seconds), fix) from cause
    except OSError as cause:
        problem = f"{cause.strerror or cause}."
        raise error(problem, "Name another place, or let this program write there.") from cause
    except (ValueError, OverflowError) as cause:
        raise error(f"A value is not as it must be: {cause}.", "Nothing was written.") from cause


def spares_connection(error: StoreError) -> bool:
    """Whether a connection is still usable after an error: the cause is in the values, or temporary."""
    passing = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG}
    cause = error.__cause__
    return isinstance(cause, ValueError | OverflowError) or (
        isinstance(cause, sqlite3.Error) and _kind(cause) in passing
    )


def _kind(error: sqlite3.Error) -> int:
    """The primary error code; 0: the error is not from SQLite itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def connected(uri: str, busy_seconds: float) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions begin only explicitly."""
    return sqlite3.connect(uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False)


def identity(path: Path, error: _Worded) -> tuple[int, int] | None:
    """The device and inode of the file at a path; None: there is none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        raise error("It is no file.", "Name a file; if it is not there yet, it is made.")
    return found.st_dev, found.st_ino


def writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def unchanging(path: Path) -> bool:
    """Whether a file must be opened as immutable: it has no log, and this program cannot create one."""
    if writable(path) and writable(path.parent):
        return False
    log = Path(f"{path}-wal")
    return not log.exists() or not log.stat().st_size


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A connection, and which file it is connected to."""

    connection: sqlite3.Connection
    identity: tuple[int, int] | None
    """The device and inode of the file; None for a connection that is not reused."""

    def close(self) -> None:
        self.connection.close()


class DatabaseFile:
    """A database in a file that programs on this machine share.

    Folder and file are created on first use, for this user alone. A file that vanishes while in use is not created
    again, because running processes would be stored there incompletely. `options` are added to the URI by which SQLite
    opens the file, such as `&vfs=unix-excl`. An older file is migrated, or refused if `migrates` is false.
    """

    def __init__(
        self,
        path: Path,
        synchronous: Synchronous,
        busy_seconds: float,
        options: str = "",
        *,
        migrates: bool = True,
    ) -> None:
        self.path, self._options, self._migrates = path.absolute(), options, migrates
        self._synchronous, self._busy_seconds = synchronous, busy_seconds
        self._seen = False

    def current(self, opened: OpenFile) -> bool:
        """Whether a connection is to the file that is at the path now."""
        return opened.identity is not None and opened.identity == identity(self.path, self.error)

    @property
    def free_bytes(self) -> int | None:
        """The free bytes on its disk; None while its folder does not exist."""
        with suppress(OSError):
            return shutil.disk_usage(self.path.parent).free
        return None

    def for_writing(self) -> OpenFile:
        """A writing connection to a file with the newest schema. Raises `StoreError`."""
        with self.in_words():
            if not self._seen:
                make_private(self.path.parent)
                if identity(self.path, self.error) is None:
                    os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            found = identity(self.path, self.error)
            if found is None:
                raise self._vanished()
            if not writable(self.path):
                # SQLite would create a log that cannot be written either, and would leave it there.
                raise self.error(*_WORDS[sqlite3.SQLITE_READONLY])
            with ExitStack() as stack:
                connection = stack.enter_context(closing(self._connection("mode=rw")))
                if not self.step(connection):
                    connection.execute("pragma auto_vacuum=incremental")
                self._use_log(connection)
                self._migrate(connection)
                self._seen = True
                stack.pop_all()
                return OpenFile(connection, found)

    def for_reading(self) -> OpenFile:
        """A reading connection. If the file is missing or older, it is created or migrated first."""
        with self.in_words():
            if (found := identity(self.path, self.error)) is not None:
                is_unchanging = unchanging(self.path)
                with ExitStack() as stack:
                    mode = "mode=ro&immutable=1" if is_unchanging else "mode=ro"
                    connection = stack.enter_context(closing(self._connection(mode)))
                    if self.step(connection) >= len(MIGRATIONS):
                        self._seen = True
                        stack.pop_all()
                        return OpenFile(connection, None if is_unchanging else found)
            with closing(self.for_writing()) as made:
                return OpenFile(self._connection("mode=ro"), made.identity)

    def in_words(self) -> AbstractContextManager[None]:
        """Raises errors of SQLite and of the system as `StoreError`."""
        return in_words(self.error, self._busy_seconds)

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise `StoreError` unless an open database still has the schema that this program knows."""
        version, _ = self._version(connection)
        if version != LATEST_VERSION:
            raise self._newer(version)

    def step(self, connection: sqlite3.Connection) -> int:
        """The number of the last applied step; 0: empty database. Raises `StoreError` if it is not ours or newer."""
        tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
        if "schema_version" not in tables:
            if tables:
                raise self.error("It is a database of another program.", "Name another file.")
            return 0
        version, step = self._version(connection)
        if version > LATEST_VERSION:
            raise self._newer(version)
        return step

    def _version(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """The version of the schema, and the number of the last applied step."""
        made = "SELECT coalesce(max(version), 0), coalesce(max(abs(version)), 0) FROM schema_version"
        version, step = connection.execute(made).fetchone()
        return version, step

    def _connection(self, mode: str) -> sqlite3.Connection:
        connection = connected(f"{self.path.as_uri()}?{mode}{self._options}", self._busy_seconds)
        connection.row_factory = sqlite3.Row
        return connection

    def _use_log(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self._busy_seconds
        connection.execute(f"pragma synchronous={self._synchronous}")
        connection.execute(f"pragma journal_size_limit={_LARGEST_LOG}")
        # Deleted data is overwritten, except in pages that become free: they are given back to the system.
        connection.execute("pragma secure_delete=fast")
        while True:
            try:
                (mode,) = connection.execute("pragma journal_mode=wal").fetchone()
                break
            except sqlite3.OperationalError as error:
                if _kind(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
        if mode != "wal":
            problem = "Its file system does not let programs share memory and locks, as network file systems do not."
            raise self.error(problem, _NETWORK)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        step = self.step(connection)
        if self._seen and not step:
            raise self._vanished()
        if 0 < step < len(MIGRATIONS) and not self._migrates:
            raise OlderSchema(str(self.path))
        for number, statements in steps_after(step, "sqlite"):
            connection.execute("begin exclusive")
            try:
                if self.step(connection) < number:  # another program was not faster
                    for each in statements:
                        connection.execute(each)
                    made = -number if number in EXPANSIONS else number
                    connection.execute("INSERT INTO schema_version VALUES (?, ?)", (made, time.time_ns() // 1000))
                connection.execute("commit")
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    def error(self, problem: str, fix: str) -> StoreError:
        return StoreError(str(self.path), problem, fix)

    def closed(self) -> StoreError:
        return self.error("It is closed.", "Open another one.")

    def _newer(self, version: int) -> StoreError:
        return self.error(
            f"A newer goalport has changed it to schema {version}, and this one knows {LATEST_VERSION} at most.",
            "Install that goalport again, or name another file.",
        )

    def _vanished(self) -> StoreError:
        return self.error("It is no longer there.", "Put it back, or start again without it.")
