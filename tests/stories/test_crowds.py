"""Many at once, and some who misbehave: the server lives, and the others are served."""

import json
import socket
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.stories.cooks import FILES, HEADERS, META, request, session
from tests.stories.servers import Running, running


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_two_hundred_calls_at_once_are_all_answered(server: Running, era: str) -> None:
    answers: list[object] = []
    async with server.client("http", era) as client:

        async def call() -> None:
            answers.append((await client.call_tool("cook", {"seconds": 0.05})).structured_content)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as calls:
                for _ in range(200):
                    calls.start_soon(call)
    assert answers == [{"content": "done"}] * 200


async def is_alive(server: Running) -> None:
    with anyio.fail_after(60):
        async with server.client("http", "auto") as client:
            result = await client.call_tool("cook", {"seconds": 0})
    assert result.structured_content == {"content": "done"}


def said(server: Running, data: bytes) -> socket.socket:
    """Something said to the server by somebody who does not listen to the answer."""
    line = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    line.sendall(data)
    return line


def post(path: str, body: bytes, **headers: str) -> bytes:
    given = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        **HEADERS,
        **headers,
        "Content-Length": str(len(body)),
    }
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


async def test_clients_that_never_read_their_answers_hold_up_nobody_else(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, heartbeat_seconds="0.01") as server, session(server) as (_, headers):
        modern = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "cook"}
        lines: list[socket.socket] = []
        for number in range(20):
            meta = {**META, "progressToken": number}
            body = json.dumps({**request("cook", _meta=meta), "id": 100 + number}).encode()
            lines.append(said(server, post("/mcp", body, **modern)))
            old = json.dumps({**request("cook", _meta={"progressToken": number}), "id": 200 + number}).encode()
            kept = {name: value for name, value in headers.items() if name.lower().startswith("mcp")}
            lines.append(said(server, post("/mcp", old, **kept)))
        await server.heard.until("cooking begins", times=40)
        await is_alive(server)
        for line in lines:
            line.close()
        await server.heard.until("cooking stops", times=40)


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"\x00\x01\x02\x03" * 100,
        post("/mcp", b"{"),
        post("/mcp", b"[" * 100_000),
        post("/mcp", b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', mcp_protocol_version="2026-07-28"),
        post("/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode()),
        post("/messages/?session_id=xyz", b"{}"),
        post("/mcp", b"")[:-4],
    ],
    ids=["garbage", "bytes", "half", "deep", "no params", "an answer", "no session", "cut off"],
)
async def test_somebody_who_talks_nonsense_is_refused_and_the_server_lives(server: Running, data: bytes) -> None:
    with said(server, data):
        await is_alive(server)
    await is_alive(server)
    assert server.process.returncode is None
    assert "Traceback" not in server.heard.text


async def test_a_workspace_of_which_one_module_is_broken_is_served_without_it(tmp_path: Path) -> None:
    broken = {"agents/broken.py": "import nothing_of_that_name", "tools/odd.py": "\n\nraise SystemExit(3)"}
    async with running(tmp_path, {**FILES, **broken}) as server:
        await is_alive(server)
    assert "broken.py:1: No module named" in server.heard.text
    assert "odd.py:3: " in server.heard.text


async def test_a_workspace_without_agents_is_served_and_says_so(tmp_path: Path) -> None:
    async with running(tmp_path, {"server/settings.toml": ""}) as server, server.client("http", "auto") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["helloBanner"]
    assert "no agents" in server.heard.text


async def test_whitespace_around_a_header_is_no_part_of_it(server: Running) -> None:
    params = {"name": "cook", "arguments": {"seconds": 0}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"MCP-Protocol-Version": "2026-07-28 ", "Mcp-Method": "\ttools/call ", "Mcp-Name": " cook\t"}
    with said(server, post("/mcp", json.dumps(message).encode(), **headers)) as line:
        with anyio.fail_after(60):
            answer = await anyio.to_thread.run_sync(line.recv, 65_536)
    assert answer.startswith(b"HTTP/1.1 200")


async def test_a_result_of_a_megabyte_and_more_can_be_read_in_both_eras(tmp_path: Path) -> None:
    big = """
from pydantic import BaseModel
from goalport import Export, UserInput, achieves_goal, action, agent

class Book(BaseModel):
    content: str
    pages: int

@agent(description="Writes books")
class Author:
    @achieves_goal(description="A book", export=Export(remote=True, name="write_book"))
    @action
    async def write(self, said: UserInput) -> Book:
        return Book(content=said.content * 1_500_000, pages=7)
"""
    async with running(tmp_path, {"agents/author.py": big}) as server:
        for era in ("auto", "legacy"):
            async with server.client("http", era) as client:
                result = await client.call_tool("write_book", {"content": "x"})
                assert not result.is_error
                uri = getattr(result.content[-1], "uri", "").removesuffix("/1")
                text = ""
                handle: dict[str, Any] = result.structured_content or {}
                for number in range(1, handle["pages"] + 1):
                    text += getattr((await client.read_resource(f"{uri}/{number}")).contents[0], "text", "")
                assert json.loads(text) == {"content": "x" * 1_500_000, "pages": 7}


async def test_a_body_beyond_the_limit_is_refused_over_the_wire(server: Running) -> None:
    async with httpx2.AsyncClient(base_url=server.address, timeout=20) as http:
        body = json.dumps(request("cook", arguments={"seconds": "x" * 5_000_000})).encode()
        response = await http.post("/mcp", content=body, headers={**HEADERS, "Content-Type": "application/json"})
        assert response.status_code == 413
        await is_alive(server)
