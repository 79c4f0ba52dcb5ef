"""Connects the upstream servers of a workspace for one command, and reports errors in their configuration.

Here no server is required, because a command also inspects servers that are down. Above: the commands.
"""

import sys
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated

import anyio.to_thread
from cyclopts import Parameter

from goalport.cli.terminal import say
from goalport.cli.workspace import LoadedWorkspace
from goalport.platform import AgentPlatform, UpstreamServers

Timeout = Annotated[
    float | None,
    Parameter(help="Seconds that connecting to a server may take. Default: its connectTimeout, or 30."),
]


@asynccontextmanager
async def connected(loaded: LoadedWorkspace, seconds: float | None = None) -> AsyncGenerator[AgentPlatform]:
    """The platform of a workspace, after a connection to each server was tried; a server may be down."""
    upstream = loaded.platform.upstream
    _lenient(upstream, seconds)
    if sys.stdin.isatty():
        upstream.show_sign_in = _show
    async with loaded.platform as platform:
        yield platform


def _lenient(upstream: UpstreamServers, seconds: float | None) -> None:
    """Wait for each server for its own timeout, or for `seconds`, and treat none as required."""
    changes = {"required": False} | ({} if seconds is None else {"connect_timeout": seconds})
    servers = {name: replace(each, **changes) for name, each in upstream.config.servers.items()}
    problems = tuple(replace(each, is_fatal=False) for each in upstream.config.problems)
    upstream.config = replace(upstream.config, servers=servers, problems=problems)
    upstream.start_seconds = max((each.connect_timeout for each in servers.values()), default=0.0) + 1


async def _show(url: str) -> None:
    say(f"Sign in with a browser: {url}")
    await anyio.to_thread.run_sync(webbrowser.open, url)
