"""An authorization server and an MCP server that wants its tokens, on one port of loopback. No test is in here."""

import gzip
import json
import random
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import anyio
import uvicorn
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent


def free_port() -> int:
    """A port that is free, and that the system gives nobody by itself until it is listened on here."""
    for port in random.sample(range(20_000, 30_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port below those that the system gives is free")


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[Tool(name=name, input_schema={"type": "object"}) for name in ("hello", "headers")])


async def call_tool(ctx: Any, params: Any) -> CallToolResult:
    heard: dict[str, str] = dict(ctx.request.headers)
    text = json.dumps(heard) if params.name == "headers" else "hello"
    arguments: dict[str, object] = params.arguments or {}
    way = arguments.get("as")
    if way == "failure":
        raise MCPError(-32000, f"not for {text}")
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        is_error=way == "error",
        structured_content={"headers": [heard]} if way == "data" else None,
    )


@dataclass
class Doorkeeper:
    """Gives out tokens and looks at them."""

    address: str = ""
    granted: list[str] = field(default_factory=list[str])
    """The kinds of grants that tokens were given for."""
    registered: int = 0
    tokens: set[str] = field(default_factory=set[str])
    seen: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Who the requests said that they came from, by the headers `X-User` and `Authorization`."""
    is_open: bool = False
    """Whether everybody is let in."""
    renews: bool = True
    """Whether a token can be had for one that was given out before."""
    lifetime: int = 3600
    """Seconds after which a token that is given out from now on ends."""
    padded: str = ""
    """The path whose answers begin with two megabytes of spaces."""
    packs: bool = False
    """Whether it packs those answers, though nobody asked for that."""

    async def resource(self, request: Request) -> Response:
        return JSONResponse({"resource": f"{self.address}/mcp", "authorization_servers": [self.address]})

    async def metadata(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.address,
                "authorization_endpoint": f"{self.address}/authorize",
                "token_endpoint": f"{self.address}/token",
                "registration_endpoint": f"{self.address}/register",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "client_credentials", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            }
        )

    async def register(self, request: Request) -> Response:
        self.registered += 1
        return JSONResponse({**await request.json(), "client_id": "registered"}, 201)

    async def authorize(self, request: Request) -> Response:
        query = request.query_params
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode({'code': 'c0de', 'state': query['state']})}")

    async def token(self, request: Request) -> Response:
        form = await request.form()
        grant = str(form["grant_type"])
        wrong = grant == "refresh_token" and not self.renews
        wrong |= grant == "client_credentials" and "authorization" not in request.headers
        if wrong or (grant == "authorization_code" and form["code"] != "c0de"):
            return JSONResponse({"error": "invalid_client"}, 401)
        self.granted.append(grant)
        token = f"access-token-{len(self.granted)}"
        self.tokens.add(token)
        renewed = {} if grant == "client_credentials" else {"refresh_token": "refresh-token"}
        return JSONResponse({"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime, **renewed})

    def sign_everybody_out(self) -> None:
        """Take all tokens back, also those that renew others."""
        self.tokens.clear()
        self.renews = False

    def guard(self, app: ASGIApp) -> ASGIApp:
        where = f'Bearer resource_metadata="{self.address}/.well-known/oauth-protected-resource/mcp"'

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["path"] == "/mcp":
                headers = Request(scope).headers
                self.seen.add((headers.get("x-user", ""), headers.get("authorization", "")))
            if scope["type"] == "http" and scope["path"] == self.padded:
                send = self._padding(send)
            wanted = scope["type"] == "http" and scope["path"] == "/mcp" and not self.is_open
            if wanted and Request(scope).headers.get("authorization", "")[7:] not in self.tokens:
                await Response("no", 401, {"WWW-Authenticate": where})(scope, receive, send)
            else:
                await app(scope, receive, send)

        return guarded

    def _padding(self, send: Send) -> Send:
        started: dict[str, Any] = {}

        async def padded(message: Any) -> None:
            if message["type"] == "http.response.start":
                started.update(message)
                return
            body = b" " * 2_000_000 + message.get("body", b"")
            packed = [(b"content-encoding", b"gzip")] if self.packs else []
            body = gzip.compress(body) if self.packs else body
            kept = [(name, value) for name, value in started["headers"] if name != b"content-length"]
            await send({**started, "headers": [*kept, *packed, (b"content-length", b"%d" % len(body))]})
            await send({"type": "http.response.body", "body": body})

        return padded


@asynccontextmanager
async def doorkeeper() -> AsyncGenerator[Doorkeeper]:
    """A server that lets in whoever has a token, until the block ends."""
    keeper = Doorkeeper()
    app = Server("guarded", on_list_tools=list_tools, on_call_tool=call_tool).streamable_http_app()
    app.routes.extend(
        [
            Route("/.well-known/oauth-protected-resource/mcp", keeper.resource),
            Route("/.well-known/oauth-authorization-server", keeper.metadata),
            Route("/register", keeper.register, methods=["POST"]),
            Route("/authorize", keeper.authorize),
            Route("/token", keeper.token, methods=["POST"]),
        ]
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        keeper.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        web = uvicorn.Server(uvicorn.Config(keeper.guard(app), log_level="critical", timeout_graceful_shutdown=1))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(web.serve, [listener])
            try:
                yield keeper
            finally:
                web.should_exit = True


@dataclass(frozen=True)
class Greeting:
    content: str


@agent(description="Greets")
class Greeter:
    """Calls the tool of the doorkeeper, which is in the tool group `doors`."""

    @achieves_goal(
        description="The greeting", export=Export(remote=True, name="greet", starting_input_types=[UserInput])
    )
    @action(tool_groups=["doors"])
    async def greet(self, said: UserInput, context: ActionContext) -> Greeting:
        (tool,) = (each for each in context.tools if each.name == "hello")
        return Greeting((await tool.call({})).text)
