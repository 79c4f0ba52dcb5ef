"""The file of a SQLite store: its schema, who may read it, and what is said when something is wrong with it."""

import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from goalport.base.errors import StoreError
from goalport.store import JournalRecord, Lease, ObjectRecord, QuestionRecord
from goalport.store.sqlite import SqliteProcessStore
from goalport.store.sqlite_file import DatabaseFile
from goalport.store.tables import LATEST_VERSION, MIGRATIONS
from tests.rooms.store.programs import START, known, objects, process, record, reported, save

# The schema.


async def test_a_new_file_has_taken_each_step(store: SqliteProcessStore, file: Path) -> None:
    await save(store, process("one"))
    with closing(sqlite3.connect(file)) as connection:
        versions = connection.execute("select version from schema_version").fetchall()
    assert versions == [(each,) for each in range(1, LATEST_VERSION + 1)]


async def test_the_path_of_a_file_may_be_a_text(file: Path) -> None:
    async with SqliteProcessStore(str(file)) as store:
        await save(store, process("one"))
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("select id from process").fetchall() == [("one",)]


FIRST_VERSION_ROWS = """
    insert into schema_version values (1, 0);
    insert into process values
        (1, 'ended', 'ended', '', 'Writer', 'ann', 'house', '["read","write"]', 'completed', 1, 1, 0, 9, 0, 1, 0,
         3, null, 0, null, null, '{"agent":"Writer"}', 'null'),
        (2, 'one', 'one', '', 'Writer', 'ann', 'house', '["read","write"]', 'waiting', 0, 0, 1767225600000000, null, 0,
         1, null,
         2, null, 0, null, null, '{"agent":"Writer"}', '[1,2.5,null]'),
        (3, 'child', 'one', 'one', 'Writer', 'ann', 'house', '[]', 'completed', 1, 1, 0, 9, 0, 1, null,
         2, null, 0, null, null, '1', '2');
    insert into object values (1, 0, null, '"old"'), (2, 0, '"list[str]"', '"draft"');
    insert into history values (2, 0, '"drafted"');
    insert into spending values (2, 0, '0.1');
    insert into question values (2, 0, 'q', 'A.ask', 'open', 1, 1767225600000000, '"?"', 'null', '""');
    insert into journal values (2, 0, 'A.ask', 'reply', 'step', '"Oslo"');
"""


async def test_a_file_of_the_first_version_is_read_and_goes_on(file: Path) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        for each in MIGRATIONS[0]:
            connection.execute(each.format(numbered="INTEGER PRIMARY KEY"))
        connection.executescript(FIRST_VERSION_ROWS)
    async with SqliteProcessStore(file) as store:
        assert tables_in(file) == await tables_of_a_new_file(file.parent)
        (one, child), version = await store.family("child")
        known = record("one", status="waiting")._replace(seconds_run=0)
        assert (one.process, child.process.id, version) == (known, "child", 2)
        assert one.process.caller.claims == {}
        assert (one.objects, one.history) == ([ObjectRecord(0, "draft", "list[str]")], ["drafted"])
        assert (one.spendings, one.journal) == ([0.1], [JournalRecord(0, "A.ask", "reply", "step", "Oslo")])
        assert one.questions == [QuestionRecord(0, "q", "A.ask", "?", in_action=True, asked_at=START, status="open")]
        assert await objects(store, "ended") == ["old"]
        (lease,) = await store.due(9)
        assert lease == Lease("one", 1, 2)
        await store.save([process("one", "new", first=1)], lease, wake_at=None, release=True)
        (one, _), version = await store.family("one")
        assert ([each.value for each in one.objects], version) == (["draft", "new"], 3)


SECOND_VERSION_ROWS = """
    insert into schema_version values (1, 0), (2, 0);
    insert into process values
        (1, 'one', 'one', '', 'Writer', 'ann', 'house', '["read","write"]', 'waiting', 0, 0, 1767225600000000, null, 0,
         1, null,
         2, null, 0, 0, '{"agent":"Writer"}', '[1,2.5,null]', 1500000);
"""


async def test_in_a_file_of_the_second_version_callers_have_no_claims_until_it_is_written(file: Path) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        for each in (*MIGRATIONS[0], *MIGRATIONS[1]):
            connection.execute(each.format(numbered="INTEGER PRIMARY KEY", counted="INTEGER PRIMARY KEY AUTOINCREMENT"))
        connection.executescript(SECOND_VERSION_ROWS)
    async with SqliteProcessStore(file) as store:
        assert tables_in(file) == await tables_of_a_new_file(file.parent)
        (one,), version = await store.family("one")
        assert (one.process, one.process.caller.claims, version) == (record("one", status="waiting"), {}, 2)
        (lease,) = await store.due(9)
        await store.save([process("one", status="waiting")], lease, wake_at=None, release=True)
        (one,), _ = await store.family("one")
        assert one.process.caller.claims == {"tenant": "acme", "groups": ["a", "b"]}


async def tables_of_a_new_file(folder: Path) -> object:
    async with SqliteProcessStore(folder / "new.db"):
        return tables_in(folder / "new.db")


