"""The MCP Inspector's command line: its own lint of what is published, and what people try by hand."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import python_environment
from tests.clients.conversation import check_goal, text_of
from tests.clients.playing import Heard, Request, a_night, follow
from tests.clients.running import INSPECTOR, NODE_PACKAGES, ROOT, Served, run, serving

ERAS = ["legacy", "modern"]
Inspect = Callable[..., dict[str, Any]]


def configuration(served: Served, scratch: Path) -> Path:
    """One file for all: on the command line, the server's options would be taken for the Inspector's own."""
    command, *arguments = served.target("stdio")
    servers = {
        "http": {"type": "http", "url": served.target("http")[0]},
        "sse": {"type": "sse", "url": served.target("sse")[0]},
        "stdio": {"command": command, "args": arguments, "env": {"GOALPORT_DATA_DIR": str(scratch / "data")}},
    }
    file = scratch / "inspector.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


@pytest.fixture
def inspect(node: str, tmp_path: Path) -> Inspect:
    """Ask a server one thing; what is returned is the Inspector's JSON and its exit code."""

    def ask(served: Served, transport: str, era: str, *arguments: str) -> dict[str, Any]:
        where = ["--config", str(configuration(served, tmp_path)), "--server", transport]
        options = ["--protocol-era", era, "--format", "json", "--quiet", "--connect-timeout", "45000", *arguments]
        done = run([node, INSPECTOR, "--cli", *where, *options], tmp_path)
        said = done.stdout or done.stderr
        return {"exit": done.returncode, "stderr": done.stderr, **json.loads(said)}

    return ask


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_finds_nothing_unportable_in_the_tools(inspect: Inspect, served: Served, era: str) -> None:
    listed = inspect(served, "http", era, "--method", "tools/list", "--strict")
    assert listed["exit"] == 0, listed["stderr"]
    assert {"shout", "count_letters", "helloBanner"} <= {tool["name"] for tool in listed["result"]["tools"]}


@pytest.mark.parametrize(("transport", "era"), [("http", "modern"), ("sse", "legacy"), ("stdio", "modern")])
def test_the_inspector_reaches_a_goal(inspect: Inspect, served: Served, transport: str, era: str) -> None:
    arguments = json.dumps({"text": "good morning", "times": 2})
    called = inspect(
        served, transport, era, "--method", "tools/call", "--tool-name", "shout", "--tool-args-json", arguments
    )
    assert called["exit"] == 0, called
    check_goal(called["result"])


def test_the_inspector_shows_what_is_wrong_with_an_argument(inspect: Inspect, served: Served) -> None:
    arguments = json.dumps({"text": "hello", "times": "often"})
    called = inspect(
        served, "http", "modern", "--method", "tools/call", "--tool-name", "shout", "--tool-args-json", arguments
    )
    assert called["result"]["isError"]
    assert "times" in text_of(called["result"])


def test_the_inspector_says_that_a_tool_is_unknown(inspect: Inspect, served: Served) -> None:
    called = inspect(served, "http", "legacy", "--method", "tools/call", "--tool-name", "whisper")
    assert called["exit"] != 0
    assert "whisper" in called["error"]["message"]


def test_the_inspector_gets_the_prompt_of_a_goal(inspect: Inspect, served: Served) -> None:
    got = inspect(
        served, "http", "modern", "--method", "prompts/get", "--prompt-name", "shout", "--prompt-args", "text=hello"
    )
    assert "hello" in got["result"]["messages"][0]["content"]["text"]


@pytest.mark.parametrize("era", ["modern"])
def test_the_inspector_reads_a_resource(inspect: Inspect, served: Served, era: str) -> None:
    read = inspect(served, "http", era, "--method", "resources/read", "--uri", "goalport://goals")
    assert "shout" in read["result"]["contents"][0]["text"]


