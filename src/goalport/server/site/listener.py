"""The listener: uvicorn on a socket, or on the connections that a supervisor hands over, and a graceful shutdown.

Open calls get `shutdown_seconds` to finish. Then subscription streams are closed, the processes of the other calls are
killed, and these calls are answered. `app` is what the listener serves; `startup` is above, `workers` below.
"""

import asyncio
import math
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from signal import SIGINT, SIGTERM, Signals, signal
from typing import Any, cast

import uvicorn
from sse_starlette.sse import AppStatus
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.garbage import collect_among_calls
from goalport.base.observe import tell
from goalport.server.site.app import Site
from goalport.server.site.limits import ConnectionLimits, Connections
from goalport.server.site.protocol import LINGER_SECONDS, TICKS, LimitedProtocol, LimitedServer
from goalport.server.site.shutdown import ANSWER_SECONDS, drain, exit_at_once
from goalport.server.workers import DRAINING, SESSION_HEADER, WorkerChannel


async def listen(site: Site, source: socket.socket | WorkerChannel, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then shut down gracefully. `ready` is called when requests are accepted.

    `source` is a listening socket, or the channel on which a supervisor hands over connections.
    """
    settings = site.publisher.settings
    connections = Connections(ConnectionLimits.of(settings), site.publisher.calls.refused)
    if site.metrics is not None:
        site.metrics.connections = lambda: connections.number
    config = uvicorn.Config(
        _SessionReports(site.app, source) if isinstance(source, WorkerChannel) else site.app,
        loop="none",
        http=cast("type[asyncio.Protocol]", partial(LimitedProtocol, connections)),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=True,
        timeout_graceful_shutdown=math.ceil(LINGER_SECONDS + settings.shutdown_seconds + 2 * ANSWER_SECONDS),
    )
    # Event streams stay open after the signal until `_drain` ends them, so that calls on them can finish.
    AppStatus.disable_automatic_graceful_drain()
    try:
        if isinstance(source, WorkerChannel):
            await _WorkerListener(config, site, connections, ready, source).serve([])
        else:
            await _Listener(config, site, connections, ready).serve([source])
    finally:
        AppStatus.enable_automatic_graceful_drain_mode()
        AppStatus.should_exit = False


class _Listener(LimitedServer):
    def __init__(self, config: uvicorn.Config, site: Site, connections: Connections, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._site = site
        self._connections = connections
        self._ready = ready
        self._drain_seconds = site.publisher.settings.drain_seconds
        self._drained_at = math.inf

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second; begins the shutdown once the server has drained."""
        self.should_exit = self.should_exit or time.monotonic() >= self._drained_at
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        collect_among_calls()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._connections.ending = True
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(super().shutdown(sockets))
            await asyncio.sleep(0)  # now the connections know that the server shuts down
            tasks.create_task(self._drain())
            await ending

    async def _drain(self) -> None:
        await self.lingered()
        self._site.end_waits()
        await drain(self._site.publisher, self._close, self.answered)
        AppStatus.should_exit = True

    async def _close(self) -> None:
        self._connections.refusing = True
        self.end_unsent()
        await self._site.close()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """As uvicorn's, but the program exits with success after one signal, and at once after a second one."""

        def stop(number: int, frame: Any) -> None:
            if self.should_exit or self._site.health.draining:
                exit_at_once()
            if number == SIGTERM and self._drain_seconds:
                self._site.health.draining = True
                self._drained_at = time.monotonic() + self._drain_seconds
                tell(DRAINING.format(self._drain_seconds))
            else:
                self.handle_exit(Signals(number), frame)

        before = {each: signal(each, stop) for each in (SIGINT, SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal(each, handler)


class _WorkerListener(_Listener):
    """The listener of a worker, which serves the connections that come on a channel."""

    def __init__(
        self,
        config: uvicorn.Config,
        site: Site,
        connections: Connections,
        ready: Callable[[], None],
        channel: WorkerChannel,
    ) -> None:
        super().__init__(config, site, connections, ready)
        self._drain_seconds = 0.0  # the supervisor waits for all workers together
        self._channel = channel
        site.health.workers = lambda: channel.states
        self._telling: asyncio.Task[None] | None = None
        self._opening = set[asyncio.Task[None]]()
        self._received = 0
        self._told = 0
        """How many closed connections the supervisor was told of."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        asyncio.get_running_loop().add_reader(self._channel.socket, self._receive)
        await self._tell()
        self._channel.ready(self._site.publisher.publication.problems)

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second; tells of connections that were closed, and once a second its state."""
        closed = self._received - len(self._opening) - len(self.server_state.connections) - self._told
        if closed > 0:
            self._channel.closed(closed)
            self._told += closed
        if not counter % TICKS:
            self._telling = asyncio.create_task(self._tell())
        return await super().on_tick(counter)

    async def _tell(self) -> None:
        ready = await self._site.health.is_ready_here()
        self._channel.tell(ready=ready, open_calls=self._site.publisher.calls.number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().remove_reader(self._channel.socket)
        await super().shutdown(sockets)

    def _receive(self) -> None:
        for each in self._channel.connections():
            self._received += 1
            opening = asyncio.create_task(self._open(each))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)
        except OSError:  # the client has left
            connection.close()

    def _protocol(self) -> asyncio.Protocol:
        protocol = cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class)
        return protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)


class _SessionReports:
    """Tells the supervisor of each session that a response opens."""

    def __init__(self, app: ASGIApp, channel: WorkerChannel) -> None:
        self._app = app
        self._channel = channel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def report(message: Message) -> None:
            if message["type"] == "http.response.start":
                for name, value in message["headers"]:
                    if name == SESSION_HEADER:
                        self._channel.opened(value)
            await send(message)

        has_session = any(name == SESSION_HEADER for name, _ in scope.get("headers", ()))
        await self._app(scope, receive, send if has_session else report)
