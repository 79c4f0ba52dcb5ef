"""What `goalport connect` writes, read by the clients themselves as far as a machine without a screen can have them."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters

from goalport.server.auth.keys import new_key
from tests.clients.running import GOALPORT, NODE_PACKAGES, Served, environment, run, serving, started

INSPECTOR = str(NODE_PACKAGES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js")
BRIDGE = str(NODE_PACKAGES / "mcp-remote" / "dist" / "proxy.js")
MCPO_READY = re.compile(r"Uvicorn running on (?P<address>http://127\.0\.0\.1:\d+)")


def connected(client: str, served: Served, scratch: Path, transport: str, *options: str) -> Path:
    """The file that the command writes for a client, for a server that runs or one that the client starts."""
    workspace = scratch if transport == "http" else served.workspace
    where = ["--url", served.target("http")[0]] if transport == "http" else ["--transport", "stdio"]
    done = run(
        [GOALPORT, "connect", client, "--write", "--yes", *where, "--workspace", str(workspace), *options], scratch
    )
    assert done.returncode == 0, done.stderr
    return next(path for path in scratch.rglob("*.json") if str(path) in done.stderr)


@pytest.fixture(scope="module")
def guarded(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """A server that asks for keys, and one of them."""
    scratch = tmp_path_factory.mktemp("guarded")
    made = new_key("anna", ("goals:write",), None)
    entries = json.dumps([made.entry.record()])
    with serving(served.workspace, scratch, auth__key_entries=entries) as server:
        yield server, made.key.get_secret_value()


def entry(file: Path) -> dict[str, Any]:
    (servers,) = json.loads(file.read_text(encoding="utf-8")).values()
    return servers["goalport"]


async def names_of(target: StdioServerParameters | str) -> set[str]:
    with anyio.fail_after(60):
        async with Client(target) as client:
            return {tool.name for tool in (await client.list_tools()).tools}


def test_the_inspector_takes_its_file(node: str, served: Served, tmp_path: Path) -> None:
    file = connected("inspector", served, tmp_path, "http")

    arguments = ["--cli", "--config", str(file), "--method", "tools/list", "--format", "json", "--quiet"]
    done = run([node, INSPECTOR, *arguments], tmp_path)

    assert done.returncode == 0, done.stderr
    assert "shout" in {tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]}


def test_mcpo_takes_its_file(mcpo: str, served: Served, tmp_path: Path) -> None:
    file = connected("mcpo", served, tmp_path, "http")

    command = [mcpo, "--host", "127.0.0.1", "--port", "0", "--config", str(file)]
    with started(command, MCPO_READY, environment(tmp_path)) as ready:
        answer = httpx2.post(
            f"{ready['address']}/goalport/shout", json={"text": "good morning", "times": 2}, timeout=30
        )

    assert (answer.status_code, answer.json()) == (200, "GOOD MORNING GOOD MORNING!")


async def test_claude_desktop_reaches_a_server_through_mcp_remote(node: str, served: Served, tmp_path: Path) -> None:
    told = entry(connected("claude-desktop", served, tmp_path, "http"))
    assert (told["command"], told["args"][:2]) == ("npx", ["-y", "mcp-remote"])

    # npx would fetch the package that is here already.
    bridge = StdioServerParameters(command=node, args=[BRIDGE, *told["args"][2:]], env=environment(tmp_path))

    assert "shout" in await names_of(bridge)


async def test_claude_desktop_starts_a_server_of_its_own(served: Served, tmp_path: Path) -> None:
    told = entry(connected("claude-desktop", served, tmp_path, "stdio"))

    # A desktop starts programs in a folder and with a path of its own.
    alone = StdioServerParameters(**told, env={"HOME": str(tmp_path), "PATH": "/usr/bin"}, cwd="/")

    assert "shout" in await names_of(alone)


@pytest.mark.parametrize("client", ["cursor", "vscode", "claude-code"])
async def test_editors_are_told_the_address_of_the_server(client: str, served: Served, tmp_path: Path) -> None:
    told = entry(connected(client, served, tmp_path, "http"))

    assert "shout" in await names_of(told["url"])


def test_the_inspector_sends_the_key_of_its_file(node: str, guarded: tuple[Served, str], tmp_path: Path) -> None:
    server, key = guarded
    tried: list[subprocess.CompletedProcess[str]] = []
    for options in ((), ("--key", key)):
        file = connected("inspector", server, tmp_path, "http", *options)
        arguments = ["--cli", "--config", str(file), "--method", "tools/list", "--format", "json", "--quiet"]
        tried.append(run([node, INSPECTOR, *arguments], tmp_path))

    assert tried[0].returncode != 0
    assert "shout" in {tool["name"] for tool in json.loads(tried[1].stdout)["result"]["tools"]}, tried[1].stderr


def test_mcpo_sends_the_key_of_its_file(mcpo: str, guarded: tuple[Served, str], tmp_path: Path) -> None:
    server, key = guarded
    file = connected("mcpo", server, tmp_path, "http", "--key", key)

    command = [mcpo, "--host", "127.0.0.1", "--port", "0", "--config", str(file)]
    with started(command, MCPO_READY, environment(tmp_path)) as ready:
        answer = httpx2.post(f"{ready['address']}/goalport/shout", json={"text": "hi", "times": 1}, timeout=30)

    assert (answer.status_code, answer.json()) == (200, "HI!")


async def test_claude_desktop_sends_the_key_through_mcp_remote(
    node: str, guarded: tuple[Served, str], tmp_path: Path
) -> None:
    server, key = guarded
    told = entry(connected("claude-desktop", server, tmp_path, "http", "--key", key))

    bridge = StdioServerParameters(
        command=node, args=[BRIDGE, *told["args"][2:]], env={**environment(tmp_path), **told["env"]}
    )

    assert "shout" in await names_of(bridge)
