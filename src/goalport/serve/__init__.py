"""The MCP server: what it publishes, how calls are answered, and the transports. Floor 9."""

from goalport.serve.http import create_app
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
from goalport.serve.report import report_of
from goalport.serve.running import serve_http
from goalport.serve.stdio import serve_stdio

__all__ = [
    "Publication",
    "RawPrompt",
    "RawResource",
    "RawTemplate",
    "RawTool",
    "changed",
    "create_app",
    "publish",
    "raw_prompt",
    "raw_resource",
    "raw_template",
    "raw_tool",
    "report_of",
    "resource_updated",
    "serve_http",
    "serve_stdio",
]
