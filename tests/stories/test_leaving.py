"""Clients that leave in mid-call, each in its own way: the work stops, unless its export says that it goes on."""

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client

from tests.stories.cooks import FILES, HEADERS, META, SECONDS, request, session
from tests.stories.servers import Heard, Running, over_stdio, running, spoken_to

ENDS = {"cook": "cooking stops", "cater": "cooking ends"}
ATTACHED_AND_DETACHED = pytest.mark.parametrize("tool", ["cook", "cater"])


async def call_and_leave(client: Client, heard: Heard, tool: str) -> None:
    """A call whose caller gives up once the work has begun, as the client's library does that."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call_tool, tool, {"seconds": SECONDS[tool]})
            await heard.until("cooking begins")
            calls.cancel_scope.cancel()


@ATTACHED_AND_DETACHED
@pytest.mark.parametrize(
    ("transport", "era"), [("http", "auto"), ("http", "legacy"), ("sse", "auto"), ("sse", "legacy")]
)
async def test_a_call_that_is_cancelled(server: Running, transport: str, era: str, tool: str) -> None:
    async with server.client(transport, era) as client:
        await call_and_leave(client, server.heard, tool)
        await server.heard.until(ENDS[tool])
        assert (await client.call_tool("cook", {"seconds": 0})).structured_content == {"content": "done"}


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_calls_that_are_cancelled_over_stdio(tmp_path: Path, era: str) -> None:
    async with over_stdio(tmp_path, FILES, era) as (client, heard):
        for tool, end in ENDS.items():
            heard.text = ""
            await call_and_leave(client, heard, tool)
            await heard.until(end)
            assert (await client.call_tool("cook", {"seconds": 0})).structured_content == {"content": "done"}
            await heard.until("cooking ends", times=2 if tool == "cater" else 1)


@ATTACHED_AND_DETACHED
async def test_a_connection_that_is_dropped_in_the_handshake_era(server: Running, tool: str) -> None:
    async with session(server) as (http, headers):
        async with http.stream("POST", "/mcp", json=request(tool), headers=headers):
            await server.heard.until("cooking begins")
        await server.heard.until(ENDS[tool])
        ping = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 8, "method": "ping"}, headers=headers)
        assert ping.status_code == 200


async def test_connections_that_are_dropped_without_a_session(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, "--stateless") as server:
        for tool, end in ENDS.items():
            server.heard.text = ""
            async with (
                httpx2.AsyncClient(base_url=server.address, timeout=20) as http,
                http.stream("POST", "/mcp", json=request(tool), headers=HEADERS),
            ):
                await server.heard.until("cooking begins")
            await server.heard.until(end)


@ATTACHED_AND_DETACHED
async def test_a_connection_that_is_dropped_in_the_newest_revision(server: Running, tool: str) -> None:
    routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
    async with httpx2.AsyncClient(base_url=server.address, timeout=20) as http, anyio.create_task_group() as calls:

        async def call() -> None:
            await http.post("/mcp", json=request(tool, _meta=META), headers={**HEADERS, **routing})

        calls.start_soon(call)
        await server.heard.until("cooking begins")
        calls.cancel_scope.cancel()
    await server.heard.until(ENDS[tool])


@ATTACHED_AND_DETACHED
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_an_sse_stream_that_is_dropped(server: Running, era: str, tool: str) -> None:
    async with anyio.create_task_group() as clients:

        async def call() -> None:
            async with server.client("sse", era) as client:
                await client.call_tool(tool, {"seconds": SECONDS[tool]})

        clients.start_soon(call)
        await server.heard.until("cooking begins")
        clients.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await server.heard.until(ENDS[tool])


def lines(era: str, tool: str) -> bytes:
    """What a client writes to stdin, up to its call."""
    info = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(tool),
    ]
    spoken = messages if era == "legacy" else [request(tool, _meta=META)]
    return b"".join(json.dumps(message).encode() + b"\n" for message in spoken)


@ATTACHED_AND_DETACHED
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_client_that_closes_stdin(tmp_path: Path, era: str, tool: str) -> None:
    async with spoken_to(tmp_path, FILES) as server:
        await server.stdin.send(lines(era, tool))
        await server.heard.until("cooking begins")
        await server.stdin.aclose()
        await server.heard.until(ENDS[tool])
        with anyio.fail_after(60):
            assert await server.process.wait() == 0


async def test_one_of_two_callers_of_one_process_leaves(server: Running) -> None:
    meta: Any = {"goalport/idempotencyKey": "one meal"}
    async with server.client("http", "legacy") as stays:
        results: list[object] = []

        async def wait() -> None:
            results.append((await stays.call_tool("cook", {"seconds": 2}, meta=meta)).structured_content)

        async with anyio.create_task_group() as calls, session(server) as (http, headers):
            calls.start_soon(wait)
            await server.heard.until("cooking begins")
            joining = request("cook", arguments={"seconds": 2}, _meta=meta)
            async with http.stream("POST", "/mcp", json=joining, headers=headers):
                pass
        assert results == [{"content": "done"}]
        assert "cooking stops" not in server.heard.text
