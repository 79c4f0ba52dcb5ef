"""The listener: uvicorn on a socket, which it may share with other workers, and a graceful shutdown.

Open calls get `shutdown_seconds` to finish. Then subscription streams are closed, the processes of the other calls are
killed, and these calls are answered. `app` is what the listener serves; `startup` is above, `workers` below.
"""

import asyncio
import math
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from functools import partial
from signal import SIGINT, SIGTERM, Signals, signal
from typing import Any, Final, NoReturn, cast

import anyio
import anyio.lowlevel
import uvicorn
from sse_starlette.sse import AppStatus

from goalport.base.lazy import collect_new_garbage_only
from goalport.base.observe import print_status
from goalport.base.words import counted
from goalport.server.doors.mcp.door import McpDoor
from goalport.server.publish.publisher import Publisher
from goalport.server.site.app import Site
from goalport.server.site.protocol import LINGER_SECONDS, Connections, LimitedProtocol
from goalport.server.workers import DRAINING, WorkerChannel

ANSWER_SECONDS: Final = 2.0
"""Seconds in which the calls of killed processes are answered and streams are closed."""
_TICKS: Final = 10
"""The number of uvicorn's ticks in a second."""
_STEP_SECONDS: Final = 0.05
"""Seconds between two checks of the open connections during a shutdown."""
_INTERRUPTED: Final = 130
"""The exit code of a program that SIGINT ended."""
_LATER_SECONDS: Final = 0.005
"""Seconds by which a worker accepts later for each connection that it has more than the worker with the fewest."""
_LATEST_SECONDS: Final = 0.05


