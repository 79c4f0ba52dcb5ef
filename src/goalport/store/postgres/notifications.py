"""How the programs at a PostgreSQL database hear at once that one of them has written something.

A connection of its own listens and notifies, because a notification inside of a transaction makes each commit wait for
those of others. What is written within a few milliseconds is one notification. It carries nothing: who hears it looks
at the database. So those of other programs serve as well, and among many programs most need not send their own;
otherwise what is delivered would grow with the square of their number. Whoever waits looks now and then in any case, so
a notification may be lost, and need not come at all.
"""

import asyncio
import random
import time
from contextlib import suppress
from typing import Final

from goalport.base.errors import StoreError
from goalport.store.postgres import Connection, DatabaseServer

_GATHERED: Final = 0.01
"""Seconds in which what is written becomes one notification, at least; twice as many at most."""
_ON_ITS_WAY: Final = 0.003
"""Seconds after a write within which a notification that arrives may have been sent before it."""
_ENOUGH: Final = 2
"""How many others have to tell something for all to have heard of it: nobody listens to itself."""
_APART: Final = 0.05
"""Seconds between two returns to those who wait, at least, however much is written."""
_POLLED: Final = 1.0
"""Seconds after which who waits looks in any case."""
_ALIVE: Final = 30.0
"""Seconds after which a quiet connection is tried, since one may be lost without a word."""


class ChangeNotifications:
    """Tells other programs that something was written, and waits for them to tell it."""

    def __init__(self, server: DatabaseServer) -> None:
        self._server = server
        self._wanted = asyncio.Event()
        self._written = asyncio.Event()
        self._heard = asyncio.Event()
        self._written_at = self._returned = 0.0
        self._told_by: dict[int, float] = {}
        """When each of the other programs told something last, by the process that serves it."""

    def notify(self) -> None:
        """Let the others know that something was written."""
        self._wanted.set()
        self._written.set()
        self._written_at = time.monotonic()

    async def wait(self, seconds: float) -> None:
        """Return when another program has told something, or after a while."""
        self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, _POLLED)):
                await asyncio.sleep(self._returned + _APART - time.monotonic())
                await self._heard.wait()
        self._heard.clear()
        self._returned = time.monotonic()

    async def run(self) -> None:
        """Keep a connection from the first time that one is of use, and for ever."""
        if self._server.pooler:
            # It keeps no connection for one program, so nobody can listen behind it.
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
            # Nobody knows what was told meanwhile.
            self._heard.set()

    async def _listen(self, connection: Connection) -> None:
        """Pass on what is told and what is heard until the connection is lost."""
        channel, me = self._server.schema, connection.get_server_pid()

        def heard(_: object, pid: int, *__: object) -> None:
            if pid != me:
                self._heard.set()
                self._told_by[pid] = time.monotonic()

        def lost(_: object) -> None:
            # Whoever waits below for something to tell goes on.
            self._written.set()

        connection.add_termination_listener(lost)
        await connection.add_listener(channel, heard)
        while not connection.is_closed():
            with suppress(TimeoutError):
                async with asyncio.timeout(_ALIVE):
                    await self._written.wait()
                    await asyncio.sleep(_GATHERED * random.uniform(1, 2))  # noqa: S311 - programs must only not be in step
            if self._written.is_set() and self._is_told():
                self._written.clear()
                continue
            query = "SELECT pg_notify($1, '')" if self._written.is_set() else "SELECT $1::TEXT"
            self._written.clear()
            async with asyncio.timeout(self._server.seconds):
                await connection.fetch(query, channel)

    def _is_told(self) -> bool:
        """Whether every program has been told something since this one wrote last."""
        since = self._written_at + _ON_ITS_WAY
        self._told_by = {pid: told for pid, told in self._told_by.items() if told > since}
        return len(self._told_by) >= _ENOUGH
