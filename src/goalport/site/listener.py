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

import uvicorn
from sse_starlette.sse import AppStatus

from goalport.errors import SettingsError
from goalport.settings import Settings
from goalport.site.app import Site
from goalport.site.limits import Connections, Limits
from goalport.site.protocol import LimitedProtocol, LimitedServer
from goalport.site.shutdown import ANSWER_SECONDS, drain, exit_at_once

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
    settings = site.publisher.settings
    connections = Connections(Limits.of(settings))
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
        timeout_graceful_shutdown=math.ceil(settings.shutdown_seconds + 2 * ANSWER_SECONDS),
    )
    # Event streams stay open after the signal until `_drain` ends them, so that calls on them can finish.
    AppStatus.disable_automatic_graceful_drain()
    try:
        await _Listener(config, site, ready).serve([listener])
    finally:
        AppStatus.enable_automatic_graceful_drain_mode()
        AppStatus.should_exit = False


class _Listener(LimitedServer):
    def __init__(self, config: uvicorn.Config, site: Site, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._site = site
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _tune_garbage_collection()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._drain())
            await super().shutdown(sockets)

    async def _drain(self) -> None:
        await drain(self._site.publisher, self._site.close)
        AppStatus.should_exit = True

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """As uvicorn's, but the program exits with success after one signal, and at once after a second one."""

        def stop(number: int, frame: Any) -> None:
            if self.should_exit:
                exit_at_once()
            self.handle_exit(Signals(number), frame)

        before = {each: signal(each, stop) for each in (SIGINT, SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal(each, handler)


def _tune_garbage_collection() -> None:
    """Exclude the objects made at start from garbage collection, which halves the latency of the slowest answers.

    Calls leave reference cycles of the SDK's objects behind. The thresholds collect them often enough that a pause is
    short, but not so often that the objects of open calls are scanned again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 50, 50)
