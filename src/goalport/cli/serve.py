"""`goalport serve`: turns the options into settings and starts the site.

Below the program; settings, platform and site are below it.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import anyio
from cyclopts import Parameter

from goalport.cli.options import WorkspaceFolder, workspace_root
from goalport.cli.terminal import say
from goalport.errors import WorkspaceError
from goalport.handshake import EarlyHandshake

_SIGNS = ("agents", "tools", "mcp_config.json", "server/settings.toml")
"""A folder is a workspace if it contains one of these."""


@Parameter(name="*")
@dataclass(frozen=True)
class ListenOptions:
    """How the server is reached. None: as the settings say."""

    host: str | None = None
    "Where to listen. Default: 127.0.0.1, this machine alone."
    port: int | None = None
    "Default: 8080. 0 takes a free one."
    allowed_host: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    "A name by which clients call this server, for instance behind a proxy; repeat it for more."
    stateless: bool | None = None
    "No sessions: any replica answers any request. --no-stateless keeps them, whatever the settings say."


@Parameter(name="*")
@dataclass(frozen=True)
class LogOptions:
    """How much is said on standard error."""

    log_level: Literal["debug", "info", "warning", "error", "critical"] | None = None
    "How much is logged. Default: info."
    verbose: Annotated[bool, Parameter(name=("--verbose", "-v"), negative="", show_default=False)] = False
    "Log everything: --log-level debug."


def serve(
    *,
    transport: Annotated[
        Literal["http", "stdio"],
        Parameter(help="http: at the addresses that are printed at start. stdio: one client, on stdin and stdout."),
    ] = "http",
    listening: ListenOptions = ListenOptions(),
    reload: Annotated[
        bool, Parameter(negative="", help="Load the workspace again when a file changes.", show_default=False)
    ] = False,
    logging: LogOptions = LogOptions(),
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Serve the workspace to MCP clients."""
    root = _served_root(workspace)
    handshake = EarlyHandshake(root) if transport == "stdio" else None
    with nullcontext() if handshake is None else _stdout_to_stderr():
        # These import all libraries; a client over stdio does not have to wait for that.
        from goalport.cli.workspace import open_workspace
        from goalport.site import serve_http, serve_stdio

        loaded = open_workspace(
            workspace,
            host=listening.host,
            port=listening.port,
            allowed_hosts=listening.allowed_host or None,
            stateless=listening.stateless,
            log_level="debug" if logging.verbose else logging.log_level,
        )
    if not len(loaded.platform.agents):
        say(f"warning: {loaded.no_agents_message}")
    parts = (loaded.platform, loaded.workspace, loaded.settings)
    if handshake is None:
        server = partial(serve_http, *parts, reload=reload)
    else:
        server = partial(serve_stdio, *parts, reload=reload, handshake=handshake)
    anyio.run(server, backend_options={"use_uvloop": sys.platform != "win32"})


def _served_root(folder: Path) -> Path:
    """The folder, if it contains a workspace. Raises `WorkspaceError` with the command that makes one."""
    root = workspace_root(folder)
    if not any((root / name).exists() for name in _SIGNS):
        raise WorkspaceError(
            f"There is no workspace in {root}: it has neither agents/ nor tools/ nor mcp_config.json. Make one with"
            " an example of everything (goalport new my-agents), or name another folder with --workspace."
        )
    return root


@contextmanager
def _stdout_to_stderr() -> Generator[None]:
    """Redirect the output of modules that are loading to standard error: standard output belongs to the protocol."""
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
