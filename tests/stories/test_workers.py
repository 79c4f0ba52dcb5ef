"""Several workers on one port: they share the work, end and are replaced without harm, and leave nothing behind."""

import itertools
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.postgres import PostgresServer
from tests.stories.cooks import FILES, session
from tests.stories.servers import GOALPORT, READY, Running, program, running, started, workspace
from tests.stories.test_sessions_that_survive import FILES as SHOP, choose, order
from tests.stories.test_shutdown import text_of
from tests.stories.test_waiting import BAKER

PATIENCE = 60
PAUSE = 0.1
"""Between two questions whether a worker has started, which are not to take its processor, in seconds."""
pytestmark = pytest.mark.usefixtures("measured")
SETTINGS = {"store": "sqlite"}
NAMED = """
import os
from pathlib import Path
from pydantic import BaseModel
from goalport import Export, achieves_goal, action, agent

if os.path.exists(Path(__file__).with_name("broken")):
    os._exit(7)

class Nobody(BaseModel):
    name: str

class Number(BaseModel):
    content: str

@agent(description="Says which process answers")
class Teller:
    @achieves_goal(description="A number", export=Export(remote=True, name="tell"))
    @action
    async def tell(self, nobody: Nobody) -> Number:
        return Number(content=f"VERSION {os.getpid()}")
"""
NO_REUSE = httpx2.Limits(max_keepalive_connections=0)
"""Each request is sent on a connection of its own, so that any worker may get it."""
ANSWERED = 'goalport_http_responses_total{status="200"}'
TELLER = {"agents/teller.py": NAMED.replace("VERSION", "first")}


@asynccontextmanager
async def serving(
    root: Path, files: dict[str, str], *options: str, shutdown_seconds: str = "10", store: str = "sqlite"
) -> AsyncGenerator[Running]:
    """Two workers that are both ready; none of their processes outlives the block."""
    options = "--workers", "2", *options
    async with running(root, files, *options, store=store, shutdown_seconds=shutdown_seconds) as server:
        await server.heard.until("2 workers ready")
        yield server


async def pids_of(server: Running, connections: int = 8) -> Counter[int]:
    """How many of so many new connections each worker answers."""
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(httpx2.AsyncClient(base_url=server.address, timeout=PATIENCE))
            for _ in range(connections)
        ]
        return Counter([(await client.get("/health")).json()["pid"] for client in clients])


async def health_of(server: Running) -> dict[str, Any]:
    """What one of the workers says of all."""
    async with httpx2.AsyncClient(base_url=server.address, timeout=PATIENCE) as client:
        told: dict[str, Any] = (await client.get("/health")).json()
        return told


async def numbers_of(server: Running) -> Mapping[str, float]:
    """The metrics of all workers, as one of them answers."""
    async with httpx2.AsyncClient(base_url=server.address, timeout=PATIENCE) as client:
        lines = (await client.get("/metrics")).text.splitlines()
    return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines if each[0] != "#")}


