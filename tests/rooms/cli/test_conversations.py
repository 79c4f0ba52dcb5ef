"""`goalport conversations`: what is stored is listed, searched, shown, named, exported and deleted."""

import json
from pathlib import Path

import pytest

from tests.rooms.cli.conftest import Command, Ran
from tests.rooms.cli.test_chat import ECHO


@pytest.fixture
def place(goalport: Command, tmp_path: Path) -> Path:
    """A workspace with two conversations."""
    (tmp_path / "work" / "agents").mkdir(parents=True)
    (tmp_path / "work" / "agents" / "echo.py").write_text(ECHO)
    for name, said in (("first", "A damaged parcel"), ("second", "A refund")):
        at = ("--workspace", str(tmp_path / "work"))
        assert goalport("chat", "-c", name, "--new", "-m", said, *at).code == 0
    return tmp_path / "work"


def test_conversations_are_listed_and_searched_page_by_page(goalport: Command, place: Path) -> None:
    def conversations(*words: str) -> Ran:
        return goalport("conversations", *words, "--workspace", str(place))

    lines = conversations("list").out.splitlines()
    assert lines[0].split("\t")[:3] == ["conversation", "title", "chatbot"]
    assert [each.split("\t")[0] for each in lines[1:]] == ["second", "first"]
    page = conversations("list", "--limit", "1", "--chatbot", "Echo")
    assert page.out.splitlines()[1].startswith("second\t")
    assert "--after second goes on below" in page.err
    assert "first\t" in conversations("list", "--after", "second").out
    assert [each["conversation"] for each in json.loads(conversations("search", "PARCEL", "a", "--json").out)] == [
        "first"
    ]
    assert "No conversation has these words." in conversations("search", "parcel", "refund").err
    assert "No conversation is stored." in conversations("list", "--chatbot", "Nobody").err
    assert conversations("list", "--limit", "0").code == 2
    assert conversations("search", "").code == 2


def test_a_chatbot_between_two_messages_is_resting_and_not_stuck(goalport: Command, place: Path) -> None:
    at = ("--workspace", str(place))
    listed = json.loads(goalport("ps", "--json", *at).out)
    assert [each["status"] for each in listed] == ["resting"] * 2
    assert json.loads(goalport("ps", "--status", "resting", "--json", *at).out) == listed
    assert goalport("ps", "--status", "stuck", *at).out == ""
    assert goalport("show", listed[0]["process"], *at).out.startswith(f"{listed[0]['process']}: Echo, resting\n")


@pytest.mark.parametrize("command", [["list"], ["show", "trick"], ["export", "trick"], ["export", "trick", "--json"]])
def test_what_somebody_has_said_does_not_steer_the_terminal(
    goalport: Command, terminal: Command, place: Path, command: list[str]
) -> None:
    at = ("--workspace", str(place))
    assert goalport("chat", "-c", "trick", "--new", "-m", "A \x1b]0;parcel\x07 \x9b31mis lost", *at).code == 0
    drawn = terminal("conversations", *command, *at).out
    assert "lost" in drawn
    assert all(each not in drawn for each in ("\x1b]", "\x07", "\x9b"))


def test_a_conversation_is_shown_renamed_and_exported(goalport: Command, place: Path, tmp_path: Path) -> None:
    at = ("--workspace", str(place))
    assert "second is called: Money" in goalport("conversations", "rename", "second", "Money", *at).err
    shown = goalport("conversations", "show", "second", *at).out
    assert shown.startswith("# Money\n\nWith Echo, begun ")
    assert goalport("conversations", "export", "second", *at).out == shown.rstrip("\n") + "\n"
    for file in ("talk.md", "talk.json"):
        assert goalport("conversations", "export", "second", "--output", str(tmp_path / file), *at).code == 0
    assert (tmp_path / "talk.md").read_text().startswith("# Money\n")
    exported = json.loads((tmp_path / "talk.json").read_text())
    assert exported == json.loads(goalport("conversations", "export", "second", "--json", *at).out)
    assert [each["content"] for each in exported["messages"]] == ["A refund", "A refund"]


def test_conversations_are_deleted_once_somebody_has_said_yes(
    goalport: Command, terminal: Command, place: Path
) -> None:
    at = ("--workspace", str(place))
    unattended = goalport("conversations", "delete", "first", *at)
    assert (unattended.code, "Add --yes" in unattended.err) == (2, True)
    assert terminal("conversations", "delete", "first", *at, typed="n\n").code == 1
    unknown = goalport("conversations", "delete", "first", "nobody", "--yes", *at)
    assert (unknown.code, "Unknown conversation 'nobody'." in unknown.err) == (2, True)

    assert (
        "Delete first (A damaged parcel) with all messages"
        in terminal("conversations", "delete", "first", *at, typed="y\n").err
    )
    assert goalport("conversations", "delete", "second", "-y", *at).code == 0

    assert "No conversation is stored." in goalport("conversations", "list", *at).err
    assert goalport("ps", "--all", *at).out == ""
    assert goalport("conversations", "show", "first", *at).code == 2


def test_a_workspace_that_stores_nothing_says_so(
    goalport: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No conversation is stored." in goalport("conversations", "list", "--workspace", str(tmp_path)).err
    assert not [*tmp_path.rglob("*.db")]
    monkeypatch.setenv("GOALPORT_STORE", "memory")
    assert "Nothing is stored here" in goalport("conversations", "list", "--workspace", str(tmp_path)).err


def test_a_shell_whose_workspace_stores_nothing_has_its_own_conversations(
    goalport: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOALPORT_STORE", "memory")
    typed = "chat -c third --new -m 'A lost letter'\nconversations list\nconversations show third\n"

    ran = goalport("shell", "--workspace", str(place), stdin=typed)

    assert "third\t" in ran.out
    assert "first\t" not in ran.out
    assert "A lost letter" in ran.out
