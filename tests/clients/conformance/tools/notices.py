"""Tools whose point is what they send beside their result: log messages, and news of changed lists.

A goal reports progress, not log messages, so these are raw.
"""

from typing import Any

import anyio
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


async def log(ctx: Context, text: str) -> None:
    # The SDK marks logging as deprecated since 2026-07-28; the earlier revisions have it, and the suite asks for it.
    await ctx.session.send_log_message("info", text, related_request_id=ctx.request_id)  # pyright: ignore[reportDeprecated]


async def log_three_times(ctx: Context, _: CallToolRequestParams) -> CallToolResult:
    await log(ctx, "Tool execution started")
    await anyio.sleep(0.05)
    await log(ctx, "Tool processing data")
    await anyio.sleep(0.05)
    await log(ctx, "Tool execution completed")
    return said("Logged three messages")


async def log_if_wanted(ctx: Context, _: CallToolRequestParams) -> CallToolResult:
    await log(ctx, "Only for a request that asked for log messages")
    return said("Logged a message, if that was wanted")


async def need_sampling(ctx: Context, _: CallToolRequestParams) -> CallToolResult:
    if (ctx.session.client_capabilities or ClientCapabilities()).sampling is None:
        data: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs a client that can sample", data)
    return said("The client can sample")


async def progress(ctx: Context, _: CallToolRequestParams) -> CallToolResult:
    for step in (1, 2):
        await ctx.session.report_progress(step, 2)
    return said("Reported its steps, and asked nothing of its own accord")


async def change_tools(ctx: Context, _: CallToolRequestParams) -> CallToolResult:
    await changed(ctx, "tools")
    return said("Said that the tools changed")


async def change_prompts(ctx: Context, _: CallToolRequestParams) -> CallToolResult:
    await changed(ctx, "prompts")
    return said("Said that the prompts changed")


def tool(name: str, description: str) -> Tool:
    return Tool(name=name, description=description, input_schema={"type": "object"})


logging = raw_tool(tool("test_tool_with_logging", "Sends three log messages"), log_three_times)
quiet_logging = raw_tool(tool("test_logging_tool", "Sends a log message to who asked for them"), log_if_wanted)
missing_capability = raw_tool(tool("test_missing_capability", "Needs a client that can sample"), need_sampling)
streaming = raw_tool(tool("test_streaming_elicitation", "Streams notifications and its result"), progress)
tool_change = raw_tool(tool("test_trigger_tool_change", "Says that the tools changed"), change_tools)
prompt_change = raw_tool(tool("test_trigger_prompt_change", "Says that the prompts changed"), change_prompts)
