"""A tool for clients with sampling, and two that announce changed lists.

They are raw: goals never need sampling, so none refuses a client without it, and no goal changes lists by itself.
"""

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

from goalport.serve import changed, raw_tool

Context = ServerRequestContext[Any, Any]


def said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)])


async def need_sampling(ctx: Context, _: CallToolRequestParams) -> CallToolResult:
    if (ctx.session.client_capabilities or ClientCapabilities()).sampling is None:
        data: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs a client that can sample", data)
    return said("The client can sample")


async def change_tools(ctx: Context, _: CallToolRequestParams) -> CallToolResult:
    await changed(ctx, "tools")
    return said("Said that the tools changed")


async def change_prompts(ctx: Context, _: CallToolRequestParams) -> CallToolResult:
    await changed(ctx, "prompts")
    return said("Said that the prompts changed")


def tool(name: str, description: str) -> Tool:
    return Tool(name=name, description=description, input_schema={"type": "object"})


missing_capability = raw_tool(tool("test_missing_capability", "Needs a client that can sample"), need_sampling)
tool_change = raw_tool(tool("test_trigger_tool_change", "Says that the tools changed"), change_tools)
prompt_change = raw_tool(tool("test_trigger_prompt_change", "Says that the prompts changed"), change_prompts)
