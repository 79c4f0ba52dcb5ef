"""`goalport backup`: a whole copy of the data folder, made while another program writes."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.rooms.cli.conftest import Command


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "kept"
    monkeypatch.setenv("GOALPORT_DATA_DIR", str(folder))
    (folder / "audit").mkdir(parents=True)
    (folder / "audit" / "2026.jsonl").write_text("{}\n")
    (folder / "state.key").write_bytes(b"secret")
    with closing(sqlite3.connect(folder / "processes.db", isolation_level=None)) as database:
        database.execute("pragma journal_mode = wal")
        database.execute("create table numbers (number integer)")
    return folder


def test_all_is_copied_while_another_program_writes_without_a_pause(
    data: Path, tmp_path: Path, goalport: Command
) -> None:
    enough, written = threading.Event(), threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(data / "processes.db", timeout=60, isolation_level=None)) as database:
            number = 0
            while not enough.is_set():
                number += 1
                database.execute("begin immediate")
                database.executemany("insert into numbers values (?)", [[number]] * 10)
                database.execute("commit")
                if number > 10:
                    written.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(60)
        ran = goalport("backup", "copies/monday")
    finally:
        enough.set()
        writer.join()
    assert ran.code == 0, ran.err
    copy = tmp_path / "copies/monday"
    files = {str(each.relative_to(copy)): each for each in copy.rglob("*") if each.is_file()}
    assert set(files) == {"processes.db", "state.key", "audit/2026.jsonl"}
    assert {each.stat().st_mode & 0o777 for each in files.values()} == {0o600}
    assert copy.stat().st_mode & 0o777 == 0o700
    assert files["state.key"].read_bytes() == b"secret"
    with closing(sqlite3.connect(files["processes.db"])) as database:
        found = database.execute("select number, count(*) from numbers group by number").fetchall()
    assert len(found) >= 10
    assert {count for _, count in found} == {10}, "each transaction is there as a whole or not at all"


def test_a_link_is_not_followed_and_that_is_said(data: Path, tmp_path: Path, goalport: Command) -> None:
    (tmp_path / "elsewhere").mkdir()
    (data / "documents").symlink_to(tmp_path / "elsewhere")
    ran = goalport("backup", "copy")
    assert (ran.code, (tmp_path / "copy/documents").exists()) == (0, False)
    assert f"The link {data / 'documents'} was left out." in ran.err


def test_nothing_is_overwritten_and_what_cannot_be_copied_is_said(
    data: Path, tmp_path: Path, goalport: Command
) -> None:
    (tmp_path / "there").mkdir()
    assert "is there already. Name another folder." in goalport("backup", "there").err
    inside = goalport("backup", str(data / "copy"))
    assert (inside.code, "is inside of" in inside.err) == (2, True)
    (data / "documents.db").write_bytes(b"SQLite format 3\0 and nonsense" * 100)
    damaged = goalport("backup", "copy")
    assert damaged.code == 1
    assert "documents.db" in damaged.err
    assert "cannot be copied" in damaged.err
    assert not [*tmp_path.glob("copy*")]
    (data / "documents.db").unlink()
    assert goalport("backup", "copy").code == 0


def test_a_workspace_with_postgresql_is_told_what_else_to_copy(
    data: Path, goalport: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOALPORT_STORE", "postgresql://127.0.0.1/goalport")
    assert "pg_dump --schema='goalport*' copies that" in goalport("backup", "copy").err


def test_without_a_data_folder_there_is_nothing_to_copy(
    tmp_path: Path, goalport: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = goalport("backup", "copy")
    assert (ran.code, "There is nothing in" in ran.err) == (2, True)
