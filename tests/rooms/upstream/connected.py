"""Connects servers for tests, and looks after what they leave behind. No test is in here."""

import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from goalport.tools import ToolResult
from goalport.tools.upstream.config import GroupConfig, McpConfig, ServerConfig
from goalport.tools.upstream.servers import UpstreamServers
from goalport.tools.upstream.upstream_server import Timing, UpstreamServer

PLAIN = str(Path(__file__).with_name("plain_server.py"))
QUICK = Timing(first_delay=0.02, longest_delay=0.1, ping_every=0.2, ping_timeout=0.3, refresh_gap=0.01)
MARK = "GOALPORT_TEST_HUB"


def plain(*options: str, name: str = "plain", **more: Any) -> ServerConfig:
    """A server that is a process, made by `plain_server.py`."""
    config = ServerConfig(name, "stdio", command=sys.executable, args=("-S", "-E", PLAIN, *options), timeout=10)
    return replace(config, **more)


@asynccontextmanager
async def connected(
    *servers: ServerConfig,
    groups: Sequence[GroupConfig] = (),
    data: Path | None = None,
    timing: Timing = QUICK,
    start_seconds: float = 20,
    **more: Any,
) -> AsyncGenerator["WatchedServers"]:
    """Connected servers, and afterwards the certainty that no process of its servers is left."""
    config = McpConfig({each.name: marked(each) for each in servers}, {each.role: each for each in groups})
    watched: WatchedServers | None = None
    with nothing_left_behind():
        folder = data or Path("/nonexistent")
        upstream = UpstreamServers(config, folder, timing=timing, start_seconds=start_seconds, **more)
        watched = WatchedServers(upstream)
        upstream.on_change = watched.change
        with anyio.fail_after(60):
            async with upstream:
                yield watched


def marked(config: ServerConfig) -> ServerConfig:
    """The same server, whose processes can be found by their environment."""
    return replace(config, env={**config.env, MARK: str(os.getpid())}) if config.transport == "stdio" else config


@contextmanager
def nothing_left_behind() -> Generator[None]:
    yield
    left = marked_processes()
    assert not left, f"Processes of servers are left behind: {left}"


def marked_processes() -> list[str]:
    """The running processes whose environment says that a server of this test process started them."""
    wanted = f"{MARK}={os.getpid()}\0".encode()
    found: list[str] = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (each / "environ").read_bytes() + b"\0":
                found.append(f"{each.name} {(each / 'cmdline').read_bytes()!r}")
        except OSError:
            continue
    return found


async def quiet(seconds: float) -> None:
    """A time in which nobody calls anything: only in it a connection is asked for signs of life."""
    with anyio.move_on_after(seconds):
        await anyio.Event().wait()


class WatchedServers:
    """Servers whose changes can be waited for."""

    def __init__(self, servers: UpstreamServers) -> None:
        self.all = servers
        self._changed = anyio.Event()

    def change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def server(self, name: str = "plain") -> UpstreamServer:
        return self.all.servers[name]

    async def until(self, holds: Callable[[], bool], seconds: float = 20) -> None:
        """Wait until something holds that the servers tell of."""
        with anyio.move_on_after(seconds):
            while not holds():
                await self._changed.wait()
        assert holds(), f"It did not come within {seconds} s; the servers are {self.all.reports()}"

    async def call(self, tool: str, server: str = "plain", **arguments: object) -> ToolResult:
        (found,) = (each for each in self.server(server).tools if each.name == tool)
        return await found.tool.call(arguments)
