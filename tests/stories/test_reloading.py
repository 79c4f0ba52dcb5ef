"""`goalport serve --reload`: what is saved is served, and clients that are connected are told, in both eras."""

import json
from pathlib import Path

import anyio
import pytest
from mcp_types import ToolListChangedNotification

from tests.stories.cooks import FILES
from tests.stories.servers import GOALPORT, READY, Running, running, started, workspace

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


async def test_a_start_that_cannot_load_a_file_says_so_at_level_error(tmp_path: Path) -> None:
    place = workspace(tmp_path, {**FILES, "agents/broken.py": "no Python"})
    command = [GOALPORT, "serve", "--workspace", str(place), "--port", "0", "--log-format", "json"]
    async with started(command) as (_, heard):
        records = [json.loads(line) for line in (await heard.until(READY)).splitlines()]
    assert "error" in {each["level"] for each in records if "broken.py:1: SyntaxError" in each["message"]}
