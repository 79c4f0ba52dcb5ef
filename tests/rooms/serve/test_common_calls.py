"""Common calls are answered without the SDK's transport, and exactly as the SDK's transport answers them."""

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
from hypothesis import given, settings, strategies as st
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import ImageContent, TextContent
from pydantic import BaseModel
from starlette.types import ASGIApp, Message

from goalport import Export, achieves_goal, agent
from goalport.serve.server import make_server
from goalport.serve.state import McpState
from goalport.serve.transports.streamable_http import StreamableHttp
from tests.rooms.serve.askers import Pizzeria
from tests.rooms.serve.served import state_of

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
TOOLS = """
from goalport import tool

@tool(export=True)
def add(a: int, b: int) -> int:
    '''Add.'''
    return a + b

@tool(export=True)
def fail(a: int = 0) -> int:
    '''Fail.'''
    raise RuntimeError("no")

@tool(export=True)
def odd() -> dict[str, float | None]:
    '''Give what is not in JSON.'''
    return {"nothing": None, "much": float("inf")}
"""


class Name(BaseModel):
    name: str


class Greeting(BaseModel):
    text: str
    title: str | None = None


class Thumbnail(BaseModel):
    size: int


@agent(description="Greets")
class Greeter:
    @achieves_goal(description="Greet", export=Export(remote=True, name="greet"))
    def greet(self, name: Name) -> Greeting:
        if name.name == "nobody":
            raise ValueError("nobody is there")
        return Greeting(text=f"Hello, {name.name}!")


@agent(description="Draws")
class Painter:
    @achieves_goal(description="Draw", export=Export(remote=True, name="draw"))
    def draw(self, size: Thumbnail) -> list[TextContent | ImageContent]:
        drawn = ImageContent(type="image", data="aGk=", mime_type="image/png")
        return [TextContent(type="text", text=f"{size.size} pixels", _meta={"a": None}), drawn]


