"""Clients that leave in the middle of an exported function or a raw tool: the function is cancelled."""

from pathlib import Path

import anyio
import httpx2
import pytest

from tests.stories.cooks import HEADERS, META, session
from tests.stories.servers import Heard, Running, over_stdio

TOOLS = """
import asyncio
import sys

import anyio
from mcp_types import CallToolResult, TextContent, Tool
from goalport import tool
from goalport.server.doors.mcp import raw_tool

async def work(seconds):
    print("working begins", file=sys.stderr, flush=True)
    try:
        await anyio.sleep(seconds)
    except asyncio.CancelledError:
        print("working stops", file=sys.stderr, flush=True)
        raise
    return "done"

@tool(export=True)
async def exported(seconds: float) -> str:
    '''Work for some time.'''
    return await work(seconds)

async def handle(context, params):
    return CallToolResult(content=[TextContent(type="text", text=await work(params.arguments["seconds"]))])

SCHEMA = {"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]}
raw = raw_tool(Tool(name="raw", description="Work for some time", input_schema=SCHEMA), handle)
"""
FILES = {"tools/working.py": TOOLS}
TOOL_NAMES = ("exported", "raw")
BOTH = pytest.mark.parametrize("tool", TOOL_NAMES)


@BOTH
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_call_that_its_client_cancels_is_cancelled(server: Running, era: str, tool: str) -> None:
    async with server.client("http", era) as client:
        await _cancelled(client.call_tool, server.heard, tool)
        result = await client.call_tool(tool, {"seconds": 0})
    assert getattr(result.content[0], "text", "") == "done"


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_calls_over_stdio_that_their_client_cancels_are_cancelled(tmp_path: Path, era: str) -> None:
    async with over_stdio(tmp_path, FILES, era) as (client, heard):
        for tool in TOOL_NAMES:
            heard.text = ""
            await _cancelled(client.call_tool, heard, tool)


async def _cancelled(call: object, heard: Heard, tool: str) -> None:
    assert callable(call)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as calls:
            calls.start_soon(call, tool, {"seconds": 60.0})  # type: ignore[arg-type]
            await heard.until("working begins")
            calls.cancel_scope.cancel()
    await heard.until("working stops")


@BOTH
async def test_a_call_whose_connection_is_dropped_is_cancelled(server: Running, tool: str) -> None:
    params = {"name": tool, "arguments": {"seconds": 60}, "_meta": META}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
    async with httpx2.AsyncClient(base_url=server.address, timeout=20) as http, anyio.create_task_group() as calls:

        async def post() -> None:
            await http.post("/mcp", json=call, headers={**HEADERS, **routing})

        calls.start_soon(post)
        await server.heard.until("working begins")
        calls.cancel_scope.cancel()
    await server.heard.until("working stops")


@BOTH
async def test_a_connection_of_a_session_that_is_dropped_cancels_its_call(server: Running, tool: str) -> None:
    params = {"name": tool, "arguments": {"seconds": 60}}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    async with session(server) as (http, headers):
        async with http.stream("POST", "/mcp", json=call, headers=headers):
            await server.heard.until("working begins")
        await server.heard.until("working stops")
