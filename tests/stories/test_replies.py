"""How calls over HTTP are answered: quick ones in one piece, long and talkative ones as a stream of events."""

import json
from typing import Any

import httpx2
import pytest

from tests.stories.cooks import HEADERS, META, request, session
from tests.stories.servers import Running

MODERN = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "cook"}


async def answer(server: Running, era: str, seconds: float, **meta: object) -> httpx2.Response:
    """What the server answers to one call, headers and all."""
    given: dict[str, Any] = {"arguments": {"seconds": seconds}}
    if era == "modern":
        call = request("cook", **given, _meta={**META, **meta})
        async with httpx2.AsyncClient(base_url=server.address, timeout=20) as http:
            return await http.post("/mcp", json=call, headers={**HEADERS, **MODERN})
    async with session(server) as (http, headers):
        return await http.post("/mcp", json=request("cook", **given, _meta=meta), headers=headers)


def last_message(response: httpx2.Response) -> dict[str, Any]:
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    data = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return json.loads(data[-1])


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_quick_call_is_answered_in_one_piece(server: Running, era: str) -> None:
    response = await answer(server, era, 0)
    assert response.headers["content-type"].startswith("application/json")
    assert last_message(response)["result"]["structuredContent"] == {"content": "done"}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("seconds", [1.0, 1.6])
async def test_a_call_that_takes_longer_becomes_a_stream_that_keeps_the_connection_open(
    server: Running, era: str, seconds: float
) -> None:
    response = await answer(server, era, seconds)
    assert response.status_code == 200
    assert last_message(response)["result"]["structuredContent"] == {"content": "done"}
    if seconds > 1.5:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.text.startswith(": ping")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_that_wants_progress_is_a_stream_from_its_first_message(server: Running, era: str) -> None:
    response = await answer(server, era, 0, progressToken="p")
    assert response.headers["content-type"].startswith("text/event-stream")
    assert "notifications/progress" in response.text
    assert "1/1 cook" in response.text


async def test_a_session_that_wants_the_log_gets_streams(server: Running) -> None:
    level = {"jsonrpc": "2.0", "id": 3, "method": "logging/setLevel", "params": {"level": "debug"}}
    async with session(server) as (http, headers):
        await http.post("/mcp", json=level, headers=headers)
        response = await http.post("/mcp", json=request("cook", arguments={"seconds": 0}), headers=headers)
    assert "notifications/message" in response.text


@pytest.mark.parametrize("name", ["cook", "no_such_tool"])
async def test_a_mistake_is_answered_in_one_piece_too(server: Running, name: str) -> None:
    async with session(server) as (http, headers):
        response = await http.post("/mcp", json=request("cook", name=name, arguments={"x": 1}), headers=headers)
    assert response.headers["content-type"].startswith("application/json")
    message = last_message(response)
    assert message["result"]["isError"] if name == "cook" else message["error"]["code"] == -32602


async def test_a_stream_that_asks_to_be_resumed_begins_anew(server: Running) -> None:
    async with (
        session(server) as (http, headers),
        http.stream("GET", "/mcp", headers={**headers, "Last-Event-ID": "5"}) as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
    assert "ERROR" not in server.heard.text
