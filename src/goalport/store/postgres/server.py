"""The server of a PostgreSQL database: it is reached, brought to the newest tables, and its errors are put into words.

The tables are in a schema of their own, so that a program may have them in a database that it uses for other things.
asyncpg is imported with the first connection.
"""

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import anyio

from goalport.base.errors import GoalportError, OlderSchema, StoreError
from goalport.base.secrecy import hide

T = TypeVar("T")

_SCHEMES: Final = {"postgresql", "postgres", "postgresql+asyncpg"}
_HOSTS: Final = re.compile(r"(?:(?:[\w.%-]*|\[[\da-fA-F:.]+\])(?::\d+)?(?:,|$))*")
_EXPECTED: Final = "postgresql://user:password@host:port/database"


class PostgresAddress:
    """The URL of a database; as text it is without password and options.

    Raises `ValueError` for what is none. The message repeats nothing of it, since that may be a password.
    """

    def __init__(self, url: str) -> None:
        scheme, delimiter, rest = url.partition("://")
        if not delimiter or scheme.lower() not in _SCHEMES:
            raise ValueError(f"should be the URL of a PostgreSQL database, {_EXPECTED}")
        self.url = f"postgresql://{rest}"
        """As the driver reads it."""
        parts = urlsplit(self.url)
        user_info, _, hosts = parts.netloc.rpartition("@")
        user = user_info.partition(":")[0]
        if "@" in parts.path + parts.fragment or parts.fragment or not _HOSTS.fullmatch(hosts):
            raise ValueError(
                f"should be the URL of a PostgreSQL database, {_EXPECTED}; in a user and a password, letters and digits"
                " stand for themselves, and everything else is percent-encoded, as `%40` for `@`"
            )
        self._shown = f"postgresql://{user and f'{user}@'}{hosts}{parts.path}"

    def __str__(self) -> str:
        return self._shown


Row = Mapping[str, Any]
"""A row by the names of its columns."""
_STATEMENTS: Final = 200
"""Prepared statements that a connection keeps; there are fewer."""


class Connection(Protocol):
    """What a connection of asyncpg does."""

    async def fetch(self, query: str, *values: object) -> Sequence[Row]: ...
    async def execute(self, query: str, *values: object) -> str: ...
    async def executemany(self, command: str, args: Iterable[Sequence[object]]) -> None: ...
    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...
    def add_termination_listener(self, callback: Callable[[object], None]) -> None: ...
    def get_server_pid(self) -> int: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


class Pool(Protocol):
    """What a pool of asyncpg does."""

    def acquire(self) -> AbstractAsyncContextManager[Connection]: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


class Tables(NamedTuple):
    """The tables that programs share, and how they are made."""

    schema: str
    steps: Sequence[Sequence[str]]
    """The statements that make each version of the tables of the one before; those of the first make `schema_version`
    too, with columns `version` and `applied_at`."""
    pooled: str
    """What to do when there is a pooler of which nobody knew, as a sentence."""
    fewer: str
    """What lowers the number of connections, as a part of a sentence."""
    expansions: frozenset[int] = frozenset()
    """The numbers of the steps that make no version, because programs which do not know them go on beside them."""
    prepared: "Callable[[Connection], Awaitable[None]] | None" = None
    """What else is done with each new connection, when its tables are the newest."""


