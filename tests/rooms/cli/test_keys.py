"""`goalport keys`: keys are made, listed, replaced and revoked, each shown once and never again."""

import json
import os
from pathlib import Path

import pytest

from goalport.server.auth.keys import hash_of, is_whole
from tests.rooms.cli.conftest import Command, Ran


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listed(goalport: Command) -> list[dict[str, object]]:
    ran = goalport("keys", "list", "--json")
    assert ran.code == 0
    return json.loads(ran.out)


def states(goalport: Command) -> list[tuple[object, object]]:
    return [(each["name"], each["state"]) for each in listed(goalport)]


def key_of(ran: Ran) -> str:
    assert ran.code == 0, ran.err
    return ran.out.splitlines()[0]


def test_a_new_key_is_alone_on_standard_output_and_the_rest_says_how_to_use_it(place: Path, goalport: Command) -> None:
    first, second = (
        goalport("keys", "new", "anna"),
        goalport("keys", "new", "bob", "--scopes", "x, y", "--expires", "90d"),
    )

    assert is_whole(first.out.strip())
    assert "goalport connect" in first.err
    assert "start it again" in first.err
    assert "start it again" not in second.err
    assert [(each["name"], each["scopes"], each["expires"] == "never") for each in listed(goalport)] == [
        ("anna", ["goals:read", "goals:write"], True),
        ("bob", ["x", "y"], False),
    ]
    written = "".join(each.read_text() for each in place.rglob("*") if each.is_file())
    assert hash_of(key_of(first)) in written
    assert key_of(first) not in written


def test_a_key_is_shown_also_where_the_user_has_no_name(
    place: Path, goalport: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 54_321)

    assert is_whole(key_of(goalport("keys", "new", "anna")))
    [entry] = [json.loads(each.read_text()) for each in place.rglob("audit.jsonl")]
    assert (entry["deed"], entry["caller"], entry["issuer"]) == ("key_created", "uid-54321", "os")


def test_an_entry_is_printed_in_place_of_written(place: Path, goalport: Command) -> None:
    key, entry = goalport("keys", "new", "anna", "--entry").out.splitlines()

    assert json.loads(entry)["sha256"] == hash_of(key)
    assert not list(place.rglob("keys.json"))


def test_a_key_is_revoked_by_its_id_and_all_of_a_name_by_that(place: Path, goalport: Command) -> None:
    for name in ("anna", "anna", "bob"):
        goalport("keys", "new", name)
    last = str(listed(goalport)[1]["id"])

    assert goalport("keys", "revoke", last).code == 0
    assert states(goalport) == [("anna", "valid"), ("anna", "revoked"), ("bob", "valid")]
    assert "No key is valid" not in goalport("keys", "revoke", "anna").err
    assert "No key is valid" in goalport("keys", "revoke", "bob").err
    assert {state for _, state in states(goalport)} == {"revoked"}
    assert "revoked before" in goalport("keys", "revoke", "bob").err


def test_a_key_is_replaced_by_one_with_its_scopes_that_lasts_as_long(place: Path, goalport: Command) -> None:
    goalport("keys", "new", "anna", "--scopes", "x", "--expires", "90d")
    before = listed(goalport)[0]

    key_of(goalport("keys", "rotate", "anna", "--overlap", "0s"))

    old, new = listed(goalport)
    assert (old["state"], new["state"], new["scopes"]) == ("expired", "valid", ["x"])
    assert str(new["expires"])[:10] == str(before["expires"])[:10]
    goalport("keys", "revoke", "anna")
    assert "goalport keys new anna" in goalport("keys", "rotate", "anna").err


def test_a_key_of_the_settings_that_a_revoked_name_keeps_is_told(
    place: Path, goalport: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    goalport("keys", "new", "anna")
    entry = goalport("keys", "new", "anna", "--entry").out.splitlines()[1]
    monkeypatch.setenv("GOALPORT_AUTH__KEY_ENTRIES", f"[{entry}]")

    assert "is still valid" in goalport("keys", "revoke", "anna").err
    assert "change it there" in goalport("keys", "revoke", json.loads(entry)["id"]).err


def test_keys_that_the_server_ignores_are_told(place: Path, goalport: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOALPORT_AUTH__KEYS", "false")

    assert "auth.keys is false" in goalport("keys", "new", "anna").err
    assert "auth.keys is false" in goalport("keys", "list").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new", "a b"], "The name should have 1 to 64 letters"),
        (["new", "key-0123abcd"], "should not look like the id of a key"),
        (["new", "anna", "--scopes", 'a"b'], "should be a scope"),
        (["new", "anna", "--scopes", " , "], "--scopes is empty"),
        (["new", "anna", "--expires", "soon"], "such as 30d"),
        (["revoke", "anna"], "Unknown key 'anna'"),
        (["rotate", "anna"], "Unknown key 'anna'"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(place: Path, goalport: Command, words: list[str], said: str) -> None:
    ran = goalport("keys", *words)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert not list(place.rglob("keys.json"))


def test_a_file_that_cannot_be_read_is_left_as_it_is(place: Path, goalport: Command) -> None:
    goalport("keys", "new", "anna")
    (file,) = place.rglob("keys.json")
    file.write_text("{}")

    for words in (("new", "bob"), ("list",), ("revoke", "anna")):
        ran = goalport("keys", *words)
        assert ran.code == 1
        assert "keys.json cannot be used" in ran.err
    assert file.read_text() == "{}"


def test_without_keys_it_is_said_where_none_are(place: Path, goalport: Command) -> None:
    assert str(place / ".goalport" / "keys.json") in goalport("keys", "list").err


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root writes for others")
def test_what_root_writes_belongs_to_the_user_as_whom_the_server_runs(place: Path, goalport: Command) -> None:
    server, group = 65533, 65532
    data = place / ".goalport"
    data.mkdir()
    os.chown(data, server, group)

    goalport("keys", "new", "anna")
    assert {(each.stat().st_uid, each.stat().st_gid) for each in data.rglob("*")} == {(server, group)}


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root gives files away")
def test_a_key_file_keeps_the_group_that_may_read_it(place: Path, goalport: Command) -> None:
    goalport("keys", "new", "anna")
    file = place / ".goalport" / "keys.json"
    os.chown(file, 0, 65532)
    file.chmod(0o640)

    goalport("keys", "new", "bob")
    assert (file.stat().st_uid, file.stat().st_gid, file.stat().st_mode & 0o777) == (0, 65532, 0o640)
