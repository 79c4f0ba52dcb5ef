"""The first answer over stdio: it does not wait for agents, and it is what the server itself would say."""

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.stories.cooks import COOK, META
from tests.stories.servers import GOALPORT, Heard, started, workspace

WAITS = "import pathlib\n\npathlib.Path(__file__).with_name('gate').read_text()\n"
FILES = {"agents/cooks.py": COOK, "server/settings.toml": 'name = "kitchen"'}
HELLO = {"name": "test", "version": "1"}
HANDSHAKES: list[dict[str, Any]] = [
    {
        "method": "initialize",
        "params": {"protocolVersion": version, "capabilities": {}, "clientInfo": HELLO},
    }
    for version in ("2025-06-18", "2026-07-28")
]
DISCOVERY: dict[str, Any] = {"method": "server/discover", "params": {"_meta": META}}


class Wire:
    """Messages to a server and what it answers, line by line."""

    def __init__(self, process: anyio.abc.Process, heard: Heard) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.heard = heard
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)

    async def say(self, *lines: str) -> None:
        await self._stdin.send("".join(f"{line}\n" for line in lines).encode())

    async def ask(self, message: Mapping[str, Any], identity: object = 1) -> dict[str, Any]:
        await self.say(json.dumps({"jsonrpc": "2.0", "id": identity, **message}))
        return await self.hear()

    async def hear(self) -> dict[str, Any]:
        with anyio.fail_after(60):
            return json.loads(await self._stdout.receive_until(b"\n", 1_000_000))

    async def leave(self) -> int:
        await self._stdin.aclose()
        with anyio.fail_after(60):
            return await self.process.wait()


@asynccontextmanager
async def wired(root: Path, files: Mapping[str, str], **settings: str) -> AsyncGenerator[Wire]:
    command = [GOALPORT, "serve", "--transport", "stdio", "--workspace", str(workspace(root, files))]
    async with started(command, env={**os.environ, **settings}) as (process, heard):
        yield Wire(process, heard)


async def test_a_client_is_greeted_before_the_agents_are_loaded_and_its_lists_wait_for_them(tmp_path: Path) -> None:
    workspace(tmp_path, {**FILES, "agents/waits.py": WAITS})
    os.mkfifo(tmp_path / "agents/gate")
    async with wired(tmp_path, {}) as wire:
        greeted = await wire.ask(HANDSHAKES[0])
        assert greeted["result"]["serverInfo"]["name"] == "kitchen"
        await wire.say('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        await wire.say('{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}')
        await anyio.Path(tmp_path / "agents/gate").write_text("")  # a pipe: the module is read now
        listed = await wire.hear()
        assert listed["id"] == 2
        assert "cook" in [tool["name"] for tool in listed["result"]["tools"]]
        assert await wire.leave() == 0


@pytest.mark.parametrize("message", [*HANDSHAKES, DISCOVERY], ids=json.dumps)
async def test_the_first_answer_is_what_the_server_itself_says(tmp_path: Path, message: Mapping[str, Any]) -> None:
    async with wired(tmp_path, FILES) as wire, wired(tmp_path, FILES) as late:
        await late.say("no JSON")
        assert (await late.hear())["error"]["code"] == -32700  # from here on the server answers
        assert await wire.ask(message, "first") == await late.ask(message, "first")


async def test_what_comes_in_one_piece_is_answered_in_order_and_once(tmp_path: Path) -> None:
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 1, **HANDSHAKES[0]}),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        '{"jsonrpc": "2.0", "id": 2, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": 3, "method": "tools/list"}',
    ]
    async with wired(tmp_path, FILES) as wire:
        await wire.say(*lines)
        assert [(await wire.hear())["id"] for _ in range(3)] == [1, 2, 3]
        assert await wire.leave() == 0


@pytest.mark.parametrize(
    ("files", "variables"),
    [
        ({"server/settings.toml": 'name = "kitchen"'}, {"GOALPORT_NAME": "house"}),
        ({".env": "GOALPORT_NAME=house\n", "server/settings.toml": 'name = "kitchen"'}, {}),
        ({"server/settings.cold.toml": 'name = "house"', **FILES}, {"GOALPORT_PROFILE": "cold"}),
    ],
)
async def test_the_first_answer_has_the_name_of_the_environment_before_that_of_a_file(
    tmp_path: Path, files: Mapping[str, str], variables: Mapping[str, str]
) -> None:
    async with wired(tmp_path, {"agents/cooks.py": COOK, **files}, **variables) as wire:
        assert (await wire.ask(HANDSHAKES[0]))["result"]["serverInfo"]["name"] == "house"


async def test_a_handshake_that_lacks_something_is_refused_by_the_server(tmp_path: Path) -> None:
    async with wired(tmp_path, FILES) as wire:
        refused = await wire.ask({"method": "initialize", "params": {"protocolVersion": "2025-06-18"}})
        assert refused["error"]["code"] == -32602


async def test_settings_that_cannot_be_read_end_a_greeted_server_with_the_reason(tmp_path: Path) -> None:
    async with wired(tmp_path, {"server/settings.toml": "port = 'x'"}) as wire:
        with anyio.fail_after(60):
            assert await wire.process.wait() == 1
        assert "settings.toml:1: port should be" in await wire.heard.until("settings.toml")
