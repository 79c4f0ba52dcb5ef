"""An MCP server over HTTP, made with the SDK: streamable HTTP under /mcp, SSE under /sse, in both eras of the protocol.

No test is in here: tests start it as a process. It says on stderr where it listens.
"""

import argparse
import json
import os
import socket
import sys
from typing import Any

import anyio
import uvicorn
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop
from mcp.server.sse import SseServerTransport
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

OPTIONS = argparse.ArgumentParser()
OPTIONS.add_argument("--port", type=int, default=0)
OPTIONS.add_argument("--token", default="", help="what a request has to bear")
OPTIONS.add_argument("--json", action="store_true", help="answers are JSON, and no streams")
OPTIONS.add_argument("--packed", action="store_true", help="packs its answers, asked or not")
OPTIONS.add_argument("--legacy", action="store_true", help="knows the handshake alone")
GIVEN = OPTIONS.parse_args()

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
NAMES = ["echo", "pid", "ask", "never", "progress", "huge", "change", "headers", "cancelled", "quota"]
BUS = InMemorySubscriptionBus()
CANCELLED: list[str] = []


def text(value: object) -> CallToolResult:
    words = value if isinstance(value, str) else json.dumps(value)
    return CallToolResult(content=[TextContent(type="text", text=words)])


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    """Two pages."""
    page = NAMES[:3] if params is None or params.cursor is None else NAMES[3:]
    tools = [Tool(name=name, description=f"Does {name}", input_schema=SCHEMA) for name in page]
    return ListToolsResult(tools=tools, next_cursor="rest" if page == NAMES[:3] else None)


async def call_tool(ctx: Any, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
    given: dict[str, Any] = params.arguments or {}
    match params.name:
        case "ask":
            return await ask(ctx, params)
        case "never":
            await never()
        case "quota":
            raise MCPError(-32000, given.get("text", "quota exceeded"))
        case "progress":
            await ctx.session.report_progress(1, 2, "half")
        case "change":
            NAMES.append(given["text"])
            await BUS.publish(ToolsListChanged())
        case _:
            pass
    return text(
        {
            "pid": os.getpid(),
            "headers": dict(ctx.request.headers) if ctx.request is not None else {},
            "huge": "x" * 20_000_000,
            "cancelled": CANCELLED,
        }.get(params.name, given.get("text", ""))
    )


async def never() -> None:
    try:
        await anyio.Event().wait()
    finally:
        CANCELLED.append("never")


async def ask(ctx: Any, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
    schema = {"type": "object", "properties": {"sign": {"type": "string"}}}
    if ctx.protocol_version < "2026" or (params.arguments or {}).get("text") == "as older servers do":
        answer = await ctx.session.elicit_form("Which sign?", schema, related_request_id=ctx.request_id)
        return text({"action": answer.action, "content": answer.content})
    if params.input_responses is None:
        question = ElicitRequest(params=ElicitRequestFormParams(message="Which sign?", requested_schema=schema))
        return InputRequiredResult(input_requests={"sign": question}, request_state="asked")
    response: Any = params.input_responses["sign"]
    return text({"action": response.action, "content": response.content})


def server() -> Server[Any]:
    if GIVEN.legacy:
        return Server("web", on_list_tools=list_tools, on_call_tool=call_tool)
    return Server("web", on_list_tools=list_tools, on_call_tool=call_tool, on_subscriptions_listen=ListenHandler(BUS))


class Guarded:
    """Lets nobody in without the token, and for `--legacy` nobody who knows what is newer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        if scope["type"] == "http":
            headers = Request(scope).headers
            if GIVEN.token and headers.get("authorization") != f"Bearer {GIVEN.token}":
                app = PlainTextResponse("no", 401)
            elif GIVEN.legacy and headers.get("mcp-protocol-version", "") > "2026":
                app = PlainTextResponse("no", 400)
        await app(scope, receive, packing(send) if GIVEN.packed else send)


def packing(send: Send) -> Send:
    """Says that what is sent is packed; nobody gets as far as to see that it is not."""

    async def packed(message: Any) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"content-encoding", b"gzip")]
        await send(message)

    return packed


def app() -> ASGIApp:
    served = server()
    sse = SseServerTransport("/messages/")
    web: Starlette = served.streamable_http_app(json_response=GIVEN.json)

    async def events(request: Request) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as (reading, writing):  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            if GIVEN.legacy:
                await serve_loop(served, reading, writing, lifespan_state={})
            else:
                await served.run(reading, writing, served.create_initialization_options())
        return Response()

    web.routes.extend([Route("/sse", events), Mount("/messages/", app=sse.handle_post_message)])
    return Guarded(web)


def main() -> None:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", GIVEN.port))
    listening.listen()
    config = uvicorn.Config(app(), log_level="warning", timeout_graceful_shutdown=1)
    sys.stderr.write(f"listening on http://127.0.0.1:{listening.getsockname()[1]}\n")
    uvicorn.Server(config).run(sockets=[listening])


main()
