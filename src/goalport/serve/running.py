"""`goalport serve` over HTTP: the report, the socket, the app and the reloading, put together."""

import logging
import sys
from collections.abc import Iterable

import anyio

from goalport.observe import LogListener
from goalport.platform import AgentPlatform
from goalport.serve.forking import children_end_when_told
from goalport.serve.http import Site
from goalport.serve.listening import address_of, bind, listen
from goalport.serve.reload import watch
from goalport.serve.report import report_of
from goalport.serve.serving import Serving
from goalport.settings import Settings
from goalport.signs import signed
from goalport.workspace import Workspace

__all__ = ["log_to_stderr", "serve_http", "tell"]


async def serve_http(
    platform: AgentPlatform, workspace: Workspace, settings: Settings, *, reload: bool = False
) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises `SettingsError` when the port or a required server cannot be had."""
    log_to_stderr(settings, platform)
    with bind(settings) as listener, children_end_when_told():
        address = address_of(listener)
        async with platform:
            site = Site(Serving(platform, workspace, settings))
            tell(report_of(site.serving.publication, platform, settings, address))
            async with anyio.create_task_group() as tasks:
                if reload:
                    tasks.start_soon(watch, site.serving)
                await listen(site, listener, lambda: tell([f"goalport ready on {address}/mcp"]))
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
