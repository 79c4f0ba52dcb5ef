"""Messages over HTTP that nobody could answer as they are: each is refused with a sentence, none is left waiting."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.rooms.site.test_guard import HEADERS, http, initialize

TOOL = """
import anyio
from goalport import tool

entered = 0

@tool(export=True)
async def slow(many: int) -> int:
    '''Wait until so many calls are there, or a moment for those that never come.'''
    global entered
    entered += 1
    with anyio.move_on_after(0.5):
        while entered < many:
            await anyio.sleep(0.01)
    return many
"""
PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
TOO_DEEP = '{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"a": ' + "[" * 5_000 + "]" * 5_000 + "}}"


@asynccontextmanager
async def session(root: Path) -> AsyncGenerator[tuple[httpx2.AsyncClient, dict[str, str]]]:
    """A session of the handshake era, spoken by hand."""
    (root / "tools").mkdir()
    (root / "tools/slow.py").write_text(TOOL)
    async with http(root) as client:
        opened = await initialize(client)
        headers = {**HEADERS, "Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        yield client, headers


def modern(headers: dict[str, str]) -> dict[str, str]:
    rest = {name: value for name, value in headers.items() if not name.startswith("Mcp")}
    return {**rest, "MCP-Protocol-Version": MODERN_PROTOCOL_VERSIONS[-1], "Mcp-Method": "ping"}


NO_MESSAGES: list[Any] = [
    {**PING, "id": None},
    {**PING, "id": 1.5},
    {**PING, "id": True},
    {**PING, "id": {}},
    {**PING, "id": []},
    {**PING, "method": 5},
    {**PING, "params": []},
    {**PING, "jsonrpc": "1.0"},
    {"jsonrpc": "2.0", "id": 5},
    {"jsonrpc": "2.0", "id": None, "result": {}},
    {"jsonrpc": "2.0", "id": 5, "result": 7},
    [],
    [PING],
    "ping",
]
EACH_WAY = pytest.mark.parametrize(("path", "era"), [("/mcp", "legacy"), ("/mcp", "modern"), ("/messages/", "legacy")])


@EACH_WAY
async def test_what_is_no_message_is_refused_as_an_invalid_request(tmp_path: Path, path: str, era: str) -> None:
    async with session(tmp_path) as (client, headers):
        given = modern(headers) if era == "modern" else headers
        responses = [await client.post(path, json=message, headers=given) for message in NO_MESSAGES]
    for message, response in zip(NO_MESSAGES, responses, strict=True):
        answer, sent = response.json(), json.dumps(message)
        assert (response.status_code, answer["error"]["code"]) == (400, INVALID_REQUEST), sent
        assert answer["id"] == (5 if sent.startswith("{") and '"id": 5' in sent else None), sent
        assert "; came" in answer["error"]["message"] or "should have" in answer["error"]["message"]


@EACH_WAY
async def test_what_is_no_json_or_too_deep_is_a_parse_error_and_no_traceback(
    tmp_path: Path, path: str, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    long_number = json.dumps(PING).replace("5", "1" * 5_000)
    async with session(tmp_path) as (client, headers):
        given = modern(headers) if era == "modern" else headers
        for body in ("{", "", TOO_DEEP, long_number):
            response = await client.post(path, content=body, headers=given)
            assert (response.status_code, response.json()["error"]["code"]) == (400, PARSE_ERROR), body[:50]
    assert not [record for record in caplog.records if record.exc_info]


async def test_of_many_requests_with_one_id_the_first_is_answered_and_the_others_are_refused(tmp_path: Path) -> None:
    answers: list[dict[str, Any]] = []
    async with session(tmp_path) as (client, headers):

        async def call(identity: object, many: int) -> None:
            params = {"name": "slow", "arguments": {"many": many}}
            message = {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": params}
            answers.append((await client.post("/mcp", json=message, headers=headers)).json())

        with anyio.fail_after(60):
            async with anyio.create_task_group() as calls:
                for number in range(20):
                    calls.start_soon(call, 7 if number % 2 else "7", 20)
        refused = [each for each in answers if "error" in each]
        assert len(answers) == 20
        assert len(refused) == 19
        assert {each["error"]["code"] for each in refused} == {INVALID_REQUEST}
        assert all("is in use" in each["error"]["message"] for each in refused)
        with anyio.fail_after(60):
            await call(7, 1)
    assert answers[-1]["result"]["isError"] is False


async def test_a_request_cannot_take_the_place_of_the_stream_of_its_session(tmp_path: Path) -> None:
    async with session(tmp_path) as (client, headers):
        response = await client.post("/mcp", json={**PING, "id": "_GET_stream"}, headers=headers)
    assert response.json()["error"]["code"] == INVALID_REQUEST