async def listen(site: Site, source: socket.socket | WorkerChannel, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then shut down gracefully. `ready` is called when requests are accepted.

    `source` is a listening socket, or the channel to the supervisor of this worker.
    """
    settings = site.publisher.settings
    connections = Connections(settings, site.publisher.calls.refused)
    if site.metrics is not None:
        site.metrics.connections = lambda: connections.number
    config = uvicorn.Config(
        site.app,
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
            await _WorkerListener(source, config, site, connections, ready).serve([])
        else:
            await _Listener(config, site, connections, ready).serve([source])
    finally:
        AppStatus.enable_automatic_graceful_drain_mode()
        AppStatus.should_exit = False


async def drain(
    publisher: Publisher,
    close: Callable[[], Awaitable[None]],
    answered: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
) -> None:
    """Wait at most `shutdown_seconds` for open calls, then `close`, which kills processes, and await the last answers.

    `answered` waits for requests that may still turn out to be calls. The number of open calls is printed on stderr.
    """
    calls, seconds = publisher.calls, publisher.settings.shutdown_seconds
    if calls.number:
        print_status(f"{counted(calls.number, 'call')} may take {seconds:g} s; a second signal ends them now.")
    with anyio.move_on_after(seconds):
        await calls.ended()
        await answered()
        await calls.ended()  # calls that these requests have started meanwhile
    await close()
    with anyio.move_on_after(ANSWER_SECONDS):
        await calls.ended()


def exit_at_once() -> NoReturn:
    """Exit at once with code 130, as a second signal asks for."""
    line = "Ended at once by a second signal."
    try:
        print_status(line)
    except RuntimeError:  # Python refuses to write if the signal came while a line was being written
        os.write(2, f"{line}\n".encode())
    finally:
        os._exit(_INTERRUPTED)


class _Listener(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, site: Site, connections: Connections, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._site = site
        self._connections = connections
        self._ready = ready
        self._drain_seconds = site.publisher.settings.drain_seconds
        self._drained_at = math.inf

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second; checks connections, and starts the shutdown when draining is over."""
        if not counter % _TICKS:
            now = asyncio.get_running_loop().time()
            for each in list(self._connected):
                each.check(now)
        self.should_exit = self.should_exit or time.monotonic() >= self._drained_at
        return await super().on_tick(counter)

    @property
    def _connected(self) -> "set[LimitedProtocol]":
        return cast("set[LimitedProtocol]", self.server_state.connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        collect_new_garbage_only()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        async def drained() -> None:
            while any(each.is_lingering for each in self._connected):  # noqa: ASYNC110 - as uvicorn waits for them
                await asyncio.sleep(_STEP_SECONDS)
            self._site.end_waits()
            await drain(self._site.publisher, close, answered)
            AppStatus.should_exit = True

        async def answered() -> None:
            while any(each.is_awaited for each in self._connected):  # noqa: ASYNC110 - as above
                await asyncio.sleep(_STEP_SECONDS)

        async def close() -> None:
            self._connections.refusing = True
            for each in self._connected:
                each.end_unsent()
            await self._site.close()

        self._connections.ending = True
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(super().shutdown(sockets))
            await asyncio.sleep(0)  # now the connections know that the server shuts down
            tasks.create_task(drained())
            await ending

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """As uvicorn's, but the program exits with success after one signal, and at once after a second one."""

        def stop(number: int, frame: Any) -> None:
            if self.should_exit or self._site.health.draining:
                exit_at_once()
            if number == SIGTERM and self._drain_seconds:
                self._site.health.draining = True
                self._drained_at = time.monotonic() + self._drain_seconds
                # Later, since Python refuses to write where the signal has interrupted a write.
                loop.call_soon_threadsafe(print_status, DRAINING.format(self._drain_seconds))
            else:
                self.handle_exit(Signals(number), frame)

        loop = asyncio.get_running_loop()
        before = {each: signal(each, stop) for each in (SIGINT, SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal(each, handler)


class _WorkerListener(_Listener):
    """The listener of a worker, which shares its socket with the others.

    All of them are woken for a connection. The more connections a worker has than another, the later it accepts, so
    that open connections are spread evenly, and a worker that hangs gets none.
    """

    def __init__(self, channel: WorkerChannel, *given: Any) -> None:
        super().__init__(*given)
        self._drain_seconds = 0.0  # the supervisor waits for all workers together
        self._channel = channel
        self._site.health.workers = lambda: channel.states
        self._tasks = set[asyncio.Task[None]]()
        self._accepting: asyncio.TimerHandle | None = None
        self._opening = 0
        self._is_ready, self._reported = True, 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._channel.listener.setblocking(False)
        mcp = next(door for door in self._site.doors if isinstance(door, McpDoor))
        mcp.connect_workers(self._channel.tell_others)
        problems = self._site.publisher.publication.problems
        self._keep(
            self._channel.serve(
                problems, self._await_connection, lambda message: self._keep(mcp.receive_from_worker(message))
            )
        )

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second; reports the state of this worker, at least once a second."""
        if not counter % _TICKS:
            self._keep(self._report(looks=True))
        elif self._connections.number != self._reported:
            await self._report()
        return await super().on_tick(counter)

    async def _report(self, *, looks: bool = False) -> None:
        if looks:
            self._is_ready = not await self._site.health.reasons_here()
        self._reported, calls = self._connections.number, self._site.publisher.calls.number
        self._channel.report(ready=self._is_ready, open_calls=calls, connections=self._reported)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().remove_reader(self._channel.listener)
        if self._accepting is not None:
            self._accepting.cancel()
        self._channel.listener.close()
        await super().shutdown(sockets)

    def _await_connection(self) -> None:
        """Accept the next connection when there is one; later, if other workers have fewer."""
        if self.should_exit:
            return
        loop, listener = asyncio.get_running_loop(), self._channel.listener

        def wait() -> None:
            loop.remove_reader(listener)
            others = [each.connections for each in self._channel.states if each.responds and each.pid != os.getpid()]
            more = self._connections.number + self._opening - min(others, default=0)
            self._accepting = loop.call_later(min(_LATEST_SECONDS, max(0, more) * _LATER_SECONDS), accept)

        def accept() -> None:
            with suppress(OSError):  # another worker was sooner, the client has left, or descriptors run short
                connection, _ = listener.accept()
                self._opening += 1
                self._keep(self._open(connection))
            self._await_connection()

        loop.add_reader(listener, wait)

    async def _open(self, connection: socket.socket) -> None:
        make = cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class)
        protocol = partial(make, config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
        except OSError:  # the client has left
            connection.close()
        finally:
            self._opening -= 1

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
