"""The files of other hosts: taken as they are, with the keys that the hosts use for the same thing."""

from pathlib import Path

import pytest

from goalport.tools.upstream import ServerConfig
from tests.rooms.upstream.test_config_file import entry, read, wrong

CLAUDE_DESKTOP = """{
  "mcpServers": {"fetch": {"command": "uvx", "args": ["mcp-server-fetch"], "env": {"A": "b"}}},
  "globalShortcut": "Ctrl+Space", "preferences": {"sidebarMode": "chat"}
}"""
CLAUDE_CODE = """{"mcpServers": {
  "fetch": {"type": "stdio", "command": "uvx", "args": ["mcp-server-fetch"], "env": {"A": "b"}, "alwaysLoad": true}
}}"""
CURSOR = """{"mcpServers": {
  "fetch": {"command": "uvx", "args": ["mcp-server-fetch"], "env": {"A": "b"}, "autoApprove": [], "disabled": false}
}}"""
VS_CODE = """{
  // Comments are fine, and so are trailing commas.
  "inputs": [{"type": "promptString", "id": "key", "description": "API key", "password": true},],
  "servers": {
    "fetch": {"type": "stdio", "command": "uvx", "args": ["mcp-server-fetch",], "env": {"A": "b"}, /* "url": 1 */},
  },
}"""
BARE = """{"fetch": {"command": ["uvx", "mcp-server-fetch"], "env": {"A": "b"}}}"""


@pytest.mark.parametrize("text", [CLAUDE_DESKTOP, CLAUDE_CODE, CURSOR, VS_CODE, BARE, f"\ufeff{CLAUDE_DESKTOP}"])
def test_the_file_of_every_host_is_taken_as_it_is(tmp_path: Path, text: str) -> None:
    config = read(tmp_path, text)

    assert config.problems == ()
    assert config.servers == {
        "fetch": ServerConfig("fetch", "stdio", command="uvx", args=("mcp-server-fetch",), env={"A": "b"}, cwd=tmp_path)
    }


def test_a_key_that_means_something_to_other_hosts_alone_is_not_offered(tmp_path: Path) -> None:
    (message,) = wrong(tmp_path, command="it", tool_call_timeouts=3)
    assert "toolCallTimeout" not in message


def test_a_server_whose_entry_may_say_that_it_is_not_enabled_is_not_used(tmp_path: Path) -> None:
    config = read(tmp_path, '{"mcpServers": {"a": {"command": "it", "enabled": "false"}}}')
    assert [each.message for each in config.problems] == ["enabled should be true or false. It counts as false."]
    assert config.servers["a"].disabled
    assert not entry(tmp_path, command="it", enabled=True).disabled


@pytest.mark.parametrize("key", ["enabledTools", "includeTools", "tools"])
def test_an_empty_list_of_tools_means_none(tmp_path: Path, key: str) -> None:
    assert entry(tmp_path, command="it", **{key: list[str]()}).disabled_tools == ("*",)


@pytest.mark.parametrize("key", ["cwd", "workingDirectory", "working_directory"])
def test_the_folder_of_a_process_is_read_from_the_keys_of_several_hosts(tmp_path: Path, key: str) -> None:
    (tmp_path / "inner").mkdir()
    assert entry(tmp_path, command="it", **{key: "inner"}).cwd == tmp_path / "inner"


def test_spaces_around_an_address_do_not_count(tmp_path: Path) -> None:
    assert entry(tmp_path, url=" https://it.example/mcp ").url == "https://it.example/mcp"
