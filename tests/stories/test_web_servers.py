"""nginx and Caddy before two servers, configured by the files in `server/`, with real clients."""

from collections.abc import AsyncGenerator, Generator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp_types import ElicitRequestParams, ElicitResult

from tests.stories.cooks import session
from tests.stories.fleets import FILES, KEYS, Fleet
from tests.stories.servers import Running, running
from tests.web_servers import HOST, WEB_SERVERS, WebServer

ERAS = ["legacy", "auto"]
PROCESS = "/api/v1/process"
LIMIT = 4 * 2**20
SETTINGS: dict[str, Any] = {"store": "sqlite", "state_keys": KEYS, "allowed_hosts": HOST}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="module")
async def servers(root: Path) -> AsyncGenerator[list[Running]]:
    async with running(root, FILES, **SETTINGS) as one, running(root, FILES, **SETTINGS) as other:
        yield [one, other]


@pytest.fixture(scope="module", params=WEB_SERVERS)
def front(
    request: pytest.FixtureRequest, servers: list[Running], tmp_path_factory: pytest.TempPathFactory
) -> Generator[WebServer]:
    start = WEB_SERVERS[request.param]
    with start(tmp_path_factory.mktemp("front") / "files", [each.address for each in servers]) as listening:
        yield listening


@pytest.fixture
def fleet(servers: list[Running], front: WebServer, root: Path) -> Fleet:
    """Two servers and who is before them; nothing is written and no iron is hot yet."""
    for name in ("done.txt", "hot"):
        (root / "agents" / name).unlink(missing_ok=True)
    return Fleet(servers, front, root)


async def red(context: object, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"colour": "red"})


async def test_the_stream_and_the_messages_of_the_older_transport_reach_one_server(front: WebServer) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with front.http() as http:
        for _ in range(4):
            async with http.stream("GET", "/sse") as stream:
                assert stream.status_code == 200
                lines = stream.aiter_lines()  # when the iterator goes, the stream does
                with anyio.fail_after(60):
                    while not (line := await anext(lines)).startswith("data: "):
                        pass
                path = line.removeprefix("data: ")
                for _ in range(4):
                    assert (await http.post(path, json=ping)).status_code == 202


@pytest.mark.parametrize("era", ERAS)
async def test_answers_to_questions_reach_the_call_that_asked(front: WebServer, fleet: Fleet, era: str) -> None:
    for number in range(4):  # Half of the sessions would be lost if requests went to any server.
        async with front.client(era, elicitation_callback=red) as client:
            crown = await client.call_tool("crown", {"content": f"queen {number}"})
            assert crown.structured_content == {"content": f"red for queen {number}"}


@pytest.mark.parametrize("era", ERAS)
async def test_progress_arrives_while_the_call_goes_on(front: WebServer, fleet: Fleet, era: str) -> None:
    told: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)
        (fleet.folder / "agents/hot").touch()  # The call ends only after this.

    async with front.client(era) as client:
        with anyio.fail_after(60):
            sword = await client.call_tool("forge_patiently", {"content": era}, progress_callback=note)
    assert sword.structured_content == {"name": era}
    assert told


async def test_events_arrive_while_the_process_goes_on(front: WebServer, fleet: Fleet) -> None:
    async with front.http() as http:
        begun = (await http.post(PROCESS, json={"goal": "forge", "input": {"content": "Durendal"}, "wait": 0})).json()
        with anyio.fail_after(60):
            async with http.stream("GET", begun["links"]["events"]) as events:
                async for line in events.aiter_lines():
                    if "the iron is hot" in line:
                        (fleet.folder / "agents/hot").touch()  # The stream ends only after this.
        ended = (await http.get(begun["links"]["self"])).json()
    assert ended["result"] == {"name": "Durendal"}


async def test_a_client_that_leaves_ends_its_call(front: WebServer, fleet: Fleet) -> None:
    async with session(front) as (http, headers):
        call: dict[str, Any] = {"name": "forge_patiently", "arguments": {"content": "Tizona"}}
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: http.post("/mcp", json=body, headers=headers))
            await fleet.done("forge Tizona")
            calls.cancel_scope.cancel()
        await fleet.done("stop Tizona", seconds=20)


async def test_a_large_body_passes_and_one_that_is_too_large_does_not(front: WebServer, fleet: Fleet) -> None:
    async with front.http() as http:

        async def sent(size: int) -> int:
            body = {"goal": "crown", "input": {"content": "x" * size}, "wait": 0}
            return (await http.post(PROCESS, json=body)).status_code

        assert await sent(LIMIT - 1_000) == 202
        # Caddy, which has no certificate here, closes the connection after its answer: who still sends may miss that.
        with nullcontext() if front.certificate else suppress(httpx2.ReadError):
            assert await sent(LIMIT + 1_000) == 413
        assert await asked(http) == {each.process.pid for each in fleet.servers}, "none counts as one that fails"


async def asked(http: httpx2.AsyncClient, **headers: str) -> set[int]:
    """The processes that answer twenty requests."""
    return {(await http.get("/health", headers=headers)).json()["pid"] for _ in range(20)}


async def test_a_session_stays_with_one_server(front: WebServer, fleet: Fleet) -> None:
    async with front.http() as http:
        answering = [await asked(http, **{"Mcp-Session-Id": f"session {number}"}) for number in range(8)]
    assert {len(each) for each in answering} == {1}
    assert set[int]().union(*answering) == {each.process.pid for each in fleet.servers}


async def test_the_id_of_a_request_is_that_of_the_proxy(front: WebServer, fleet: Fleet) -> None:
    async with front.http(**{"X-Request-Id": "forged"}) as http:
        answer = await http.get("/api/v1/platform-info")
    assert len(answer.headers["X-Request-Id"].replace("-", "")) == 32
