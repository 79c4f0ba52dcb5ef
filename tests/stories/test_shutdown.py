"""Ending a server: calls in flight are answered, nothing holds the end, and it is a success when it was asked for."""

import json
import signal
import socket
from contextlib import suppress
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from tests.stories import fleets
from tests.stories.cooks import FILES, META, request, session
from tests.stories.servers import READY, Running, over_stdio, program, running, spoken_to, workspace

ENDINGS = pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
LONG = "60"
"""Seconds that a shutdown may take; what waits for them does not end within the bounds of these tests."""
CLIENTS = [("http", "auto"), ("http", "legacy"), ("sse", "auto"), ("sse", "legacy")]


def text_of(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


async def end_in_the_middle_of_calls(server: Running, seconds: float) -> dict[tuple[str, str], CallToolResult]:
    """What a call of each kind of client comes to, when the server is told to end once all of them have begun."""
    results: dict[tuple[str, str], CallToolResult] = {}

    async def call(transport: str, era: str) -> None:
        async with server.client(transport, era) as client:
            await client.list_tools()  # or the client asks for the schema of the result when the server is gone
            results[transport, era] = await client.call_tool("cook", {"seconds": seconds})

    async with anyio.create_task_group() as calls:
        for transport, era in CLIENTS:
            calls.start_soon(call, transport, era)
        await server.heard.until("cooking begins", times=len(CLIENTS))
        server.process.send_signal(signal.SIGTERM)
    with anyio.fail_after(60):
        assert await server.process.wait() == 0
    return results


async def test_calls_that_end_in_time_have_their_results(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, shutdown_seconds=LONG) as server:
        results = await end_in_the_middle_of_calls(server, 2)
    assert {client: text_of(result) for client, result in results.items()} == dict.fromkeys(CLIENTS, "done")


@ENDINGS
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_who_asks_twice_does_not_wait_for_anything(
    tmp_path: Path, transport: str, ending: signal.Signals
) -> None:
    async with running(tmp_path, FILES, shutdown_seconds=LONG) as server:
        with suppress(MCPError, OSError, httpx2.HTTPError, ExceptionGroup):
            async with server.client(transport, "legacy") as client, anyio.create_task_group() as calls:
                calls.start_soon(client.call_tool, "cook", {"seconds": 60})
                await server.heard.until("cooking begins")
                server.process.send_signal(ending)
                await server.heard.until("a second signal ends them now")
                server.process.send_signal(ending)
        with anyio.fail_after(60):
            assert await server.process.wait() == 130
        assert "Ended at once" in await server.heard.until("Ended at once")
    assert "Traceback" not in server.heard.text
    assert "ERROR" not in server.heard.text


async def test_a_call_over_stdio_that_ends_in_time_has_its_result_too(tmp_path: Path) -> None:
    async with spoken_to(tmp_path, FILES) as server:
        await server.heard.until("serving one client")
        call = request("cook", arguments={"seconds": 1}, _meta=META)
        await server.stdin.send(json.dumps(call).encode() + b"\n")
        await server.heard.until("cooking begins")
        server.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            said = await server.stdout.rest()
            assert await server.process.wait() == 0
    answer = json.loads(said.splitlines()[-1])
    assert answer["result"]["structuredContent"] == {"content": "done"}


@pytest.mark.parametrize("line", [b'{"id":7,"method":"x', b'{"jsonrpc":"2.0","id":7,"method":"tools/\\ud800"}'])
async def test_a_line_over_stdio_that_is_no_message_is_answered_and_the_next_one_too(
    tmp_path: Path, line: bytes
) -> None:
    async with spoken_to(tmp_path, FILES) as server:
        with anyio.fail_after(60):
            for each in (line, json.dumps(request("cook", arguments={"seconds": 0}, _meta=META)).encode()):
                await server.stdin.send(each + b"\n")
            said = b""
            while said.count(b"\n") < 2:
                said += await server.stdout.receive()
            await server.stdin.aclose()
    refused, answered = map(json.loads, said.splitlines())
    assert (refused["id"], refused["error"]["code"]) == (7, -32700)
    assert answered["result"]["structuredContent"] == {"content": "done"}


async def test_an_empty_line_over_stdio_is_passed_over_without_an_answer(tmp_path: Path) -> None:
    async with spoken_to(tmp_path, FILES) as server:
        with anyio.fail_after(60):
            call = json.dumps(request("cook", arguments={"seconds": 0}, _meta=META)).encode()
            await server.stdin.send(b"\n\r\n  \n" + call + b"\n")
            said = await server.stdout.receive()
            await server.stdin.aclose()
    assert json.loads(said)["result"]["structuredContent"] == {"content": "done"}


async def test_calls_that_take_too_long_are_told_so_and_do_not_hold_the_end(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, shutdown_seconds="0.5") as server:
        results = await end_in_the_middle_of_calls(server, 60)
        await server.heard.until("cooking stops", times=len(CLIENTS))
    assert set(results) == set(CLIENTS)
    for result in results.values():
        assert result.is_error
        assert "cook was stopped" in text_of(result)


@ENDINGS
async def test_clients_that_are_merely_connected_hold_nothing(tmp_path: Path, ending: signal.Signals) -> None:
    async with (
        running(tmp_path, FILES, shutdown_seconds=LONG) as server,
        server.client("http", "legacy") as first,
        server.client("sse", "legacy") as second,
    ):
        await first.list_tools()
        await second.list_tools()
        with anyio.fail_after(60):
            server.process.send_signal(ending)
            assert await server.process.wait() == 0
    assert "Traceback" not in server.heard.text
    assert "without completing response" not in server.heard.text


async def test_an_open_stream_of_news_holds_nothing(tmp_path: Path) -> None:
    async with (
        running(tmp_path, FILES, shutdown_seconds=LONG) as server,
        server.client("http", "auto") as client,
        client.listen(tools_list_changed=True) as events,
    ):
        with anyio.fail_after(60):
            server.process.send_signal(signal.SIGTERM)
            assert [event async for event in events] == []
            assert await server.process.wait() == 0


async def test_streams_are_told_first_while_a_call_still_runs(tmp_path: Path) -> None:
    async def read(stream: httpx2.Response) -> str:
        return "".join([text async for text in stream.aiter_text()])

    async with (
        running(tmp_path, FILES, shutdown_seconds=LONG) as server,
        server.client("http", "auto") as client,
        session(server) as (http, headers),
        anyio.create_task_group() as calls,
    ):
        begun = (await http.post("/api/v1/process", json={"goal": "cater", "input": {"seconds": 60}, "wait": 0})).json()
        calls.start_soon(lambda: http.post("/mcp", json=request("cook"), headers=headers))
        await server.heard.until("cooking begins", times=2)
        async with (
            client.listen(tools_list_changed=True) as news,
            http.stream("GET", "/mcp", headers=headers) as stream,
            http.stream("GET", begun["links"]["events"]) as events,
        ):
            server.process.send_signal(signal.SIGTERM)
            with anyio.fail_after(30):
                assert [event async for event in news] == []
                await read(stream)
                assert "AgentProcessFinished" not in await read(events)
        assert "cooking stops" not in server.heard.text
        calls.cancel_scope.cancel()
    assert "Traceback" not in server.heard.text


async def test_a_client_that_never_sends_the_rest_of_a_body_holds_nothing(tmp_path: Path) -> None:
    async with (
        running(tmp_path, FILES, shutdown_seconds=LONG) as server,
        await anyio.connect_tcp("127.0.0.1", server.port) as client,
    ):
        await client.send(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\nx")
        with anyio.fail_after(30):
            server.process.send_signal(signal.SIGTERM)
            assert (await client.receive()).startswith(b"HTTP/1.1 503")
            assert await server.process.wait() == 0
    assert "Traceback" not in server.heard.text


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_call_that_waits_for_a_process_of_another_server_holds_nothing(tmp_path: Path, era: str) -> None:
    waited = CallToolResult(content=[])
    async with (
        fleets.fleet(tmp_path, shutdown_seconds=LONG) as fleet,
        fleet.servers[0].client("http", era) as client,
        fleet.servers[1].client("http", era) as other,
    ):
        handle = (await client.call_tool("forge", {"content": "Gram"})).structured_content
        assert handle is not None
        asked = {"processId": handle["processId"], "waitSeconds": 20}

        async def wait() -> None:
            nonlocal waited
            waited = await other.call_tool("process_status", asked)

        async with anyio.create_task_group() as calls:
            calls.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            async with httpx2.AsyncClient(base_url=fleet.servers[1].address) as http:
                while (await http.get("/health")).json()["openCalls"] == 0:
                    await anyio.sleep(0.02)
            fleet.servers[1].process.send_signal(signal.SIGTERM)
            with anyio.fail_after(60):
                assert await fleet.servers[1].process.wait() == 0
        assert "ask again" in text_of(waited), "it did not wait to the end of its 20 seconds"
        assert "stop Gram" not in fleet.lines()


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_server_that_drains_is_not_ready_takes_connections_and_ends_at_a_second_signal(
    tmp_path: Path, workers: str
) -> None:
    async with running(tmp_path, FILES, workers=workers, store="sqlite", drain_seconds="600") as server:
        if workers == "2":
            await server.heard.until("2 workers ready")
        server.process.send_signal(signal.SIGTERM)
        await server.heard.until("connections are refused in 600 s")
        for _ in range(4):  # Each is another connection, of which both workers get some.
            async with httpx2.AsyncClient(base_url=server.address, timeout=60) as http:
                ready, live, health = [await http.get(f"/health{path}") for path in ("/ready", "/live", "")]
            assert [ready.status_code, live.status_code, health.json()["ready"]] == [503, 200, False]
        async with server.client("http", "auto") as client:
            assert text_of(await client.call_tool("cook", {"seconds": 0})) == "done"
        server.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            assert await server.process.wait() == 130
    assert "Traceback" not in server.heard.text


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_server_that_has_drained_ends(tmp_path: Path, workers: str) -> None:
    async with running(tmp_path, FILES, workers=workers, store="sqlite", drain_seconds="0.1") as server:
        server.process.send_signal(signal.SIGTERM)
        await server.heard.until("connections are refused in 0.1 s")
        with anyio.fail_after(60):
            assert await server.process.wait() == 0
    assert "Traceback" not in server.heard.text


@ENDINGS
async def test_a_server_on_stdio_ends_when_it_is_told(tmp_path: Path, ending: signal.Signals) -> None:
    async with spoken_to(tmp_path, FILES, shutdown_seconds=LONG) as server:
        await server.heard.until("serving one client")
        with anyio.fail_after(60):
            server.process.send_signal(ending)
            assert await server.process.wait() == 0


async def test_a_port_that_is_taken_is_one_line_with_the_fix(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ["serve", "--workspace", str(workspace(tmp_path, FILES)), "--port", str(port)]
        async with program(command) as (process, heard):
            with anyio.fail_after(60):
                assert await process.wait() == 1
            text = await heard.until("--port")
    assert f"127.0.0.1 port {port}" in text
    assert "Traceback" not in text
    assert READY not in text
    assert len(text.strip().splitlines()) == 1


async def test_the_wire_is_clean_over_stdio_whatever_an_agent_prints(tmp_path: Path) -> None:
    files = {"agents/loud.py": "print('loud at import')\n" + FILES["agents/cooks.py"].replace("file=sys.stderr, ", "")}
    async with over_stdio(tmp_path, files, "legacy") as (client, heard):
        assert text_of(await client.call_tool("cook", {"seconds": 0})) == "done"
        assert "loud at import" in await heard.until("cook")
