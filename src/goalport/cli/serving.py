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

from cyclopts import Parameter

from goalport.cli.folder import WorkspaceFolder, served_root
from goalport.greeting import Greeting


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
    root = served_root(workspace)
    greeting = Greeting(root) if transport == "stdio" else None
    with nullcontext() if greeting is None else _clean_stdout():
        # These load all libraries, for which a client over stdio does not have to wait.
        from goalport.cli.place import opened
        from goalport.cli.starting import start

        place = opened(
            workspace,
            host=listening.host,
            port=listening.port,
            allowed_hosts=listening.allowed_host or None,
            stateless=listening.stateless,
            log_level="debug" if logging.verbose else logging.log_level,
        )
    start(place, greeting, reload=reload)


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
