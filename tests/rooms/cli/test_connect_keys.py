"""`goalport connect CLIENT --key KEY`: each client gets the key in the way that keeps it best."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from goalport.cli.connect import CLIENTS
from tests.rooms.cli.conftest import Command
from tests.rooms.cli.test_connect import entry_in

KEY = "gp_0123456789abcdef0123456789abcdef04BzQT"
BEARER = {"Authorization": f"Bearer {KEY}"}
IN_A_PROJECT = {
    "claude-code": "${GOALPORT_KEY}",
    "cursor": "${env:GOALPORT_KEY}",
    "gemini": "${GOALPORT_KEY}",
    "qwen": "${GOALPORT_KEY}",
    "opencode": "{env:GOALPORT_KEY}",
    "fast-agent": "${GOALPORT_KEY}",
}
"""How the file of a project names the variable."""


@pytest.mark.parametrize(
    "client", ["cursor", "gemini", "qwen", "opencode", "copilot", "zed", "windsurf", "lm-studio", "goose"]
)
def test_the_file_in_the_home_of_a_user_holds_the_key(goalport: Command, client: str) -> None:
    ran = goalport("connect", client, "--key", KEY)

    assert (ran.code, entry_in(client, ran.out)["headers"]) == (0, BEARER)
    assert "GOALPORT_KEY" not in ran.err


@pytest.mark.parametrize("client", IN_A_PROJECT)
def test_the_file_of_a_project_names_a_variable_and_the_user_is_told_to_set_it(goalport: Command, client: str) -> None:
    ran = goalport("connect", client, "--scope", "project", "--key", KEY)

    assert entry_in(client, ran.out)["headers"] == {"Authorization": f"Bearer {IN_A_PROJECT[client]}"}
    assert KEY not in ran.out + ran.err
    assert "export GOALPORT_KEY=" in ran.err


def test_codex_reads_the_key_from_the_environment(goalport: Command) -> None:
    ran = goalport("connect", "codex", "--key", KEY)

    assert entry_in("codex", ran.out)["bearer_token_env_var"] == "GOALPORT_KEY"
    assert KEY not in ran.out + ran.err


def test_a_host_that_only_starts_programs_gets_a_bridge_and_no_key_in_its_arguments(goalport: Command) -> None:
    entry = entry_in("claude-desktop", goalport("connect", "claude-desktop", "--key", KEY).out)

    assert entry["args"][2:] == ["http://127.0.0.1:8080/mcp", "--header", "Authorization:${GOALPORT_AUTHORIZATION}"]
    assert entry["env"] == {"GOALPORT_AUTHORIZATION": f"Bearer {KEY}"}


def test_open_webui_gets_it_as_its_own_setting(goalport: Command) -> None:
    entry = entry_in("open-webui", goalport("connect", "open-webui", "--key", KEY).out)

    assert (entry["auth_type"], entry["key"]) == ("bearer", KEY)


@pytest.mark.parametrize("scope", ["project", "user"])
def test_vscode_asks_for_the_key_and_other_inputs_stay(
    goalport: Command, workspace: Path, home: Path, scope: str
) -> None:
    place = workspace / ".vscode" / "mcp.json" if scope == "project" else home / ".config/Code/User/mcp.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"inputs": [{"type": "promptString", "id": "other"}], "servers": {"a": {"url": "b"}}}))
    command = ("connect", "vscode", "--scope", scope, "--workspace", str(workspace), "--key", KEY, "--write", "--yes")

    assert goalport(*command).code == 0

    written: Any = json.loads(place.read_text())
    assert [each["id"] for each in written["inputs"]] == ["other", "goalport-key"]
    assert written["inputs"][1]["password"] is True
    assert written["servers"].pop("my-agents")["headers"] == {"Authorization": "Bearer ${input:goalport-key}"}
    assert written["servers"] == {"a": {"url": "b"}}
    assert KEY not in place.read_text()
    assert "nothing to do" in goalport(*command).err


def test_a_written_key_replaces_the_earlier_one_beside_other_headers_and_only_its_owner_reads_it(
    goalport: Command, home: Path
) -> None:
    place = home / ".cursor" / "mcp.json"
    place.parent.mkdir()
    had = {"url": "http://old.example", "headers": {"Authorization": "Bearer old", "X-Team": "a"}}
    place.write_text(json.dumps({"mcpServers": {"goalport": had}}))
    place.chmod(0o644)

    ran = goalport("connect", "cursor", "--key", KEY, "--write", "--yes")

    assert ran.code == 0
    assert "Bearer ***" in ran.err
    assert KEY not in ran.out + ran.err
    assert json.loads(place.read_text())["mcpServers"]["goalport"]["headers"] == {**BEARER, "X-Team": "a"}
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


@pytest.mark.parametrize("client", ["inspector", "mcpo", "zed"])
def test_a_key_in_a_repository_is_warned_of(goalport: Command, client: str, tmp_path: Path) -> None:
    command = ("connect", client, "--scope", "project", "--workspace", str(tmp_path), "--key", KEY)
    assert "git repository" not in goalport(*command).err

    (tmp_path / ".git").mkdir()

    assert "git repository" in goalport(*command).err


def test_the_key_can_come_from_standard_input_or_the_environment(
    goalport: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert entry_in("cursor", goalport("connect", "cursor", "--key", "-", stdin=f"{KEY}\n").out)["headers"] == BEARER

    monkeypatch.setenv("GOALPORT_KEY", KEY)

    assert entry_in("cursor", goalport("connect", "cursor").out)["headers"] == BEARER
    assert "headers" not in entry_in("cursor", goalport("connect", "cursor", "--transport", "stdio").out)


@pytest.mark.parametrize(
    ("key", "said"), [(KEY[:-1], "mistyped or cut off"), ("a b", "copied whole"), ("", "empty"), ("-", "empty")]
)
def test_what_is_no_key_is_refused(goalport: Command, key: str, said: str) -> None:
    ran = goalport("connect", "cursor", "--key", key)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_over_stdio_the_client_needs_no_key(goalport: Command) -> None:
    assert "leave --key out" in goalport("connect", "cursor", "--transport", "stdio", "--key", KEY).err


def test_a_key_on_an_address_without_encryption_is_warned_of(goalport: Command) -> None:
    def said(url: str) -> str:
        return goalport("connect", "cursor", "--url", url, "--key", KEY).err

    assert "without encryption" in said("http://agents.internal:8080")
    assert "without encryption" not in said("https://agents.internal") + said("http://127.0.0.1:8080")


def test_a_server_that_asks_for_keys_says_that_one_is_missing(goalport: Command, tmp_path: Path) -> None:
    assert "--key" not in goalport("connect", "cursor", "--workspace", str(tmp_path)).err

    goalport("keys", "new", "anna", "--workspace", str(tmp_path))

    assert "add --key KEY" in goalport("connect", "cursor", "--workspace", str(tmp_path)).err


def test_every_client_that_takes_an_address_can_be_given_a_key(goalport: Command) -> None:
    for name in CLIENTS:
        printed = goalport("connect", name, "--key", KEY).out
        assert KEY in printed or "GOALPORT_KEY" in printed or "goalport-key" in printed, name
