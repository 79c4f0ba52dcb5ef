"""`goalport serve`: the report, the socket or stdin, the app and the reloading, put together."""

import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterable

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus

from goalport.greeting import Greeting
from goalport.observe import LogListener
from goalport.platform import AgentPlatform
from goalport.serve.server import make_server
from goalport.serve.serving import Serving, connected
from goalport.serve.transports.stdio import serve_lines
from goalport.settings import Settings
from goalport.signs import signed
from goalport.site.app import Site
from goalport.site.forking import children_end_when_told
from goalport.site.listening import LAST_WORDS, address_of, bind, leave_at_once, listen, say_who_is_waited_for
from goalport.site.reload import watch
from goalport.site.startup import startup_report
from goalport.workspace import Workspace

__all__ = ["serve_http", "serve_stdio"]

_WRITING = 0.1
"""Seconds in which the last answer goes from us through the SDK's threads into the pipe."""


async def serve_http(
    platform: AgentPlatform, workspace: Workspace, settings: Settings, *, reload: bool = False
) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises `SettingsError` when the port or a required server cannot be had."""
    log_to_stderr(settings, platform)
    with bind(settings) as listener, children_end_when_told():
        address = address_of(listener)
        async with platform:
            site = Site(Serving(platform, workspace, settings))
            tell(startup_report(site.serving.publication, platform, settings, address))
            async with anyio.create_task_group() as tasks:
                if reload:
                    tasks.start_soon(watch, site.serving)
                await listen(site, listener, lambda: tell([f"goalport ready on {address}/mcp"]))
                tasks.cancel_scope.cancel()


async def serve_stdio(
    platform: AgentPlatform,
    workspace: Workspace,
    settings: Settings,
    *,
    reload: bool = False,
    greeting: Greeting | None = None,
) -> None:
    """Serve until the client closes stdin, or a signal comes. Everything but the protocol goes to stderr.

    `greeting` has heard what the client said until now, and may have answered the first of it.
    """
    log_to_stderr(settings, platform)
    async with platform:
        await _serve(Serving(platform, workspace, settings), greeting, reload=reload)


async def _serve(serving: Serving, greeting: Greeting | None, *, reload: bool) -> None:
    server, _ = make_server(serving)
    with children_end_when_told():
        async with connected(serving), anyio.create_task_group() as tasks:
            if sys.platform != "win32":
                await tasks.start(_stop_on_signal, serving)
            if reload:
                tasks.start_soon(watch, serving)
            tell(startup_report(serving.publication, serving.platform, serving.settings, None))
            earlier = await anyio.to_thread.run_sync(greeting.wait, abandon_on_cancel=True) if greeting else b""
            await serve_lines(server, serving, earlier, greeting.answered if greeting else None)
            await _finish(serving)
            tasks.cancel_scope.cancel()


def tell(lines: Iterable[str]) -> None:
    """Say something to whoever started the server."""
    for line in lines:
        sys.stderr.write(f"{signed(line, sys.stderr)}\n")
    sys.stderr.flush()


def log_to_stderr(settings: Settings, platform: AgentPlatform) -> None:
    """Our own log at the level of the settings, others' when they warn; not if the program has set up a log.

    Each step of each process only for who debugs: it would cost every call more than the call itself.
    """
    if settings.log_level == "debug":
        platform.subscribe(LogListener(settings.log_personality))
    if not logging.getLogger().handlers:
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("goalport").setLevel(settings.log_level.upper())


async def _finish(serving: Serving) -> None:
    """Detached processes get the time of a shutdown to end, the others were killed with their calls."""
    with anyio.move_on_after(serving.settings.shutdown_seconds):
        for process in serving.platform.processes:
            await process.rest()
    await serving.platform.aclose()


async def _stop_on_signal(serving: Serving, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            task_status.started()
            number = 0
            async for _ in signals:
                number += 1
                if number > 1:
                    leave_at_once()
                tasks.start_soon(_take_leave, serving)


async def _take_leave(serving: Serving) -> None:
    """As over HTTP: calls that are open get their time, then they are ended and answered."""
    say_who_is_waited_for(serving)
    with anyio.move_on_after(serving.settings.shutdown_seconds):
        await serving.idle()
    await serving.platform.aclose()
    with anyio.move_on_after(LAST_WORDS):
        await serving.idle()
    await anyio.sleep(_WRITING)
    sys.stderr.flush()
    # A thread waits for the client's next line and cannot be called back; only the process can end it. Then Python does
    # not end what actions have forked, which would keep the pipes to the client open.
    for child in multiprocessing.active_children():
        child.terminate()
    os._exit(0)
