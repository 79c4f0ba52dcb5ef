"""Whether a server lives and is ready, as everybody may know, and its details, which only callers may."""

from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from goalport.base.caller import Caller
from goalport.base.errors import StoreError
from goalport.server.auth import Authentication, Challenges, Grant, InvalidToken
from goalport.server.publish.publisher import Publisher
from goalport.server.site.app import Site
from goalport.server.site.health import Health
from goalport.store.tables import LATEST_VERSION
from goalport.tools.upstream.upstream_server import ServerState
from goalport.workspace.settings import Settings
from tests.rooms.serve.served import state_of
from tests.rooms.serve.test_upstream import WHO, mortal, until, wired

READY = (200, {"status": "ready"})
STORE = "The store of processes: It is closed. Open another one."


def not_ready(*reasons: str) -> tuple[int, object]:
    return 503, {"status": "not ready", "reasons": list(reasons)}


async def limit_pages(store: Any, most: str) -> None:
    """Let the store's file have at most so many pages, as a full disk would."""

    def limit() -> Generator[Any, Any, None]:
        yield f"pragma max_page_count = {most}", {}

    def pages() -> Generator[Any, Any, int]:
        rows = yield "pragma page_count", {}
        return rows[0]["page_count"]

    if not most.isdecimal():
        most = str(await store.database.write(pages))
    await store.database.write(limit)


class OneToken:
    """Stands for an authentication: the only token that it knows is `sesame`."""

    def __init__(self, scopes: Iterable[str] = ()) -> None:
        self._scopes = frozenset(scopes)

    def recognizes(self, token: str) -> bool:
        return bool(token)

    async def verify(self, token: str, is_slowed: Callable[[], bool]) -> Grant:
        if token != "sesame":
            raise InvalidToken("It is not known.")
        return Grant(Caller("ada", scopes=self._scopes), client="toy")


@asynccontextmanager
async def client_of(publisher: Publisher) -> AsyncGenerator[httpx2.AsyncClient]:
    app = Site(publisher).app
    transport = httpx2.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=transport) as client:
        client.base_url = httpx2.URL("http://127.0.0.1:8080")
        yield client


async def ready(client: httpx2.AsyncClient) -> tuple[int, object]:
    answer = await client.get("/health/ready")
    return answer.status_code, answer.json()


async def test_a_server_is_alive_and_ready_until_it_shuts_down(tmp_path: Path) -> None:
    publisher = state_of(tmp_path).publisher
    async with client_of(publisher) as client:
        assert (await client.get("/health/live")).json() == {"status": "ok"}
        assert await ready(client) == READY
        await publisher.calls.ended()
        assert await ready(client) == not_ready("The server shuts down.")
        assert (await client.get("/health/live")).status_code == 200
        told = await client.get("/health")
    assert (told.status_code, told.json()["ready"]) == (200, False)


@pytest.mark.parametrize(
    ("files", "settings", "reasons"),
    [
        ({"agents/broken.py": "no Python"}, {}, []),
        ({"agents/broken.py": "no Python"}, {"strict": True}, ["The workspace has 1 load problem, and strict is set."]),
        ({}, {"strict": True, "required_goals": ["helloBanner"]}, []),
        ({}, {"required_goals": ["cook", "helloBanner"]}, ["Not published of required_goals: cook."]),
    ],
)
async def test_a_start_that_loads_less_than_its_settings_demand_is_not_ready(
    tmp_path: Path, files: dict[str, str], settings: dict[str, Any], reasons: list[str]
) -> None:
    publisher = state_of(tmp_path, files=files, **settings).publisher
    async with client_of(publisher) as client:
        assert await ready(client) == (not_ready(*reasons) if reasons else READY)
        told = (await client.get("/health")).json()
        assert (told["ready"], told["reasons"]) == (not reasons, reasons)
        numbers = (await client.get("/metrics")).text
    problems = len(publisher.publication.problems)
    assert told["loadProblems"] == problems == len(files) + bool(reasons and not files)
    assert f"goalport_load_problems {problems:.1f}" in numbers
    assert f"goalport_ready {not reasons:.1f}" in numbers