class DatabaseServer:
    """A database at an address, and the schema in it whose tables programs share.

    Whatever it is asked for is there, or fails, within `seconds`. Behind a `pooler` each transaction may have another
    connection, so nothing is kept in one.
    """

    def __init__(self, address: PostgresAddress, tables: Tables, seconds: float, *, pooler: bool) -> None:
        self._address, self._tables, self.seconds, self.pooler = address, tables, seconds, pooler
        self._latest = max({*range(1, len(tables.steps) + 1)} - tables.expansions)
        self.migrates = True
        """Whether tables that are older are changed; otherwise they are refused."""
        self.quoted = '"' + tables.schema.replace('"', '""') + '"'
        """The schema as a statement names it."""
        self._current = f"SELECT FROM {self.quoted}.schema_version WHERE version >= {self._latest}"
        """Finds one row as long as the schema is the one that this program knows."""
        self.local = ""
        """Statements with which each transaction begins, without values."""
        self._seen = False
        if find_spec("asyncpg") is None:
            raise self.error("It needs a library that is not installed.", "Run pip install 'goalport[postgres]'.")

    @property
    def schema(self) -> str:
        return self._tables.schema

    async def connect(self) -> Connection:
        """A connection of its own. Raises `StoreError`."""
        with self.in_words():
            async with asyncio.timeout(self.seconds):
                return await driver().connect(self._address.url, **self._options())

    async def pool(self, size: int) -> Pool:
        """Connections to a database that has the newest schema; each is made when it is needed."""

        async def kept(_: Connection) -> None:
            """A connection comes back as it was taken: nothing is kept in one, and its transaction has ended."""

        return await driver().create_pool(
            self._address.url, min_size=0, max_size=size, init=self._prepare, reset=kept, **self._options()
        )

    @asynccontextmanager
    async def transaction(self, connection: Connection, *, reading: bool = False) -> AsyncGenerator[None]:
        """A transaction that is committed at the end of the block, in a database that has the schema of this program.

        Raises `StoreError` if it has another, or if it is unknown whether it was committed, and errors of the driver.
        """
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if reading else "BEGIN"
        async with self._ended(connection):
            # In one round trip; the status is that of the last statement. A program that stands still keeps no locks.
            idle = f"SET LOCAL idle_in_transaction_session_timeout = {round(self.seconds * 1000)}"
            if await connection.execute(f"{begin}; {idle}; {self.local}; {self._current}") != "SELECT 1":
                raise self._changed()
            yield
            if reading:  # nothing was to be written, so it is known what is there, and it can be read again
                await connection.execute("COMMIT")
            else:
                await self._commit(connection)

    @asynccontextmanager
    async def changing(self, connection: Connection) -> AsyncGenerator[None]:
        """A transaction in which no other program changes the tables; those that start together wait here.

        It looks first what is to be changed, so what lost its connection is begun anew, even while it committed.
        """
        async with self._ended(connection):
            await connection.execute("BEGIN")
            lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
            await connection.fetch(lock, f"goalport {self.schema}")
            yield
            await connection.execute("COMMIT")

    @contextmanager
    def in_words(self) -> Generator[None]:
        """Raises errors of PostgreSQL, of its driver and of the system as `StoreError`."""
        asyncpg = driver()
        try:
            yield
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            raise self._worded(error) from error
        except (ValueError, OverflowError) as error:
            raise self.error(*_WORDS["22"], error) from error

    def closed(self) -> StoreError:
        return self.error("It is closed.", "Open another one.")

    async def _commit(self, connection: Connection) -> None:
        asyncpg = driver()
        try:
            await connection.execute("COMMIT")
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            if not _has_ended(error):
                raise
            unknown = "The connection ended while it committed, so what was written is there or is not: {error}."
            raise self.error(unknown, "Write the same again.", error, unknown=True) from error
        except asyncio.CancelledError:
            # It takes too long. Of this, `asyncio.timeout` makes the `TimeoutError` that is put into words.
            raise asyncio.CancelledError(_COMMITTING) from None

    @asynccontextmanager
    async def _ended(self, connection: Connection) -> AsyncGenerator[None]:
        """Ends a transaction that was not committed, or the connection if even that fails."""
        asyncpg = driver()
        ended = False
        try:
            yield
            ended = True
        except (GoalportError, asyncpg.PostgresError):
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                await connection.execute("ROLLBACK")
                ended = True
            raise
        finally:
            if not ended:
                # The pool has taken it back already if it is closed, and does not let it be used any more.
                with suppress(asyncpg.InterfaceError):
                    connection.terminate()

    async def _prepare(self, connection: Connection) -> None:
        """Make or change the tables if they are not those of this program. Raises `StoreError`."""
        while await self._migrate(connection):
            pass
        self._seen = True
        if self._tables.prepared is not None:
            await self._tables.prepared(connection)

    async def _last_step(self, connection: Connection) -> int:
        """The last step to the schema; 0 if there is none. Raises `StoreError` if it is not ours, or newer."""
        tables = {row["relname"] for row in await connection.fetch(_TABLES, self.schema)}
        if "schema_version" in tables:
            made = "SELECT COALESCE(MAX(version), 0) AS version, COALESCE(MAX(ABS(version)), 0) AS step"
            (row,) = await connection.fetch(f"{made} FROM {self.quoted}.schema_version")
            if row["version"] > self._latest:
                raise self._changed(row["version"])
            step: int = row["step"]
            return step
        if tables:
            raise self.error(f"Its schema {self.schema!r} is of another program.", "Name another database.")
        if self._seen:
            raise self.error("Its tables are no longer there.", "Put them back, or start again without them.")
        return 0

    async def _migrate(self, connection: Connection) -> bool:
        """Take the next step to the newest schema, in a transaction of its own. Returns False if there is none."""
        step, last = await self._last_step(connection), len(self._tables.steps)
        if 0 < step < last and not self.migrates:
            raise OlderSchema(str(self._address))
        if step < last:
            async with self.changing(connection):
                if await self._last_step(connection) == step:
                    await self._step(connection, step + 1)
        return step < last

    async def _step(self, connection: Connection, number: int) -> None:
        if not await connection.fetch("SELECT FROM pg_namespace WHERE nspname = $1", self.schema):
            await connection.execute(f"CREATE SCHEMA {self.quoted}")
        await connection.execute(f"SET LOCAL search_path TO {self.quoted}")
        for each in self._tables.steps[number - 1]:
            await connection.execute(each)
        query = "INSERT INTO schema_version (version, applied_at) VALUES ($1, $2)"
        made = -number if number in self._tables.expansions else number
        await connection.execute(query, made, time.time_ns() // 1000)

    def _options(self) -> dict[str, object]:
        # A prepared statement belongs to a connection, and a pooler gives the next transaction another one.
        return {"timeout": self.seconds, "statement_cache_size": 0 if self.pooler else _STATEMENTS}

    def _changed(self, version: int | None = None) -> StoreError:
        to = "another schema" if version is None else f"schema {version}"
        return self.error(
            f"A newer goalport has changed it to {to}, and this one knows {self._latest} at most.",
            "Install that goalport here too, or name another database.",
        )

    def _worded(self, error: Exception) -> StoreError:
        match error:
            case TimeoutError():
                # Perhaps it was to commit, and does so yet.
                problem, committing = f"It has not answered within {self.seconds:g} s.", str(error.__cause__)
                return self.error(problem, "Try again, with the same.", unknown=committing == _COMMITTING)
            case OSError():
                # The text of the error has the address, which clients are not told; those of a look-up have none.
                number = error.errno or 0
                reason = os.strerror(number) if number > 0 else error.strerror or type(error).__name__
                return self.error(f"It cannot be reached: {reason}.", f"Start it, or correct its address. {_AGAIN}")
            case _:
                state = _state(error)
                problem, fix = _WORDS.get(state) or _WORDS.get(state[:2]) or _OTHER
                return self.error(problem, fix.format_map(self._tables._asdict()), error)

    def error(self, problem: str, fix: str, cause: Exception | None = None, *, unknown: bool = False) -> StoreError:
        if cause is not None:
            problem = problem.replace("{error}", hide(str(cause)).strip().rstrip("."))
        return StoreError(str(self._address), problem, fix, unknown=unknown)


@contextmanager
def passing_over() -> Generator[None]:
    """Passes over the failure of a transaction that may succeed when it is begun anew, on another connection."""
    asyncpg = driver()
    try:
        yield
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
        if not _has_ended(error) and _state(error) not in _PASSING:
            raise


def _has_ended(error: Exception) -> bool:
    """Whether an error says that a connection that was there has ended."""
    asyncpg = driver()
    if isinstance(error, asyncpg.PostgresError):
        return _state(error)[:2] == "08" or _state(error) in {"57P01", "57P02"}
    # asyncpg has no better name for a connection that was ended between two of its statements.
    internal = (asyncpg.InterfaceError, asyncpg.InternalClientError)
    return isinstance(error, (*internal, ConnectionResetError, BrokenPipeError))


def _state(error: BaseException | None) -> str:
    """The SQLSTATE of an error of PostgreSQL; empty for others."""
    return getattr(error, "sqlstate", None) or ""


def driver() -> Any:
    """The module asyncpg, which has no types."""
    import asyncpg  # pyright: ignore[reportMissingTypeStubs]

    return asyncpg


_ATTEMPTS: Final = 3
"""How often a transaction is begun on good connections, when those before had a conflict with another."""


class Connections:
    """At most so many connections to a server, in the event loop in which they were opened.

    Nothing is connected before it is needed; what is closed stays closed. A transaction is begun anew when it had a
    conflict with another, or lost its connection before it was committed. `beside` makes what runs as long as they are
    open.
    """

    def __init__(
        self, server: DatabaseServer, most: int, *, beside: Callable[[], Coroutine[Any, Any, object]] | None = None
    ) -> None:
        self._server, self._most = server, most
        self._beside = beside or (lambda: asyncio.Event().wait())
        self._opened: _Opened | None = None
        self._closed = False

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, reading: bool) -> T:
        """What some work gives in a transaction of its own. It may be called again. Raises `StoreError`."""
        opened = await self.open()

        async def once() -> T:
            async with opened.pool.acquire() as connection, self._server.transaction(connection, reading=reading):
                return await work(connection)

        with self._server.in_words():
            async with asyncio.timeout(self._server.seconds):
                # Each of the pool's connections may have ended meanwhile, which is noticed when it is used.
                for _ in range(_ATTEMPTS - 1 + self._most):
                    with passing_over():
                        return await once()
                return await once()

    async def open(self) -> "_Opened":
        """The pool of this event loop; that of another one ended with it. Raises `StoreError` if it is closed."""
        if self._closed:
            raise self._server.closed()
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened.loop is not loop or self._opened.keeper.done():
            pool = await self._server.pool(self._most)
            self._opened = _Opened(loop, pool, loop.create_task(_keep(pool, self._beside()), name="goalport-postgres"))
        return self._opened

    async def close(self) -> None:
        """Close the connections. Closing twice does nothing."""
        self._closed = True
        opened, self._opened = self._opened, None
        if opened is None or opened.loop is not asyncio.get_running_loop():
            return
        with anyio.CancelScope(shield=True):
            with suppress(TimeoutError), passing_over():  # the pool has ended them by force then
                async with asyncio.timeout(self._server.seconds):
                    await opened.pool.close()
            opened.keeper.cancel()
            await asyncio.wait([opened.keeper])


