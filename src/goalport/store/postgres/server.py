"""The server of a PostgreSQL database: connections to it, migrations of its tables, and its errors in words.

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
_EXPECTED: Final = "should be the URL of a PostgreSQL database, postgresql://user:password@host:port/database"
_STATEMENTS: Final = 200
"""The most prepared statements that a connection keeps; there are fewer in use."""
_ATTEMPTS: Final = 3
"""The most attempts at a transaction that conflicts with others, on working connections."""
_TABLES: Final = """
    SELECT relname FROM pg_class
    WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_COMMITTING: Final = "It was committing."
_PASSING: Final = {
    "40001",  # two transactions were in each other's way,
    "40P01",  # or waited for each other;
    "0A000",  # a statement was prepared before another program changed the tables;
    "25006",  # of several servers, another one is now the one to write to.
}
_AGAIN: Final = "Nothing was written; it works again by itself."
_POOLED: Final = ("A pooler before it gives each transaction another connection.", "{pooled}")
_WORDS: Final = {
    "": ("PostgreSQL refuses: {error}.", "Nothing was written."),
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
    "53300": ("It has no connection left.", f"Raise its max_connections, or {{fewer}}. {_AGAIN}"),
    "57": ("It has stopped: {error}.", f"Try again. {_AGAIN}"),
    "57014": ("It has ended a statement: {error}.", "Raise its statement_timeout. Nothing was written."),
    "57P03": ("It is starting or stopping.", f"Try again. {_AGAIN}"),
    "58": ("It cannot read or write its files: {error}.", f"Look at its disk. {_AGAIN}"),
}
"""The problem and the fix, by SQLSTATE or its class."""


def driver() -> Any:
    """The module asyncpg, which has no types."""
    import asyncpg  # pyright: ignore[reportMissingTypeStubs]

    return asyncpg


def _failures() -> tuple[type[Exception], ...]:
    """The exceptions of PostgreSQL, its driver and the system."""
    asyncpg = driver()
    return asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError


class PostgresAddress:
    """The URL of a database; its `str` has no password and no options.

    Raises `ValueError` for a text that is no such URL. The message quotes nothing of it, since that may be a password.
    """

    def __init__(self, url: str) -> None:
        scheme, delimiter, rest = url.partition("://")
        if not delimiter or scheme.lower() not in _SCHEMES:
            raise ValueError(_EXPECTED)
        self.url = f"postgresql://{rest}"
        """The URL as the driver reads it."""
        parts = urlsplit(self.url)
        user_info, _, hosts = parts.netloc.rpartition("@")
        user = user_info.partition(":")[0]
        if "@" in parts.path + parts.fragment or parts.fragment or not _HOSTS.fullmatch(hosts):
            raise ValueError(
                f"{_EXPECTED}; in a user and a password, letters and digits stand for themselves, and everything else "
                "is percent-encoded, as `%40` for `@`"
            )
        self._shown = f"postgresql://{user and f'{user}@'}{hosts}{parts.path}"

    def __str__(self) -> str:
        return self._shown


Row = Mapping[str, Any]
"""A row by the names of its columns."""


class Connection(Protocol):
    """The used part of asyncpg's connection."""

    async def fetch(self, query: str, *values: object) -> Sequence[Row]: ...
    async def execute(self, query: str, *values: object) -> str: ...
    async def executemany(self, command: str, args: Iterable[Sequence[object]]) -> None: ...
    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...
    def add_termination_listener(self, callback: Callable[[object], None]) -> None: ...
    def get_server_pid(self) -> int: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


class Pool(Protocol):
    """The used part of asyncpg's pool."""

    def acquire(self) -> AbstractAsyncContextManager[Connection]: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


class Tables(NamedTuple):
    """The tables that programs share, and how they are created."""

    schema: str
    steps: Sequence[Sequence[str]]
    """The statements of each step from one version of the tables to the next. The first step also creates
    `schema_version`, with columns `version` and `applied_at`."""
    pooled: str
    """What to do about a pooler that the settings do not name, as a sentence."""
    fewer: str
    """How to lower the number of connections, as a part of a sentence."""
    expansions: frozenset[int] = frozenset()
    """The numbers of steps that make no new version, because programs that do not know them can continue."""
    prepared: "Callable[[Connection], Awaitable[None]] | None" = None
    """A function that prepares each new connection, after the tables are up to date."""


