"""Clients that show forms, over real connections: every transport, without sessions, and with two servers."""

import json
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from tests.stories.cooks import session
from tests.stories.fleets import fleet
from tests.stories.servers import WAYS, Running, over_stdio, running
from tests.stories.test_waiting import BAKER

FILES = {"agents/bakers.py": BAKER}
CROWN = {"content": "blue for Ada"}


class Person:
    """Answers each form with the same fields."""

    def __init__(self, **content: Any) -> None:
        self.asked: list[str] = []
        self._content = content

    async def __call__(self, _: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult(action="accept", content=self._content)


async def call(client: Client, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
    with anyio.fail_after(60):
        return await client.call_tool(tool, dict(arguments))


@pytest.mark.parametrize(("transport", "era"), WAYS)
async def test_a_form_is_answered_in_one_call_over_every_transport(
    server: Running, tmp_path: Path, transport: str, era: str
) -> None:
    person = Person(cake="plum")
    async with AsyncExitStack() as stack:
        if transport == "stdio":
            its_own = over_stdio(tmp_path, FILES, era, elicitation_callback=person)
            client, _ = await stack.enter_async_context(its_own)
        else:
            client = await stack.enter_async_context(server.client(transport, era, elicitation_callback=person))
        result = await call(client, "bake_cake", {"guests": 3})
    assert result.structured_content == {"content": "plum for 3"}
    assert person.asked == ["Which cake?"]


async def test_without_sessions_only_the_newest_revision_shows_forms(tmp_path: Path) -> None:
    person = Person(cake="plum")
    async with running(tmp_path, FILES, stateless="true") as server:
        async with server.client("http", "auto", elicitation_callback=person) as client:
            result = await call(client, "bake_cake", {"guests": 3})
            assert result.structured_content == {"content": "plum for 3"}
        async with server.client("http", "legacy", elicitation_callback=person) as client:
            result = await call(client, "bake_cake", {"guests": 3})
            assert result.structured_content is not None
            assert result.structured_content["status"] == "waiting"
    assert person.asked == ["Which cake?"]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_an_answer_may_reach_the_other_server(tmp_path: Path, era: str) -> None:
    person = Person(colour="blue")
    async with fleet(tmp_path) as servers:
        async with servers.client(era, elicitation_callback=person) as client:
            results = [await call(client, "crown", {"content": "Ada"}) for _ in range(2)]
        assert [each.structured_content for each in results] == [CROWN, CROWN]
        assert person.asked == ["Which gem?"] * 2


async def test_a_form_is_closed_when_another_server_gets_the_answer(tmp_path: Path) -> None:
    shown, closed = anyio.Event(), anyio.Event()
    ended: list[CallToolResult] = []
    told: list[str] = []

    async def person(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        shown.set()
        try:
            await anyio.sleep_forever()
        finally:
            closed.set()
        raise AssertionError(params)

    async with fleet(tmp_path) as servers:
        one, other = servers.servers
        async with (
            one.client("http", "legacy", elicitation_callback=person) as client,
            other.client("http", "auto") as companion,
            anyio.create_task_group() as tasks,
        ):

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                told.append(message or f"{progress} of {total}")

            async def crown() -> None:
                with anyio.fail_after(60):
                    content = {"content": "Ada"}
                    ended.append(await client.call_tool("crown", content, progress_callback=on_progress))

            tasks.start_soon(crown)
            with anyio.fail_after(60):
                await shown.wait()
            _, identity, _ = told[0].split()  # "process … begins"
            given = {"processId": identity, "answer": {"colour": "blue"}}
            answered = await call(companion, "process_answer", given)
            assert answered.structured_content == CROWN
            with anyio.fail_after(60):
                await closed.wait()
    assert [each.structured_content for each in ended] == [CROWN]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_client_that_goes_away_while_it_asks_leaves_the_process_waiting(server: Running, era: str) -> None:
    shown = anyio.Event()
    told: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or f"{progress} of {total}")

    async def person(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        shown.set()
        await anyio.sleep_forever()
        raise AssertionError(params)

    async with server.client("http", era, elicitation_callback=person) as client, anyio.create_task_group() as tasks:

        async def bake() -> None:
            await client.call_tool("bake_cake", {"guests": 3}, progress_callback=on_progress)

        tasks.start_soon(bake)
        with anyio.fail_after(60):
            await shown.wait()
        tasks.cancel_scope.cancel()
    async with server.client("http", "auto") as client:
        _, identity, _ = told[0].split()  # "process … begins"
        looked = await call(client, "process_status", {"processId": identity})
        assert looked.structured_content is not None
        assert looked.structured_content["status"] == "waiting"
        given = {"processId": identity, "answer": {"cake": "plum"}}
        result = await call(client, "process_answer", given)
        assert result.structured_content == {"content": "plum for 3"}


async def test_an_answer_that_comes_after_the_call_counts_as_well(tmp_path: Path) -> None:
    hasty = BAKER.replace('name="bake_cake")', 'name="bake_cake", wait_budget=0.3)')
    capable: dict[str, object] = {"elicitation": {}}
    async with running(tmp_path, {"agents/bakers.py": hasty}) as server, session(server, capable) as (http, headers):
        params = {"name": "bake_cake", "arguments": {"guests": 3}}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        async with http.stream("POST", "/mcp", json=message, headers=headers) as stream:
            data = [line.removeprefix("data: ") async for line in stream.aiter_lines() if line.startswith("data: {")]
        asked, cancelled, ended = map(json.loads, data)
        assert (asked["method"], cancelled["method"]) == ("elicitation/create", "notifications/cancelled")
        handle = ended["result"]["structuredContent"]
        contents: list[dict[str, object]] = [{"cheese": "plum"}, {"cake": {}}, {"cake": "plum"}, {"cake": "apple"}]
        for content in contents:
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": content}}
            taken = await http.post("/mcp", json=answer, headers=headers)
            assert taken.status_code == 202
        async with server.client("http", "auto") as client:
            given = {"processId": handle["processId"], "waitSeconds": 20}
            result = await call(client, "process_status", given)
        assert result.structured_content == {"content": "plum for 3"}
        assert "Traceback" not in server.heard.text


async def test_an_answer_that_is_none_leaves_the_client_the_handle(server: Running) -> None:
    capable: dict[str, object] = {"elicitation": {}}
    async with session(server, capable) as (http, headers):
        params = {"name": "bake_cake", "arguments": {"guests": 3}}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        async with http.stream("POST", "/mcp", json=message, headers=headers) as stream:
            events = (json.loads(line[6:]) async for line in stream.aiter_lines() if line.startswith("data: {"))
            asked = await anext(events)
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"cake": "plum"}}
            assert (await http.post("/mcp", json=answer, headers=headers)).status_code == 202
            with anyio.fail_after(60):
                ended = await anext(events)
        assert ended["result"]["structuredContent"]["status"] == "waiting"
        assert "Traceback" not in server.heard.text


async def test_a_form_does_not_hold_the_end_of_a_server(tmp_path: Path) -> None:
    shown = anyio.Event()
    results: list[CallToolResult] = []

    async def person(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        shown.set()
        await anyio.sleep_forever()
        raise AssertionError(params)

    async with running(tmp_path, FILES, shutdown_seconds="60", store="sqlite") as server:
        async with (
            server.client("http", "legacy", elicitation_callback=person) as client,
            anyio.create_task_group() as tasks,
        ):
            await client.list_tools()  # or the client asks for the schema of the result when the server is gone

            async def bake() -> None:
                results.append(await call(client, "bake_cake", {"guests": 3}))

            tasks.start_soon(bake)
            with anyio.fail_after(60):
                await shown.wait()
            server.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            assert await server.process.wait() == 0
    (result,) = results
    assert result.structured_content is not None
    assert result.structured_content["status"] == "waiting"
