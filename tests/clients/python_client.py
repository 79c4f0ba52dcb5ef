"""The conversation as the official Python client has it, over whatever transport it is given. No test is in here."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, cast

import anyio
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp_types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    RequestParamsMeta,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

from tests.clients.playing import Heard, Request

MODES: Mapping[str, Literal["legacy", "auto"]] = {"legacy": "legacy", "modern": "auto"}
"""How the client is told which era to speak; the newest one is found by asking the server."""


def wire(value: BaseModel) -> dict[str, Any]:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


async def report_of(client: Client) -> dict[str, Any]:
    """The report that `conversation.check` reads."""
    async with client:
        return await converse(client)


async def converse(client: Client) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append({"progress": progress, "total": total, "message": message})

    info = client.server_info
    return {
        "server": info.name if info else None,
        "revision": client.protocol_version,
        "tools": {tool.name: wire(tool) for tool in (await client.list_tools()).tools},
        "banner": wire(await client.call_tool("helloBanner")),
        "goal": wire(await client.call_tool("shout", {"text": "good morning", "times": 2}, progress_callback=note)),
        "progress": steps,
        "bad": wire(await client.call_tool("shout", {"text": "hello", "times": "often"})),
        "unknown": await refusal(client.call_tool("whisper")),
        **await offers(client),
    }


async def offers(client: Client) -> dict[str, Any]:
    message = (await client.get_prompt("shout", {"text": "good morning"})).messages[0]
    content = (await client.read_resource("goalport://goals")).contents[0]
    return {
        "prompts": [prompt.name for prompt in (await client.list_prompts()).prompts],
        "prompt": message.content.text if isinstance(message.content, TextContent) else "",
        "resources": [str(resource.uri) for resource in (await client.list_resources()).resources],
        "resource": content.text if isinstance(content, TextResourceContents) else "",
    }


async def refusal(call: Awaitable[CallToolResult]) -> dict[str, Any]:
    try:
        return {"result": wire(await call)}
    except MCPError as error:
        return {"code": error.code, "message": error.message}


class Person:
    """Does with each form that the client shows what the call says."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        del context
        self.asked.append(wire(params))
        match self.answers.pop(0):
            case "raise":
                raise RuntimeError("The form cannot be shown.")
            case "garble":
                return cast("ElicitResult", {"sing": True})
            case "ignore":
                await anyio.sleep_forever()
            case "open":
                return ElicitResult(action="accept")
            case "decline" | "cancel" as action:
                return ElicitResult(action=action)
            case content:
                return ElicitResult(action="accept", content=content)
        raise AssertionError("nobody answers")


def tools_of(client: Client, person: Person | None = None) -> Callable[[Request], Awaitable[Heard]]:
    """Calls the tools of the server that the client is connected to; `person` is the one who answers its forms."""
    person = person or Person()

    async def call(request: Request) -> Heard:
        person.answers, person.asked = [*request.answers], []
        meta = RequestParamsMeta(**request.meta) if request.meta else None
        try:
            result = await client.call_tool(request.tool, dict(request.arguments), meta=meta)
        except (MCPError, ValueError, ExceptionGroup) as error:
            return Heard("", failed=True, structured=None, asked=person.asked, error=repr(error))
        return Heard.of(wire(result), person.asked)

    return call
