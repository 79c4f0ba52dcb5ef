"""A door beside the MCP server: one class and one entry of the table, and the site knows all of it that it needs."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from http import HTTPStatus
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from goalport.base.caller import ANONYMOUS
from goalport.server.auth import Access
from goalport.server.publish.publisher import Publisher
from goalport.server.site import app, startup_report
from goalport.server.site.app import Site
from tests.rooms.serve.served import state_of

ADDRESS = "http://127.0.0.1:8080"
TOO_LARGE = "A request may have 1,000 bytes. Send less, or have the server's max_body_bytes raised."


class Knocker:
    """A door with one endpoint, which tells how many calls are open while it is called."""

    exposed_headers = ("Knocks",)

    def __init__(self, publisher: Publisher, _: Access) -> None:
        self._publisher = publisher
        self.routes = [Route("/knock", self._knock), Route("/letter", self._letter, methods=["POST"])]
        self.letters: list[bytes] = []
        self.closed = False

    async def _knock(self, _: Request) -> JSONResponse:
        with self._publisher.calls.of("knocking", "knock", ANONYMOUS):
            return JSONResponse(self._publisher.calls.number, headers={"Knocks": "1"})

    async def _letter(self, request: Request) -> JSONResponse:
        async for part in request.stream():
            self.letters.append(part)
        return JSONResponse(sum(map(len, self.letters)))

    def report(self, address: str) -> Iterator[str]:
        yield f"Knock at: {address}/knock"

    def refusal(self, status: HTTPStatus, kind: str, detail: str, /) -> Response:
        return PlainTextResponse(f"{kind}: {detail}", status)

    def running(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        self.closed = True


async def test_a_second_door_is_served_reported_and_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "DOORS", (*app.DOORS, Knocker))
    site = Site(state_of(tmp_path).publisher)
    report = list(startup_report(site.publisher, ADDRESS, site.doors))
    assert report[0].startswith("Goalport")
    assert f" on {ADDRESS}/mcp: " in report[0]
    assert f"  Knock at: {ADDRESS}/knock" in report

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(site.app), base_url=ADDRESS) as http:
        for path in ("/knock", "/knock/"):
            answer = await http.get(path, headers={"Origin": "http://localhost:3000"})
            assert (answer.status_code, answer.json()) == (200, 1)
        exposed = answer.headers["access-control-expose-headers"]
        assert (await http.get("/health")).json()["openCalls"] == 0
        assert f"Knock at: {ADDRESS}/knock" in (await http.get("/")).text.splitlines()
    assert [each.strip() for each in exposed.split(",")] == [
        "X-Request-Id",
        "Mcp-Session-Id",
        "Location",
        "Retry-After",
        "x-conversation-id",
        "x-should-retry",
        "ETag",
        "Knocks",
        "WWW-Authenticate",
    ]

    await site.close()
    assert [each.closed for each in site.doors if isinstance(each, Knocker)] == [True]


async def _in_parts(number: int) -> AsyncGenerator[bytes]:
    for _ in range(number):
        yield b"x" * 100


async def test_no_door_gets_a_body_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "DOORS", (*app.DOORS, Knocker))
    site = Site(state_of(tmp_path, max_body_bytes=1_000).publisher)
    (knocker,) = (each for each in site.doors if isinstance(each, Knocker))
    page = {"Origin": "http://localhost:3000"}

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(site.app), base_url=ADDRESS) as http:
        told: list[httpx2.Response] = []
        for path in ("/letter", "/mcp", "/messages/", "/elsewhere"):
            for body in (b"x" * 1_001, _in_parts(11)):
                answer = await http.post(path, content=body, headers=page)
                assert answer.status_code == 413
                assert answer.headers["access-control-allow-origin"]
                assert TOO_LARGE in answer.text
                told.append(answer)
        assert [each.text for each in told[:2]] == [f"too-large: {TOO_LARGE}"] * 2
        assert [each.json()["error"]["message"] for each in told[2:6]] == [TOO_LARGE] * 4
        assert [each.json()["detail"] for each in told[6:]] == [TOO_LARGE] * 2
        padded = await http.post("/letter", content=b"x" * 1_001, headers={"Content-Length": "1001".zfill(40)})
        assert padded.status_code == 413
        assert knocker.letters == []

        for body in (b"x" * 1_000, _in_parts(10)):
            answer = await http.post("/letter", content=body)
            assert (answer.status_code, answer.json()) == (200, 1_000)
            knocker.letters.clear()