async def ended(pids: Iterable[int]) -> None:
    """Wait until processes that are no children of this one have ended."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with anyio.fail_after(PATIENCE):
            await anyio.wait_readable(descriptor)
        os.close(descriptor)


async def test_open_connections_are_spread_over_the_workers_which_answer_for_all(tmp_path: Path) -> None:
    async with serving(tmp_path, FILES) as server, session(server) as (_, headers):
        answered = await pids_of(server, 16)
        assert min(answered.values()) >= 4
        assert len(answered) == 2
        assert server.process.pid not in answered
        health = await health_of(server)
        assert health["ready"]
        assert {each["pid"]: each["ready"] for each in health["workers"]} == dict.fromkeys(answered, True)
        async with httpx2.AsyncClient(base_url=server.address) as older:
            assert "Use /mcp" in (await older.get("/sse")).text
        assert server.heard.text.count("Goalport ") == 1
        assert server.heard.text.count(READY) == 1
        counted = await numbers_of(server)
        assert counted["goalport_workers"] == 2
        assert counted[ANSWERED] >= 16
        own = (await health_of(server))["pid"]
        os.kill(own, signal.SIGKILL)
        await server.heard.until("another one starts")
        async with httpx2.AsyncClient(base_url=server.address) as again:
            answer = await again.post("/mcp", json={"jsonrpc": "2.0", "id": 9, "method": "ping"}, headers=headers)
            assert answer.status_code == 200
            assert (await again.get("/health")).json()["pid"] != own
        assert (await numbers_of(server))[ANSWERED] > counted[ANSWERED]


async def test_the_requests_of_a_session_may_come_to_any_worker(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, {**SHOP, **TELLER, "agents/bakers.py": BAKER}) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=PATIENCE, limits=NO_REUSE) as http,
    ):
        for _ in range(6):  # a raw tool asks, and its answer may come to the other worker
            client = Client(
                streamable_http_client(f"{server.address}/mcp", http_client=http),
                mode="legacy",
                elicitation_callback=choose,
            )
            async with client:
                assert await order(client) == "carrot for mcp"
        async with session(server) as (_, headers), http.stream("GET", "/mcp", headers=headers) as stream:
            numbers = itertools.count(3)

            async def ask(method: str, **params: Any) -> str:
                message = {"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}
                return (await http.post("/mcp", json=message, headers=headers)).text

            lines, called = stream.aiter_lines(), {"name": "tell", "arguments": {"name": ""}}
            for number in range(6):
                begun = await ask("tools/call", name="bake_cake", arguments={"guests": 3})
                process = re.findall(r'"processId": ?\\?"([^"\\]+)', begun)[0]
                assert '"result"' in await ask("resources/subscribe", uri=f"goalport://processes/{process}")
                answer = {"processId": process, "answer": {"cake": "carrot"}}
                assert "carrot for 3" in await ask("tools/call", name="process_answer", arguments=answer)
                with anyio.fail_after(PATIENCE):
                    while process not in await anext(lines):
                        pass
                level = ("error", "info")[number % 2]
                assert '"result"' in await ask("logging/setLevel", level=level)
                with anyio.fail_after(PATIENCE):  # the other worker is told of it at once, but by another way
                    while ("notifications/message" in await ask("tools/call", **called)) is (level == "error"):
                        pass


@pytest.mark.parametrize(("store", "era"), [("sqlite", "legacy"), ("postgresql", "auto")])
async def test_a_question_is_answered_whichever_worker_has_the_process_or_the_call(
    tmp_path: Path, era: str, store: str, request: pytest.FixtureRequest
) -> None:
    if store == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        store = postgres.database()
    async with (
        serving(tmp_path, SHOP | {"agents/bakers.py": BAKER}, store=store) as server,
        server.client("http", era) as one,
        server.client("http", era) as other,
        AsyncExitStack() as stack,
    ):
        handle = (await one.call_tool("bake_cake", {"guests": 3})).structured_content
        assert handle is not None
        answer = {"processId": handle["processId"], "answer": {"cake": "carrot"}}
        assert text_of(await other.call_tool("process_answer", answer)) == "carrot for 3"
        assert text_of(await one.call_tool("process_status", {"processId": handle["processId"]})) == "carrot for 3"
        for _ in range(6):
            client = server.client("http", "legacy", elicitation_callback=choose)
            assert await order(await stack.enter_async_context(client)) == "carrot for mcp"


async def test_a_worker_that_is_killed_under_load_costs_at_most_its_calls_in_flight(tmp_path: Path) -> None:
    lost = Counter[int]()
    answered = Counter[str]()
    both, enough = anyio.Event(), anyio.Event()

    async def call_on(number: int, server: Running) -> None:
        while not enough.is_set():
            try:
                async with server.client("http", "auto") as client:
                    while not enough.is_set():
                        answered[text_of(await client.call_tool("tell", {"name": ""}))] += 1
                        if len(answered) == 2:
                            both.set()
                        await anyio.sleep(PAUSE / 10)
            except (MCPError, OSError, httpx2.HTTPError, ExceptionGroup):
                lost[number] += 1

    async with serving(tmp_path, TELLER) as server, anyio.create_task_group() as callers:
        victim, other = await pids_of(server)
        for number in range(8):
            callers.start_soon(call_on, number, server)
        with anyio.fail_after(PATIENCE):
            await both.wait()
        os.kill(victim, signal.SIGKILL)
        await server.heard.until(f"Worker {victim} was killed by SIGKILL; another one starts.")
        with anyio.fail_after(PATIENCE):
            while not set(await pids_of(server)) - {victim, other}:
                await anyio.sleep(PAUSE)
        enough.set()
        assert set(answered) >= {f"first {victim}", f"first {other}"}
    # At most one call was in flight for each client of the worker that was killed.
    assert set(lost.values()) <= {1}
    assert len(lost) < 8


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_all_workers_and_calls_in_flight_are_answered(
    tmp_path: Path, ending: signal.Signals
) -> None:
    results: list[str] = []

    async def cook(client: Client) -> None:
        results.append(text_of(await client.call_tool("cook", {"seconds": 1})))

    async with serving(tmp_path, FILES) as server:
        workers = await pids_of(server)
        async with (
            server.client("http", "auto") as one,
            server.client("http", "auto") as other,
            anyio.create_task_group() as calls,
        ):
            for client in (one, other):
                await client.list_tools()
                calls.start_soon(cook, client)
            await server.heard.until("cooking begins", times=2)
            server.process.send_signal(ending)
        with anyio.fail_after(PATIENCE):
            assert await server.process.wait() == 0
        await ended(workers)
    assert results == ["done", "done"]
    assert "Traceback" not in server.heard.text


async def test_a_second_signal_ends_all_workers_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, FILES, shutdown_seconds="60") as server:
        workers = await pids_of(server)
        with suppress(MCPError, OSError, httpx2.HTTPError, ExceptionGroup):
            async with server.client("http", "auto") as client, anyio.create_task_group() as calls:
                await client.list_tools()
                calls.start_soon(client.call_tool, "cook", {"seconds": 60})
                await server.heard.until("cooking begins")
                server.process.send_signal(signal.SIGTERM)
                await server.heard.until("a second signal ends them now")
                server.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(PATIENCE):
            assert await server.process.wait() == 130
        await ended(workers)


async def test_workers_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    async with serving(tmp_path, FILES, shutdown_seconds="0.5") as server:
        workers = await pids_of(server)
        assert len(workers) == 2
        async with server.client("http", "auto") as client:
            async with anyio.create_task_group() as calls:
                calls.start_soon(client.call_tool, "cook", {"seconds": 60})
                await server.heard.until("cooking begins")
                server.process.kill()
            await ended(workers)
    await server.heard.until("cooking stops")


async def test_a_worker_that_ends_again_and_again_is_started_more_and_more_rarely(tmp_path: Path) -> None:
    async with serving(tmp_path, TELLER) as server:
        one, other = await pids_of(server)
        broken = tmp_path / "agents" / "broken"
        broken.touch()
        os.kill(one, signal.SIGKILL)
        await server.heard.until("another one starts in 2 s. That is 3 times in a row")
        assert "ended with exit code 7; another one starts in 1 s" in server.heard.text
        assert await pids_of(server, 4) == {other: 4}
        broken.unlink()
        with anyio.fail_after(PATIENCE):
            while len(await pids_of(server)) < 2:
                await anyio.sleep(PAUSE)


async def test_a_worker_that_hangs_gets_no_new_connections_until_it_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path, TELLER) as server:
        one, other = await pids_of(server)
        async with session(server) as (_, headers):
            pass
        os.kill(one, signal.SIGSTOP)
        await server.heard.until(f"Worker {one} does not respond; new connections go to the others.")
        assert await pids_of(server, 4) == {other: 4}
        async with httpx2.AsyncClient(base_url=server.address, timeout=PATIENCE) as again:
            answer = await again.post("/mcp", json={"jsonrpc": "2.0", "id": 9, "method": "ping"}, headers=headers)
            assert answer.status_code == 200
        health = await health_of(server)
        assert health["ready"]
        assert {each["pid"]: each["ready"] for each in health["workers"]} == {one: False, other: True}
        os.kill(other, signal.SIGSTOP)
        await server.heard.until(f"Worker {other} does not respond; no other does either, so requests wait.")
        for each in (one, other):
            os.kill(each, signal.SIGCONT)
            await server.heard.until(f"Worker {each} responds again.")
        assert set(await pids_of(server, 4)) == {one, other}


async def test_all_workers_load_a_changed_workspace_and_one_of_them_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path, TELLER, "--reload") as server:
        before = await pids_of(server)
        workspace(tmp_path, {"agents/teller.py": NAMED.replace("VERSION", "second")})
        answered = set[str]()
        with anyio.fail_after(PATIENCE):
            while answered != {f"second {pid}" for pid in before}:
                async with server.client("http", "auto") as client:
                    answered.add(text_of(await client.call_tool("tell", {"name": ""})))
                answered = {each for each in answered if each.startswith("second")}
        # A connection that has just been closed may still count.
        assert set(await pids_of(server, 4)) == set(before)
    assert server.heard.text.count("Loaded the workspace anew") == 1


async def test_when_the_last_worker_cannot_be_replaced_the_server_ends_with_its_exit_code(tmp_path: Path) -> None:
    async with serving(tmp_path, TELLER) as server:
        workers = await pids_of(server)
        (tmp_path / "agents" / "broken").touch()
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        with anyio.fail_after(PATIENCE):
            assert await server.process.wait() == 7


@pytest.mark.parametrize(
    "broken", [{"models": '{"llms": {"best": "nobody:none"}}'}, {"port": "1", "host": "203.0.113.1"}]
)
async def test_a_server_that_cannot_start_says_the_same_with_several_workers_as_with_one(
    tmp_path: Path, broken: dict[str, str]
) -> None:
    ends: list[tuple[int, str]] = []
    for number in ("1", "2"):
        command = ["serve", "--workspace", str(workspace(tmp_path, TELLER)), "--workers", number]
        env = {**os.environ, **{f"GOALPORT_{name.upper()}": value for name, value in (SETTINGS | broken).items()}}
        async with program(command, env) as (process, heard):
            with anyio.fail_after(PATIENCE):
                ends.append((await process.wait(), await heard.until("error: ")))
    assert ends[0] == ends[1]
    assert ends[0][0] == 1


async def test_sighup_replaces_the_workers_and_drops_no_call(tmp_path: Path) -> None:
    answered = Counter[str]()
    enough = anyio.Event()

    async def call_on(server: Running) -> None:
        while not enough.is_set():
            async with server.client("http", "auto") as client:
                answered[text_of(await client.call_tool("tell", {"name": ""}))] += 1
            await anyio.sleep(PAUSE)

    async with serving(tmp_path, TELLER) as server, anyio.create_task_group() as callers:
        before = await pids_of(server)
        for _ in range(3):
            callers.start_soon(call_on, server)
        workspace(tmp_path, {"agents/teller.py": NAMED.replace("VERSION", "second")})
        server.process.send_signal(signal.SIGHUP)
        await server.heard.until("The workers are replaced")
        enough.set()
        after = await pids_of(server, 16)
        assert len(after) == 2
        assert not set(after) & set(before)
        assert {text.split()[0] for text in answered} == {"first", "second"}
        assert server.heard.text.count(READY) == 2, "the report is printed again, since it may have changed"
        assert "error" not in server.heard.text


async def test_sighup_keeps_the_workers_when_the_changed_workspace_cannot_be_served(tmp_path: Path) -> None:
    async with serving(tmp_path, TELLER) as server:
        before = await pids_of(server)
        (tmp_path / "agents" / "broken").touch()
        server.process.send_signal(signal.SIGHUP)
        await server.heard.until("ended with exit code 7 before it was ready; the earlier workers go on.")
        assert set(await pids_of(server)) == set(before)


async def test_sighup_keeps_the_workers_when_an_agent_file_has_become_broken(tmp_path: Path) -> None:
    async with serving(tmp_path, {**TELLER, "agents/earlier.py": "this was broken before"}) as server:
        before = await pids_of(server)
        workspace(tmp_path, {"agents/teller.py": "this is no Python"})
        server.process.send_signal(signal.SIGHUP)
        await server.heard.until("1 load problem that the earlier workers had not; they go on.")
        assert set(await pids_of(server)) == set(before)
        async with server.client("http", "auto") as client:
            assert text_of(await client.call_tool("tell", {"name": ""})).startswith("first")
        assert (await numbers_of(server))["goalport_load_problems"] == 1
        workspace(tmp_path, {"agents/teller.py": NAMED.replace("VERSION", "second")})
        server.process.send_signal(signal.SIGHUP)
        await server.heard.until("The workers are replaced")
        assert not set(await pids_of(server)) & set(before)


async def test_the_end_of_a_terminal_ends_the_server_though_it_sends_sighup_too(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    command = ["setsid", "--ctty", "--fork", GOALPORT, "serve", "--workspace", str(workspace(tmp_path, TELLER))]
    env = os.environ | {f"GOALPORT_{name.upper()}": value for name, value in SETTINGS.items()}
    async with started([*command, "--port", "0", "--workers", "2"], stdin=theirs, env=env) as (_, heard):
        os.close(theirs)
        said = await heard.until("workers ready: processes")
        workers = [int(each) for each in said.rpartition("processes ")[2].split(",")]
        os.close(ours)
        await ended(workers)


@pytest.mark.parametrize(
    ("options", "settings", "words"),
    [
        (["--workers", "0"], {}, "workers should be greater than or equal to 1; came 0"),
        (["--workers", "2"], {"store": "memory"}, 'Set store = "sqlite"'),
        (["--workers", "2", "--transport", "stdio"], {}, "which has one client"),
        (["--workers", "auto", "--transport", "stdio"], {}, "which has one client"),
        ([], {"workers": "2", "store": "memory"}, "or serve with --workers 1"),
    ],
)
async def test_what_several_workers_cannot_do_is_refused_with_what_to_do(
    tmp_path: Path, options: list[str], settings: dict[str, str], words: str
) -> None:
    command = ["serve", "--workspace", str(workspace(tmp_path, TELLER)), "--port", "0", *options]
    env = os.environ | {f"GOALPORT_{name.upper()}": value for name, value in settings.items()}
    async with program(command, env) as (process, heard):
        with anyio.fail_after(PATIENCE):
            assert await process.wait() != 0
        assert words in await heard.until("error: ")
    assert READY not in heard.text
    assert "Traceback" not in heard.text
