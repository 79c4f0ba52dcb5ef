"""A server whose agents use tools of other servers: under names of ours, while those servers die and come back."""

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp_types import CallToolResult, ImageContent, TextContent, ToolListChangedNotification

from tests.rooms.serve.askers import Answering
from tests.rooms.upstream.connected import MARK, PLAIN, nothing_left_behind
from tests.stories.servers import Heard, Running, connected, program, running, workspace

AGENT = """
from pydantic import BaseModel
from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent
from goalport.tools import ToolGroupRequirement

class Song(BaseModel):
    content: str
    voices: dict[str, str]

@agent(description="Sings with the voices that there are")
class Choir:
    @achieves_goal(description="A song", export=Export(remote=True, name="sing", starting_input_types=[UserInput]))
    @action(tool_group_requirements=[ToolGroupRequirement("choir", tools=("choir_who",))])
    async def sing(self, said: UserInput, context: ActionContext) -> Song:
        voices = {each.name: (await each.call({"text": said.content})).text for each in context.tools}
        return Song(content=" ".join(sorted(voices.values())), voices=voices)
"""
GROUP: dict[str, Any] = {
    "servers": ["one", "two", "three"],
    "include": ["one/echo", "two/pid", "three/structured"],
    "naming": {"prefix": "choir_", "rename": {"echo": "say", "pid": "who", "structured": "sum"}},
}
PLAYERS = ("one/echo", "one/progress", "one/picture", "one/structured", "one/never", "one/cancelled", "one/change")


def plain(*options: str, **more: Any) -> dict[str, Any]:
    """A server that is a process, and does not start while there is a file `gone` in its folder."""
    script = 'if [ -e gone ]; then echo "it is gone" >&2; exit 1; fi; exec "$@"'
    command = ["-c", script, "sh", sys.executable, "-S", "-E", PLAIN, *options]
    return {"command": "/bin/sh", "args": command, "env": {MARK: str(os.getpid()), "KEY": "s3cret-value"}, **more}


def files(groups: Mapping[str, Any], *servers: str) -> dict[str, str]:
    config = {"mcpServers": {name: plain(cwd=name) for name in servers}, "toolGroups": groups}
    places = {f"{name}/.keep": "" for name in servers}
    return {"agents/choir.py": AGENT, "mcp_config.json": json.dumps(config), **places}


def text_of(result: CallToolResult) -> str:
    return "".join(each.text for each in result.content if isinstance(each, TextContent))


async def sung(client: Client) -> CallToolResult:
    return await client.call_tool("sing", {"content": "la"})


async def health(server: Running) -> dict[str, Any]:
    async with httpx2.AsyncClient() as client:
        return (await client.get(f"{server.address}/health")).json()


