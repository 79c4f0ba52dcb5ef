"""`goalport serve`: the options of a server, turned into settings and handed to the room that serves.

Below the program; settings, platform and serve are below it.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import anyio
from cyclopts import Parameter

from goalport.cli.folder import WorkspaceFolder
from goalport.cli.place import Place, opened
from goalport.cli.terminal import say
from goalport.serve import serve_http, serve_stdio


@Parameter(name="*")
@dataclass(frozen=True)
class Listening:
    """How the server is reached. None: as the settings say."""

    host: str | None = None
    "Where to listen. Default: 127.0.0.1, this machine alone."
    port: int | None = None
    "Default: 8080. 0 takes a free one."
    allowed_host: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    "A name by which clients call this server, for instance behind a proxy; repeat it for more."
    stateless: bool | None = None
    "No sessions: any replica answers any request."


@Parameter(name="*")
@dataclass(frozen=True)
class Logging:
    """How much is said on standard error."""

    log_level: Literal["debug", "info", "warning", "error", "critical"] | None = None
    "How much is logged. Default: info."
    verbose: Annotated[bool, Parameter(name=("--verbose", "-v"), negative="", show_default=False)] = False
    "Log everything: --log-level debug."


def serve(
    *,
    transport: Annotated[
        Literal["http", "stdio"],
        Parameter(help="http: /mcp, /sse, /health. stdio: one client, on stdin and stdout."),
    ] = "http",
    listening: Listening = Listening(),
    reload: Annotated[
        bool, Parameter(negative="", help="Load the workspace anew when a file changes.", show_default=False)
    ] = False,
    logging: Logging = Logging(),
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Serve the workspace to MCP clients."""
    with _clean_stdout() if transport == "stdio" else nullcontext():
        place = _opened(workspace, listening, logging)
    if not len(place.platform.agents):
        say(f"warning: {place.no_agents}")
    anyio.run(_serve, place, transport, reload, backend_options={"use_uvloop": sys.platform != "win32"})


@contextmanager
def _clean_stdout() -> Generator[None]:
    """What modules print while they are loaded goes to standard error: standard output is the protocol's."""
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _opened(workspace: Path, listening: Listening, logging: Logging) -> Place:
    return opened(
        workspace,
        host=listening.host,
        port=listening.port,
        allowed_hosts=listening.allowed_host or None,
        stateless=listening.stateless,
        log_level="debug" if logging.verbose else logging.log_level,
    )


async def _serve(place: Place, transport: str, reload: bool) -> None:  # noqa: FBT001 - anyio.run hands on by position
    if transport == "stdio":
        await serve_stdio(place.platform, place.workspace, place.settings, reload=reload)
    else:
        await serve_http(place.platform, place.workspace, place.settings, reload=reload)
