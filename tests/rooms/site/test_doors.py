"""A door beside the MCP server: one class and one entry of the table, and the site knows all of it that it needs."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from goalport.publish.publisher import Publisher
from goalport.site import app, startup_report
from goalport.site.app import Site
from tests.rooms.serve.served import state_of

ADDRESS = "http://127.0.0.1:8080"


class Knocker:
    """A door with one endpoint, which tells how many calls are open while it is called."""

    exposed_headers = ("Knocks",)

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self.routes = [Route("/knock", self._knock)]
        self.closed = False

    async def _knock(self, _: Request) -> JSONResponse:
        with self._publisher.calls:
            return JSONResponse(self._publisher.calls.number, headers={"Knocks": "1"})

    def report(self, address: str) -> Iterator[str]:
        yield f"Knock at: {address}/knock"

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
    assert report[-1] == f"  Knock at: {ADDRESS}/knock"

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(site.app), base_url=ADDRESS) as http:
        for path in ("/knock", "/knock/"):
            answer = await http.get(path, headers={"Origin": "http://localhost:3000"})
            assert (answer.status_code, answer.json()) == (200, 1)
        exposed = answer.headers["access-control-expose-headers"]
        assert (await http.get("/health")).json()["openCalls"] == 0
    assert [each.strip() for each in exposed.split(",")] == ["Mcp-Session-Id", "Knocks", "WWW-Authenticate"]

    await site.close()
    assert [each.closed for each in site.doors if isinstance(each, Knocker)] == [True]
