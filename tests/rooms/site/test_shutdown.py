"""What becomes of open connections while a server shuts down."""

import gc
import json
import signal
import socket
from collections.abc import Generator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketStream

from goalport import Export, UserInput, achieves_goal, agent
from goalport.site.app import Site
from goalport.site.listener import listen
from tests.rooms.rest.web import PROCESS
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


async def post(stream: SocketStream, port: int) -> bytes:
    """The whole answer to one request."""
    body = json.dumps({"goal": "count", "input": {"content": "abc"}}).encode()
    head = f"POST {PROCESS} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    await stream.send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    answer = b""
    while b'"result"' not in answer and b'"error"' not in answer:
        answer += await stream.receive()
    return answer


async def closed_to_others(port: int) -> None:
    """Wait until the server accepts no connections any more."""
    while True:
        try:
            async with await anyio.connect_tcp("127.0.0.1", port):
                await anyio.lowlevel.checkpoint()
        except OSError:
            return


@pytest.mark.usefixtures("tuned")
async def test_a_request_on_an_idle_connection_is_answered_while_the_server_shuts_down(tmp_path: Path) -> None:
    publisher, ready = state_of(tmp_path, Counter).publisher, anyio.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, Site(publisher), listener, ready.set)
            await ready.wait()
            async with await anyio.connect_tcp("127.0.0.1", port) as used, await anyio.connect_tcp("127.0.0.1", port):
                assert b"connection: close" not in await post(used, port)
                signal.raise_signal(signal.SIGTERM)
                await closed_to_others(port)
                answer = await post(used, port)
                assert answer.startswith(b"HTTP/1.1 200")
                assert b"connection: close" in answer
                with pytest.raises(anyio.EndOfStream):
                    await used.receive()
