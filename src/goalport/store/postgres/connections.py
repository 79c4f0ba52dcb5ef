"""Transactions on a small pool of connections, which belongs to the event loop that it was opened in.

A transaction is begun anew when it had a conflict with another, or lost its connection before it was committed. Below:
the server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import anyio

from goalport.store.postgres.server import Connection, DatabaseServer, Pool, passing_over

T = TypeVar("T")

_ATTEMPTS: Final = 3
"""How often a transaction is begun on good connections, when those before had a conflict with another."""


async def _forever() -> None:
    await asyncio.Event().wait()


class Connections:
    """At most so many connections to a server; `beside` makes what runs as long as they are open.

    Nothing is connected before it is needed. What is closed stays closed.
    """

    def __init__(
        self, server: DatabaseServer, most: int, *, beside: Callable[[], Coroutine[Any, Any, None]] = _forever
    ) -> None:
        self._server, self._most, self._beside = server, most, beside
        self._opened: _Opened | None = None
        self._closed = False

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, reading: bool) -> T:
        """What some work gives in a transaction of its own. It may be called again. Raises `StoreError`."""
        opened = await self.open()
        with self._server.in_words():
            async with asyncio.timeout(self._server.seconds):
                # Each of the pool's connections may have ended meanwhile, which is noticed when it is used.
                for _ in range(_ATTEMPTS - 1 + self._most):
                    with passing_over():
                        return await self._once(opened.pool, work, reading=reading)
                return await self._once(opened.pool, work, reading=reading)

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

    async def _once(self, pool: Pool, work: Callable[[Connection], Awaitable[T]], *, reading: bool) -> T:
        async with pool.acquire() as connection, self._server.transaction(connection, reading=reading):
            return await work(connection)


@dataclass(frozen=True)
class _Opened:
    """What belongs to an event loop."""

    loop: asyncio.AbstractEventLoop
    pool: Pool
    keeper: asyncio.Task[None]


async def _keep(pool: Pool, beside: Coroutine[Any, Any, None]) -> None:
    """Ends the connections with the event loop to which they belong, if nobody has closed them before."""
    try:
        await beside
    finally:
        pool.terminate()