class DatabaseServer:
    """A database at an address, and the schema with the tables that programs share.

    Each request to it succeeds or fails within `seconds`. Behind a `pooler` each transaction may use another
    connection, so connections keep no state. Older tables are migrated, or refused if `migrates` is false.
    """

    def __init__(
        self, address: PostgresAddress, tables: Tables, seconds: float, *, pooler: bool, migrates: bool = True
    ) -> None:
        self._address, self._tables, self.schema = address, tables, tables.schema
        self.seconds, self.pooler, self._migrates = seconds, pooler, migrates
        self._latest = max({*range(1, len(tables.steps) + 1)} - tables.expansions)
        self.quoted = '"' + tables.schema.replace('"', '""') + '"'
        """The schema's name, quoted for statements."""
        self._current = f"SELECT FROM {self.quoted}.schema_version WHERE version >= {self._latest}"
        """A query that finds one row as long as the schema has the version of this program."""
        self.local = ""
        """Statements without values that begin each transaction."""
        self._seen = False
        if find_spec("asyncpg") is None:
            raise self.error("It needs a library that is not installed.", "Run pip install 'goalport[postgres]'.")
        # A prepared statement belongs to a connection, and a pooler gives the next transaction another one.
        self._options = {"timeout": seconds, "statement_cache_size": 0 if pooler else _STATEMENTS}

    async def connect(self) -> Connection:
        """A new connection outside of any pool. Raises `StoreError`."""
        with self.in_words():
            async with asyncio.timeout(self.seconds):
                return await driver().connect(self._address.url, **self._options)

    async def pool(self, size: int) -> Pool:
        """A pool of connections to a database with the newest schema; each is opened when it is needed."""

        async def kept(_: Connection) -> None:
            """Do nothing: a returned connection has no state, and its transaction has ended."""

        return await driver().create_pool(
            self._address.url, min_size=0, max_size=size, init=self._prepare, reset=kept, **self._options
        )

    @asynccontextmanager
    async def transaction(self, connection: Connection, *, reading: bool = False) -> AsyncGenerator[None]:
        """A transaction that is committed at the end of the block, in a database with the schema of this program.

        Raises `StoreError` for another schema, or if it is unknown whether it was committed, and errors of the driver.
        """
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if reading else "BEGIN"
        async with self._ended(connection):
            # One round trip, with the status of the last statement. A program that hangs loses its locks.
            idle = f"SET LOCAL idle_in_transaction_session_timeout = {round(self.seconds * 1000)}"
            if await connection.execute(f"{begin}; {idle}; {self.local}; {self._current}") != "SELECT 1":
                raise self._changed("another schema")
            yield
            try:
                await connection.execute("COMMIT")
            except _failures() as error:
                if reading or not _has_ended(error):  # a read can be repeated
                    raise
                unknown = "The connection ended while it committed, so what was written is there or is not: {error}."
                raise self.error(unknown, "Write the same again.", error, unknown=True) from error
            except asyncio.CancelledError:
                if reading:
                    raise
                # The commit takes too long. `asyncio.timeout` turns this into the `TimeoutError` for `in_words`.
                raise asyncio.CancelledError(_COMMITTING) from None

    @asynccontextmanager
    async def changing(self, connection: Connection) -> AsyncGenerator[None]:
        """A transaction in which no other program changes the tables; programs that start at the same time wait here.

        It first checks what to change, so that it can be repeated after a lost connection, even during the commit.
        """
        async with self._ended(connection):
            await connection.execute("BEGIN")
            lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
            await connection.fetch(lock, f"goalport {self.schema}")
            yield
            await connection.execute("COMMIT")

    @asynccontextmanager
    async def _ended(self, connection: Connection) -> AsyncGenerator[None]:
        """Rolls back a transaction that was not committed, or ends the connection if even that fails."""
        asyncpg, ended = driver(), False
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
                # A closed pool has taken the connection back and refuses its use.
                with suppress(asyncpg.InterfaceError):
                    connection.terminate()

    async def _prepare(self, connection: Connection) -> None:
        """Create or migrate the tables if they are not those of this program. Raises `StoreError`."""
        last = len(self._tables.steps)
        while (step := await self._last_step(connection)) < last:
            if step and not self._migrates:
                raise OlderSchema(str(self._address))
            async with self.changing(connection):  # each step in a transaction of its own
                if await self._last_step(connection) != step:
                    continue
                if not await connection.fetch("SELECT FROM pg_namespace WHERE nspname = $1", self.schema):
                    await connection.execute(f"CREATE SCHEMA {self.quoted}")
                await connection.execute(f"SET LOCAL search_path TO {self.quoted}")
                for each in self._tables.steps[step]:
                    await connection.execute(each)
                made = -(step + 1) if step + 1 in self._tables.expansions else step + 1
                query = "INSERT INTO schema_version (version, applied_at) VALUES ($1, $2)"
                await connection.execute(query, made, time.time_ns() // 1000)
        self._seen = True
        if self._tables.prepared is not None:
            await self._tables.prepared(connection)

    async def _last_step(self, connection: Connection) -> int:
        """The number of the last applied step; 0: none. Raises `StoreError` if the schema is not ours, or newer."""
        tables = {row["relname"] for row in await connection.fetch(_TABLES, self.schema)}
        if "schema_version" in tables:
            made = "SELECT COALESCE(MAX(version), 0) AS version, COALESCE(MAX(ABS(version)), 0) AS step"
            (row,) = await connection.fetch(f"{made} FROM {self.quoted}.schema_version")
            if row["version"] > self._latest:
                raise self._changed(f"schema {row['version']}")
            step: int = row["step"]
            return step
        if tables:
            raise self.error(f"Its schema {self.schema!r} is of another program.", "Name another database.")
        if self._seen:
            raise self.error("Its tables are no longer there.", "Put them back, or start again without them.")
        return 0

    def _changed(self, to: str) -> StoreError:
        return self.error(
            f"A newer goalport has changed it to {to}, and this one knows {self._latest} at most.",
            "Install that goalport here too, or name another database.",
        )

    @contextmanager
    def in_words(self) -> Generator[None]:
        """Raises errors of PostgreSQL, of its driver and of the system as `StoreError`."""
        try:
            yield
        except TimeoutError as error:
            # Perhaps it was committing, and still does so.
            problem, committing = f"It has not answered within {self.seconds:g} s.", str(error.__cause__)
            raise self.error(problem, "Try again, with the same.", unknown=committing == _COMMITTING) from error
        except OSError as error:
            # The error's text has the address, which clients must not see; errors of look-ups have no number.
            number = error.errno or 0
            reason = os.strerror(number) if number > 0 else error.strerror or type(error).__name__
            fix = f"Start it, or correct its address. {_AGAIN}"
            raise self.error(f"It cannot be reached: {reason}.", fix) from error
        except _failures() as error:
            state = _state(error)
            problem, fix = _WORDS.get(state) or _WORDS.get(state[:2]) or _WORDS[""]
            raise self.error(problem, fix.format_map(self._tables._asdict()), error) from error
        except (ValueError, OverflowError) as error:
            raise self.error(*_WORDS["22"], error) from error

    def error(self, problem: str, fix: str, cause: Exception | None = None, *, unknown: bool = False) -> StoreError:
        if cause is not None:
            problem = problem.replace("{error}", hide(str(cause)).strip().rstrip("."))
        return StoreError(str(self._address), problem, fix, unknown=unknown)


@contextmanager
def passing_over() -> Generator[None]:
    """Suppresses the failure of a transaction that may succeed if it is repeated, on another connection."""
    try:
        yield
    except _failures() as error:
        if not _has_ended(error) and _state(error) not in _PASSING:
            raise


def _has_ended(error: Exception) -> bool:
    """Whether an error means that an open connection was lost."""
    asyncpg = driver()
    if isinstance(error, asyncpg.PostgresError):
        return _state(error)[:2] == "08" or _state(error) in {"57P01", "57P02"}
    # asyncpg raises these if a connection was ended between two statements.
    internal = (asyncpg.InterfaceError, asyncpg.InternalClientError)
    return isinstance(error, (*internal, ConnectionResetError, BrokenPipeError))


def _state(error: BaseException | None) -> str:
    """The SQLSTATE of an error of PostgreSQL; empty for others."""
    return getattr(error, "sqlstate", None) or ""


@dataclass(frozen=True)
class _Opened:
    """The pool and its task in one event loop."""

    loop: asyncio.AbstractEventLoop
    pool: Pool
    keeper: asyncio.Task[None]


class Connections:
    """At most `most` connections to a server, in the event loop in which they were opened.

    Connections are opened when needed; what is closed stays closed. A transaction is repeated after a conflict with
    another, or if its connection was lost before the commit. `beside` returns a coroutine that runs as long as the
    connections are open.
    """

    def __init__(
        self, server: DatabaseServer, most: int, *, beside: Callable[[], Coroutine[Any, Any, object]] | None = None
    ) -> None:
        self._server, self._most = server, most
        self._beside = beside or (lambda: asyncio.Event().wait())
        self._opened: _Opened | None = None
        self._closed = False

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, reading: bool) -> T:
        """The result of `work` in a transaction of its own; `work` may be called again. Raises `StoreError`."""
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

    async def open(self) -> _Opened:
        """The pool of this event loop; a pool ends with its event loop. Raises `StoreError` if it is closed."""
        if self._closed:
            raise self._server.error("It is closed.", "Open another one.")
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened.loop is not loop or self._opened.keeper.done():
            pool = await self._server.pool(self._most)

            async def keep() -> None:
                """Ends the connections with their event loop, unless they were closed before."""
                try:
                    await self._beside()
                finally:
                    pool.terminate()

            self._opened = _Opened(loop, pool, loop.create_task(keep(), name="goalport-postgres"))
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
