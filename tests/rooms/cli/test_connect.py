import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from goalport.cli.connect import CLIENTS, Machine, Scope
from tests.rooms.cli.conftest import PROGRAM, Command

SHIPPED = Path(__file__).parents[3] / "server" / "clients"
URL = "http://127.0.0.1:8080/mcp"
YAML_READER: Any = YAML(typ="safe", pure=True)
READERS: Mapping[str, Callable[[str], Any]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": YAML_READER.load,
}


def entry_in(client: str, printed: str) -> dict[str, Any]:
    """The one entry of what was printed, read as the client reads it."""
    known = CLIENTS[client]
    if known.variable:
        (entry,) = json.loads(printed.strip().removeprefix(f"{known.variable}='").removesuffix("'"))
        return entry
    content: Any = READERS[known.format](printed)
    for key in known.section:
        assert list(content) == [key]
        content = content[key]
    (entry,) = content.values()
    return entry


@pytest.mark.parametrize("client", CLIENTS)
def test_the_snippet_alone_is_on_standard_output_and_its_place_on_standard_error(
    goalport: Command, client: str
) -> None:
    ran = goalport("connect", client)

    assert ran.code == 0
    assert entry_in(client, ran.out)
    assert ("It goes into " in ran.err) == bool(CLIENTS[client].files)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_shipped_configurations_are_what_connect_prints(goalport: Command, client: str, tmp_path: Path) -> None:
    printed = goalport("connect", client, "--transport", "http", "--workspace", str(tmp_path)).out

    (shipped,) = SHIPPED.glob(f"{client}.*")
    assert shipped.read_text() == printed


@pytest.mark.parametrize(
    ("client", "entry"),
    [
        ("claude-desktop", {"command": "npx", "args": ["-y", "mcp-remote", URL]}),
        ("claude-code", {"type": "http", "url": URL}),
        ("cursor", {"url": URL}),
        ("vscode", {"type": "http", "url": URL}),
        ("inspector", {"type": "streamable-http", "url": URL}),
        ("mcpo", {"type": "streamable-http", "url": URL}),
        ("codex", {"url": URL}),
        ("gemini", {"httpUrl": URL}),
        ("qwen", {"httpUrl": URL}),
        ("opencode", {"type": "remote", "url": URL, "enabled": True}),
        ("copilot", {"type": "http", "url": URL, "tools": ["*"]}),
        ("fast-agent", {"transport": "http", "url": URL}),
        ("zed", {"url": URL}),
        ("windsurf", {"serverUrl": URL}),
        ("lm-studio", {"url": URL}),
        ("goose", {"enabled": True, "type": "streamable_http", "uri": URL, "name": "goalport", "timeout": 300}),
        (
            "open-webui",
            {
                "url": URL,
                "type": "mcp",
                "auth_type": "none",
                "config": {"enable": True},
                "info": {"id": "goalport", "name": "goalport"},
            },
        ),
    ],
)
def test_each_client_gets_a_server_that_runs_in_its_own_words(
    goalport: Command, client: str, entry: dict[str, Any]
) -> None:
    assert entry_in(client, goalport("connect", client, "--transport", "http").out) == entry


@pytest.mark.parametrize("client", [name for name in CLIENTS if "stdio" in CLIENTS[name].transports])
def test_over_stdio_each_client_gets_the_whole_path_of_the_program(
    goalport: Command, client: str, tmp_path: Path
) -> None:
    printed = goalport("connect", client, "--transport", "stdio", "--workspace", str(tmp_path)).out
    entry = entry_in(client, printed)

    program: Any = entry.get("command", entry.get("cmd"))
    words: list[object] = [program, *entry["args"]] if isinstance(program, str) else program
    assert words == [str(PROGRAM), "serve", "--workspace", str(tmp_path), "--transport", "stdio"]


def test_a_client_that_starts_its_server_waits_for_it(goalport: Command) -> None:
    assert entry_in("codex", goalport("connect", "codex", "--transport", "stdio").out)["required"] is True


def test_mcpo_is_told_to_listen_here_to_one_page_and_with_a_key_of_its_own(goalport: Command) -> None:
    first, second = (goalport("connect", "mcpo").err for _ in range(2))

    assert "mcpo@0.0.20 --host 127.0.0.1 --port 8000 --cors-allow-origins http://localhost:3000 --api-key " in first
    assert first != second


def test_a_client_without_a_file_gets_a_variable_and_cannot_be_written(goalport: Command) -> None:
    ran = goalport("connect", "open-webui", "--write", "--yes")

    assert ran.code == 2
    assert ran.out.startswith("TOOL_SERVER_CONNECTIONS='[{")
    assert "has no file to write" in ran.err
    assert "--allowed-host host.docker.internal" in ran.err


def test_an_sse_address_is_called_sse(goalport: Command) -> None:
    printed = json.loads(goalport("connect", "vscode", "--url", "https://agents.example.com/sse").out)

    assert printed["servers"]["goalport"] == {"type": "sse", "url": "https://agents.example.com/sse"}


