"""What a server says when it starts: where it listens, what it offers, who else may reach it, how clients connect.

Plain text; whoever prints it may paint it. `publish` says what is offered.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from goalport import __version__
from goalport.platform import AgentPlatform
from goalport.publish.publication import Publication
from goalport.publish.report import report_of
from goalport.settings import Settings
from goalport.site.security import exposures
from goalport.words import counted

__all__ = ["startup_report"]


def startup_report(
    publication: Publication, platform: AgentPlatform, settings: Settings, address: str | None
) -> Iterator[str]:
    """The lines. `address` is where the HTTP server listens; None over stdio."""
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
    """The command that prints a client's configuration, as it can be typed where the server was started."""
    beside = Path(sys.executable).with_name("goalport")
    known = shutil.which("goalport")
    program = "goalport" if known or not beside.exists() else os.path.relpath(beside)
    words = [program, "connect", "claude-code"]
    if settings.workspace != Path.cwd():
        words += ["--workspace", str(settings.workspace)]
    if urlsplit(address).port != settings.port:
        words += ["--url", f"{address}/mcp"]
    return shlex.join(words)