def test_the_inspector_reads_a_document(inspect: Inspect, served: Served) -> None:
    listed = inspect(served, "http", "modern", "--method", "resources/list")["result"]["resources"]
    (document,) = [each for each in listed if each["uri"].startswith("goalport://documents/docs/")]
    read = inspect(served, "http", "modern", "--method", "resources/read", "--uri", document["uri"])
    assert (document["name"], read["result"]["contents"][0]["text"][:11]) == ("Knowledge", "# Knowledge")


def test_the_inspector_verifies_every_file_of_a_skill(inspect: Inspect, served: Served) -> None:
    verified = inspect(served, "http", "modern", "--method", "skills/list", "--verify")
    assert (verified["exit"], verified["uri"]) == (0, "skill://examples/cite-sources/SKILL.md"), verified


def test_the_inspector_gets_a_report_about_this_repository(inspect: Inspect, shipped: Served) -> None:
    called = inspect(
        shipped, "http", "modern", "--method", "tools/call", "--tool-name", "report_repository",
        "--tool-args-json", json.dumps({"path": str(ROOT)}),
    )  # fmt: skip
    assert not called["result"].get("isError"), text_of(called["result"])
    assert called["result"]["structuredContent"]


def test_the_inspector_finds_nothing_unportable_in_what_is_shipped(inspect: Inspect, shipped: Served) -> None:
    listed = inspect(shipped, "http", "modern", "--method", "tools/list", "--strict")
    assert listed["exit"] == 0, listed["stderr"]
    assert "report_repository" in {tool["name"] for tool in listed["result"]["tools"]}


@pytest.mark.parametrize("era", ["modern"])
def test_the_inspector_plays_the_adventure_with_a_connection_for_each_call(
    inspect: Inspect, shipped: Served, era: str
) -> None:
    def call(request: Request) -> Heard:
        arguments = ["--tool-name", request.tool, "--tool-args-json", json.dumps(request.arguments)]
        return Heard.of(inspect(shipped, "http", era, "--method", "tools/call", *arguments)["result"])

    follow(a_night(), call)


@pytest.fixture(scope="module")
def exporting(node: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A workspace that publishes tools of three servers of other people under names of its own."""
    root = tmp_path_factory.mktemp("exporting")
    subprocess.run(["git", "init", "--quiet", str(root / "repository")], check=True)
    everything = NODE_PACKAGES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    servers = {
        name: {"command": str(python_environment(f"mcp-server-{name}") / f"mcp-server-{name}")}
        for name in ("time", "git")
    } | {"everything": {"command": node, "args": [str(everything)]}}
    group = {
        "include": ["time/*", "git/git_status", "everything/echo", "everything/get-sum"],
        "naming": {"prefix": "desk_", "style": "snake", "rename": {"git_status": "changes"}},
        "exports": True,
    }
    config = {"mcpServers": {name: each | {"required": True} for name, each in servers.items()}}
    (root / "mcp_config.json").write_text(json.dumps(config | {"toolGroups": {"desk": group}}))
    (root / "agents").mkdir()
    with serving(root, tmp_path_factory.mktemp("exporting_scratch")) as server:
        yield server


def test_the_inspector_lists_tools_of_other_servers_under_the_names_that_their_group_gives(
    inspect: Inspect, exporting: Served
) -> None:
    listed = inspect(exporting, "http", "modern", "--method", "tools/list", "--strict")
    assert listed["exit"] == 0, listed["stderr"]
    names = [tool["name"] for tool in listed["result"]["tools"]]
    assert names == [
        "desk_changes",
        "desk_convert_time",
        "desk_echo",
        "desk_get_current_time",
        "desk_get_sum",
        "helloBanner",
        "process_result",
    ]


def test_the_inspector_calls_a_tool_of_another_server(inspect: Inspect, exporting: Served) -> None:
    arguments = json.dumps({"repo_path": str(exporting.workspace / "repository")})
    called = inspect(
        exporting,
        "http",
        "modern",
        "--method",
        "tools/call",
        "--tool-name",
        "desk_changes",
        "--tool-args-json",
        arguments,
    )
    assert "No commits yet" in text_of(called["result"])