def tables_in(file: Path) -> object:
    """The tables of a file with their columns, and its indexes."""
    with closing(sqlite3.connect(file)) as connection:
        schema = "select name, sql from sqlite_master where type = ? order by name"
        tables = [name for name, _ in connection.execute(schema, ("table",)).fetchall()]
        columns = {each: connection.execute(f"pragma table_info({each})").fetchall() for each in tables}
        return columns, connection.execute(schema, ("index",)).fetchall()


async def test_a_newer_schema_is_refused_even_when_it_comes_while_the_file_is_open(
    store: SqliteProcessStore, file: Path
) -> None:
    await save(store, process("one"))
    with closing(sqlite3.connect(file)) as newer, newer:
        newer.execute("insert into schema_version values (99, 0)")
    expected = f"changed it to schema 99, and this one knows {LATEST_VERSION} at most. Install that goalport again"
    with pytest.raises(StoreError, match=expected):
        await save(store, process("two"))
    other = SqliteProcessStore(file)
    with pytest.raises(StoreError, match=expected):
        await other.records()
    await other.close()


# What can go wrong with a file.


async def test_folder_and_file_are_for_the_user_alone(file: Path) -> None:
    deep = file.parent / "deeper" / "store.db"
    async with SqliteProcessStore(deep) as store:
        await save(store, process("one"))
        modes = {each: stat.S_IMODE(each.stat().st_mode) for each in [file.parent, *file.parent.rglob("*")]}
    assert {modes.pop(file.parent), modes.pop(deep.parent)} == {0o700}
    assert set(modes.values()) == {0o600}
    assert [each.name for each in deep.parent.iterdir()] == ["store.db"]


async def test_a_file_that_is_no_database_of_ours_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    text, foreign = tmp_path / "text", tmp_path / "foreign"
    text.write_text("Dear diary, " * 100)
    with closing(sqlite3.connect(foreign)) as connection, connection:
        connection.execute("create table diary (entry text)")
    before = [each.read_bytes() for each in (text, foreign)]
    for path, problem in [
        (text, "It is no SQLite database. Name another file"),
        (foreign, "It is a database of another program. Name another file."),
        (tmp_path, "It is no file."),
        (text / "store.db", "Not a directory."),
    ]:
        store = SqliteProcessStore(path)
        with pytest.raises(StoreError, match=problem) as raised:
            await save(store, process("one"))
        assert str(path) in str(raised.value)
        with pytest.raises(StoreError, match=problem):
            await store.records()
        await store.close()
    assert [each.read_bytes() for each in (text, foreign)] == before


def test_a_file_system_that_shares_no_memory_is_refused(file: Path) -> None:
    with pytest.raises(StoreError, match=r"as network file systems do not. Put it on a disk of this machine"):
        DatabaseFile(file, "full", 1.0, "&vfs=unix-none").for_writing()


@contextmanager
def empty_file(file: Path) -> Generator[None]:
    """Another file is at the place for a while."""
    file.parent.mkdir()
    file.touch()
    yield
    shutil.rmtree(file.parent)


async def test_a_folder_that_vanishes_is_not_made_again(store: SqliteProcessStore, file: Path) -> None:
    await save(store, process("one"))
    folder = file.parent
    away = folder.rename(folder.with_name("away"))
    with pytest.raises(StoreError, match="It is no longer there"):
        await save(store, process("two"))
    with pytest.raises(StoreError, match="It is no longer there"):
        await store.records()
    with empty_file(file):
        with pytest.raises(StoreError, match="It is no longer there"):
            await save(store, process("two"))
        with pytest.raises(StoreError, match="It is no longer there"):
            await store.records()
    away.rename(folder)
    await save(store, process("two"))
    assert await known(store) == ["one", "two"]


def test_a_file_that_may_not_grow_keeps_what_it_has(file: Path) -> None:
    found = reported("with_too_little_room", file)
    assert "The system cannot read or write it" in found["error"]
    assert (found["known"], found["afterwards"]) == (["before"], ["before", "large"])


MOUNTS = (
    sys.platform == "linux"
    and subprocess.run(["unshare", "--mount", "--map-root-user", "true"], check=False, capture_output=True).returncode
    == 0
)


@pytest.mark.skipif(not MOUNTS, reason="a disk of its own to fill takes Linux and the right to mount one")
def test_a_full_disk_is_said_and_nothing_is_half_written(tmp_path: Path) -> None:
    mounted = f'mount -t tmpfs -o size=512k tmpfs "{tmp_path}" && exec "$@"'
    found = reported(
        "on_a_full_disk", tmp_path, before=["unshare", "--mount", "--map-root-user", "sh", "-c", mounted, "sh"]
    )
    assert "The disk is full. Free some space." in found["error"]
    assert (found["known"], found["afterwards"]) == (["before"], ["before", "large"])


@pytest.mark.parametrize("what", ["", "folder"], ids=["file", "file and folder"])
def test_what_only_may_be_read_is_read(what: str) -> None:
    found = reported("read_only", what)
    assert "It cannot be written. Let this program write the file and its folder." in found["error"]
    assert (found["known"], found["afterwards"]) == (["before"], ["before", "after"])
