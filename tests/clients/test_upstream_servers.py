"""Goalport as a client of servers that nobody here wrote, over stdio and, where they have it, HTTP and SSE."""

import base64
import json
import os
import re
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from goalport.tools.upstream.active_calls import Asked, call_hooks
from goalport.tools.upstream.config import ServerConfig
from goalport.tools.upstream.upstream_server import ServerState
from tests.clients.conftest import python_environment
from tests.clients.running import CLIENTS, NODE_PACKAGES
from tests.rooms.upstream.connected import WatchedServers, connected
from tests.stories.papers import HEADLINE, newspaper
from tests.stories.servers import started

PACKAGES = NODE_PACKAGES / "@modelcontextprotocol"
EVERYTHING = str(PACKAGES / "server-everything/dist/index.js")
FILESYSTEM = str(PACKAGES / "server-filesystem/dist/index.js")
KINDS: dict[str, str] = {"http": "streamableHttp", "sse": "sse"}
PATHS = {"http": "mcp", "sse": "sse"}


@asynccontextmanager
async def everything(node: str, transport: Any) -> AsyncGenerator[WatchedServers]:
    """The reference server, reached in one of three ways."""
    if transport == "stdio":
        config = ServerConfig("everything", "stdio", command=node, args=(EVERYTHING,), timeout=20)
        async with connected(config) as servers:
            yield servers
        return
    preload = f"--import={CLIENTS / 'node' / 'loopback.mjs'}"
    async with started([node, preload, EVERYTHING, KINDS[transport]]) as (_, heard):
        port = re.search(r"on loopback port (\d+)", await heard.until("on loopback port "))
        assert port is not None
        url = f"http://127.0.0.1:{port[1]}/{PATHS[transport]}"
        async with connected(ServerConfig("everything", transport, url=url, timeout=20)) as servers:
            yield servers


def of_python(name: str, *args: str) -> ServerConfig:
    command = str(python_environment(f"mcp-server-{name}") / f"mcp-server-{name}")
    return ServerConfig(name, "stdio", command=command, args=args, timeout=20)


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_the_reference_server_is_used_in_its_older_revision(node: str, transport: str) -> None:
    async with everything(node, transport) as servers:
        report = servers.server("everything").report()
        assert (report.state, report.protocol) == (ServerState.UP, "2025-11-25")
        assert (await servers.call("echo", "everything", message="hello")).text == "Echo: hello"
        weather = await servers.call("get-structured-content", "everything", location="Chicago")
        assert weather.structured is not None
        assert set(weather.structured) == {"temperature", "conditions", "humidity"}
        picture = next(
            each for each in (await servers.call("get-tiny-image", "everything")).blocks if each.type == "image"
        )
        assert base64.b64decode(picture.data).startswith(b"\x89PNG")
        wrong = await servers.call("get-sum", "everything", a="one", b=2)
        assert wrong.is_error


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_progress_and_questions_of_the_reference_server_reach_the_caller(node: str, transport: str) -> None:
    heard: list[float] = []
    asked: list[Asked] = []

    async def hear(done: float, total: float | None, words: str | None) -> None:
        heard.append(done)

    async def ask(message: str, schema: Asked, key: str = "") -> Mapping[str, object]:
        asked.append(schema)
        return {"name": "Lynda"}

    async with everything(node, transport) as servers:
        with call_hooks(ask=ask, progress=hear):
            answer = await servers.call("trigger-elicitation-request", "everything")
            await servers.call("trigger-long-running-operation", "everything", duration=0.2, steps=2)
    assert "Lynda" in str(answer.content)
    [form] = asked
    assert isinstance(form, Mapping)
    assert "properties" in form
    assert heard == [1, 2]


async def test_files_are_read_within_the_folder_that_was_given(node: str, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Lynda is a Scorpio")
    config = ServerConfig("files", "stdio", command=node, args=(FILESYSTEM, str(tmp_path)), timeout=20)
    async with connected(config) as servers:
        assert (
            await servers.call("read_text_file", "files", path=str(tmp_path / "note.txt"))
        ).text == "Lynda is a Scorpio"
        outside = await servers.call("read_text_file", "files", path="/etc/hostname")
        assert outside.is_error
        assert "outside allowed directories" in outside.text


async def test_the_time_is_told(tmp_path: Path) -> None:
    async with connected(of_python("time", "--local-timezone", "UTC")) as servers:
        assert servers.server("time").report().protocol == "2026-07-28"
        told = await servers.call("get_current_time", "time", timezone="Europe/Vienna")
        assert json.loads(told.text)["timezone"] == "Europe/Vienna"
        nowhere = await servers.call("get_current_time", "time", timezone="Nowhere")
        assert nowhere.is_error
        assert "Nowhere" in nowhere.text


async def test_a_repository_is_looked_at(tmp_path: Path) -> None:
    await anyio.run_process(["git", "init", "--quiet", str(tmp_path)])
    (tmp_path / "new.txt").write_text("new")
    async with connected(of_python("git")) as servers:
        status = await servers.call("git_status", "git", repo_path=str(tmp_path))
    assert "new.txt" in status.text


async def test_a_page_is_fetched() -> None:
    async with (
        newspaper() as news,
        connected(of_python("fetch", "--ignore-robots-txt", "--allow-private-ips")) as servers,
    ):
        page = await servers.call("fetch", "fetch", url=news.story, raw=True)
    assert HEADLINE in page.text


async def test_one_of_several_is_killed_in_mid_call_and_comes_back(node: str) -> None:
    reference = ServerConfig("everything", "stdio", command=node, args=(EVERYTHING,), timeout=20)
    async with connected(reference, of_python("time")) as servers:
        pid = children_of(os.getpid(), "server-everything")[0]

        async def ask(message: str, schema: Asked, key: str = "") -> Mapping[str, object]:
            os.kill(pid, signal.SIGKILL)
            assert not (await servers.call("get_current_time", "time", timezone="UTC")).is_error
            return {}

        with call_hooks(ask=ask):
            result = await servers.call("trigger-elicitation-request", "everything")
        assert "went away during the call" in result.text
        assert (await servers.call("echo", "everything", message="again")).text == "Echo: again"


def children_of(parent: int, words: str) -> list[int]:
    """The processes that a process started and whose command has these words."""
    found: list[int] = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            status = (each / "stat").read_text().rpartition(")")[2].split()
            if int(status[1]) == parent and words in (each / "cmdline").read_text():
                found.append(int(each.name))
        except OSError:
            continue
    return found
