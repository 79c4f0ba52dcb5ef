"""Clients that take more than their share of the server, by hand: they are cut off, the others are served."""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from tests.stories.cooks import FILES as COOKS, META, request
from tests.stories.servers import GOALPORT, READY, Running, running, started, workspace
from tests.stories.test_crowds import is_alive, post

AUTHOR = """
from pydantic import BaseModel
from goalport import Export, UserInput, achieves_goal, action, agent

class Book(BaseModel):
    content: str

@agent(description="Writes books")
class Author:
    @achieves_goal(description="A book", export=Export(remote=True, name="write_book"))
    @action
    async def write(self, said: UserInput) -> Book:
        return Book(content=said.content * 8_000_000)
"""
FILES = {**COOKS, "agents/author.py": AUTHOR}
SETTINGS = {
    "max_header_bytes": "2000",
    "max_header_lines": "20",
    "header_seconds": "1",
    "stall_seconds": "1",
    "max_result_bytes": "20000000",
}
HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

LAST = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def line_to(server: Running, source: str = "127.0.0.1") -> AsyncGenerator[SocketStream]:
    async with await anyio.connect_tcp("127.0.0.1", server.port, local_host=source) as line:
        yield line


async def rest(line: SocketStream, seconds: float = 15) -> bytes:
    """What comes until the server ends the connection, which it must do."""
    told = b""
    with anyio.fail_after(seconds):
        try:
            while True:
                told += await line.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return told


async def call(line: SocketStream, tool: str, **arguments: object) -> None:
    message = request("cook", name=tool, arguments=arguments, _meta=META)
    modern = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
    await line.send(post("/mcp", json.dumps(message).encode(), **modern))


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (HEAD + b"X-Long: " + b"x" * 2_000, b"431"),
        (HEAD + b"X-Long: " + b"x" * 2_000 + b"\r\n\r\n", b"431"),
        (b"GET /" + b"x" * 2_000, b"431"),
        (HEAD + b"a: b\r\n" * 30, b"431"),
        (HEAD + b"a: b\r\n" * 30 + b"\r\n", b"431"),
        (b"\r\n" * 1_000, b"431"),
        (CHUNKED + b"1;" + b"x" * 5_000, b"431"),
        (CHUNKED + b"1\r\n{\r\n0\r\nX-Late: " + b"x" * 5_000, b"431"),
        (CHUNKED + b"1\r\n{\r\n0\r\n" + b"a: b\r\n" * 30, b"431"),
        (HEAD, b"408"),
        (HEAD + b"Content-Length: 10\r\n\r\n{", b"408"),
        (CHUNKED + b"1\r\n{\r\n", b"408"),
        (b"", b""),
    ],
    ids=[
        "a header without end", "a long header", "a long address", "lines without end", "many lines", "empty lines",
        "an extension of a chunk", "a trailer", "many trailers",
        "headers that stop", "a body that stops", "chunks that stop", "nothing",
    ],
)  # fmt: skip
async def test_a_request_that_is_too_large_or_does_not_come_is_ended(
    server: Running, data: bytes, status: bytes
) -> None:
    async with line_to(server) as line:
        if data:
            await line.send(data)
        told = await rest(line)
    assert told.split(b" ")[1:2] == ([status] if status else [])
    assert "Traceback" not in server.heard.text


@pytest.mark.parametrize("sent", [1, 80_000], ids=["a body that stops", "no other request"])
async def test_a_connection_whose_request_was_refused_ends_if_its_client_does_not_go_on(
    server: Running, sent: int
) -> None:
    async with line_to(server) as line:
        await line.send(b"POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 80000\r\n\r\n")
        with anyio.fail_after(60):
            assert b" 404 " in await line.receive()
        await line.send(b"x" * sent)
        assert b"HTTP/1.1" not in await rest(line)


