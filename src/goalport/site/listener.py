"""The listener: a socket, uvicorn on it, and a graceful shutdown at a signal.

Open calls get `shutdown_seconds` to finish. Then subscription streams are closed, the processes of the other calls are
killed, and these calls are answered. `app` is what the listener serves; `startup` is above.
"""

import asyncio
import gc
import math
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from signal import SIGINT, SIGTERM, Signals, signal
from typing import Any, cast

import anyio
import uvicorn
from sse_starlette.sse import AppStatus

from goalport.errors import SettingsError
from goalport.settings import Settings
from goalport.site.app import Site
from goalport.site.limits import Connections, Limits
from goalport.site.protocol import LimitedProtocol, LimitedServer
from goalport.site.shutdown import LAST_WORDS, leave_at_once, say_who_is_waited_for

__all__ = ["address_of", "bind", "listen"]


def bind(settings: Settings) -> socket.socket:
    """A socket that listens on the host and port of the settings. Raises `SettingsError` if that is not possible."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingsError(
            f"Cannot listen on {settings.host} port {settings.port}: {reason}."
            " Choose another with --port (0 takes a free one) and --host, or stop the program that has it."
        ) from None


def address_of(listener: socket.socket) -> str:
    """The URL of a server on this socket, for a client on this machine."""
    bound: tuple[str, int] = listener.getsockname()[:2]
    host, port = bound
    host = "127.0.0.1" if host == "0.0.0.0" else "::1" if host == "::" else host  # noqa: S104 - compared, not bound
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def listen(site: Site, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then shut down gracefully. `ready` is called when requests are accepted."""
    seconds = site.publisher.settings.shutdown_seconds
    connections = Connections(Limits.of(site.publisher.settings))
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
        timeout_graceful_shutdown=math.ceil(seconds + 2 * LAST_WORDS),
    )
    with _streams_end_when_told():
        await _Listener(config, site, seconds, ready).serve([listener])


class _Listener(LimitedServer):
    def __init__(self, config: uvicorn.Config, site: Site, patience: float, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._site = site
        self._patience = patience
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _settle_memory()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._take_leave())
            await super().shutdown(sockets)

    async def _take_leave(self) -> None:
        say_who_is_waited_for(self._site.open_calls, self._patience)
        with anyio.move_on_after(self._patience):
            await self._site.idle()
        await self._site.close()
        with anyio.move_on_after(LAST_WORDS):
            await self._site.idle()
        AppStatus.should_exit = True

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """As uvicorn's, but the program exits with success after one signal, and at once after a second one."""

        def stop(number: int, frame: Any) -> None:
            if self.should_exit:
                leave_at_once()
            self.handle_exit(Signals(number), frame)

        before = {each: signal(each, stop) for each in (SIGINT, SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal(each, handler)


@contextmanager
def _streams_end_when_told() -> Generator[None]:
    """Keep event streams open after the signal until `_take_leave` ends them, so that calls on them can finish."""
    AppStatus.disable_automatic_graceful_drain()
    try:
        yield
    finally:
        AppStatus.enable_automatic_graceful_drain_mode()
        AppStatus.should_exit = False


def _settle_memory() -> None:
    """Exclude the objects made at start from garbage collection, which halves the latency of the slowest answers.

    Calls leave reference cycles of the SDK's objects behind. The thresholds collect them often enough that a pause is
    short, but not so often that the objects of open calls are scanned again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 50, 50)
