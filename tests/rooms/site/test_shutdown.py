"""What becomes of open connections while a server shuts down."""

import gc
import json
import signal
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from goalport import Export, UserInput, achieves_goal, agent
from goalport.server.site.app import Site
from goalport.server.site.listener import listen
from tests.rooms.serve.served import state_of


@agent(description="Counts letters")
class Counter:
    @achieves_goal(
        description="The number of letters", export=Export(remote=True, name="count", starting_input_types=[UserInput])
    )
    def count(self, said: UserInput) -> int:
        return len(said.content)


@pytest.fixture
def tuned() -> Generator[None]:
    """Undoes afterwards how a listener tunes the garbage collection."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PARAMS = {"name": "count", "arguments": {"content": "abc"}, "_meta": META}
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": PARAMS}).encode()
HEADERS = """\
accept: application/json, text/event-stream
content-type: application/json
mcp-protocol-version: 2026-07-28
mcp-method: tools/call
mcp-name: count
"""


async def post(stream: SocketStream, port: int) -> bytes:
    """The whole answer to one request."""
    await stream.send(head(port) + BODY)
    return await answer_on(stream)


def head(port: int) -> bytes:
    lines = f"POST /mcp HTTP/1.1\nhost: 127.0.0.1:{port}\n{HEADERS}content-length: {len(BODY)}\n\n"
    return lines.replace("\n", "\r\n").encode()


async def answer_on(stream: SocketStream) -> bytes:
    answer = b""
    while b'"result"' not in answer and b'"error"' not in answer:
        answer += await stream.receive()
    return answer


async def closed(listener: socket.socket) -> None:
    """Wait until the server accepts no connections any more."""
    while listener.fileno() != -1:
        await anyio.sleep(0.01)


@pytest.mark.usefixtures("tuned")
async def test_a_request_on_an_idle_connection_is_answered_while_the_server_shuts_down(tmp_path: Path) -> None:
    publisher, ready = state_of(tmp_path, Counter).publisher, anyio.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, Site(publisher), listener, ready.set)
            await ready.wait()
            async with await anyio.connect_tcp("127.0.0.1", port) as used, await anyio.connect_tcp("127.0.0.1", port):
                assert b"connection: close" not in await post(used, port)
                signal.raise_signal(signal.SIGTERM)
                await closed(listener)
                answer = await post(used, port)
                assert answer.startswith(b"HTTP/1.1 200")
                assert b"connection: close" in answer
                with pytest.raises(anyio.EndOfStream):
                    await used.receive()


@pytest.mark.usefixtures("tuned")
async def test_a_request_whose_body_comes_while_the_server_shuts_down_is_answered(tmp_path: Path) -> None:
    publisher, ready, closing = state_of(tmp_path, Counter).publisher, anyio.Event(), anyio.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    class Watched(Site):
        async def close(self) -> None:
            closing.set()
            await super().close()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, Watched(publisher), listener, ready.set)
            await ready.wait()
            async with await anyio.connect_tcp("127.0.0.1", port) as client:
                assert b"connection: close" not in await post(client, port)
                await client.send(head(port))
                signal.raise_signal(signal.SIGTERM)
                await closed(listener)
                await publisher.calls.closing.wait()
                with anyio.move_on_after(0.3):
                    await closing.wait()
                assert not closing.is_set()
                await client.send(BODY)
                assert (await answer_on(client)).startswith(b"HTTP/1.1 200")


@pytest.mark.usefixtures("tuned")
async def test_a_client_that_still_sends_what_was_refused_holds_no_shutdown(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"max_body_bytes": 1_000, "shutdown_seconds": 600, "stall_seconds": 600}
    publisher, ready = state_of(tmp_path, Counter, **limits).publisher, anyio.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, Site(publisher), listener, ready.set)
            await ready.wait()
            async with await anyio.connect_tcp("127.0.0.1", port) as client:
                await client.send(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000000\r\n\r\n")
                assert (await client.receive()).startswith(b"HTTP/1.1 413")
                signal.raise_signal(signal.SIGTERM)
                while True:
                    try:
                        await client.receive()
                    except anyio.EndOfStream:
                        break
