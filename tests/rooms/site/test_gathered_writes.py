"""Responses in as few writes as they can be sent in: the head goes out together with the body that follows it."""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from goalport.server.site.protocol import Connections, GatheredWrites, LimitedProtocol
from goalport.workspace.settings import load_settings

REQUEST: Final = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Sent(asyncio.Transport):
    """A connection that keeps the pieces that are written to it."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__({"socket": connection})
        self.pieces: list[bytes] = []
        self.closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def answering(*pieces: bytes | None, then: Exception | None = None) -> ASGIApp:
    """An app that answers with these pieces; None stands for a step of the event loop."""

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        length = b"%d" % sum(len(each or b"") for each in pieces)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        if then is not None:
            raise then
        for each in pieces:
            if each is None:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            else:
                await send({"type": "http.response.body", "body": each, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


async def sent(app: ASGIApp, folder: Path, *, requests: int = 1) -> Sent:
    """What is sent over a connection by the time its requests are answered."""
    config = uvicorn.Config(app, log_config=None, lifespan="off", server_header=False, date_header=False)
    config.load()
    state = uvicorn.Server(config).server_state
    connections = Connections(load_settings(folder))
    protocol = LimitedProtocol(connections, config=config, server_state=state, app_state={})
    with socket.socket() as unconnected:
        transport = Sent(unconnected)
        protocol.connection_made(transport)
        protocol.data_received(REQUEST * requests)
        while state.tasks:
            await asyncio.wait(state.tasks, timeout=60)
        protocol.connection_lost(None)
    return transport


HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
LARGE: Final = b"x" * 100_000


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"hello"], [HEAD % 5 + b"hello"]),
        ([b"hel", b"lo"], [HEAD % 5 + b"hel", b"lo"]),
        ([None, b"hello"], [HEAD % 5, b"hello"]),
        ([b"HTTP/1.1 is old"], [HEAD % 15 + b"HTTP/1.1 is old"]),
        ([LARGE], [HEAD % len(LARGE), LARGE]),
        ([], [HEAD % 0]),
    ],
    ids=["together", "the beginning of it", "at the latest in the next step", "like a head", "large", "nothing"],
)
async def test_a_head_is_sent_with_the_body_that_comes_at_once(
    tmp_path: Path, pieces: Sequence[bytes | None], expected: Sequence[bytes]
) -> None:
    transport = await sent(answering(*pieces), tmp_path)
    assert [each for each in transport.pieces if each] == expected


async def test_answers_to_pipelined_requests_keep_their_order(tmp_path: Path) -> None:
    transport = await sent(answering(b"hello"), tmp_path, requests=3)
    assert b"".join(transport.pieces) == (HEAD % 5 + b"hello") * 3


async def test_the_head_of_an_answer_that_fails_is_sent_before_the_connection_is_closed(tmp_path: Path) -> None:
    transport = await sent(answering(b"hello", then=ValueError("a bug")), tmp_path)
    assert (transport.pieces, transport.closed) == ([HEAD % 5], True)


def test_a_head_for_a_client_that_has_left_meanwhile_is_no_error() -> None:
    uvloop = pytest.importorskip("uvloop")
    errors: list[dict[str, object]] = []

    async def answer() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        here, there = socket.socketpair()
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, here)
        transport.abort()
        GatheredWrites(transport, loop, lambda: False).write(HEAD % 0)
        for _ in range(3):
            await asyncio.sleep(0)
        there.close()

    uvloop.run(answer())
    assert errors == []
