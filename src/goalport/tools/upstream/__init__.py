"""Upstream MCP servers: connections that are restored after a loss, and `Tool` objects for the servers' tools.

`UpstreamServers` connects the servers of a configuration; `UpstreamGroups` makes tool groups of their
tools. `platform`, above, owns both, and agents see only tool groups; below are tools, errors and words. The MCP
SDK is used only here and in `doors.mcp`, and is imported when the first server is connected.
"""

from goalport.tools.upstream.config import (
    ConfigProblem,
    GroupConfig,
    McpConfig,
    NamingConfig,
    OAuthConfig,
    ServerConfig,
    read_config,
)

__all__ = ["ConfigProblem", "GroupConfig", "McpConfig", "NamingConfig", "OAuthConfig", "ServerConfig", "read_config"]
