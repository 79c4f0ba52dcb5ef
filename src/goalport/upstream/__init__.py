"""Upstream MCP servers: connections that come back by themselves, and their tools as tools of ours.

Above it `platform` owns the hub, and agents see nothing but tool groups; below it are tools, errors and events. The MCP
SDK is used here and in `serve` alone, and is imported when the first server is connected.
"""

from goalport.upstream.config import GroupConfig, McpConfig, NamingConfig, OAuthConfig, Problem, ServerConfig
from goalport.upstream.config_file import read_config

__all__ = ["GroupConfig", "McpConfig", "NamingConfig", "OAuthConfig", "Problem", "ServerConfig", "read_config"]
