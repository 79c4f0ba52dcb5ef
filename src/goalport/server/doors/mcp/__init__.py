"""The MCP server and its transports: sessions, calls, resources, subscriptions, stdio and HTTP.

`publish`, below, makes what the server offers; `site`, above, mounts its routes, listens and shuts down.
"""

from goalport.server.doors.mcp.raw import (
    changed,
    raw_prompt,
    raw_resource,
    raw_template,
    raw_tool,
    resource_updated,
)

__all__ = ["changed", "raw_prompt", "raw_resource", "raw_template", "raw_tool", "resource_updated"]
