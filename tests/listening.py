"""Apps on sockets of this machine, in the program of the test. No test is in here."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import uvicorn

__all__ = ["address_of", "listening", "serving"]


@asynccontextmanager
async def listening(app: Any, place: socket.socket | None = None, **options: Any) -> AsyncGenerator[str]:
    """An app on a socket, or else on a free port, for as long as the block lasts; the value is its address."""
    async with serving(app, place, **options) as server:
        yield address_of(server)


@asynccontextmanager
async def serving(app: Any, place: socket.socket | None = None, **options: Any) -> AsyncGenerator[uvicorn.Server]:
    """The same; the value is the server. `options` are those of uvicorn."""
    given: dict[str, Any] = {"port": 0, "log_config": None, "timeout_graceful_shutdown": 2, **options}
    server = _Server(uvicorn.Config(app, **given))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [place] if place else None)
        with anyio.fail_after(60):
            await server.ready.wait()
        try:
            yield server
        finally:
            server.should_exit = True


def address_of(server: uvicorn.Server) -> str:
    """The URL at which a server listens."""
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    return f"http://{host}:{port}"


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.ready.set()
