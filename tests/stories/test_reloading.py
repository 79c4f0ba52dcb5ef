"""`goalport serve --reload`: what is saved is served, and clients that are connected are told, in both eras."""

import json
import os
import signal
from pathlib import Path

import anyio
import pytest
from mcp_types import ToolListChangedNotification

from tests.stories.cooks import FILES
from tests.stories.servers import GOALPORT, READY, Running, program, running, started, workspace
from tests.stories.test_shutdown import text_of

pytestmark = pytest.mark.usefixtures("measured")
BAKER = FILES["agents/cooks.py"].replace('name="cook"', 'name="bake"')


async def change(server: Running, root: Path) -> None:
    (root / "agents/cooks.py").write_text("this is no Python")
    await server.heard.until("cooks.py:1: SyntaxError")
    (root / "agents/cooks.py").write_text(BAKER)
    await server.heard.until("+bake -cook")


async def test_a_handshake_client_is_told_over_its_stream(tmp_path: Path) -> None:
    told = anyio.Event()

    async def note(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async with (
        running(tmp_path, FILES, "--reload") as server,
        server.client("http", "legacy", message_handler=note) as client,
    ):
        assert "cook" in [tool.name for tool in (await client.list_tools()).tools]
        await change(server, tmp_path)
        with anyio.fail_after(60):
            await told.wait()
        assert "bake" in [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_later_client_is_told_over_the_stream_that_it_opened(tmp_path: Path, transport: str) -> None:
    async with running(tmp_path, FILES, "--reload") as server, server.client(transport, "auto") as client:
        with anyio.fail_after(60):
            async with client.listen(tools_list_changed=True) as events:
                await change(server, tmp_path)
                async for event in events:
                    assert type(event).__name__ == "ToolsListChanged"
                    break
        assert "bake" in [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]


@pytest.mark.parametrize("options", [(), ("--reload",)])
async def test_sighup_loads_the_workspace_anew_and_drops_no_call(tmp_path: Path, options: tuple[str, ...]) -> None:
    results: list[str] = []

    async def cook(server: Running) -> None:
        async with server.client("http", "auto") as client:
            results.append(text_of(await client.call_tool("cook", {"seconds": 2})))

    async with running(tmp_path, FILES, *options) as server, server.client("http", "auto") as client:
        async with anyio.create_task_group() as calls:
            calls.start_soon(cook, server)
            await server.heard.until("cooking begins")
            (tmp_path / "agents/cooks.py").write_text("this is no Python")
            server.process.send_signal(signal.SIGHUP)
            await server.heard.until("it is served as before")
            assert "cook" in [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]
            (tmp_path / "agents/cooks.py").write_text(BAKER)
            server.process.send_signal(signal.SIGHUP)
            await server.heard.until("Loaded the workspace anew. Tools: +bake -cook.")
        assert results == ["done"]
        assert "bake" in [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]
        server.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            assert await server.process.wait() == 0


async def test_the_end_of_a_terminal_ends_a_server_of_one_process_too(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    command = ["setsid", "--ctty", "--wait", GOALPORT, "serve", "--workspace", str(workspace(tmp_path, FILES))]
    async with started([*command, "--port", "0"], stdin=theirs) as (process, heard):
        os.close(theirs)
        await heard.until("goalport ready on ")
        os.close(ours)
        with anyio.fail_after(60):
            assert await process.wait() == 0


async def test_a_start_that_cannot_load_a_file_says_so_at_level_error(tmp_path: Path) -> None:
    place = workspace(tmp_path, {**FILES, "agents/broken.py": "no Python"})
    command = ["serve", "--workspace", str(place), "--port", "0", "--log-format", "json"]
    async with program(command) as (_, heard):
        records = [json.loads(line) for line in (await heard.until(READY)).splitlines()]
    assert "error" in {each["level"] for each in records if "broken.py:1: SyntaxError" in each["message"]}
