"""Upstream servers of a test that are objects in memory, in the groups of a configuration."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from goalport.runtime.platform import UpstreamServers
from goalport.tools.upstream import McpConfig, ServerConfig
from goalport.tools.upstream.config import read_config
from goalport.tools.upstream.connection import Transport

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer


def upstream_of(
    servers: "Mapping[str, Server[Any] | MCPServer]", config: McpConfig | Path | str | None = None
) -> UpstreamServers:
    """The upstream servers of a platform, each an object of the MCP SDK, by its name in the configuration.

    `AgentPlatform(agents, upstream=upstream_of({"github": server}, "mcp_config.json"))`. The groups are those of the
    configuration or its file; a server that none of them names is a group by its own name. The other servers of the
    file are not there, and nothing is pinned.
    """
    read = config if isinstance(config, McpConfig) else McpConfig() if config is None else read_config(Path(config), {})
    entries = {name: _in_memory(name, read.servers.get(name)) for name in servers}
    groups = {role: replace(each, pin=False) for role, each in read.groups.items()}
    transports = {name: _InMemory(each) for name, each in servers.items()}
    return UpstreamServers(McpConfig(entries, groups), Path(gettempdir()), transports=transports)


def _in_memory(name: str, entry: ServerConfig | None) -> ServerConfig:
    """The entry of a server without what is only needed to reach it; opening waits for it, and fails if it does."""
    if entry is None:
        return ServerConfig(name, "stdio", required=True)
    return ServerConfig(
        name,
        "stdio",
        required=True,
        timeout=entry.timeout,
        concurrency=entry.concurrency,
        sampling=entry.sampling,
        protocol_version=entry.protocol_version,
        enabled_tools=entry.enabled_tools,
        disabled_tools=entry.disabled_tools,
    )


class _InMemory(Transport):
    """The transport to a server that is an object."""

    def __init__(self, server: "Server[Any] | MCPServer") -> None:
        self._server = server

    def open(self) -> AbstractAsyncContextManager[Any]:
        from mcp.client._memory import InMemoryTransport

        return InMemoryTransport(self._server)
