"""A server that answers common calls itself beside one whose SDK answers every call. No test is in here."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from starlette.types import ASGIApp, Message

from goalport.server.doors.mcp.server import make_server
from goalport.server.doors.mcp.state import McpState
from goalport.server.doors.mcp.streamable_http import StreamableHttp
from tests.rooms.serve.served import state_of
from tests.rooms.site.test_guard import INITIALIZE

__all__ = ["META", "SESSION", "Answered", "Exchange", "Pair", "Post", "Server", "asking", "call", "in_session", "pair"]

META = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
SESSION = "-"
"""Stands in headers for the id of the session that a server has."""
_BEGUN = {"jsonrpc": "2.0", "method": "notifications/initialized"}
_DIFFERENT = re.compile(r"[a-z]+-[a-z]+-[0-9a-f]{12}|error [0-9a-f]{8}|[0-9.]+ s\b")
"""The ids and times in an answer that are not the same for two calls."""


@dataclass(frozen=True)
class Post:
    """One request; the names of its headers are in lower case, as ASGI has them."""

    body: Any
    headers: tuple[tuple[str, str], ...]

    def with_header(self, name: str, *values: str) -> "Post":
        """The request with a header that has these values, in this order: none, one, or several."""
        rest = [each for each in self.headers if each[0] != name]
        return Post(self.body, (*rest, *((name, value) for value in values)))


@dataclass(frozen=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: Any


def call(name: str = "greet", /, arguments: Any = None, *, params: Any = (), **more: Any) -> Post:
    """A good call of a tool in the newest revision."""
    asked = {"name": name, "arguments": {"name": "Ada"} if arguments is None else arguments, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": asked | dict(params)} | more
    headers = (
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", LATEST_MODERN_VERSION),
        ("mcp-method", "tools/call"),
        ("mcp-name", name),
    )
    return Post(body, headers)


def asking(post: Post, **wanted: Any) -> Post:
    """The same call, which asks for messages before its answer."""
    params = post.body["params"]
    meta = {**params.get("_meta", {}), **wanted}
    return Post({**post.body, "params": {**params, "_meta": meta}}, post.headers)


def in_session(post: Post) -> Post:
    """The same in a session of the revision before."""
    body = post.body
    match body:
        case {"params": {"_meta": {**meta}, **params}}:
            own = {key: value for key, value in meta.items() if key not in META}
            body = {**body, "params": {**params, "_meta": own}}
        case _:
            pass
    same = (each for each in post.headers if not each[0].startswith("mcp-"))
    return Post(body, (*same, ("mcp-protocol-version", LATEST_HANDSHAKE_VERSION), ("mcp-session-id", SESSION)))


@dataclass
class Exchange:
    """The messages of one request and its response."""

    incoming: list[Message] = field(default_factory=list[Message])
    sent: list[Message] = field(default_factory=list[Message])
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client leaves."""

    @property
    def text(self) -> str:
        """What the client has got of the body."""
        return b"".join(each.get("body", b"") for each in self.sent).decode()

    async def receive(self) -> Message:
        if self.incoming:
            return self.incoming.pop()
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)


@dataclass
class Server:
    """The endpoint of a transport, the session that is open there, and how many calls its SDK has seen."""

    app: ASGIApp
    session: str = ""
    seen: int = 0

    async def open(self, **capabilities: Any) -> None:
        """Open a session of a client that can do these things."""
        opening = {**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": capabilities}}
        begun = await self.answer(in_session(Post(opening, call().headers)).with_header("mcp-session-id"))
        self.session = begun.headers["mcp-session-id"]
        await self.answer(in_session(Post(_BEGUN, call().headers)))

    async def answer(self, post: Post, method: str = "POST", exchange: "Exchange | None" = None) -> Answered:
        content = post.body if isinstance(post.body, bytes) else json.dumps(post.body).encode()
        headers = [(name.encode(), self._own(value).encode("latin-1")) for name, value in post.headers]
        scope = {"type": "http", "method": method, "path": "/mcp", "query_string": b"", "headers": headers}
        exchange = exchange or Exchange()
        exchange.incoming.append({"type": "http.request", "body": content, "more_body": False})
        with anyio.fail_after(60):
            await self.app(scope, exchange.receive, exchange.send)
        return _read(exchange.sent)

    def _own(self, value: str) -> str:
        return self.session if value == SESSION else value


def _read(sent: list[Message]) -> Answered:
    body = b"".join(each.get("body", b"") for each in sent[1:])
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    assert headers.pop("content-length", str(len(body))) == str(len(body))
    text = _DIFFERENT.sub("-", body.decode())
    return Answered(sent[0]["status"], headers, _content(text, headers.get("content-type")))


def _content(text: str, media_type: str | None) -> Any:
    """A JSON body; of an event stream the data of its events, each of which is a JSON message."""
    if media_type == "text/event-stream":
        *events, rest = text.split("\r\n\r\n")
        assert not rest
        lines = [each.splitlines() for each in events if not each.startswith(":")]
        assert all(event == "event: message" for event, _ in lines)
        return [json.loads(data.removeprefix("data: ")) for _, data in lines]
    return json.loads(text) if text.startswith("{") else text


@dataclass(frozen=True)
class Pair:
    """A server as it is, and one in which the SDK answers every call."""

    own: Server
    sdk: Server

    async def same(self, post: Post, method: str = "POST") -> Answered:
        """What both answer."""
        ours, theirs = [await each.answer(post, method) for each in (self.own, self.sdk)]
        assert _without_session(ours) == _without_session(theirs), post
        return ours


def _without_session(answered: Answered) -> Answered:
    headers = {name: SESSION if name == "mcp-session-id" else value for name, value in answered.headers.items()}
    return Answered(answered.status, headers, answered.body)


@asynccontextmanager
async def pair(root: Path, *agents: object, **options: Any) -> AsyncGenerator[Pair]:
    """Two servers with the same agents, and a session in each."""
    state = state_of(root, *agents, **options)
    async with state.platform, _served(state) as own, _served(state, common_calls=False) as sdk:
        yield Pair(own, sdk)


@asynccontextmanager
async def _served(state: McpState, **options: Any) -> AsyncGenerator[Server]:
    server, _ = make_server(state)
    server.is_traced = False  # a test before this one may have set up spans, which stay until the program ends
    transport = StreamableHttp(server, state, **options)
    found = Server(transport.routes[0].app)

    async def note(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        found.seen += 1 if ctx.method == "tools/call" else 0
        return await call_next(ctx)

    server.middleware.append(note)
    async with transport.running():
        if not state.settings.stateless:
            await found.open()
        yield found
