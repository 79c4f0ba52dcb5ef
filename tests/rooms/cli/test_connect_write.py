"""`goalport connect CLIENT --write`: nothing that was in a file is ever lost."""

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.rooms.cli.conftest import Command, Ran

ENTRY = {"url": "http://127.0.0.1:8080/mcp"}


@pytest.fixture
def file(home: Path) -> Path:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    return path


def write(goalport: Command, *more: str) -> Ran:
    return goalport("connect", "cursor", "--write", "--yes", *more)


def test_a_file_that_is_not_there_is_made(goalport: Command, home: Path) -> None:
    ran = write(goalport)

    assert ran.code == 0
    assert json.loads((home / ".cursor" / "mcp.json").read_text()) == {"mcpServers": {"goalport": ENTRY}}


def test_the_rest_of_a_file_stays_and_the_old_one_is_kept(goalport: Command, file: Path) -> None:
    before = '{\n\t"theme": "dunkel – ✓",\n\t"mcpServers": {\n\t\t"other": {"command": "x"}\n\t}\n}\n'
    file.write_text(before, encoding="utf-8")

    ran = write(goalport)

    after = file.read_text(encoding="utf-8")
    assert json.loads(after) == {**json.loads(before), "mcpServers": {"other": {"command": "x"}, "goalport": ENTRY}}
    assert after.startswith('{\n\t"theme": "dunkel – ✓",\n')
    assert file.with_name("mcp.json.bak").read_text(encoding="utf-8") == before
    assert "mcp.json.bak" in ran.err


def test_what_changes_is_shown(goalport: Command, file: Path) -> None:
    file.write_text('{\n  "mcpServers": {}\n}\n')

    ran = write(goalport)

    assert '-  "mcpServers": {}\n' in ran.err
    assert '+    "goalport": {\n' in ran.err


def test_writing_twice_changes_nothing_the_second_time(goalport: Command, file: Path) -> None:
    write(goalport)
    first = file.stat()

    ran = write(goalport)

    assert ran.code == 0
    assert "nothing to do" in ran.err
    second = file.stat()
    assert (second.st_ino, second.st_mtime_ns, second.st_size) == (first.st_ino, first.st_mtime_ns, first.st_size)
    assert not file.with_name("mcp.json.bak").exists()


def test_a_replaced_entry_keeps_its_environment_and_loses_the_old_way_to_the_server(
    goalport: Command, file: Path
) -> None:
    old = {"command": "goalport", "args": ["serve"], "env": {"TOKEN": "t"}, "timeout": 90, "type": "stdio"}
    file.write_text(json.dumps({"mcpServers": {"goalport": old}}))

    write(goalport)

    assert json.loads(file.read_text())["mcpServers"]["goalport"] == {**ENTRY, "env": {"TOKEN": "t"}, "timeout": 90}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{\n  // my servers\n  "mcpServers": {}\n}', "line 2 column 3"),
        ('{"mcpServers": {},}', "trailing comma"),
        ('\ufeff{"mcpServers": {}}', "BOM"),
        ('{"mcpServers": {}, "mcpServers": {"a": {}}}', "a key is there twice: 'mcpServers'"),
        ('{"mcpServers": {}, "size": NaN}', "NaN is no JSON number"),
        ("[1, 2]", "the file was expected to hold names and values, not a list"),
        ('{"mcpServers": []}', "'mcpServers' was expected to hold names and values"),
        ('{"mcpServers": {"goalport": "x"}}', "'goalport' was expected to hold names and values"),
    ],
)
def test_a_file_that_a_rewrite_could_spoil_is_left_alone_and_the_snippet_is_printed(
    goalport: Command, file: Path, content: str, reason: str
) -> None:
    file.write_text(content)

    ran = write(goalport)

    assert ran.code == 1
    assert reason in ran.err
    assert "Add the entry by hand" in ran.err
    assert json.loads(ran.out) == {"mcpServers": {"goalport": ENTRY}}
    assert [each.name for each in file.parent.iterdir()] == ["mcp.json"]
    assert file.read_text() == content


