"""`goalport serve`: turns the options into settings and starts the site."""

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import anyio
from cyclopts import Parameter

from goalport.base.errors import BadInput, WorkspaceError
from goalport.base.handshake import EarlyHandshake
from goalport.base.lazy import deferred_models, gc_disabled
from goalport.cli.options import WorkspaceFolder, workspace_root

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
    allowed_host: tuple[str, ...] = ()
    "A name by which clients call this server, for instance behind a proxy; repeat it for more."
    stateless: Annotated[bool | None, Parameter(negative="--no-stateless")] = None
    "No sessions: any replica answers any request. --no-stateless keeps them, whatever the settings say."
    workers: int | Literal["auto"] | None = None
    "How many processes serve on the port, auto: one for each core. Default: 1."
    insecure_no_auth: bool = False
    "Listen to other machines although nobody is authenticated: whoever reaches the server may do everything."


@Parameter(name="*")
@dataclass(frozen=True)
class LogOptions:
    """How much is said on standard error."""

    log_level: Literal["debug", "info", "warning", "error", "critical"] | None = None
    "How much is logged. Default: info."
    log_format: Literal["text", "json"] | None = None
    "How it is written: text, or json, one object in each line. Default: text."
    verbose: Annotated[bool, Parameter(("--verbose", "-v"))] = False
    "Log everything: --log-level debug."


def serve(
    *,
    transport: Literal["http", "stdio"] = "http",
    listening: ListenOptions = ListenOptions(),
    reload: bool = False,
    logging: LogOptions = LogOptions(),
    workspace: WorkspaceFolder = Path(),
) -> int | None:
    """Serve the workspace to MCP clients.

    Args:
        transport: http: at the addresses that are printed at start, the default. stdio: one client, on stdin and
            stdout.
        reload: Load the workspace again when a file changes.

    Examples:
        goalport serve
        goalport serve --port 9000 --reload
        goalport serve --host 0.0.0.0 --allowed-host agents.example.com --stateless
        goalport serve --workers 4
        goalport serve --transport stdio
    """
    root = workspace_root(workspace)
    if not any((root / name).exists() for name in _SIGNS):
        raise WorkspaceError(
            f"There is no workspace in {root}: it has neither agents/ nor tools/ nor mcp_config.json. Make one with"
            " an example of everything (goalport new my-agents), or name another folder with --workspace."
        )
    options: dict[str, object] = {  # None: not given
        "host": listening.host,
        "port": listening.port,
        "allowed_hosts": listening.allowed_host or None,
        "stateless": listening.stateless,
        "workers": listening.workers,
        "log_level": "debug" if logging.verbose else logging.log_level,
        "log_format": logging.log_format,
    }
    if transport == "stdio" and listening.workers not in {None, 1}:
        raise BadInput("--workers was given with --transport stdio, which has one client. Leave one of them out.")
    if transport == "stdio":
        _serve_stdio(root, options, reload=reload)
        return None
    return _serve_http(root, options, reload=reload, insecure=listening.insecure_no_auth)


@gc_disabled()
def _serve_stdio(root: Path, options: Mapping[str, object], *, reload: bool) -> None:
    handshake = EarlyHandshake(root)
    with _stdout_to_stderr():
        # These import all libraries; a client over stdio does not have to wait for that.
        with deferred_models():
            from goalport.cli.workspace import open_workspace, warn_without_agents
            from goalport.server.auth.keys import KEY_VARIABLE
            from goalport.server.site import serve_stdio

        loaded = open_workspace(root, **options)
    warn_without_agents(loaded)
    parts = (loaded.platform, loaded.workspace, loaded.settings)
    key = os.environ.get(KEY_VARIABLE, "").strip()
    _run(partial(serve_stdio, *parts, reload=reload, handshake=handshake, key=key))


def _serve_http(root: Path, options: Mapping[str, object], *, reload: bool, insecure: bool) -> int | None:
    """Serve in this process, also as a worker of a supervisor, or supervise workers; returns the exit code, if any."""
    from goalport.server.workers import WorkerChannel, check_workers, supervise
    from goalport.workspace.settings import load_settings

    channel = WorkerChannel.inherited()
    with _warnings(shown=channel is None):  # the supervisor has read the same settings
        settings = load_settings(root, **options)
    if insecure:
        settings = settings.without_authentication()
    if settings.worker_count > 1 and channel is None:
        check_workers(settings)
        return anyio.run(supervise, settings, [sys.executable, *sys.orig_argv[1:]])
    with gc_disabled():
        # These import all libraries, which the supervisor does not need.
        with deferred_models():
            from goalport.cli.workspace import open_with_settings, warn_without_agents
            from goalport.server.site import serve_http

        is_first = channel is None or channel.setup.announces
        with _warnings(shown=is_first):
            loaded = open_with_settings(root, settings)
        if is_first:
            warn_without_agents(loaded)
        _run(partial(serve_http, loaded.platform, loaded.workspace, settings, reload=reload, channel=channel))
    return None


def _run(server: Callable[[], Awaitable[None]]) -> None:
    anyio.run(server, backend_options={"use_uvloop": sys.platform != "win32"})


@contextmanager
def _warnings(*, shown: bool) -> Generator[None]:
    """Log warnings in this block only if `shown`: another process of this server may log the same ones."""
    before = logging.root.manager.disable
    if not shown:
        logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


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
