"""Operations: the steps of a store in a database, for any driver, and the methods that run them.

An operation is a generator: it yields statements with their values, receives the rows of each, and returns its result.
It is one transaction, which the database begins and ends; an operation that raises has written nothing. A list of
values runs the statement once for each. Each kind of database implements `Database` in a module of its own.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from goalport.base.errors import StoreError
from goalport.store.rows import Row

P = ParamSpec("P")
T = TypeVar("T")
Values = Mapping[str, object]
Step = tuple[str, Values | Sequence[Values]]
Operation = Generator[Step, Sequence[Row], T]


class Database(Protocol):
    """Runs operations, each in one transaction. If a transaction must be repeated, its operation is started again."""

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        """Run an operation that only reads, and return its result. Raises `StoreError`."""
        ...

    async def write(self, begin: Callable[[], Operation[T]], /, *, patient: bool = False) -> T:
        """Run an operation, commit it, and return its result. Raises the operation's errors, and `StoreError`.

        Once it has begun, a cancelled caller waits until it is known whether it is committed. A `patient` operation may
        wait a little, to be committed together with others.
        """
        ...

    async def wait_for_changes(self, seconds: float, /) -> None:
        """Return when another program may have written something, or after `seconds`."""
        ...

    @property
    def free_bytes(self) -> int | None:
        """The free bytes on its disk; None: not known here."""
        ...

    async def trim(self) -> None:
        """Release the space of deleted rows, if the database does not do so itself."""
        ...

    async def close(self) -> None:
        """Commit what was written, and close the database for good."""
        ...


class ObservedDatabase:
    """A database that reports its transactions, and knows whether the last write failed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.wait_for_changes, self.trim, self.close = database.wait_for_changes, database.trim, database.close
        self.last_write_failed = False
        """Whether the last write failed."""
        self.on_transaction: Callable[[str, float, bool], None] = lambda _kind, _seconds, _failed: None
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
            self.last_write_failed = failed if kind == "write" else self.last_write_failed
            self.on_transaction(kind, time.monotonic() - begun, failed)


class Commit(asyncio.Future[T]):
    """The end of a transaction. A cancelled caller still waits: a commit cannot be undone, so it must be known."""

    def cancel(self, msg: object = None) -> bool:
        return False


class _Database(Protocol):
    """Runs operations of any kind, each in one transaction."""

    async def read(self, begin: Callable[[], Generator[Any, Any, T]], /) -> T: ...
    async def write(self, begin: Callable[[], Generator[Any, Any, T]], /) -> T: ...
    async def trim(self) -> None: ...


class _Kept(Protocol):
    """An object that stores its data in a database."""

    @property
    def database(self) -> _Database: ...


K = TypeVar("K", bound=_Kept)
# As a text: before Python 3.13 this type of a coroutine takes no parameters when a program runs.
Method: TypeAlias = "Callable[Concatenate[K, P], CoroutineType[Any, Any, T]]"


def reads(operation: Callable[Concatenate[K, P], Generator[Any, Any, T]]) -> "Method[K, P, T]":
    """Make a method of an operation that only reads."""

    @wraps(operation)
    async def method(self: K, /, *given: P.args, **named: P.kwargs) -> T:
        return await self.database.read(partial(operation, self, *given, **named))

    return method


def writes(operation: Callable[Concatenate[K, P], Generator[Any, Any, T]]) -> "Method[K, P, T]":
    """Make a method of an operation that writes, and is committed."""

    @wraps(operation)
    async def method(self: K, /, *given: P.args, **named: P.kwargs) -> T:
        return await self.database.write(partial(operation, self, *given, **named))

    return method


def deletes(operation: Callable[Concatenate[K, P], Generator[Any, Any, T]]) -> "Method[K, P, T]":
    """Make a method of an operation that deletes, and frees the space unless it returns False (no deletion)."""

    @wraps(operation)
    async def method(self: K, /, *given: P.args, **named: P.kwargs) -> T:
        deleted = await self.database.write(partial(operation, self, *given, **named))
        if not isinstance(deleted, bool) or deleted:
            await self.database.trim()
        return deleted

    return method