@dataclass(frozen=True)
class _Opened:
    """What belongs to an event loop."""

    loop: asyncio.AbstractEventLoop
    pool: Pool
    keeper: asyncio.Task[None]


async def _keep(pool: Pool, beside: Coroutine[Any, Any, object]) -> None:
    """Ends the connections with the event loop to which they belong, if nobody has closed them before."""
    try:
        await beside
    finally:
        pool.terminate()


_PASSING: Final = {
    "40001",  # two transactions were in each other's way,
    "40P01",  # or waited for each other;
    "0A000",  # a statement was prepared before another program changed the tables;
    "25006",  # of several servers, another one is now the one to write to.
}
_TABLES: Final = """
    SELECT relname FROM pg_class
    WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_COMMITTING: Final = "It was committing."
_AGAIN: Final = "Nothing was written; it works again by itself."
_AWAY: Final = ("It cannot be reached: {error}.", f"Start it, or correct its address. {_AGAIN}")
_OTHER: Final = ("PostgreSQL refuses: {error}.", "Nothing was written.")
_POOLED: Final = ("A pooler before it gives each transaction another connection.", "{pooled}")
_WORDS: Final = {
    "08": ("The connection has ended: {error}.", f"Try again. {_AGAIN}"),
    "22": ("A value is not as it must be: {error}.", "Nothing was written."),
    "26": _POOLED,
    "42P05": _POOLED,
    "25006": (
        "It can only be read, as the replica of another database.",
        f"Name the one that can be written, or all of them with target_session_attrs=read-write. {_AGAIN}",
    ),
    "28": ("It does not let this user in: {error}.", "Correct the user in its URL, or its pg_hba.conf."),
    "28P01": (
        "It does not accept the user or the password.",
        "Put the right ones into its URL, or into PGUSER and PGPASSWORD.",
    ),
    "3D000": ("There is no such database.", "Create it, empty: the tables are made by this program."),
    "42": (
        "Its tables are not as this goalport makes them: {error}.",
        "Put them back as they were, or name another database. Nothing was written.",
    ),
    "42501": (
        "Its user may not do what is needed: {error}.",
        "Let it use the schema `{schema}`, and make that if need be: GRANT CREATE ON DATABASE … TO …",
    ),
    "53": ("It lacks something: {error}.", _AGAIN),
    "53100": ("Its disk is full.", f"Free some space. {_AGAIN}"),
    "53300": (
        "It has no connection left.",
        f"Raise its max_connections, or {{fewer}}. {_AGAIN}",
    ),
    "57": ("It has stopped: {error}.", f"Try again. {_AGAIN}"),
    "57014": ("It has ended a statement: {error}.", "Raise its statement_timeout. Nothing was written."),
    "57P03": ("It is starting or stopping.", f"Try again. {_AGAIN}"),
    "58": ("It cannot read or write its files: {error}.", f"Look at its disk. {_AGAIN}"),
}
"""What is wrong and what to do, by SQLSTATE or the class of it."""