class News:
    """What a client is told without asking."""

    def __init__(self) -> None:
        self._changes = 0
        self._arrived = anyio.Event()

    async def __call__(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changes += 1
            self._arrived.set()
            self._arrived = anyio.Event()

    async def until(self, client: Client, wanted: set[str], missing: set[str]) -> None:
        """Wait until the list has these tools, and not those, asking only when there is news."""
        with anyio.fail_after(60):
            while True:
                seen = self._changes
                names = {each.name for each in (await client.list_tools(cache_mode="refresh")).tools}
                if wanted <= names and not missing & names:
                    return
                while self._changes == seen:
                    await self._arrived.wait()


@asynccontextmanager
async def choir(root: Path, *options: str, exports: bool = False) -> AsyncGenerator[Running]:
    with nothing_left_behind():
        group = GROUP | {"exports": exports}
        async with running(root, files({"choir": group}, "one", "two", "three"), *options) as server:
            yield server


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_an_action_uses_tools_of_three_servers_while_one_is_killed_and_comes_back(
    tmp_path: Path, era: str
) -> None:
    async with choir(tmp_path) as server, server.client("http", era) as client:
        first = await sung(client)
        assert first.structured_content is not None, text_of(first)
        voices: dict[str, str] = first.structured_content["voices"]
        assert (voices["choir_say"], voices["choir_sum"]) == ("la", "2")
        assert sorted(voices) == ["choir_say", "choir_sum", "choir_who"]

        (tmp_path / "two" / "gone").touch()
        os.kill(int(voices["choir_who"]), signal.SIGKILL)
        await server.heard.until("'two' is down")
        stuck = await sung(client)
        assert stuck.is_error
        assert "tool group choir" in text_of(stuck)
        assert "The server 'two' is " in text_of(stuck)
        assert (await health(server))["toolGroups"]["choir"]["status"] == "degraded"

        (tmp_path / "two" / "gone").unlink()
        await server.heard.until("'two' is up", times=2, seconds=40)
        again = await sung(client)
        assert again.structured_content is not None, text_of(again)
        assert again.structured_content["voices"]["choir_who"] != voices["choir_who"]
        assert (await health(server))["toolGroups"]["choir"] == {"status": "up", "tools": 3}


async def test_exported_tools_come_and_go_with_their_servers(tmp_path: Path) -> None:
    news = News()
    async with (
        choir(tmp_path, exports=True) as server,
        server.client("http", "legacy", message_handler=news) as client,
    ):
        await news.until(client, {"choir_say", "choir_who", "choir_sum", "sing"}, {"echo"})
        pid = text_of(await client.call_tool("choir_who", {}))
        (tmp_path / "two" / "gone").touch()
        os.kill(int(pid), signal.SIGKILL)
        await news.until(client, {"choir_say"}, {"choir_who"})
        (tmp_path / "two" / "gone").unlink()
        await news.until(client, {"choir_who"}, set())
        assert text_of(await client.call_tool("choir_who", {})) != pid


@pytest.mark.parametrize(("transport", "era"), [("http", "auto"), ("sse", "legacy"), ("stdio", "auto")])
async def test_calls_of_exported_tools_pass_through_as_they_are(tmp_path: Path, transport: str, era: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    group = {"servers": ["one"], "include": list(PLAYERS), "naming": {"suffix": "_2"}, "exports": True}
    with nothing_left_behind():
        async with connected(tmp_path, files({"all": group}, "one"), transport, era) as (client, _):
            tools = {each.name: each for each in (await client.list_tools()).tools}
            assert tools["structured_2"].output_schema is not None
            assert (await client.call_tool("structured_2", {})).structured_content == {"sum": 2}
            picture = (await client.call_tool("picture_2", {})).content
            assert [each.type for each in picture] == ["image", "text", "audio", "resource"]
            assert isinstance(picture[0], ImageContent)
            assert picture[0].data == "aGk="
            assert text_of(await client.call_tool("progress_2", {}, progress_callback=note)) == "done"
            assert told == [(1, 2, "step 1"), (2, 2, "step 2")]
            with anyio.move_on_after(0.5) as scope:
                await client.call_tool("never_2", {})
            assert scope.cancelled_caught
            with anyio.fail_after(60):
                while text_of(await client.call_tool("cancelled_2", {})) == "[]":
                    await anyio.sleep(0.01)


async def test_a_list_that_changes_upstream_changes_here(tmp_path: Path) -> None:
    news = News()
    group = {"servers": ["one"], "exports": True, "exclude": ["die", "safe_die"]}
    with nothing_left_behind():
        async with (
            running(tmp_path, files({"all": group}, "one")) as server,
            server.client("http", "legacy", message_handler=news) as client,
        ):
            await client.call_tool("change", {"text": "brand_new"})
            await news.until(client, {"brand_new"}, set())


async def test_the_file_may_change_while_it_is_served(tmp_path: Path) -> None:
    news = News()
    async with choir(tmp_path, "--reload") as server, server.client("http", "legacy", message_handler=news) as client:
        file = tmp_path / "mcp_config.json"
        before = file.read_text()
        file.write_text(before[:-20])
        said = await server.heard.until("so it is served as before")
        assert f"{file}:1:" in said
        assert (await sung(client)).structured_content is not None
        config = json.loads(before)
        config["toolGroups"]["choir"] |= {"exports": True, "naming": {"prefix": "new_", "rename": {"pid": "who"}}}
        file.write_text(json.dumps(config))
        await news.until(client, {"new_echo", "new_who", "new_structured"}, {"choir_say"})
        assert server.heard.text.count("'one' is up") == 1


async def test_health_and_report_tell_no_secret(tmp_path: Path) -> None:
    async with choir(tmp_path) as server:
        told = await health(server)
        assert told["upstreamServers"]["one"] | {"tools": 0} == {
            "status": "up",
            "transport": "stdio",
            "protocol": "2025-06-18",
            "tools": 0,
            "calls": 0,
            "failures": 0,
        }
        assert "tool group choir: up, 3 tools" in server.heard.text
        assert "upstream server three: up, 2025-06-18" in server.heard.text
        assert "s3cret-value" not in json.dumps(told) + server.heard.text
        assert PLAIN not in json.dumps(told) + server.heard.text


async def serving(root: Path, *options: str, **change: Any) -> tuple[int | None, Heard]:
    """How a server ends that does not come to serve."""
    config = {"mcpServers": {"one": plain(cwd="one") | change}, "toolGroups": {}}
    place = workspace(root, {"agents/choir.py": AGENT, "one/gone": "", "mcp_config.json": json.dumps(config)})
    with nothing_left_behind():
        command = ["serve", "--workspace", str(place), "--port", "0", *options]
        async with program(command) as (process, heard):
            with anyio.fail_after(60):
                await process.wait()
            await heard.until("error:")
        return process.returncode, heard


@pytest.mark.parametrize(
    ("transport", "era"),
    [("http", "auto"), ("http", "legacy"), ("sse", "legacy"), ("stdio", "auto"), ("stdio", "legacy")],
)
async def test_what_a_published_tool_asks_is_asked_over_every_transport(
    tmp_path: Path, transport: str, era: str
) -> None:
    group = {"servers": ["one"], "include": ["ask", "ask_later"], "exports": True}
    person = Answering.with_({"sign": "Leo"}, {"sign": "Aries"})
    with nothing_left_behind():
        async with connected(tmp_path, files({"all": group}, "one"), transport, era, elicitation_callback=person) as (
            client,
            _,
        ):
            with anyio.fail_after(60):
                first, second = [await client.call_tool(each, {}) for each in ("ask", "ask_later")]
    assert "Leo" in text_of(first)
    assert "Aries" in text_of(second)


@pytest.mark.parametrize("options", [(), ("--transport", "stdio")])
async def test_a_required_server_that_is_down_keeps_the_server_from_starting(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    code, heard = await serving(tmp_path, *options, required=True)
    assert code == 1
    assert "error: The required server 'one' is down" in heard.text
    assert "it is gone" in heard.text


async def test_a_required_server_that_cannot_be_used_does_too(tmp_path: Path) -> None:
    code, heard = await serving(tmp_path, required=True, cwd="${NO_SUCH_FOLDER}")
    assert code == 1
    assert "the variable NO_SUCH_FOLDER is not set" in heard.text
