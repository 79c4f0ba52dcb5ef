"""Common calls are answered without the SDK's transport, and exactly as the SDK's transport answers them."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from hypothesis import given, settings, strategies as st
from mcp_types import ImageContent, TextContent
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION
from pydantic import BaseModel

from goalport import Export, achieves_goal, agent
from tests.rooms.serve.askers import Pizzeria
from tests.rooms.serve.own_and_sdk import META, Answered, Exchange, Pair, Post, Server, asking, call, in_session, pair
from tests.rooms.serve.test_repeating import Cook, Kitchen

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


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets no answer become an event stream because the machine of the test is busy."""
    monkeypatch.setattr("goalport.server.doors.mcp.streamable_http._PATIENCE", 60.0)


def servers(root: Path, **options: Any) -> AbstractAsyncContextManager[Pair]:
    return pair(root, Greeter(), Painter(), Pizzeria(), files={"tools/maths.py": TOOLS}, **options)


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


LEVEL = "io.modelcontextprotocol/logLevel"


ASKING = {
    "a number as token": {"progressToken": 1},
    "a text as token": {"progressToken": "sieben é"},
    "a token that is none": {"progressToken": True},
    "log messages": {LEVEL: "debug"},
    "progress and log messages": {"progressToken": 0, LEVEL: "info"},
}


def as_it_is(post: Post) -> Post:
    return post


Revised = Callable[[Post], Post]
REVISIONS = pytest.mark.parametrize("revised", [as_it_is, in_session])


@REVISIONS
async def test_a_quick_call_is_answered_without_the_sdk_as_the_sdk_answers_it(tmp_path: Path, revised: Revised) -> None:
    async with servers(tmp_path) as both:
        for what, post in QUICK.items():
            answer = await both.same(revised(post))
            assert (answer.status, answer.headers["content-type"]) == (200, "application/json"), what
        assert (both.own.seen, both.sdk.seen) == (0, len(QUICK))


@REVISIONS
async def test_a_call_that_asks_for_messages_is_answered_without_the_sdk_as_the_sdk_answers_it(
    tmp_path: Path, revised: Revised
) -> None:
    # Of two calls with one key, the second joins the process of the first, when that has nothing more to tell.
    posts = {what: post for what, post in QUICK.items() if what != "an idempotency key"}
    async with servers(tmp_path) as both:
        for asked, wanted in ASKING.items():
            for what, post in posts.items():
                await both.same(asking(revised(post), **wanted))
                assert both.own.seen == 0, (asked, what)


@REVISIONS
async def test_a_call_that_asks_for_progress_gets_it_before_its_answer(tmp_path: Path, revised: Revised) -> None:
    async with servers(tmp_path) as both:
        answer = await both.same(asking(revised(call()), progressToken=1))
        assert both.own.seen == 0
    told = [each["params"]["message"] for each in answer.body[:-1]]
    assert told == ["process - begins", "1/1 greet"]
    assert answer.body[-1]["result"]["structuredContent"]["text"] == "Hello, Ada!"


async def test_a_call_in_a_session_of_any_revision_is_answered_without_the_sdk(tmp_path: Path) -> None:
    async with servers(tmp_path) as both:
        for revision in HANDSHAKE_PROTOCOL_VERSIONS:
            await both.same(in_session(call()).with_header("mcp-protocol-version", revision))
        await both.same(in_session(call()).with_header("mcp-protocol-version"))
        assert (both.own.seen, both.sdk.seen) == (0, 5)


async def test_a_client_that_can_be_asked_gets_its_quick_calls_answered_without_the_sdk_too(tmp_path: Path) -> None:
    async with servers(tmp_path) as both:
        for each in (both.own, both.sdk):
            await each.open(elicitation={})
        answer = await both.same(in_session(call()))
        assert (answer.headers["content-type"], both.own.seen) == ("application/json", 0)
        await both.same(asking(in_session(call()), progressToken=1))
        assert both.own.seen == 0
        await both.same(in_session(call("order_pizza", {"name": "Ada"})))
        assert both.own.seen == 1


async def test_a_call_of_a_server_without_sessions_is_answered_without_the_sdk(tmp_path: Path) -> None:
    async with servers(tmp_path, stateless=True) as both:
        for post in (call(), in_session(call()), in_session(call()).with_header("mcp-session-id")):
            assert "mcp-session-id" not in (await both.same(post)).headers
        assert (both.own.seen, both.sdk.seen) == (0, 3)


