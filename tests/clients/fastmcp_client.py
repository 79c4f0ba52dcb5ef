# pyright: basic, reportMissingImports=false
# It runs in FastMCP's own environment, which goalport's type checker does not see.
"""The conversation as FastMCP's client has it. Arguments: transport, then address, or command and its arguments."""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp import MCPError


def wire(value):
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


async def refusal(call):
    try:
        return {"result": wire(await call)}
    except MCPError as error:
        return {"code": error.error.code, "message": error.error.message}


async def converse(client):
    progress = []

    async def note(amount, total, message):
        progress.append({"progress": amount, "total": total, "message": message})

    saying = {"text": "good morning", "times": 2}
    return {
        "server": client.initialize_result.server_info.name,
        "tools": {tool.name: wire(tool) for tool in await client.list_tools()},
        "banner": wire(await client.call_tool_mcp("helloBanner", {})),
        "goal": wire(await client.call_tool_mcp("shout", saying, progress_handler=note)),
        "progress": progress,
        "bad": wire(await client.call_tool_mcp("shout", {"text": "hello", "times": "often"})),
        "unknown": await refusal(client.call_tool_mcp("whisper", {})),
        "prompts": [prompt.name for prompt in await client.list_prompts()],
        "prompt": (await client.get_prompt("Saying_shout", {"text": "good morning"})).messages[0].content.text,
        "resources": [str(resource.uri) for resource in await client.list_resources()],
        "resource": (await client.read_resource("goalport://goals"))[0].text,
    }


def transport(kind, target):
    if kind == "stdio":
        return StdioTransport(target[0], target[1:], env=dict(os.environ))
    return (SSETransport if kind == "sse" else StreamableHttpTransport)(target[0])


async def main(kind, *target):
    async with Client(transport(kind, list(target))) as client:
        print(json.dumps(await converse(client)))


asyncio.run(main(*sys.argv[1:]))
