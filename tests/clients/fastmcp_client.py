# It runs in FastMCP's own environment, which goalport's type checker does not see.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
"""FastMCP's client. Arguments: a task, transport, era, then address or command.

To `converse` is to have the conversation and report it. To `obey` is to call the tools that it is told on stdin, a line
each; to `show` is to show forms meanwhile, and to `follow` is to follow tasks besides.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable
from importlib import import_module
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitRequestParams, ElicitResult
from fastmcp.client.transports import ClientTransport, SSETransport, StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
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
        "prompt": (await client.get_prompt("shout", {"text": "good morning"})).messages[0].content.text,
        "resources": [str(resource.uri) for resource in await client.list_resources()],
        "resource": (await client.read_resource("goalport://goals"))[0].text,
    }


def transport(kind: str, target: list[str]) -> ClientTransport:
    if kind == "stdio":
        return StdioTransport(target[0], target[1:], env=dict(os.environ))
    return (SSETransport if kind == "sse" else StreamableHttpTransport)(target[0])


class Person:
    """Does with each form what the line says: a word, or the fields of an answer."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, message: str, kind: type[Any] | None, params: ElicitRequestParams, _: Any) -> Any:
        self.asked.append(wire(params))
        match self.answers.pop(0):
            case "raise":
                raise RuntimeError("The form cannot be shown.")
            case "garble":
                return ["no", "fields"]
            case "ignore":
                await asyncio.Event().wait()
            case "leave":
                os._exit(0)
            case "open":
                return ElicitResult(action="accept")
            case "decline" | "cancel" as action:
                return ElicitResult(action=action)
            case content:
                return content
        return None


async def obey(client: Client[Any], person: Person) -> None:
    await client.list_tools()
    while line := await asyncio.to_thread(sys.stdin.readline):
        request = json.loads(line)
        person.answers, person.asked = request.get("answers", []), []
        try:
            result = await client.call_tool_mcp(request["name"], request["arguments"], meta=request.get("_meta"))
        except (MCPError, ToolError) as error:
            tell({"error": str(error), "asked": person.asked})
        else:
            tell({"result": wire(result), "asked": person.asked})


def tell(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def main(task: str, kind: str, era: str, *target: str) -> None:
    mode = "legacy" if era == "legacy" else "auto"
    person = Person()
    if task == "follow":
        # FastMCP's clients follow tasks once this is imported.
        import_module("fastmcp_tasks")
    handler = None if task == "obey" else person
    async with Client(transport(kind, list(target)), mode=mode, elicitation_handler=handler) as client:
        if task == "converse":
            tell(await converse(client))
        else:
            await obey(client, person)


asyncio.run(main(*sys.argv[1:]))
