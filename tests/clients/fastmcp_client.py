# It runs in FastMCP's own environment, which goalport's type checker does not see.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
"""FastMCP's client. Arguments: converse or obey, transport, era, then address or command.

It has the conversation and reports it, or calls the tools that it is told on stdin, a line each.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import ClientTransport, SSETransport, StdioTransport, StreamableHttpTransport
from mcp import MCPError
from pydantic import BaseModel


def wire(value: BaseModel) -> dict[str, Any]:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


async def refusal(call: Awaitable[BaseModel]) -> dict[str, Any]:
    try:
        return {"result": wire(await call)}
    except MCPError as error:
        return {"code": error.code, "message": error.message}


async def converse(client: Client[Any]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append({"progress": progress, "total": total, "message": message})

    saying = {"text": "good morning", "times": 2}
    return {
        "server": client.server_info.name,
        "revision": client.protocol_version,
        "tools": {tool.name: wire(tool) for tool in await client.list_tools()},
        "banner": wire(await client.call_tool_mcp("helloBanner", {})),
        "goal": wire(await client.call_tool_mcp("shout", saying, progress_handler=note)),
        "progress": steps,
        "bad": wire(await client.call_tool_mcp("shout", {"text": "hello", "times": "often"})),
        "unknown": await refusal(client.call_tool_mcp("whisper", {})),
        "prompts": [prompt.name for prompt in await client.list_prompts()],
        "prompt": (await client.get_prompt("Saying_shout", {"text": "good morning"})).messages[0].content.text,
        "resources": [str(resource.uri) for resource in await client.list_resources()],
        "resource": (await client.read_resource("goalport://goals"))[0].text,
    }


def transport(kind: str, target: list[str]) -> ClientTransport:
    if kind == "stdio":
        return StdioTransport(target[0], target[1:], env=dict(os.environ))
    return (SSETransport if kind == "sse" else StreamableHttpTransport)(target[0])


async def obey(client: Client[Any]) -> None:
    await client.list_tools()
    while line := await asyncio.to_thread(sys.stdin.readline):
        request = json.loads(line)
        tell(wire(await client.call_tool_mcp(request["name"], request["arguments"])))


def tell(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def main(task: str, kind: str, era: str, *target: str) -> None:
    mode = "legacy" if era == "legacy" else "auto"
    async with Client(transport(kind, list(target)), mode=mode) as client:
        if task == "obey":
            await obey(client)
        else:
            tell(await converse(client))


asyncio.run(main(*sys.argv[1:]))
