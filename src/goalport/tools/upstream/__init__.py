"""Upstream MCP servers: connections that are restored when they are lost, and the servers' tools as tools of ours.

`UpstreamServers` connects the servers of a configuration; `UpstreamGroups` makes tool groups of their
tools. `platform`, above, owns both, and agents see nothing but tool groups; below are tools, errors and words. The MCP
SDK is used here and in `doors.mcp` alone, and is imported when the first server is connected.
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
