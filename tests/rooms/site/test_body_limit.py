"""Bodies that are too large, over a socket: the client reads why, though it still sends."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from goalport.server.site.app import Site
from goalport.server.site.protocol import Connections, LimitedProtocol
from tests.listening import listening
from tests.rooms.auth.guarded import guarded
from tests.rooms.publish.test_results import Report, answering
from tests.rooms.serve.served import state_of

LIMIT = 100_000
TOLD = "A request may have 100,000 bytes. Send less, or have the server's max_body_bytes raised."
PIECE = b"x" * 50_000


@pytest.fixture
async def address(tmp_path: Path) -> AsyncGenerator[str]:
    publisher = state_of(tmp_path, answering(Report, Report(content="x", pages=1)), max_body_bytes=LIMIT).publisher
    protocol: Any = partial(LimitedProtocol, Connections(publisher.settings))
    async with listening(Site(publisher).app, http=protocol) as address:
        yield address


async def answer_to(address: str, headers: bytes, pieces: list[bytes], path: bytes = b"/api/v1/process") -> bytes:
    """All that a client receives which sends these pieces, the next one only when the server has read the one before.

    It closes nothing by itself and reads when it has sent all, as simple clients do.
    """
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.transport.set_write_buffer_limits(0)
    with closing(writer), anyio.fail_after(60):
        host = b"" if b"host: " in headers else b"host: localhost\r\n"
        writer.write(b"POST %s HTTP/1.1\r\n%s%s\r\n" % (path, host, headers))
        for piece in pieces:
            await writer.drain()
            writer.write(piece)
        await writer.drain()
        return await reader.read()


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "sized"])
async def test_a_client_that_reads_only_after_it_has_sent_all_reads_why_it_was_refused(
    address: str,
    chunked: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    pieces = [PIECE] * 200
    if chunked:
        pieces = [b"%x\r\n%s\r\n" % (len(each), each) for each in pieces] + [b"0\r\n\r\n"]
        length = b"transfer-encoding: chunked\r\n"
    else:
        length = b"content-length: %d\r\n" % sum(map(len, pieces))
    answer = await answer_to(address, b"connection: close\r\n" + length, pieces)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nconnection: close" in head
    assert json.loads(body)["detail"] == TOLD


@pytest.mark.parametrize(
    ("status", "headers", "path", "number"),
    [
        (b"421", b"host: example.com\r\n", b"/mcp", 200),
        (b"403", b"host: localhost\r\norigin: https://example.com\r\n", b"/mcp", 200),
        (b"404", b"host: localhost\r\n", b"/nowhere", 2),
    ],
)
async def test_a_refusal_for_another_reason_is_read_as_well(
    address: str, status: bytes, headers: bytes, path: bytes, number: int
) -> None:
    length = b"connection: close\r\ncontent-length: %d\r\n" % (number * len(PIECE))
    answer = await answer_to(address, headers + length, [PIECE] * number, path)
    assert answer.startswith(b"HTTP/1.1 %s " % status)
    assert b"\r\nconnection: close\r\n" in answer


async def test_a_client_reads_that_it_has_no_credential_while_it_still_sends(tmp_path: Path) -> None:
    auth = {"trusted_proxies": ["10.0.0.1"], "proxy_user_header": "X-User"}
    async with guarded(tmp_path, auth=auth) as server:
        headers = b"connection: close\r\ncontent-length: %d\r\n" % (60 * len(PIECE))
        answer = await answer_to(server.address, headers, [PIECE] * 60)
    assert answer.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("closes", [b"1.1\r\nconnection: close", b"1.1\r\nConnection: Keep-Alive, Close", b"1.0"])
async def test_the_refusal_of_a_brief_body_closes_no_connection_before_its_end(address: str, closes: bytes) -> None:
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    with closing(writer), anyio.fail_after(60):
        writer.write(b"POST /nowhere HTTP/%s\r\nhost: localhost\r\ncontent-length: 50000\r\n\r\n" % closes)
        assert b" 404 " in await reader.readuntil(b"\r\n\r\n")
        for _ in range(50):
            writer.write(PIECE[:1_000])
            await writer.drain()
        assert b"Not Found" in await reader.read()


@pytest.mark.parametrize(("status", "number"), [(b"404", 1), (b"413", 200)])
async def test_a_connection_outlives_the_refusal_of_a_body(address: str, status: bytes, number: int) -> None:
    last = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    length = b"content-length: %d\r\n" % (number * len(PIECE))
    answers = await answer_to(address, length, [*[PIECE] * number, last], b"/nowhere")
    assert [answers.count(b"HTTP/1.1 " + each) for each in (status, b"200")] == [1, 1]


async def test_a_client_that_waits_for_leave_to_send_is_refused_without_it(address: str) -> None:
    answer = await answer_to(address, b"expect: 100-continue\r\ncontent-length: 5000000\r\n", [])
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_an_http_client_reads_why_its_body_was_refused(address: str) -> None:
    async with httpx2.AsyncClient(base_url=address, timeout=20, headers={"Connection": "close"}) as http:
        for path, told in (("/mcp", ("error", "message")), ("/messages", ("error", "message")), ("/api", ("detail",))):
            answer = await http.post(path, content=PIECE * 200, headers={"Content-Type": "application/json"})
            assert answer.status_code == 413
            said = answer.json()
            for each in told:
                said = said[each]
            assert said == TOLD


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_an_mcp_client_is_told_why_its_call_was_refused_and_goes_on(address: str, era: Any) -> None:
    async with Client(f"{address}/mcp", mode=era) as client:
        with pytest.raises(MCPError, match="A request may have 100,000 bytes"):
            await client.call_tool("answer", {"text": "x" * 5_000_000})
        assert not (await client.call_tool("answer", {})).is_error


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "sized"])
async def test_a_body_is_refused_that_is_not_the_one_whose_digest_came_with_it(address: str, *, chunked: bool) -> None:
    body = json.dumps({"goal": "ask", "input": {"content": "x"}, "wait": 0}).encode()

    async def pieces() -> AsyncGenerator[bytes]:
        yield body

    async def status(digest: str) -> tuple[int, str]:
        async with httpx2.AsyncClient(base_url=address) as http:
            headers = {"Content-Digest": digest, "Content-Type": "application/json"}
            answer = await http.post("/api/v1/process", content=pieces() if chunked else body, headers=headers)
            return answer.status_code, answer.text

    sha256, sha512 = (base64.b64encode(hashlib.new(each, body).digest()).decode() for each in ("sha256", "sha512"))
    right, _ = await status("md5=:AAAA:")
    assert right != 400
    assert (await status(f"sha-256=:{sha256}:, sha-512=:{sha512}:"))[0] == right
    for wrong in (f"sha-256=:{sha512}:", f"sha-256=:{sha256}:, sha-512=:{sha256}:", "sha-512=:A:"):
        code, text = await status(wrong)
        assert (code, "This is not the body whose Content-Digest" in text) == (400, True)
