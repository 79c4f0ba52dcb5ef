"""The store in PostgreSQL: many programs on many machines share it, and each takes over from those that end.

Each operation is a transaction of its own on a connection of a small pool; PostgreSQL itself lets commits that meet
share a wait for its disk.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, cast

import anyio

from goalport.store.database import DatabaseProcessStore
from goalport.store.operations import Commit, Operation, Values
from goalport.store.postgres import Connection, Connections, DatabaseServer, PostgresAddress, Tables
from goalport.store.postgres.notifications import ChangeNotifications
from goalport.store.rows import Row
from goalport.store.statements import CLAIMED, TAKEN, TIDIED, WORDS
from goalport.store.tables import EXPANSIONS, steps_after

T = TypeVar("T")

_VALUE: Final = re.compile(r"(?<![\w:]):(\w+)")
_QUIET: Final = {CLAIMED, TAKEN, *TIDIED}
"""What nobody waits for, besides what is in one of the quiet tables."""
_QUIET_TABLES: Final = {"program", "conversation", "conversation_message"}


class PostgresProcessStore(DatabaseProcessStore):
    """Keeps the records of processes in a PostgreSQL database, which programs on other machines may use too.

    Parameters: `url` as `postgresql://user:password@host:port/database`, with the options that asyncpg reads; at most
    `connections` are opened, besides the one by which programs hear of each other. `pooler`: they are those of a
    program such as PgBouncer that may give each transaction another one, so nothing is prepared in them, and
    changes are polled for. What has not happened after `seconds` fails. The tables are made in `schema`;
    with `migrates=False` those of an earlier version are refused and not changed.
    Nothing is connected before it is needed; `async with` connects at once, and closes.
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
        server = DatabaseServer(PostgresAddress(url), process_tables(schema), seconds, pooler=pooler)
        server.migrates = migrates
        # What a database adds to the tables, such as a trigger, finds the rest where it always does.
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
                done.exception()  # who was cancelled does not ask for it
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

    @property
    def free_bytes(self) -> int | None:
        return None  # only the server can see its disk

    async def trim(self) -> None:
        """Nothing: the server gives space back by itself."""

    async def close(self) -> None:
        await self._connections.close()

    def _notified(self) -> Coroutine[Any, Any, None]:
        """What listens and notifies, in the event loop in which connections are opened."""
        self._notifications = ChangeNotifications(self._server)
        return self._notifications.run()

    async def _run(self, begin: Callable[[], Operation[T]], *, reading: bool) -> tuple[T, bool]:
        async def work(connection: Connection) -> tuple[T, bool]:
            return await self._steps(connection, begin())

        return await self._connections.run(work, reading=reading)

    async def _steps(self, connection: Connection, operation: Operation[T]) -> tuple[T, bool]:
        """Take the steps of an operation. Returns also whether it may have written what others wait for."""
        rows: Sequence[Row] | None = None
        changed = False
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


class _Text(NamedTuple):
    """A statement as PostgreSQL reads it."""

    query: str
    names: Sequence[str]
    """Those of its values, by their numbers."""
    changes: bool
    """Whether it may write what others wait for; that programs live is not worth waking them all."""

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