async def test_a_call_may_take_longer_than_a_client_may_be_silent(server: Running) -> None:
    async with line_to(server) as line:
        await line.send(GET)
        await call(line, "cook", seconds=3.5)
        with anyio.fail_after(60):
            told = b""
            while b'"done"' not in told:
                told += await line.receive()
        await call(line, "cook", seconds=0)
        with anyio.fail_after(60):
            assert b"200 OK" in await line.receive()


async def test_a_client_that_reads_nothing_of_a_large_answer_is_cut_off(server: Running) -> None:
    async with line_to(server) as line:
        await call(line, "write_book", content="x")
        await server.heard.until("nothing was read of an answer for 1 s")
        assert len(await rest(line)) < 8_000_000


async def test_requests_in_one_go_are_answered_in_order_and_far_too_many_end_the_connection(server: Running) -> None:
    async with line_to(server) as line:
        await line.send(GET * 20)
        told = b""
        with anyio.fail_after(60):
            while told.count(b'"status":"ok"') < 20:
                told += await line.receive()
        assert told.count(b"HTTP/1.1 200") == 20
    async with line_to(server) as line:
        await line.send(GET * 1_000)
        assert (await rest(line)).count(b"HTTP/1.1 200") < 1_000
    await is_alive(server)


async def test_a_call_ends_with_its_connection_also_when_other_requests_wait_behind_it(server: Running) -> None:
    async with line_to(server) as line:
        await call(line, "cook", seconds=60)
        await line.send(GET * 3)
        await server.heard.until("cooking begins")
    await server.heard.until("cooking stops")


async def test_connections_are_counted_by_address_and_in_all(tmp_path: Path) -> None:
    limits: Any = {"max_connections": "12", "max_connections_per_address": "8", "max_sessions": "1"}
    async with running(tmp_path, COOKS, **limits) as server, AsyncExitStack() as lines:

        async def served(source: str) -> bytes:
            async with line_to(server, source) as line:
                await line.send(LAST)
                return await rest(line)

        stream = await lines.enter_async_context(line_to(server))
        await stream.send(b"GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with anyio.fail_after(60):
            assert b"200 OK" in await stream.receive()
        async with line_to(server) as line:
            await line.send(b"GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            told = await rest(line)
        assert told.startswith(b"HTTP/1.1 503")
        assert b"\r\nretry-after: 10\r\n" in told
        for _ in range(7):
            await lines.enter_async_context(line_to(server))
        assert (await served("127.0.0.2")).startswith(b"HTTP/1.1 200")
        refused = await served("127.0.0.1")
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"\r\nretry-after: 10\r\n" in refused
        await server.heard.until("Refused a connection from 127.0.0.1: it has 8 open")
        async with AsyncExitStack() as more:
            others = [await more.enter_async_context(line_to(server, "127.0.0.2")) for _ in range(4)]
            assert (await served("127.0.0.3")).startswith(b"HTTP/1.1 503")
            await server.heard.until("Refused a connection from 127.0.0.3: 12 are open")
            assert "11 of 12 connections are open" in server.heard.text
            for line in others:
                await line.send(LAST)
                await rest(line)
            assert (await served("127.0.0.3")).startswith(b"HTTP/1.1 200")
        assert server.heard.text.count("Refused") == 2


async def test_a_server_with_few_descriptors_keeps_some_and_says_when_they_run_short(tmp_path: Path) -> None:
    serve = f"{GOALPORT} serve --workspace {workspace(tmp_path, COOKS)} --port 0"
    async with started(["sh", "-c", f"ulimit -n 128; exec {serve}"]) as (process, heard), AsyncExitStack() as lines:
        said = await heard.until(READY)
        line = next(line for line in said.splitlines() if line.startswith(READY))
        server = Running(process, heard, line.removeprefix(READY).removesuffix("/mcp"))
        for number in range(130):
            await lines.enter_async_context(line_to(server, f"127.0.0.{2 + number % 2}"))
        await heard.until("connections are open (max_connections)")
        async with line_to(server, "127.0.0.4") as late:
            assert (await rest(late)).startswith(b"HTTP/1.1 503")
        assert process.returncode is None
        assert "Traceback" not in heard.text
