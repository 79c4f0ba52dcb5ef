"""The store in PostgreSQL: many programs on many machines share it, and take over processes of programs that end.

Each operation is a transaction of its own on a connection of a small pool; PostgreSQL itself combines concurrent
commits into one wait for its disk (group commit).
"""

import asyncio
import random
import re
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, cast

import anyio

from goalport.base.errors import StoreError
from goalport.store.database import DatabaseProcessStore
from goalport.store.operations import Commit, Operation, Values
from goalport.store.postgres import Connection, Connections, DatabaseServer, PostgresAddress, Tables
from goalport.store.rows import Row
from goalport.store.statements import CLAIM_DUE, CLAIM_FAMILY, DELETE_OUTDATED, WORDS
from goalport.store.tables import EXPANSIONS, steps_after

T = TypeVar("T")

_VALUE: Final = re.compile(r"(?<![\w:]):(\w+)")
_QUIET: Final = {CLAIM_FAMILY, CLAIM_DUE, *DELETE_OUTDATED}
"""Statements that trigger no notification, like all that write to a quiet table."""
_QUIET_TABLES: Final = {"program", "conversation", "conversation_message"}
_GATHERED: Final = 0.01
"""Least seconds for which writes are gathered into one notification; at most twice as many."""
_ON_ITS_WAY: Final = 0.003
"""Seconds after a write in which an arriving notification may have been sent before that write."""
_ENOUGH: Final = 2
"""The number of other notifiers that makes an own notification needless: nobody receives its own."""
_APART: Final = 0.05
"""Least seconds between two returns of `wait`, however much is written."""
_POLLED: Final = 1.0
"""Seconds after which `wait` returns in any case."""
_ALIVE: Final = 30.0
"""Seconds after which an idle connection is tested, since it may be lost without notice."""


class PostgresProcessStore(DatabaseProcessStore):
    """Stores the records of processes in a PostgreSQL database, which programs on other machines may use too.

    Parameters: `url` as `postgresql://user:password@host:port/database`, with the options that asyncpg reads; at most
    `connections` are opened, and one more for notifications between programs. `pooler`: a program such as PgBouncer is
    in between and may use another connection for each transaction, so no statements are prepared, and changes are
    polled for. An operation that takes more than `seconds` fails. The tables are created in `schema`; with
    `migrates=False` those of an earlier version are refused and not changed. The first use connects; `async with`
    connects at once, and closes.
    """

    def __init__(
        self,
        url: str,
        *,
        connections: int = 10,
        pooler: bool = False,
        seconds: float = 10.0,
        schema: str = "goalport",
        migrates: bool = True,
    ) -> None:
        tables = process_tables(schema)
        server = DatabaseServer(PostgresAddress(url), tables, seconds, pooler=pooler, migrates=migrates)
        # Triggers and the like that others have added to the tables find their own schemas too.
        server.local = f'SET LOCAL search_path TO {server.quoted}, "$user", public'
        super().__init__(_PostgresDatabase(server, connections))


def process_tables(schema: str) -> Tables:
    """The tables of processes in a schema."""
    return Tables(
        schema,
        [statements for _, statements in steps_after(0, "postgresql")],
        pooled="Set store_pooler = true.",
        fewer="lower store_connections of each replica",
        expansions=EXPANSIONS,
    )


class _PostgresDatabase:
    """Runs operations on the connections of a pool."""

    free_bytes = None  # only the server can see its disk

    def __init__(self, server: DatabaseServer, connections: int) -> None:
        self._server = server
        self._connections = Connections(server, connections, beside=self._notified)
        self._notifications = ChangeNotifications(server)

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        result, _ = await self._run(begin, reading=True)
        return result

    async def write(self, begin: Callable[[], Operation[T]], /, *, patient: bool = False) -> T:
        del patient  # operations of PostgreSQL each have a transaction of their own
        await self._connections.open()
        task = asyncio.create_task(self._run(begin, reading=False))
        end = Commit[None]()

        def known(done: asyncio.Task[tuple[T, bool]]) -> None:
            if not done.cancelled():
                done.exception()  # marks it as retrieved, as a cancelled caller does not ask for it
            end.set_result(None)

        task.add_done_callback(known)
        with anyio.CancelScope(shield=True):
            await end
        result, changed = task.result()
        if changed:
            self._notifications.notify()
        return result

    async def wait_for_changes(self, seconds: float, /) -> None:
        await self._connections.open()
        await self._notifications.wait(seconds)

    async def trim(self) -> None:
        """Nothing: the server gives space back by itself."""

    async def close(self) -> None:
        await self._connections.close()

    def _notified(self) -> Coroutine[Any, Any, None]:
        """The task that listens and notifies, for the event loop in which connections are opened."""
        self._notifications = ChangeNotifications(self._server)
        return self._notifications.run()

    async def _run(self, begin: Callable[[], Operation[T]], *, reading: bool) -> tuple[T, bool]:
        """Run an operation. Returns its result, and whether it may have written what other programs wait for."""

        async def work(connection: Connection) -> tuple[T, bool]:
            operation, changed = begin(), False
            rows: Sequence[Row] | None = None
            while True:
                try:
                    statement, values = operation.send(cast("Sequence[Row]", rows))
                except StopIteration as end:
                    return end.value, changed
                text = _text(statement)
                changed = changed or text.changes
                if isinstance(values, Mapping):
                    rows = await connection.fetch(text.query, *text.values(values))
                else:
                    await connection.executemany(text.query, [text.values(each) for each in values])
                    rows = ()

        return await self._connections.run(work, reading=reading)


