"""The MCP server and its transports: sessions, calls, resources, subscriptions, and how bytes come and go. Floor 10.

What is offered is made in `publish`; `site` mounts this door, listens and shuts down.
"""

from goalport.serve.raw import (
    changed,
    raw_prompt,
    raw_resource,
    raw_template,
    raw_tool,
    resource_updated,
)

__all__ = ["changed", "raw_prompt", "raw_resource", "raw_template", "raw_tool", "resource_updated"]
