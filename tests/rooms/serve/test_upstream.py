"""Publishing tools of upstream servers: which are, which are not and why, and what their callers hear."""

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from goalport.serve import create_app
from goalport.serve.report import report_of
from goalport.serve.server import make_server
from goalport.serve.tool_groups import connected
from tests.rooms.serve.served import ERAS, Served, serving_of, text_of
from tests.rooms.upstream.hubs import MARK, PLAIN, nothing_left_behind

OWN = """
from goalport import ToolGroup, tool

@tool(export=True)
def echo(text: str) -> str:
    '''Say it again.'''
    return f"ours: {text}"

@tool
def shout(text: str) -> str:
    '''Say it loudly.'''
    return text.upper()

group = ToolGroup.of("loud", shout, exports=True)
"""


def server_entry() -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-S", "-E", PLAIN], "env": {MARK: str(os.getpid())}}


@asynccontextmanager
async def wired(root: Path, groups: object, **settings: Any) -> AsyncGenerator[Served]:
    """A server in memory with tools of its own and those of an upstream server."""
    config = {"mcpServers": {"plain": server_entry()}, "toolGroups": groups}
    files = {"tools/own.py": OWN, "mcp_config.json": json.dumps(config), "agents/__init__.py": ""}
    with nothing_left_behind():
        serving = serving_of(root, files=files, upstream_wait_seconds=20, **settings)
        try:
            async with connected(serving):
                yield Served(serving, make_server(serving)[0])
        finally:
            await serving.platform.aclose()


async def test_groups_publish_nothing_by_themselves(tmp_path: Path) -> None:
    async with wired(tmp_path, {"theirs": {"naming": {"prefix": "their_"}}}) as server:
        assert set(server.serving.publication.tools) == {"echo", "shout", "helloBanner"}


async def test_a_tool_of_others_never_displaces_one_of_ours(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["echo", "pid"], "exports": True}}
    async with wired(tmp_path, groups) as server, server.client() as client:
        publication = server.serving.publication
        assert set(publication.tools) == {"echo", "pid", "shout", "helloBanner"}
        (problem,) = publication.problems
        assert problem == (
            "The tool echo of the tool group theirs is not published: the exported tool echo is called so too. Rename "
            "it in the naming of its group."
        )
        assert text_of(await client.call_tool("echo", {"text": "hi"})) == "ours: hi"


async def test_of_two_groups_with_a_name_the_first_publishes_its_tool(tmp_path: Path) -> None:
    groups = {"a": {"include": ["pid"], "exports": True}, "b": {"include": ["pid"], "exports": True}}
    async with wired(tmp_path, groups) as server:
        assert "pid" in server.serving.publication.tools
        (problem,) = server.serving.publication.problems
        assert problem.startswith("The tool pid of the tool group b is not published: the tool pid of the tool group a")


async def test_a_tool_whose_calls_a_person_has_to_agree_to_is_not_published(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["pid", "fail"], "exports": True, "approve": {"pid": "always"}}}
    async with wired(tmp_path, groups) as server:
        assert {"fail"} == set(server.serving.publication.tools) - {"echo", "shout", "helloBanner"}
        assert "a person may have to be asked for its calls" in server.serving.publication.problems[0]


@pytest.mark.parametrize("era", ERAS)
async def test_a_silent_tool_is_heard_of_and_what_it_tells_goes_on_from_there(tmp_path: Path, era: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    groups = {"theirs": {"include": ["progress", "never"], "exports": True}}
    async with wired(tmp_path, groups, heartbeat_seconds=0.01) as server, server.client(era) as client:
        assert text_of(await client.call_tool("progress", {}, progress_callback=note)) == "done"
    said = [each for each in told if each[2] in {"step 1", "step 2"}]
    assert [message for _, _, message in said] == ["step 1", "step 2"]
    amounts = [progress for progress, _, _ in told]
    assert amounts == sorted(set(amounts))
    first, second = said
    assert second[0] - first[0] == 1
    assert second[1] == second[0]


async def test_an_error_of_the_tool_is_an_error_for_the_caller(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["fail", "lie"], "exports": True}}
    async with wired(tmp_path, groups) as server, server.client() as client:
        failed = await client.call_tool("fail", {})
        assert (failed.is_error, text_of(failed)) == (True, "It cannot be done: try less")
        assert (await client.call_tool("lie", {})).is_error


async def test_the_report_tells_of_groups_servers_and_what_is_probably_not_meant(tmp_path: Path) -> None:
    groups = {"theirs": {"include": ["pid", "ecko"], "exports": True}, "lost": {"servers": ["plane"]}}
    async with wired(tmp_path, groups) as server:
        serving = server.serving
        told = "\n".join(report_of(serving.publication, serving.platform, serving.settings, None))
    assert "  tool group theirs: 1 tool, published\n" in told
    assert "  tool group lost: 0 tools, down. There is no server 'plane' in mcp_config.json.\n" in told
    assert "  tool group loud: 1 tool, published\n" in told
    assert "  upstream server plain: up, 2025-06-18, 18 tools\n" in told
    assert "  warning: Tool group 'theirs': include 'ecko' matches no tool. Did you mean 'echo'?" in told
    assert "tool group 'lost' names the server 'plane'" in told
    assert "tool group math" not in told


async def test_an_app_for_any_server_connects_them_with_its_lifespan(tmp_path: Path) -> None:
    config = {"mcpServers": {"plain": server_entry()}, "toolGroups": {"theirs": {"include": ["pid"], "exports": True}}}
    (tmp_path / "mcp_config.json").write_text(json.dumps(config))
    serving = serving_of(tmp_path, upstream_wait_seconds=20)
    app = create_app(serving.platform, serving.workspace, serving.settings)
    with nothing_left_behind():
        client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")
        async with app.router.lifespan_context(app), client:
            told = (await client.get("/health")).json()
    assert told["toolGroups"]["theirs"] == {"status": "up", "tools": 1}
    assert told["tools"] == 2
    assert not serving.platform.upstream.connected
