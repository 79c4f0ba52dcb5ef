"""Over HTTP, the sessions, streams and calls of one caller cannot be used or ended by another."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import anyio
import httpx2
import pytest

from goalport.base.caller import Caller
from tests.rooms.rest.web import Web, web
from tests.rooms.serve.askers import Order, Pizzeria
from tests.rooms.serve.test_repeating import Cook, Kitchen
from tests.rooms.site.test_guard import HEADERS, INITIALIZE

MCP = {**HEADERS, "Documented": "no"}
ADA = {**MCP, "Caller": "ada", "Issuer": "https://one"}
OTHERS = {
    "another caller": {**MCP, "Caller": "bob", "Issuer": "https://one"},
    "the same name of another issuer": {**MCP, "Caller": "ada", "Issuer": "https://other"},
    "somebody without a token": MCP,
}
COOK = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "cook", "arguments": {"dish": "soup"}}}
CANCEL = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
LIST = {"jsonrpc": "2.0", "id": 8, "method": "tools/list"}
MODERN = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "notifications/cancelled"}
NONE = "no-such-session"


async def opened(http: httpx2.AsyncClient, who: Mapping[str, str]) -> str:
    """The id of a new session."""
    answer = await http.post("/mcp", json=INITIALIZE, headers=dict(who))
    return answer.headers["mcp-session-id"]


async def attempts(http: httpx2.AsyncClient, who: Mapping[str, str], session: str) -> list[tuple[int, str]]:
    """What is answered to whoever uses a session and cancels the call in it."""
    headers = {**who, "Mcp-Session-Id": session}
    found = [await http.post("/mcp", json=each, headers=headers) for each in (CANCEL, LIST)]
    found.append(await http.delete("/mcp", headers=headers))
    async with http.stream("GET", "/mcp", headers=headers) as stream:
        assert stream.status_code >= 400
        await stream.aread()
        found.append(stream)
    return [(each.status_code, each.text.replace(session, "…")) for each in found]


@pytest.mark.parametrize("idle", [False, True], ids=["in use", "opened elsewhere"])
async def test_a_session_is_unknown_to_other_callers(tmp_path: Path, *, idle: bool) -> None:
    kitchen = Kitchen()
    async with web(tmp_path, Cook(kitchen), state_keys=["k" * 32]) as server:
        session = await opened(server.http, ADA)
        async with web(tmp_path, Cook(kitchen), state_keys=["k" * 32]) as second:
            used = second if idle else server
            for who, headers in OTHERS.items():
                refused = await attempts(used.http, headers, session)
                assert refused == await attempts(used.http, headers, NONE), who
                assert all(status == 404 for status, _ in refused), who
            own = await used.http.post("/mcp", json=LIST, headers={**ADA, "Mcp-Session-Id": session})
            assert own.status_code == 200


async def test_nobody_else_cancels_a_call(tmp_path: Path) -> None:
    kitchen = Kitchen()
    async with web(tmp_path, Cook(kitchen)) as server:
        session, answers = await opened(server.http, ADA), list[httpx2.Response]()

        async def cook() -> None:
            answers.append(await server.http.post("/mcp", json=COOK, headers={**ADA, "Mcp-Session-Id": session}))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as calls:
                calls.start_soon(cook)
                await kitchen.begun.wait()
                for headers in OTHERS.values():
                    await attempts(server.http, headers, session)
                    own = {**headers, "Mcp-Session-Id": await opened(server.http, headers)}
                    assert (await server.http.post("/mcp", json=CANCEL, headers=own)).status_code == 202
                    await server.http.post("/mcp", json=CANCEL, headers={**headers, **MODERN})
                await anyio.wait_all_tasks_blocked()
                kitchen.go_on.set()
        assert "soup" in answers[0].text
        assert (kitchen.cooked, kitchen.stopped) == (1, 0)


async def test_a_question_in_a_call_is_answered_in_its_session_alone(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria()) as server:
        caller = Caller("ada", "https://one")
        process = server.platform.start("Pizzeria", Order(size=30), caller=caller)
        with anyio.fail_after(60):
            await process.wait()
        (question,) = process.open_questions
        answer = {
            "jsonrpc": "2.0",
            "id": f"goalport-question:{process.id}:{question.id}:00",
            "result": {"action": "accept", "content": {"name": "ham", "portions": 2}},
        }
        for headers in (*OTHERS.values(), ADA):
            own = {**headers, "Mcp-Session-Id": await opened(server.http, headers)}
            assert process.status == "waiting"
            assert (await server.http.post("/mcp", json=answer, headers=own)).status_code == 202
        with anyio.fail_after(60):
            while process.status == "waiting":
                await process.changed()
            await process.rest()
        assert process.status == "completed"


async def test_a_stream_of_the_older_transport_takes_messages_of_its_caller_alone(tmp_path: Path) -> None:
    async with web(tmp_path, Cook(Kitchen())) as server, server.http.stream("GET", "/sse", headers=ADA) as stream:
        with anyio.fail_after(60):
            lines = stream.aiter_lines()  # the stream closes with it
            path = await _endpoint(lines)
            for who, headers in OTHERS.items():
                refused = await _post(server, path, headers)
                unknown = await _post(server, f"{path[:-1]}{'0' if path[-1] != '0' else '1'}", headers)
                assert refused == unknown, who
                assert refused[0] == 404, who
            assert (await _post(server, path, ADA))[0] == 202


async def _endpoint(lines: AsyncIterator[str]) -> str:
    async for line in lines:
        if line.startswith("data: "):
            return line.removeprefix("data: ")
    raise AssertionError


async def _post(server: Web, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    answer = await server.http.post(path, json=INITIALIZE, headers=dict(headers))
    return answer.status_code, answer.text