def test_a_bridge_is_told_that_plain_http_to_another_machine_is_meant(goalport: Command) -> None:
    printed = json.loads(goalport("connect", "claude-desktop", "--url", "http://agents.internal:8080/mcp").out)

    assert printed["mcpServers"]["goalport"]["args"][-1] == "--allow-http"


def test_an_address_without_a_path_means_the_mcp_endpoint(goalport: Command) -> None:
    printed = json.loads(goalport("connect", "cursor", "--url", "https://agents.example.com").out)

    assert printed["mcpServers"]["goalport"]["url"] == "https://agents.example.com/mcp"


def test_the_name_and_the_port_come_from_the_settings(goalport: Command, workspace: Path) -> None:
    (workspace / "server" / "settings.toml").write_text('name = "house"\nhost = "0.0.0.0"\nport = 9123\n')

    printed = json.loads(goalport("connect", "cursor", "--workspace", str(workspace)).out)

    assert printed == {"mcpServers": {"house": {"url": "http://127.0.0.1:9123/mcp"}}}


@pytest.mark.parametrize(
    ("system", "client", "scope", "path"),
    [
        ("linux", "claude-desktop", "user", "/home/ada/.config/Claude/claude_desktop_config.json"),
        ("darwin", "claude-desktop", "user", "/home/ada/Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "claude-desktop", "user", "/home/ada/AppData/Roaming/Claude/claude_desktop_config.json"),
        ("linux", "vscode", "user", "/home/ada/.config/Code/User/mcp.json"),
        ("darwin", "vscode", "user", "/home/ada/Library/Application Support/Code/User/mcp.json"),
        ("win32", "vscode", "project", "/project/.vscode/mcp.json"),
        ("darwin", "cursor", "user", "/home/ada/.cursor/mcp.json"),
        ("linux", "cursor", "project", "/project/.cursor/mcp.json"),
        ("linux", "claude-code", "project", "/project/.mcp.json"),
        ("darwin", "codex", "user", "/home/ada/.codex/config.toml"),
        ("linux", "gemini", "user", "/home/ada/.gemini/settings.json"),
        ("linux", "qwen", "project", "/project/.qwen/settings.json"),
        ("darwin", "opencode", "user", "/home/ada/.config/opencode/opencode.json"),
        ("linux", "copilot", "user", "/home/ada/.copilot/mcp-config.json"),
        ("linux", "fast-agent", "project", "/project/fastagent.config.yaml"),
        ("darwin", "zed", "user", "/home/ada/.config/zed/settings.json"),
        ("win32", "zed", "user", "/home/ada/AppData/Roaming/Zed/settings.json"),
        ("linux", "windsurf", "user", "/home/ada/.codeium/windsurf/mcp_config.json"),
        ("linux", "lm-studio", "user", "/home/ada/.lmstudio/mcp.json"),
        ("darwin", "goose", "user", "/home/ada/.config/goose/config.yaml"),
        ("win32", "goose", "user", "/home/ada/AppData/Roaming/Block/goose/config/config.yaml"),
    ],
)
def test_files_are_where_each_system_keeps_them(system: str, client: str, scope: Scope, path: str) -> None:
    machine = Machine(system, Path("/home/ada"), {}, Path("/project"))

    assert CLIENTS[client].file(scope, machine) == Path(path)


def test_windows_and_linux_say_themselves_where_programs_keep_their_files() -> None:
    windows = Machine("win32", Path("/home/ada"), {"APPDATA": "/roaming"}, Path("/project"))
    linux = Machine("linux", Path("/home/ada"), {"XDG_CONFIG_HOME": "/xdg"}, Path("/project"))

    client = CLIENTS["claude-desktop"]

    assert client.file("user", windows) == Path("/roaming/Claude/claude_desktop_config.json")
    assert client.file("user", linux) == Path("/xdg/Claude/claude_desktop_config.json")


def test_without_a_client_the_clients_and_their_files_are_listed(goalport: Command, home: Path) -> None:
    ran = goalport("connect")

    assert ran.code == 0
    for client in CLIENTS:
        assert client in ran.out
    assert str(home / ".cursor" / "mcp.json") in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["curser"], "error: Unknown client 'curser'. Did you mean 'cursor'?"),
        (["cursor", "--url", "agents.example.com"], "expected to look like http://127.0.0.1:8080/mcp"),
        (["cursor", "--url", "https://a/mcp", "--transport", "stdio"], "--url goes with --transport http"),
        (["claude-desktop", "--scope", "project"], "Claude Desktop is connected per user; leave out --scope project"),
    ],
)
def test_what_cannot_be_connected_is_said_in_one_line(goalport: Command, arguments: list[str], message: str) -> None:
    ran = goalport("connect", *arguments)

    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(("answer", "code", "written"), [("n", 1, 0), ("", 1, 0), ("y", 0, 1)])
def test_writing_asks_first_and_only_yes_means_yes(
    terminal: Command, home: Path, answer: str, code: int, written: int
) -> None:
    ran = terminal("connect", "cursor", "--write", typed=f"{answer}\n", cwd=home)

    assert "[y/N]" in ran.err
    assert (ran.code, len(list(home.rglob("mcp.json")))) == (code, written)
