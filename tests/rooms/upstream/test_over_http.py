"""Upstream servers over streamable HTTP and SSE, in both eras of the protocol: calls, restarts, headers, limits."""

import json
import logging
import os
import re
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from goalport.tools.upstream.active_calls import Asked, call_hooks
from goalport.tools.upstream.config import ServerConfig
from goalport.tools.upstream.upstream_server import ServerState
from tests.programs import Program
from tests.rooms.upstream.connected import QUICK, connected
from tests.stories.servers import Heard, program

WEB = str(Path(__file__).with_name("web_server.py"))
WAYS = [("http", ()), ("http", ("--legacy",)), ("http", ("--json",)), ("sse", ()), ("sse", ("--legacy",))]
STREAMS = [way for way in WAYS if way[1] != ("--json",)]
READY = "listening on "
NO_WAY_TO_ASK = [
    "Cannot send 'roots/list': this transport context has no back-channel for server-initiated requests.",
    "elicitation via server-initiated requests is unavailable on 2026-07-28 connections.",
    '"elicitation/create" cannot be sent while serving a request on protocol version 2026-07-28: return an',
    "Server-to-client requests are not available on protocol revision 2026-07-28: 'elicitation/create' cannot",
    "Server to client requests are not supported in stateless mode.",
]
"""What the SDK for Python, FastMCP 4, and the SDKs for Go, TypeScript and C# say."""
Servers = Mapping[tuple[str, ...], str]
"""The addresses of servers, by their options."""


def revision(options: tuple[str, ...]) -> str:
    return "2025-11-25" if options == ("--legacy",) else "2026-07-28"


def serving(*options: str) -> AbstractAsyncContextManager[tuple[Program, Heard]]:
    """A server that is a process."""
    return program(options, script=WEB)


@asynccontextmanager
async def web(*options: str) -> AsyncGenerator[str]:
    """The address of a server, for as long as the block lasts."""
    async with serving(*options) as (_, heard):
        said = await heard.until(READY)
        found = re.search(r"http://[\d.:]+", said)
        assert found is not None
        yield found[0]


@pytest.fixture(scope="module")
async def webs() -> AsyncGenerator[Servers]:
    """One server of each kind, for the tests that leave it as it was."""
    async with web() as usual, web("--legacy") as legacy, web("--json") as json_only:
        yield {(): usual, ("--legacy",): legacy, ("--json",): json_only}


def remote(address: str, transport: Any = "http", **more: Any) -> ServerConfig:
    path = "sse" if transport == "sse" else "mcp"
    return ServerConfig("web", transport, url=f"{address}/{path}", timeout=10, **more)


@pytest.mark.parametrize(("transport", "options"), WAYS)
async def test_tools_are_listed_and_called(webs: Servers, transport: str, options: tuple[str, ...]) -> None:
    async with connected(remote(webs[options], transport)) as servers:
        report = servers.server("web").report()
        assert (report.state, report.protocol, report.tools) == (ServerState.UP, revision(options), 10)
        assert (await servers.call("echo", "web", text="hello")).text == "hello"


@pytest.mark.parametrize(("transport", "options"), STREAMS)
async def test_questions_and_progress_reach_whoever_called(
    webs: Servers, transport: str, options: tuple[str, ...]
) -> None:
    heard: list[str | None] = []
    came = anyio.Event()

    async def ask(message: str, schema: object, key: str = "") -> Mapping[str, object]:
        return {"sign": "Leo"}

    async def hear(done: float, total: float | None, words: str | None) -> None:
        heard.append(words)
        came.set()

    async with connected(remote(webs[options], transport)) as servers:
        with call_hooks(ask=ask, progress=hear):
            assert "Leo" in (await servers.call("ask", "web")).text
            await servers.call("progress", "web")
        with anyio.fail_after(60):
            await came.wait()
    assert heard == ["half"]


