"""The store in PostgreSQL: many programs on many machines share it, and each takes over from those that end.

Each operation is a transaction of its own on a connection of a small pool; PostgreSQL itself lets commits that meet
share a wait for its disk. Statements are compiled once and run on the driver itself: SQLAlchemy's own engine over the
same driver takes twice as long, and three to four times as much of the processor.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar, cast

import anyio
from sqlalchemy import UpdateBase

from goalport.store.database import Commit, DatabaseProcessStore
from goalport.store.operations import Operation, Statement
from goalport.store.postgres_address import PostgresAddress
from goalport.store.postgres_notifications import ChangeNotifications
from goalport.store.postgres_server import Connection, DatabaseServer, Pool, passing_over
from goalport.store.rows import Row
from goalport.store.statements import CLAIMED, TAKEN, TIDIED, Dialect
from goalport.store.tables import programs

__all__ = ["PostgresProcessStore"]

T = TypeVar("T")

_ATTEMPTS: Final = 3
"""How often a transaction is begun, when those before had a conflict with another or lost their connection."""
_QUIET: Final = {CLAIMED, TAKEN, *TIDIED}
"""What nobody waits for, besides what programs write about themselves."""


class PostgresProcessStore(DatabaseProcessStore):
    """Keeps the records of processes in a PostgreSQL database, which programs on other machines may use too.

    Parameters: `url` as `postgresql://user:password@host:port/database`, with the options that asyncpg reads; at most
    `connections` are opened, besides the one by which programs hear of each other. `pooler`: they are those of a
    program such as PgBouncer that may give each transaction another one, so nothing is prepared in them, and
    changes are polled for. What has not happened after `seconds` fails. The tables are made in `schema`.
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
    ) -> None:
        server = DatabaseServer(PostgresAddress(url), schema, seconds, pooler=pooler)
        super().__init__(_PostgresDatabase(server, connections))


class _PostgresDatabase:
    """Runs operations on the connections of a pool."""

    dialect: Dialect = "postgresql"

    def __init__(self, server: DatabaseServer, connections: int) -> None:
        self._server, self._connections = server, connections
        self._opened: _Opened | None = None
        self._closed = False

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        opened = await self._open()
        result, _ = await self._run(opened.pool, begin, reading=True)
        return result

    async def write(self, begin: Callable[[], Operation[T]], /) -> T:
        opened = await self._open()
        task = asyncio.create_task(self._run(opened.pool, begin, reading=False))
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
            opened.notifications.notify()
        return result

    async def wait_for_changes(self, seconds: float, /) -> None:
        opened = await self._open()
        await opened.notifications.wait(seconds)

    async def trim(self) -> None:
        """Nothing: the server gives space back by itself."""

    async def close(self) -> None:
        self._closed = True
        opened, self._opened = self._opened, None
        if opened is None or opened.loop is not asyncio.get_running_loop():
            return
        with anyio.CancelScope(shield=True):
            with suppress(TimeoutError):
                async with asyncio.timeout(self._server.seconds):
                    await opened.pool.close()
            opened.keeper.cancel()
            await asyncio.wait([opened.keeper])

    async def _open(self) -> "_Opened":
        """The connections of this event loop; those of another one ended with it."""
        if self._closed:
            raise self._server.closed()
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened.loop is not loop or self._opened.keeper.done():
            pool, notifications = await self._server.pool(self._connections), ChangeNotifications(self._server)
            self._opened = _Opened(
                loop, pool, notifications, loop.create_task(_keep(pool, notifications), name="goalport-store")
            )
        return self._opened

    async def _run(self, pool: Pool, begin: Callable[[], Operation[T]], *, reading: bool) -> tuple[T, bool]:
        with self._server.in_words():
            async with asyncio.timeout(self._server.seconds):
                for _ in range(_ATTEMPTS - 1):
                    with passing_over():
                        return await self._once(pool, begin, reading=reading)
                    await pool.expire_connections()
                return await self._once(pool, begin, reading=reading)

    async def _once(self, pool: Pool, begin: Callable[[], Operation[T]], *, reading: bool) -> tuple[T, bool]:
        async with pool.acquire() as connection, self._server.transaction(connection, reading=reading):
            return await self._steps(connection, begin())

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
            text = self._server.text(statement)
            if isinstance(values, Mapping):
                rows = await connection.fetch(text.query, *text.values(values))
            else:
                await connection.executemany(text.query, [text.values(each) for each in values])
                rows = ()


def _is_change(statement: Statement) -> bool:
    """Whether a statement may write what others wait for; that programs live is not worth waking them all."""
    return isinstance(statement, UpdateBase) and statement.table is not programs and statement not in _QUIET


@dataclass(frozen=True)
class _Opened:
    """What belongs to an event loop."""

    loop: asyncio.AbstractEventLoop
    pool: Pool
    notifications: ChangeNotifications
    keeper: asyncio.Task[None]


async def _keep(pool: Pool, notifications: ChangeNotifications) -> None:
    """Ends the connections with the event loop to which they belong, if nobody has closed them before."""
    try:
        await notifications.run()
    finally:
        pool.terminate()
