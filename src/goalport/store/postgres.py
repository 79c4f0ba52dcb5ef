"""The store in PostgreSQL: many programs on many machines share it, and each takes over from those that end.

Each operation is a transaction of its own on a connection of a small pool; PostgreSQL itself lets commits that meet
share a wait for its disk. Statements are compiled once and run on the driver itself: SQLAlchemy's own engine over the
same driver takes twice as long, and three to four times as much of the processor.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

import anyio
from sqlalchemy import UpdateBase
from sqlalchemy.dialects.postgresql.asyncpg import dialect

from goalport.postgres import Connection, Connections, DatabaseServer, PostgresAddress, Tables
from goalport.store.database import Commit, DatabaseProcessStore
from goalport.store.operations import Operation, Statement
from goalport.store.postgres_notifications import ChangeNotifications
from goalport.store.rows import Row
from goalport.store.statements import CLAIMED, TAKEN, TIDIED, Dialect
from goalport.store.tables import EXPANSIONS, conversation_messages, conversations, programs, steps_after

__all__ = ["PostgresProcessStore", "process_tables"]

T = TypeVar("T")

_DIALECT: Final = dialect()
_QUIET: Final = {CLAIMED, TAKEN, *TIDIED}
"""What nobody waits for, besides what is in one of the quiet tables."""
_QUIET_TABLES: Final = (programs, conversations, conversation_messages)


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

    dialect: Dialect = "postgresql"

    def __init__(self, server: DatabaseServer, connections: int) -> None:
        self._server = server
        self._connections = Connections(server, connections, beside=self._notified)
        self._notifications = ChangeNotifications(server)
        self._texts: dict[Statement, _Text] = {}

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
            changed = changed or _is_change(statement)
            text = self._text(statement)
            if isinstance(values, Mapping):
                rows = await connection.fetch(text.query, *text.values(values))
            else:
                await connection.executemany(text.query, [text.values(each) for each in values])
                rows = ()

    def _text(self, statement: Statement) -> "_Text":
        found = self._texts.get(statement)
        if found is None:
            found = self._texts[statement] = _compiled(statement, self._server.schema)
        return found


class _Text(NamedTuple):
    """A statement as PostgreSQL reads it."""

    query: str
    parameters: Sequence[tuple[str, bool, object]]
    """The name of each, whether it has to be given, and its value otherwise."""

    def values(self, given: Mapping[str, object]) -> list[object]:
        return [given[name] if required else given.get(name, value) for name, required, value in self.parameters]


def _compiled(statement: Statement, schema: str) -> _Text:
    compiled: Any = statement.compile(
        dialect=_DIALECT, schema_translate_map={None: schema}, render_schema_translate=True
    )
    binds = [(name, compiled.binds[name]) for name in compiled.positiontup or ()]
    return _Text(str(compiled), [(name, bind.required, bind.value) for name, bind in binds])


def _is_change(statement: Statement) -> bool:
    """Whether a statement may write what others wait for; that programs live is not worth waking them all."""
    return isinstance(statement, UpdateBase) and statement.table not in _QUIET_TABLES and statement not in _QUIET