async def test_a_server_whose_store_is_gone_is_not_ready(tmp_path: Path) -> None:
    publisher = state_of(tmp_path, store="sqlite").publisher
    store: Any = publisher.platform.store
    async with client_of(publisher) as client:
        assert await ready(client) == READY
        await store.close()
        assert await ready(client) == not_ready(STORE)
        health = await client.get("/health")
        assert (health.status_code, health.json()["ready"], health.json()["processes"]) == (200, False, None)
        numbers = await client.get("/metrics")
        assert numbers.status_code == 200
        assert "goalport_ready 0.0" in numbers.text
        assert "goalport_processes{" not in numbers.text


async def test_a_server_whose_disk_is_full_is_not_ready_until_there_is_room_again(tmp_path: Path) -> None:
    publisher = state_of(tmp_path, store="sqlite").publisher
    store: Any = publisher.platform.store
    async with client_of(publisher) as client:
        await store.heartbeat(60)
        await limit_pages(store, "now")
        with pytest.raises(StoreError, match="The disk is full"):
            await store.save_context("one", "x" * 1_000_000, instead_of=None)
        assert (await ready(client))[0] == 503
        assert (await ready(client))[0] == 503
        await limit_pages(store, "1000000")
        assert await ready(client) == READY
        assert await store.find_context("goalport: can this be written?") is None


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_server_whose_schema_a_newer_program_has_changed_is_not_ready(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    url = "sqlite" if kind == "sqlite" else request.getfixturevalue("postgres").database()
    publisher = state_of(tmp_path, store=url).publisher
    store: Any = publisher.platform.store
    table = "schema_version" if kind == "sqlite" else "goalport.schema_version"
    made = f"insert into {table} (version, applied_at) values ({LATEST_VERSION + 1}, 0)"  # noqa: S608

    def upgrade() -> Generator[Any, Any, None]:
        yield made, {}

    async with client_of(publisher) as client:
        assert await ready(client) == READY
        await store.database.write(upgrade)
        assert (await ready(client))[0] == 503


@pytest.mark.parametrize("required", [True, False])
async def test_a_server_is_ready_only_with_the_upstream_servers_that_it_requires(
    tmp_path: Path, *, required: bool
) -> None:
    servers = {"one": {**mortal(tmp_path, "one"), "required": required}}
    async with wired(tmp_path, {"a": {**WHO, "servers": ["one"]}}, servers) as server, server.client() as client:
        health = Health(server.state.publisher, shows_details=lambda: True)
        assert not await health.reasons()
        (tmp_path / "one").touch()
        await client.call_tool("die", {})
        await until(lambda: server.platform.upstream.reports()[0].state is ServerState.DOWN)
        assert bool(await health.reasons()) is required


async def test_details_are_for_callers_where_callers_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def known(_: Settings) -> Authentication:
        return Authentication([OneToken(["goals:read"])], Challenges("goals:read"))

    monkeypatch.setattr(Authentication, "of", known)
    async with client_of(state_of(tmp_path).publisher) as client:
        assert (await client.get("/health")).json() == {"status": "ok", "ready": True}
        assert await ready(client) == READY
        told = (await client.get("/health", headers={"Authorization": "Bearer sesame"})).json()
        assert (told["status"], told["openCalls"]) == ("ok", 0)
        assert (await client.get("/health", headers={"Authorization": "Bearer other"})).status_code == 401
        assert (await client.get("/health/details")).status_code == 401


async def test_a_server_that_others_reach_tells_them_no_details(tmp_path: Path) -> None:
    async with client_of(state_of(tmp_path, host="192.0.2.1").publisher) as client:
        assert (await client.get("/health")).json() == {"status": "ok", "ready": True}


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, "http://127.0.0.1:8080"),
        ({"auth": {"keys": True}, "public_url": "https://agents.example.com/"}, "https://agents.example.com"),
    ],
)
async def test_the_root_says_to_everybody_where_things_are_and_nothing_of_this_machine(
    tmp_path: Path, settings: dict[str, Any], address: str
) -> None:
    async with client_of(state_of(tmp_path, **settings).publisher) as client:
        answer = await client.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    for place in ("/mcp", "/sse", "/openapi.json", "/agui", "/v1", "/health"):
        assert f"{address}{place}" in answer.text
    assert "goalport connect" not in answer.text
    assert str(Path.cwd()) not in answer.text