@pytest.mark.parametrize("stateless", [False, True], ids=["sessions", "no sessions"])
async def test_a_revision_that_nobody_knows_is_refused_by_the_sdk(tmp_path: Path, *, stateless: bool) -> None:
    async with servers(tmp_path, stateless=stateless) as both:
        for revision in ("1999-01-01", "2027-01-01", ""):
            answer = await both.same(in_session(call()).with_header("mcp-protocol-version", revision))
            assert answer.status == 400, revision


SLOW_OR_WRONG = {
    "a goal that may ask": call("order_pizza", {"name": "Ada"}),
    "an unknown tool": call("grete"),
    "a task": call(params={"task": {"ttl": 5}}),
    "a task that is none": call(params={"task": 5}),
    "arguments of a wrong type": call(params={"arguments": []}),
    "a name of a wrong type": call(params={"name": 5}),
    "an answer besides": call(result={}),
    "no JSON": Post(b"{", call().headers),
    "only JSON": call().with_header("accept", "application/json"),
    "only event streams": call().with_header("accept", "text/event-stream"),
    "media types that only begin so": call().with_header("accept", "application/jsonl, text/event-streams"),
    "no media type": call().with_header("content-type"),
    "another media type": call().with_header("content-type", "text/plain"),
    "a media type in capitals": call().with_header("content-type", "Application/JSON"),
}
WRONG_TODAY = {
    "log messages of an unknown level": asking(call(), **{LEVEL: "loud"}),
    "a state": call(params={"requestState": "x"}),
    "responses": call(params={"inputResponses": {"a": {"action": "cancel"}}}),
    "no envelope": call(params={"_meta": {}}),
    "capabilities of a wrong type": call(
        params={"_meta": {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": 5}}}
    ),
    "client info of a wrong type": call(params={"_meta": {**META, "io.modelcontextprotocol/clientInfo": "test"}}),
    "another version in the message": call(
        params={"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2025-11-25"}}
    ),
    "another method in the header": call().with_header("mcp-method", "tools/list"),
    "another name in the header": call().with_header("mcp-name", "add"),
    "no name in the header": call().with_header("mcp-name"),
    "no method in the header": call().with_header("mcp-method"),
    "a header twice": call().with_header("mcp-name", "greet", "greet"),
    "an unknown version": call().with_header("mcp-protocol-version", "2027-01-01"),
}
WRONG_IN_SESSIONS = {
    "another name in the header": in_session(call()).with_header("mcp-name", "add"),
    "an unknown session": in_session(call()).with_header("mcp-session-id", "unknown"),
    "no session": in_session(call()).with_header("mcp-session-id"),
}


async def test_any_other_call_goes_to_the_sdk(tmp_path: Path) -> None:
    sessions = {what: in_session(post) for what, post in SLOW_OR_WRONG.items()} | WRONG_IN_SESSIONS
    async with servers(tmp_path) as both:
        for what, post in [*SLOW_OR_WRONG.items(), *WRONG_TODAY.items(), *sessions.items()]:
            await both.same(post)
            assert both.own.seen == both.sdk.seen, what


@pytest.mark.parametrize("wanted", [{}, {"progressToken": 1}], ids=["silent", "progress"])
async def test_a_session_that_there_is_not_is_in_no_answer(tmp_path: Path, wanted: dict[str, Any]) -> None:
    post = asking(call(), **wanted).with_header("mcp-session-id", "unknown")
    async with servers(tmp_path) as both:
        assert "mcp-session-id" not in (await both.same(post)).headers
    async with servers(tmp_path, stateless=True) as both:
        for each in (post, in_session(post).with_header("mcp-session-id", "unknown")):
            assert "mcp-session-id" not in (await both.same(each)).headers


def levelled(level: str) -> Post:
    """A request for log messages in a session."""
    wanted = {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": level}}
    return Post(wanted, call().with_header("mcp-method", "logging/setLevel").with_header("mcp-name").headers)


@pytest.mark.parametrize("wanted", [{}, {"progressToken": 1}], ids=["silent", "progress"])
async def test_a_session_that_wants_log_messages_gets_those_of_its_calls(
    tmp_path: Path, wanted: dict[str, Any]
) -> None:
    async with servers(tmp_path) as both:
        for level, words in (("info", "completed"), ("debug", "plan for Greeter.greet"), ("error", "")):
            await both.same(in_session(levelled(level)))
            answer = await both.same(asking(in_session(call()), **wanted))
            logged = [each["params"]["data"] for each in answer.body if each.get("method") == "notifications/message"]
            assert [each for each in logged if each.startswith(words)] or not words, level
            assert bool(logged) is bool(words)
        assert (both.own.seen, both.sdk.seen) == (0, 3)


async def test_log_messages_of_an_unknown_level_are_not_sent(tmp_path: Path) -> None:
    async with servers(tmp_path) as both:
        await both.same(in_session(levelled("loud")))
        answer = await both.same(in_session(call()))
        assert (answer.headers["content-type"], both.own.seen) == ("application/json", 0)


async def test_log_messages_are_for_the_session_that_asked_for_them(tmp_path: Path) -> None:
    async with servers(tmp_path) as both:
        await both.same(levelled("info"))
        await both.same(in_session(levelled("info")).with_header("mcp-session-id"))
        for each in (call(), in_session(call())):
            assert (await both.same(each)).headers["content-type"] == "application/json"
        assert both.own.seen == 0


async def ended(server: Server, kitchen: Kitchen, end: Post, method: str, **wanted: Any) -> Answered:
    """The answer to a call in a session, in the middle of which a request ends it; `wanted` is what it asks for."""
    answers, exchange = list[Answered](), Exchange()
    kitchen.begun.clear()

    async def order() -> None:
        post = asking(in_session(call("cook", {"dish": "soup"})), **wanted)
        answers.append(await server.answer(post, exchange=exchange))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(order)
            await kitchen.begun.wait()
            while wanted and "begins" not in exchange.text:
                await anyio.sleep(0.01)
            await server.answer(in_session(end), method)
    return answers[0]


CANCELLED = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
ENDS = pytest.mark.parametrize(
    ("end", "method"),
    [(CANCELLED, "POST"), ({**CANCELLED, "params": {"requestId": "7"}}, "POST"), ("", "DELETE")],
)


@ENDS
async def test_a_client_ends_its_call_in_a_session(tmp_path: Path, end: Any, method: str) -> None:
    kitchen = Kitchen()
    async with pair(tmp_path, Cook(kitchen)) as both:
        found = [await ended(each, kitchen, Post(end, call().headers), method) for each in (both.own, both.sdk)]
        assert both.own.seen == 0
    own, sdk = ((each.status, each.body) for each in found)
    assert own == sdk
    assert own[0] == 200
    assert own[1]["id"] == 7  # also where the session has ended
    assert kitchen.stopped == 2


@ENDS
async def test_a_client_ends_its_call_that_asked_for_progress(tmp_path: Path, end: Any, method: str) -> None:
    kitchen = Kitchen()
    async with pair(tmp_path, Cook(kitchen)) as both:
        post = Post(end, call().headers)
        own, sdk = [await ended(each, kitchen, post, method, progressToken=1) for each in (both.own, both.sdk)]
        assert both.own.seen == 0
    assert (own.status, own.body) == (sdk.status, sdk.body)
    assert own.body[0]["params"]["message"] == "process - begins"
    assert len(own.body) == (1 if method == "DELETE" else 2)
    assert kitchen.stopped == 2


_EMPTY: list[Any] = [{}, []]
_VALUES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["", "info", *_EMPTY])
)
_TEXTS = st.sampled_from(
    ["tools/call", "greet", "add", "tools/list", "application/json", "*/*", LATEST_MODERN_VERSION, "", "\xe9"]
)
_PLACES = [(), ("params",), ("params", "_meta"), ("params", "arguments")]
_KEYS = [
    "id",
    "jsonrpc",
    "method",
    "params",
    "name",
    "arguments",
    "_meta",
    "task",
    "requestState",
    "a",
    "progressToken",
    LEVEL,
    *META,
]
_CHANGES = st.tuples(st.sampled_from(_PLACES), st.sampled_from(_KEYS), _VALUES | st.just(...))
_NAMES = [*dict([*call().headers, *in_session(call()).headers])]
_HEADERS = st.tuples(st.sampled_from(_NAMES), st.lists(_TEXTS, max_size=2))
_GOOD = st.sampled_from(
    [
        call(),
        call("add", {"a": 1, "b": 2}),
        call("order_pizza"),
        call("draw", {"size": 1}),
        asking(call(), progressToken=1),
    ]
)


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


@REVISIONS
async def test_whatever_is_changed_in_a_good_call_both_answer_the_same(tmp_path: Path, revised: Revised) -> None:
    found: list[Post] = []

    @settings(max_examples=250, database=None, derandomize=True)
    @given(_GOOD.map(revised), st.lists(_CHANGES, max_size=2), st.lists(_HEADERS, max_size=1))
    def collect(post: Post, changes: list[Any], headers: list[Any]) -> None:
        found.append(changed(post, changes, headers))

    collect()
    async with servers(tmp_path) as both:
        for post in found:
            await both.same(post)
        assert 0 < both.own.seen < both.sdk.seen
