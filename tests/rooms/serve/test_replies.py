"""The reply to a call that takes long: an event stream, through which its client is told what it asked for."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from goalport import Export, OperationContext, achieves_goal, agent
from tests.rooms.rest.web import web
from tests.rooms.serve.own_and_sdk import Exchange, Post, asking, call, in_session, pair
from tests.rooms.serve.test_repeating import Cook, Kitchen, Meal

TOOLS = """
import asyncio
import math
from goalport import tool
from goalport.tools.upstream.active_calls import current_hooks

@tool(export=True)
async def leave() -> str:
    '''Report progress after the answer.'''
    hooks = current_hooks()

    async def report():
        for _ in range(100):
            await asyncio.sleep(0)
        await hooks.progress(1, None, "late")

    leave.task = asyncio.create_task(report(), name="late")
    return "left"

@tool(export=True)
async def measure() -> str:
    '''Report progress of all kinds.'''
    for done, of in ((1, math.inf), (math.inf, None), (math.nan, None), (2, 3)):
        await current_hooks().progress(done, of, "")
    return "measured"
"""


class Words(BaseModel):
    most: int


@agent(description="Talks")
class Talker:
    def __init__(self) -> None:
        self.heard = False

    @achieves_goal(description="Talk until somebody hears", export=Export(remote=True, name="talk"))
    async def talk(self, words: Words, context: OperationContext) -> Meal:
        for number in range(words.most):
            if self.heard:
                return Meal(content=f"heard after {number}")
            context.progress(f"word {number}")
            await asyncio.sleep(0)
        raise ValueError("nobody has heard anything")


COOK = call("cook", {"dish": "soup"})
REVISIONS = pytest.mark.parametrize("post", [COOK, in_session(COOK)], ids=["newest", "session"])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every answer take long."""
    monkeypatch.setattr("goalport.server.doors.mcp.streamable_http._PATIENCE", 0.0)


@asynccontextmanager
async def cooking(root: Path, post: Post, **options: Any) -> AsyncGenerator[tuple[Exchange, Kitchen]]:
    """The exchange of a call whose action has begun, and that may go on after the block."""
    kitchen, exchange = Kitchen(), Exchange()
    async with pair(root, Cook(kitchen), **options) as both:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(both.own.answer, post, "POST", exchange)
                await kitchen.begun.wait()
                yield exchange, kitchen
                kitchen.go_on.set()
        assert both.own.seen == 0


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await anyio.sleep(0.01)


@REVISIONS
async def test_progress_is_sent_while_the_action_still_runs(tmp_path: Path, post: Post) -> None:
    async with cooking(tmp_path, asking(post, progressToken=1)) as (exchange, _):
        await until(lambda: "begins" in exchange.text)
        assert "structuredContent" not in exchange.text
    assert exchange.text.index("1/1 cook") < exchange.text.index("structuredContent")


async def test_progress_is_sent_while_an_action_reports_more_all_the_time(tmp_path: Path) -> None:
    talker, exchange = Talker(), Exchange()
    async with pair(tmp_path, talker) as both, anyio.create_task_group() as tasks:
        tasks.start_soon(both.own.answer, asking(call("talk", {"most": 30_000}), progressToken=1), "POST", exchange)
        with anyio.fail_after(60):
            await until(lambda: "word" in exchange.text or "isError" in exchange.text)
        talker.heard = True
    assert "heard after" in exchange.text


@REVISIONS
async def test_a_client_that_asked_for_progress_gets_heartbeats(tmp_path: Path, post: Post) -> None:
    async with cooking(tmp_path, asking(post, progressToken=1), heartbeat_seconds=0.02) as (exchange, _):
        await until(lambda: "still at cook after" in exchange.text)


@REVISIONS
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("wanted", [{}, {"progressToken": 1}], ids=["silent", "progress"])
async def test_a_connection_is_kept_open_by_pings(tmp_path: Path, post: Post, wanted: dict[str, Any]) -> None:
    async with cooking(tmp_path, asking(post, **wanted)) as (exchange, _):
        await until(lambda: ": ping\r\n\r\n" in exchange.text)
    starts = [each for each in exchange.sent if each["type"] == "http.response.start"]
    assert starts == exchange.sent[:1]
    assert exchange.text.endswith("}\r\n\r\n")


@REVISIONS
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("wanted", [{}, {"progressToken": 1}], ids=["silent", "progress"])
async def test_a_client_that_leaves_ends_its_call(tmp_path: Path, post: Post, wanted: dict[str, Any]) -> None:
    async with cooking(tmp_path, asking(post, **wanted)) as (exchange, kitchen):
        exchange.gone.set()
        await until(lambda: kitchen.stopped == 1)


@pytest.mark.parametrize("post", [call("leave", {}), in_session(call("leave", {}))], ids=["newest", "session"])
async def test_progress_that_comes_after_the_answer_is_dropped(tmp_path: Path, post: Post) -> None:
    exchange = Exchange()
    async with pair(tmp_path, files={"tools/more.py": TOOLS}) as both:
        await both.own.answer(asking(post, progressToken=1), exchange=exchange)
        answer = list(exchange.sent)
        with anyio.fail_after(60):
            await asyncio.gather(*(each for each in asyncio.all_tasks() if each.get_name() == "late"))
    assert '"text":"left"' in exchange.text
    assert exchange.sent == answer


@pytest.mark.parametrize("post", [call("measure", {}), in_session(call("measure", {}))], ids=["newest", "session"])
async def test_progress_that_is_no_number_in_json_is_left_out(tmp_path: Path, post: Post) -> None:
    async with pair(tmp_path, files={"tools/more.py": TOOLS}) as both:
        *told, _ = (await both.same(asking(post, progressToken=1))).body
    params = [each["params"] for each in told]
    assert params == [{"progressToken": 1, "progress": 1}, {"progressToken": 1, "progress": 2, "total": 3}]


def as_sent(post: Post) -> bytes:
    body = json.dumps(post.body).encode()
    headers = (("host", "127.0.0.1"), ("content-length", str(len(body))), *post.headers)
    return b"POST /mcp HTTP/1.1\r\n" + b"".join(f"{n}: {v}\r\n".encode() for n, v in headers) + b"\r\n" + body


async def test_a_pipelined_request_is_answered_as_any_other(tmp_path: Path) -> None:
    quick = call("talk", {"most": 0}, params={"task": {}})
    async with web(tmp_path, Talker()) as server:
        connection = await anyio.connect_tcp("127.0.0.1", server.http.base_url.port or 0)
        await connection.send(as_sent(quick) + as_sent(asking(quick, progressToken=1)))
        received = b""
        with anyio.fail_after(60):
            while not received.endswith(b"\r\n0\r\n\r\n"):
                received += await connection.receive()
        await connection.aclose()
    assert b"notifications/progress" in received
    assert received.index(b"application/json") < received.index(b"text/event-stream")