@pytest.mark.parametrize("options", [(), ("--legacy",)])
async def test_of_two_callers_each_is_asked_the_question_of_its_own_call(
    webs: Servers, options: tuple[str, ...]
) -> None:
    both = anyio.Event()
    asked: list[str] = []
    texts: dict[str, str] = {}

    async def call(sign: str) -> None:
        async def ask(message: str, schema: object, key: str = "") -> Mapping[str, object]:
            asked.append(sign)
            if len(asked) == 2:
                both.set()
            await both.wait()
            return {"sign": sign}

        with call_hooks(ask=ask):
            texts[sign] = (await servers.call("ask", "web")).text

    async with connected(remote(webs[options])) as servers, anyio.create_task_group() as tasks:
        tasks.start_soon(call, "Leo")
        tasks.start_soon(call, "Virgo")
    assert "Leo" in texts["Leo"]
    assert "Virgo" in texts["Virgo"]


@pytest.mark.parametrize(("transport", "options"), WAYS)
async def test_an_error_with_the_code_of_a_lost_connection_is_the_tools_own(
    webs: Servers, transport: str, options: tuple[str, ...]
) -> None:
    async with connected(remote(webs[options], transport)) as servers:
        refused = await servers.call("quota", "web")
        assert (await servers.call("echo", "web", text="well")).text == "well"
        assert servers.server("web").report().connections == 1
    assert refused.is_error
    assert "refused the call: quota exceeded" in refused.text


