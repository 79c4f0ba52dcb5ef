"""The MCP server: what it publishes, how calls are answered, and the transports. Floor 9."""

from goalport.serve.publication import Publication, publish
from goalport.serve.raw import (
    RawPrompt,
    RawResource,
    RawTemplate,
    RawTool,
    changed,
    raw_prompt,
    raw_resource,
    raw_template,
    raw_tool,
    resource_updated,
)

__all__ = [
    "Publication",
    "RawPrompt",
    "RawResource",
    "RawTemplate",
    "RawTool",
    "changed",
    "publish",
    "raw_prompt",
    "raw_resource",
    "raw_template",
    "raw_tool",
    "resource_updated",
]
