"""A tool for clients that can sample. It is raw, as goals need no sampling, so none refuses a client without it."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    TextContent,
    Tool,
)

from goalport.server.doors.mcp import raw_tool


async def need_sampling(ctx: ServerRequestContext[Any, Any], _: CallToolRequestParams) -> CallToolResult:
    if (ctx.session.client_capabilities or ClientCapabilities()).sampling is None:
        data: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs a client that can sample", data)
    return CallToolResult(content=[TextContent(type="text", text="The client can sample")])


missing_capability = raw_tool(
    Tool(
        name="test_missing_capability",
        description="Needs a client that can sample",
        input_schema={"type": "object"},
    ),
    need_sampling,
)