@pytest.mark.parametrize(("transport", "options"), WAYS)
async def test_a_server_that_is_killed_and_started_again_is_found_again(
    transport: str, options: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(*options) as (process, heard):
        port = (await heard.until(READY)).strip().rpartition(":")[2]
        async with connected(remote(f"http://127.0.0.1:{port}", transport)) as servers:
            first = (await servers.call("pid", "web")).text
            results: list[str] = []

            async def call() -> None:
                results.append((await servers.call("never", "web")).text)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await anyio.wait_all_tasks_blocked()
                process.kill()
                await process.wait()
            assert "went away during the call" in results[0]
            await servers.until(lambda: servers.server("web").state is ServerState.DOWN)
            async with serving(*options, "--port", port) as (_, again):
                await again.until(READY)
                await servers.until(lambda: servers.server("web").state is ServerState.UP)
                assert (await servers.call("pid", "web")).text != first
    # That a server has gone is said in a line of ours, and not in tracebacks of libraries.
    assert not [each for each in caplog.records if each.exc_info]


async def test_a_server_that_was_started_anew_between_calls_is_not_missed_by_anybody() -> None:
    patient = replace(QUICK, ping_every=60)
    async with serving("--legacy") as (process, heard):
        port = (await heard.until(READY)).strip().rpartition(":")[2]
        async with connected(remote(f"http://127.0.0.1:{port}"), timing=patient) as servers:
            process.kill()
            await process.wait()
            async with serving("--legacy", "--port", port) as (_, again):
                await again.until(READY)
                assert (await servers.call("echo", "web", text="hello")).text == "hello"
                assert servers.server("web").report().connections == 2


async def test_a_call_that_could_not_be_sent_is_made_when_the_server_is_back() -> None:
    async with serving("--legacy") as (process, heard):
        port = (await heard.until(READY)).strip().rpartition(":")[2]
        patient = replace(QUICK, ping_every=60, wait_for_up=30)
        async with connected(remote(f"http://127.0.0.1:{port}"), timing=patient) as servers:
            process.kill()
            await process.wait()
            answered = anyio.Event()

            async def call() -> None:
                assert (await servers.call("echo", "web", text="hello")).text == "hello"
                answered.set()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await servers.until(lambda: servers.server("web").state is ServerState.DOWN)
                async with serving("--legacy", "--port", port) as (_, again):
                    await again.until(READY)
                    await answered.wait()


async def test_a_call_whose_answer_cannot_be_sent_is_not_made_again() -> None:
    asked: list[str] = []
    async with serving() as (process, heard):
        port = (await heard.until(READY)).strip().rpartition(":")[2]
        async with connected(remote(f"http://127.0.0.1:{port}")) as servers:

            async def ask(message: str, schema: Asked, key: str = "") -> Mapping[str, object]:
                asked.append(message)
                process.kill()
                await process.wait()
                return {"sign": "Leo"}

            with call_hooks(ask=ask):
                assert "went away during the call" in (await servers.call("ask", "web")).text
    assert asked == ["Which sign?"]


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_cancelled_call_is_cancelled_at_the_server(transport: str) -> None:
    async with web() as address, connected(remote(address, transport)) as servers:
        with anyio.move_on_after(0.3):
            await servers.call("never", "web")
        with anyio.fail_after(60):
            while json.loads((await servers.call("cancelled", "web")).text) != ["never"]:
                await anyio.sleep(0.01)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_list_that_changes_is_heard_of(transport: str) -> None:
    async with web() as address, connected(remote(address, transport)) as servers:
        await servers.call("change", "web", text="brand_new")
        await servers.until(lambda: "brand_new" in [each.name for each in servers.server("web").tools])


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_headers_are_sent_and_never_shown(transport: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with web("--token", "t0ken-secret") as address:
        path = "sse" if transport == "sse" else "mcp"
        config = ServerConfig(
            "web", transport, url=f"{address}/{path}?key=query-secret", headers={"Authorization": "Bearer t0ken-secret"}
        )
        async with connected(config) as servers:
            assert (await servers.call("echo", "web", text="hello")).text == "hello"
            shown = str(servers.all.reports())
    ours = "\n".join(each.getMessage() for each in caplog.records)
    for secret in ("t0ken-secret", "query-secret"):
        assert secret not in shown
        assert secret not in ours


async def test_a_refused_key_is_said_with_what_to_do() -> None:
    async with web("--token", "t0ken-secret") as address, connected(remote(address)) as servers:
        error = servers.server("web").last_error
    assert "HTTP 401 Unauthorized, it wants credentials: see its `headers`" in error


async def test_an_answer_that_was_fine_is_not_the_reason_for_a_later_end() -> None:
    async with web() as address, connected(remote(address)) as servers:
        os.kill(int((await servers.call("pid", "web")).text), signal.SIGKILL)
        await servers.until(lambda: servers.server("web").state is ServerState.DOWN)
        assert servers.server("web").last_error
        assert "HTTP 2" not in servers.server("web").last_error


async def test_an_address_where_nobody_is_is_said_without_its_query() -> None:
    config = ServerConfig("web", "http", url="http://user:pass-word@127.0.0.1:9/mcp?key=query-secret")
    async with connected(config) as servers:
        assert servers.server("web").last_error == "nothing answers at http://127.0.0.1:9/mcp"


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_an_answer_beyond_all_bounds_is_an_error_and_the_server_stays(
    webs: Servers, options: tuple[str, ...]
) -> None:
    async with connected(remote(webs[options])) as servers:
        assert (await servers.call("huge", "web")).is_error
        assert (await servers.call("echo", "web", text="well")).text == "well"
        assert servers.server("web").report().connections == 1


async def test_an_answer_that_could_unfold_without_bounds_is_not_read() -> None:
    async with web("--json", "--packed") as address, connected(remote(address)) as servers:
        assert servers.server("web").state is ServerState.DOWN
        assert "encoded with gzip, which was not asked for" in servers.server("web").last_error


@pytest.mark.parametrize("words", NO_WAY_TO_ASK)
async def test_a_tool_that_cannot_ask_in_the_newest_revision_is_known_by_the_words_of_its_sdk(
    webs: Servers, words: str
) -> None:
    async with connected(remote(webs[()])) as servers:
        assert 'set "protocolVersion": "2025-11-25"' in (await servers.call("quota", "web", text=words)).text


async def test_a_server_that_asks_as_older_revisions_do_works_in_the_revision_that_its_entry_names(
    webs: Servers,
) -> None:
    config = remote(webs[()])
    async with connected(config) as servers:
        failed = await servers.call("ask", "web", text="as older servers do")
        assert failed.is_error
        assert 'set "protocolVersion": "2025-11-25"' in failed.text
    async with connected(replace(config, protocol_version="2025-11-25")) as servers:
        assert 'set "protocolVersion"' not in (await servers.call("quota", "web", text=NO_WAY_TO_ASK[0])).text
        assert servers.server("web").report().protocol == "2025-11-25"
        assert '"action": "decline"' in (await servers.call("ask", "web", text="as older servers do")).text
