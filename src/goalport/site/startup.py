"""How a server starts, over HTTP or stdio: its log, its socket, its app, and the startup report.

The report says where the server listens, what it publishes (`publish.report`), which settings expose it and how
clients connect. It is plain text; `_tell` colours it on a terminal.
"""

import logging
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from goalport import __version__
from goalport.colours import coloured
from goalport.handshake import EarlyHandshake
from goalport.observe import LogListener
from goalport.platform import AgentPlatform
from goalport.publish.publication import Publication
from goalport.publish.publisher import Publisher
from goalport.publish.report import report_of
from goalport.serve.server import make_server
from goalport.serve.state import McpState
from goalport.serve.transports.stdio import serve_lines
from goalport.settings import Settings
from goalport.site.app import Site
from goalport.site.guard import exposures
from goalport.site.listener import address_of, bind, listen
from goalport.site.reload import watch
from goalport.site.shutdown import children_end_when_told, finish, stop_on_signal
from goalport.words import counted
from goalport.workspace import Workspace

__all__ = ["serve_http", "serve_stdio", "startup_report"]


async def serve_http(
    platform: AgentPlatform, workspace: Workspace, settings: Settings, *, reload: bool = False
) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises `SettingsError` for a port or a required upstream server that fails."""
    _log_to_stderr(settings, platform)
    with bind(settings) as listener, children_end_when_told():
        address = address_of(listener)
        async with platform:
            publisher = Publisher(platform, workspace, settings)
            site = Site(publisher)
            _tell(startup_report(publisher.publication, platform, settings, address))
            async with anyio.create_task_group() as tasks:
                if reload:
                    tasks.start_soon(watch, publisher)
                await listen(site, listener, lambda: _tell([f"goalport ready on {address}/mcp"]))
                tasks.cancel_scope.cancel()


async def serve_stdio(
    platform: AgentPlatform,
    workspace: Workspace,
    settings: Settings,
    *,
    reload: bool = False,
    handshake: EarlyHandshake | None = None,
) -> None:
    """Serve until the client closes stdin, or until SIGTERM or Ctrl-C. Logs and the report go to stderr.

    `handshake` has read stdin until now, and may have answered the client's first request.
    """
    _log_to_stderr(settings, platform)
    async with platform:
        await _serve_lines(McpState(Publisher(platform, workspace, settings)), handshake, reload=reload)


async def _serve_lines(state: McpState, handshake: EarlyHandshake | None, *, reload: bool) -> None:
    server, _ = make_server(state)
    with children_end_when_told():
        async with state.publisher.connected(), anyio.create_task_group() as tasks:
            if sys.platform != "win32":
                await tasks.start(stop_on_signal, state)
            if reload:
                tasks.start_soon(watch, state.publisher)
            _tell(startup_report(state.publication, state.platform, state.settings, None))
            earlier = await anyio.to_thread.run_sync(handshake.wait, abandon_on_cancel=True) if handshake else b""
            await serve_lines(server, state, earlier, handshake.answered if handshake else None)
            await finish(state)
            tasks.cancel_scope.cancel()


def _tell(lines: Iterable[str]) -> None:
    """Write lines to stderr, coloured on a terminal."""
    for line in lines:
        sys.stderr.write(f"{coloured(line, sys.stderr)}\n")
    sys.stderr.flush()


def _log_to_stderr(settings: Settings, platform: AgentPlatform) -> None:
    """Log goalport's messages at the level of the settings, others' warnings, unless the program configured logging.

    The events of processes are logged only at level debug: that costs more than a quick call itself.
    """
    if settings.log_level == "debug":
        platform.subscribe(LogListener(settings.log_personality))
    if not logging.getLogger().handlers:
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("goalport").setLevel(settings.log_level.upper())


def startup_report(
    publication: Publication, platform: AgentPlatform, settings: Settings, address: str | None
) -> Iterator[str]:
    """The lines of the report. `address` is the URL of the HTTP server; None over stdio."""
    tools, prompts = counted(len(publication.tools), "tool"), counted(len(publication.prompts), "prompt")
    place = "stdin and stdout" if address is None else f"{address}/mcp"
    yield f"Goalport {__version__} serves {settings.name} on {place}: {tools}, {prompts}"
    yield from report_of(publication, platform)
    if address is not None:
        for exposure in exposures(settings):
            yield f"  warning: {exposure}"
    yield from _ways_in(address, settings)


def _ways_in(address: str | None, settings: Settings) -> Iterator[str]:
    if address is None:
        yield "  serving one client over stdin and stdout"
        return
    yield f"  Streamable HTTP (Claude, Cursor, VS Code, Codex, Inspector): {address}/mcp"
    yield f"  SSE, for older clients: {address}/sse"
    yield f"  Hosts that only start programs: npx -y mcp-remote {address}/mcp"
    yield f"  Open WebUI (Admin Settings, External Tools, type MCP): {address}/mcp"
    yield f"  Clients and what to tell them: {_connecting(address, settings)}"


def _connecting(address: str, settings: Settings) -> str:
    """The command that prints a client's configuration, to be run in the folder where the server was started."""
    beside = Path(sys.executable).with_name("goalport")
    known = shutil.which("goalport")
    program = "goalport" if known or not beside.exists() else os.path.relpath(beside)
    words = [program, "connect", "claude-code"]
    if settings.workspace != Path.cwd():
        words += ["--workspace", str(settings.workspace)]
    if urlsplit(address).port != settings.port:
        words += ["--url", f"{address}/mcp"]
    return shlex.join(words)