class _Text(NamedTuple):
    """A statement in the syntax of PostgreSQL."""

    query: str
    names: Sequence[str]
    """The names of its values, in the order of their numbers."""
    changes: bool
    """Whether it may write what other programs wait for; heartbeats and the like do not wake them."""

    def values(self, given: Values) -> list[object]:
        return [given[each] for each in self.names]


@cache
def _text(statement: str) -> _Text:
    text = statement.format_map(WORDS["postgresql"])
    names = [*dict.fromkeys(_VALUE.findall(text))]
    query = _VALUE.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    verb, *rest = text.split(maxsplit=3)
    table = rest[0 if verb == "UPDATE" else 1]
    return _Text(query, names, verb != "SELECT" and statement not in _QUIET and table not in _QUIET_TABLES)


class ChangeNotifications:
    """Notifies other programs that something was written, and waits for their notifications."""

    def __init__(self, server: DatabaseServer) -> None:
        self._server = server
        self._wanted, self._written, self._heard = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._written_at = self._returned = 0.0
        self._notified_by: dict[int, float] = {}
        """The time of the last notification of each other program, by the pid of its server process."""

    def notify(self) -> None:
        """Notify the other programs that something was written."""
        self._wanted.set()
        self._written.set()
        self._written_at = time.monotonic()

    async def wait(self, seconds: float) -> None:
        """Return when another program has notified, or after at most `seconds`."""
        self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, _POLLED)):
                await asyncio.sleep(self._returned + _APART - time.monotonic())
                await self._heard.wait()
        self._heard.clear()
        self._returned = time.monotonic()

    async def run(self) -> None:
        """Keep a connection for notifications, from its first use on, until cancelled."""
        if self._server.pooler:
            # Behind a pooler no connection belongs to one program, so none can listen.
            await asyncio.Event().wait()
        await self._wanted.wait()
        while True:
            with suppress(StoreError):
                connection = await self._server.connect()
                try:
                    with self._server.in_words():
                        await self._listen(connection)
                finally:
                    connection.terminate()
            await asyncio.sleep(_POLLED)
            # Notifications may have been missed meanwhile.
            self._heard.set()

    async def _listen(self, connection: Connection) -> None:
        """Send and receive notifications until the connection is lost."""
        channel, me = self._server.schema, connection.get_server_pid()

        def heard(_: object, pid: int, *__: object) -> None:
            if pid != me:
                self._heard.set()
                self._notified_by[pid] = time.monotonic()

        # The wait below ends when the connection is lost.
        connection.add_termination_listener(lambda _: self._written.set())
        await connection.add_listener(channel, heard)
        while not connection.is_closed():
            with suppress(TimeoutError):
                async with asyncio.timeout(_ALIVE):
                    await self._written.wait()
                    await asyncio.sleep(_GATHERED * random.uniform(1, 2))  # noqa: S311 - programs must only not be in step
            since = self._written_at + _ON_ITS_WAY
            self._notified_by = {pid: at for pid, at in self._notified_by.items() if at > since}
            written = self._written.is_set()
            self._written.clear()
            if written and len(self._notified_by) >= _ENOUGH:  # then every program has received a notification since
                continue
            query = "SELECT pg_notify($1, '')" if written else "SELECT $1::TEXT"
            async with asyncio.timeout(self._server.seconds):
                await connection.fetch(query, channel)