CODEX = """\
model = "gpt"  # the cheap one

[mcp_servers.docs]  # mine
url = "https://docs.example.com/mcp"

[mcp_servers.goalport]
command = "old"  # the way there
args = ["serve"]
env = { TOKEN = "t" }  # secret

[profiles.fast]
when = 2026-01-01
"""


def test_a_toml_file_keeps_its_comments_and_entries(goalport: Command, home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(CODEX)

    assert goalport("connect", "codex", "--write", "--yes").code == 0

    after = path.read_text()
    expected = tomllib.loads(CODEX)
    expected["mcp_servers"]["goalport"] = {"env": {"TOKEN": "t"}, **ENTRY}
    assert tomllib.loads(after) == expected
    for comment in ("# the cheap one", "# mine", "# secret"):
        assert comment in after
    assert "nothing to do" in goalport("connect", "codex", "--write", "--yes").err


def test_a_yaml_file_is_left_alone_and_the_entry_is_printed_with_where_it_goes(goalport: Command, home: Path) -> None:
    path = home / ".config" / "goose" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("GOOSE_MODE: auto  # what I like\n")

    ran = goalport("connect", "goose", "--write", "--yes")

    assert ran.code == 1
    assert f"{path} is left as it is: it is YAML" in ran.err
    assert ran.out.startswith("extensions:\n  goalport:\n    enabled: true\n")
    assert [each.read_text() for each in path.parent.iterdir()] == ["GOOSE_MODE: auto  # what I like\n"]


@pytest.mark.parametrize(
    ("client", "place", "content", "reason"),
    [
        ("codex", ".codex/config.toml", "a = 1\na = 2\n", "already exists"),
        ("codex", ".codex/config.toml", "mcp_servers = 1\n", "'mcp_servers' was expected to hold names and values"),
    ],
)
def test_toml_that_cannot_be_rewritten_is_left_alone(
    goalport: Command, home: Path, client: str, place: str, content: str, reason: str
) -> None:
    path = home / place
    path.parent.mkdir(parents=True)
    path.write_text(content)

    ran = goalport("connect", client, "--write", "--yes")

    assert ran.code == 1
    assert reason in ran.err
    assert "127.0.0.1:8080" in ran.out
    assert path.read_text() == content


def test_a_new_toml_file_is_made(goalport: Command, home: Path) -> None:
    assert goalport("connect", "codex", "--write", "--yes").code == 0

    assert (home / ".codex/config.toml").read_text() == f'[mcp_servers.goalport]\nurl = "{ENTRY["url"]}"\n'


def test_text_that_is_not_utf_8_is_left_alone(goalport: Command, file: Path) -> None:
    file.write_bytes(b'{"a": "\xff"}')

    ran = write(goalport)

    assert ran.code == 1
    assert "can't decode byte" in ran.err
    assert file.read_bytes() == b'{"a": "\xff"}'


def test_an_empty_file_is_filled(goalport: Command, file: Path) -> None:
    file.write_text("\n")

    assert write(goalport).code == 0
    assert json.loads(file.read_text()) == {"mcpServers": {"goalport": ENTRY}}


def test_a_file_that_others_may_not_read_stays_closed_and_so_does_its_copy(goalport: Command, file: Path) -> None:
    file.write_text("{}")
    file.chmod(0o600)

    write(goalport)

    for path in (file, file.with_name("mcp.json.bak")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_written_through(goalport: Command, file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    file.symlink_to(real)

    write(goalport)

    assert file.is_symlink()
    assert json.loads(real.read_text()) == {"mcpServers": {"goalport": ENTRY}}


def test_without_anybody_to_ask_nothing_is_written(goalport: Command, file: Path) -> None:
    file.write_text("{}")

    ran = goalport("connect", "cursor", "--write")

    assert ran.code == 2
    assert "add --yes" in ran.err
    assert file.read_text() == "{}"


def test_projects_are_connected_in_their_own_folder(goalport: Command, workspace: Path) -> None:
    ran = goalport("connect", "vscode", "--write", "--yes", "--workspace", str(workspace))

    content: dict[str, Any] = json.loads((workspace / ".vscode" / "mcp.json").read_text())
    assert ran.code == 0
    assert content == {"servers": {"my-agents": {"type": "http", **ENTRY}}}
