"""A proxy before several servers, which sends each request to the next of them. No test is in here.

It asks both sides to close the connection after one request. So it need not know where a request or an answer ends, and
passes on bytes as they come: streams flow, and when one side hangs up, so does the other.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from anyio.from_thread import start_blocking_portal

__all__ = ["RoundRobin", "round_robin", "round_robin_beside"]

_HEAD_ENDS: Final = b"\r\n\r\n"
_CONNECTION: Final = re.compile(rb"(?i)\r\nconnection:[^\r]*")
_PIECE: Final = 65_536
_UNAVAILABLE: Final = b"HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class RoundRobin:
    """Where the proxy listens, and whom it has sent how many requests."""

    def __init__(self, servers: Sequence[str]) -> None:
        self.servers = list(servers)
        """The addresses; they may be replaced at any time."""
        self.sent = Counter[str]()
        self.refused = 0
        """How many requests no server took."""
        self.address = ""
        self._next = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on the one request of a connection, and its answer."""
        with closing(writer), suppress(OSError, EOFError):
            head = await reader.readuntil(_HEAD_ENDS)
            found = await self._connect()
            if found is None:
                self.refused += 1
                writer.write(_UNAVAILABLE)
                await writer.drain()
            else:
                with closing(found[1]):
                    await _exchange(_closing(head), (reader, writer), found)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection to the next server that takes one, as nginx does with its defaults."""
        for _ in self.servers:
            server = self.servers[self._next % len(self.servers)]
            self._next += 1
            where = urlsplit(server)
            with suppress(OSError):
                found = await asyncio.open_connection(where.hostname, where.port)
                self.sent[server] += 1
                return found
        return None


def _closing(head: bytes) -> bytes:
    return _CONNECTION.sub(b"", head).removesuffix(_HEAD_ENDS) + b"\r\nconnection: close" + _HEAD_ENDS


async def _exchange(
    head: bytes,
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    server[1].write(head)
    ways = [asyncio.create_task(_pass_on(client[0], server[1])), asyncio.create_task(_pass_on(server[0], client[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()


@asynccontextmanager
async def round_robin(servers: Sequence[str]) -> AsyncGenerator[RoundRobin]:
    """A proxy that listens on a free port as long as the block lasts."""
    proxy = RoundRobin(servers)
    connections = set[asyncio.Task[None]]()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        # The task is cancelled at the end of the block only, and asyncio would tell of it.
        with suppress(asyncio.CancelledError):
            await proxy.serve(reader, writer)
        connections.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    proxy.address = f"http://{host}:{port}"
    try:
        yield proxy
    finally:
        server.close()
        for task in tuple(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)  # closed transports are closed in the next turn of the loop


@contextmanager
def round_robin_beside(servers: Sequence[str]) -> Generator[RoundRobin]:
    """The same in a thread of its own, for tests that are not asynchronous."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(round_robin(servers)) as proxy:
        yield proxy