@dataclass(frozen=True)
class Post:
    """One request; header names are those of ASGI, in lower case."""

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
    """A good call of a tool in revision 2026-07-28."""
    asked = {"name": name, "arguments": {"name": "Ada"} if arguments is None else arguments, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": asked | dict(params)} | more
    headers = (
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", name),
    )
    return Post(body, headers)


@dataclass
class Server:
    """The endpoint of a transport, and the requests that its SDK has seen."""

    app: ASGIApp
    seen: list[str] = field(default_factory=list[str])

    async def answer(self, post: Post) -> Answered:
        content = post.body if isinstance(post.body, bytes) else json.dumps(post.body).encode()
        headers = [(name.encode(), value.encode("latin-1")) for name, value in post.headers]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": headers}
        incoming, sent = [{"type": "http.request", "body": content, "more_body": False}], list[Message]()

        async def receive() -> Message:
            if incoming:
                return incoming.pop()
            await anyio.sleep_forever()
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        with anyio.fail_after(20):
            await self.app(scope, receive, send)
        body = b"".join(each.get("body", b"") for each in sent[1:])
        given = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        assert given.pop("content-length", str(len(body))) == str(len(body))
        given |= {"mcp-session-id": "-"} if "mcp-session-id" in given else {}
        return Answered(sent[0]["status"], given, _comparable(body))


def _comparable(body: bytes) -> Any:
    """The JSON of a body, with a dash for the ids and times that differ between two calls."""
    text = re.sub(r"[a-z]+-[a-z]+-[0-9a-f]{12}|error [0-9a-f]{8}|[0-9.]+ s\b", "-", body.decode())
    return json.loads(text) if text.startswith("{") else text


@dataclass(frozen=True)
class Pair:
    """A server as it is, and one in which the SDK answers every call."""

    own: Server
    sdk: Server
    state: McpState

    async def same(self, post: Post) -> Answered:
        """What both answer."""
        ours, theirs = await self.own.answer(post), await self.sdk.answer(post)
        assert ours == theirs, post
        return ours


@asynccontextmanager
async def pair(root: Path, **options: Any) -> AsyncGenerator[Pair]:
    state = state_of(root, Greeter(), Painter(), Pizzeria(), files={"tools/maths.py": TOOLS}, **options)
    async with state.platform, served(state) as own, served(state, common_calls=False) as sdk:
        yield Pair(own, sdk, state)


@asynccontextmanager
async def served(state: McpState, **options: Any) -> AsyncGenerator[Server]:
    server, _ = make_server(state)
    transport = StreamableHttp(server, state, **options)
    found = Server(transport.routes[0].app)

    async def note(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        found.seen.append(ctx.method)
        return await call_next(ctx)

    server.middleware.append(note)
    async with transport.running():
        yield found


QUICK = {
    "a goal": call(),
    "a goal that fails": call(arguments={"name": "nobody"}),
    "arguments that are wrong": call(arguments={"name": 5}),
    "no arguments": call(arguments={}),
    "arguments that are null": call(params={"arguments": None}),
    "content of other kinds": call("draw", {"size": 9}),
    "a function": call("add", {"a": 1, "b": 2}),
    "a function without its arguments": call("add", {}),
    "a function that fails": call("fail", {}),
    "numbers that JSON does not have": call("odd", {}),
    "a text as id": call(id="sieben é"),
    "a large id": call(id=10**30),
    "an idempotency key": call(params={"_meta": {**META, "goalport/idempotencyKey": "once"}}),
    "a bad idempotency key": call(params={"_meta": {**META, "goalport/idempotencyKey": 7}}),
    "capabilities": call(
        params={"_meta": {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "roots": {}}}}
    ),
    "no client info": call(params={"_meta": {k: v for k, v in META.items() if "clientInfo" not in k}}),
    "a media type with parameters": call().with_header("content-type", "application/json; charset=utf-8"),
    "every media type": call().with_header("accept", "application/json, text/event-stream, */*;q=0.1"),
    "a name in base64": call().with_header("mcp-name", "=?base64?Z3JlZXQ=?="),
    "unknown parameters": call(params={"size": 3}),
}


async def test_a_quick_call_is_answered_without_the_sdk_as_the_sdk_answers_it(tmp_path: Path) -> None:
    async with pair(tmp_path) as servers:
        for what, post in QUICK.items():
            answer = await servers.same(post)
            assert (answer.status, answer.headers) == (200, {"content-type": "application/json"}), what
        assert servers.own.seen == []
        assert len(servers.sdk.seen) == len(QUICK)


SLOW_OR_WRONG = {
    "progress": call(params={"_meta": {**META, "progressToken": 1}}),
    "log messages": call(params={"_meta": {**META, "io.modelcontextprotocol/logLevel": "info"}}),
    "a goal that may ask": call("order_pizza", {"name": "Ada"}),
    "an unknown tool": call("grete"),
    "a state": call(params={"requestState": "x"}),
    "responses": call(params={"inputResponses": {"a": {"action": "cancel"}}}),
    "a task": call(params={"task": {"ttl": 5}}),
    "a task that is none": call(params={"task": 5}),
    "arguments of a wrong type": call(params={"arguments": []}),
    "a name of a wrong type": call(params={"name": 5}),
    "no envelope": call(params={"_meta": {}}),
    "capabilities of a wrong type": call(
        params={"_meta": {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": 5}}}
    ),
    "client info of a wrong type": call(params={"_meta": {**META, "io.modelcontextprotocol/clientInfo": "test"}}),
    "another version in the message": call(
        params={"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2025-11-25"}}
    ),
    "an answer besides": call(result={}),
    "no JSON": Post(b"{", call().headers),
    "another method in the header": call().with_header("mcp-method", "tools/list"),
    "another name in the header": call().with_header("mcp-name", "add"),
    "no name in the header": call().with_header("mcp-name"),
    "no method in the header": call().with_header("mcp-method"),
    "a header twice": call().with_header("mcp-name", "greet", "greet"),
    "only JSON": call().with_header("accept", "application/json"),
    "only event streams": call().with_header("accept", "text/event-stream"),
    "media types that only begin so": call().with_header("accept", "application/jsonl, text/event-streams"),
    "no media type": call().with_header("content-type"),
    "another media type": call().with_header("content-type", "text/plain"),
    "a media type in capitals": call().with_header("content-type", "Application/JSON"),
    "an unknown version": call().with_header("mcp-protocol-version", "2027-01-01"),
}


async def test_any_other_call_goes_to_the_sdk(tmp_path: Path) -> None:
    async with pair(tmp_path) as servers:
        for what, post in SLOW_OR_WRONG.items():
            await servers.same(post)
            assert servers.own.seen == servers.sdk.seen, what


_EMPTY: list[Any] = [{}, []]
_VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(["", *_EMPTY])
)
_TEXTS = st.sampled_from(["tools/call", "greet", "add", "tools/list", "application/json", "*/*", MODERN, "", "\xe9"])
_PLACES = [(), ("params",), ("params", "_meta"), ("params", "arguments")]
_KEYS = ["id", "jsonrpc", "method", "params", "name", "arguments", "_meta", "task", "requestState", "a", *META]
_CHANGES = st.tuples(st.sampled_from(_PLACES), st.sampled_from(_KEYS), _VALUES | st.just(...))
_HEADERS = st.tuples(st.sampled_from([name for name, _ in call().headers]), st.lists(_TEXTS, max_size=2))
_GOOD = st.sampled_from([call(), call("add", {"a": 1, "b": 2}), call("order_pizza"), call("draw", {"size": 1})])


def changed(post: Post, changes: list[tuple[tuple[str, ...], str, Any]], headers: list[tuple[str, list[str]]]) -> Post:
    """A request with other members in its message, or without some, and with other headers."""
    body = json.loads(json.dumps(post.body))
    for place, key, value in changes:
        inner = body
        for each in place:
            inner = cast("dict[str, Any]", inner).get(each) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            members = cast("dict[str, Any]", inner)
            members.pop(key, None) if value is ... else members.update({key: value})
    post = Post(body, post.headers)
    for name, values in headers:
        post = post.with_header(name, *values)
    return post


async def test_whatever_is_changed_in_a_good_call_both_answer_the_same(tmp_path: Path) -> None:
    found: list[Post] = []

    @settings(max_examples=300, database=None, derandomize=True)
    @given(_GOOD, st.lists(_CHANGES, max_size=2), st.lists(_HEADERS, max_size=1))
    def collect(post: Post, changes: list[Any], headers: list[Any]) -> None:
        found.append(changed(post, changes, headers))

    collect()
    async with pair(tmp_path) as servers:
        for post in found:
            await servers.same(post)
        assert 0 < len(servers.own.seen) < len(servers.sdk.seen)
