"""The store in a SQLite file: it keeps what it confirmed, beside other programs, and says what fails."""

import asyncio
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from goalport.base.errors import StoreError
from goalport.store import (
    JournalRecord,
    ObjectRecord,
    QuestionRecord,
    StoredProcess,
)
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.store.programs import START, known, locked, objects, process, save, start

# What is kept.


async def test_what_was_saved_is_there_when_the_file_is_opened_again(file: Path) -> None:
    question = QuestionRecord(
        number=0,
        id="q",
        action="A.ask",
        wait={"text": "?"},
        in_action=True,
        asked_at=START,
        status="open",
        reason="\x00 \ud800",
    )
    saved = StoredProcess(
        process("one").process,
        [ObjectRecord(0, {"a": "ä\x00\ud800😀"}), ObjectRecord(1, [], "list[str]")],
        [{"ran": 1}],
        [0.1],
        [question],
        [JournalRecord(0, "A.ask", "reply", "step", 2**70)],
    )
    async with SqliteProcessStore(file) as store:
        await save(store, saved)
    async with SqliteProcessStore(file) as store:
        assert await store.family("one") == ([saved], 1)
        assert await store.find("one") == saved.process


async def test_moments_of_any_zone_are_the_same_moments(store: SqliteProcessStore) -> None:
    there = datetime(2026, 7, 1, 12, 30, 15, 123457, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    await save(store, StoredProcess(process("one").process._replace(created_at=there, finished_at=there)))
    found = await store.find("one")
    assert found is not None
    assert (found.created_at, found.finished_at) == (there, there)


async def test_there_is_room_for_any_number_that_wait(store: SqliteProcessStore) -> None:
    await save(store, process("one", status="waiting"))
    assert store.max_waiting > 10**9
    assert list(await store.overflow()) == []


# Transactions.


async def test_saves_that_wait_are_committed_together(store: SqliteProcessStore, file: Path) -> None:
    await save(store, process("before"))
    commits = commits_in(file)
    async with anyio.create_task_group() as group:
        with locked(file):
            for each in range(50):
                group.start_soon(save, store, process(f"p{each}", "x"))
            await anyio.wait_all_tasks_blocked()
            assert await known(store) == ["before"]
    assert len(await known(store)) == 51
    assert commits_in(file) - commits <= 2


async def test_what_nobody_asks_for_soon_is_committed_with_the_next_that_somebody_waits_for(
    store: SqliteProcessStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalport.store.sqlite._GATHER", 3_600.0)
    await save(store, process("before"))
    commits = commits_in(file)
    async with anyio.create_task_group() as group:
        for each in range(5):
            group.start_soon(save, store, process(f"p{each}", "x", status="completed"))
        await anyio.wait_all_tasks_blocked()
        assert await known(store) == ["before"]
        await save(store, process("running"))
    assert len(await known(store)) == 7
    assert commits_in(file) - commits == 1


async def test_closing_commits_what_is_gathered(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goalport.store.sqlite._GATHER", 3_600.0)
    async with anyio.create_task_group() as group, SqliteProcessStore(file) as store:
        group.start_soon(save, store, process("one", "x", status="completed"))
        await anyio.wait_all_tasks_blocked()
    async with SqliteProcessStore(file) as store:
        assert await known(store) == ["one"]


def commits_in(file: Path) -> int:
    """How many transactions the log of a database holds: the frames that say how large the database is then."""
    log = Path(f"{file}-wal").read_bytes()
    size = int.from_bytes(log[8:12], "big")
    return sum(log[at + 4 : at + 8] != b"\0\0\0\0" for at in range(32, len(log), size + 24))


async def test_a_save_that_fails_fails_alone(store: SqliteProcessStore, file: Path) -> None:
    await save(store, process("twice", "x"))
    errors: list[StoreError] = []

    async def refused() -> None:
        with pytest.raises(StoreError) as raised:
            await save(store, process("twice", "a number too large", first=2**63))
        errors.append(raised.value)

    async with anyio.create_task_group() as group:
        with locked(file):
            group.start_soon(save, store, process("a", "x"))
            for _ in range(2):
                group.start_soon(refused)
            group.start_soon(save, store, process("b", "x"))
            await anyio.wait_all_tasks_blocked()
    assert sorted(await known(store)) == ["a", "b", "twice"]
    assert await objects(store, "twice") == ["x"]
    assert len(errors) == 2
    assert "A value is not as it must be" in str(errors[0])


async def test_a_context_is_written_as_earlier_versions_did_since_it_is_compared_as_text(
    store: SqliteProcessStore, file: Path
) -> None:
    await store.save_context("ann", {"share": 1e-05}, instead_of=None)
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT value FROM context").fetchone() == ('{"share":1e-05}',)
    assert await store.save_context("ann", {"share": 2e-05}, instead_of={"share": 1e-05})


@pytest.mark.parametrize("bad", [object(), {"a": [len]}])
async def test_a_value_that_json_cannot_say_is_the_mistake_of_its_caller(
    store: SqliteProcessStore, bad: object
) -> None:
    with pytest.raises(TypeError):
        await save(store, process("one", bad))
    assert await known(store) == []


async def test_all_of_a_family_is_written_or_nothing(store: SqliteProcessStore) -> None:
    with pytest.raises(StoreError, match="A value is not as it must be"):
        await save(store, process("root", "x"), process("child", "x", root="root", first=2**63))
    with pytest.raises(StoreError, match="A value is not as it must be"):
        await save(store, process("half \ud800 a pair"))
    assert await known(store) == []
    await save(store, process("root", "x"), process("child", "x", root="root"))
    assert await known(store) == ["root", "child"]


@pytest.mark.parametrize("by_scope", [True, False])
async def test_a_save_that_is_cancelled_is_committed_once(
    store: SqliteProcessStore, file: Path, *, by_scope: bool
) -> None:
    await save(store, process("before"))
    scope, cancelled = anyio.CancelScope(), False

    async def saved() -> None:
        nonlocal cancelled
        with scope:
            try:
                await save(store, process("one", "x"))
                await anyio.lowlevel.checkpoint()
            except asyncio.CancelledError:
                cancelled = True
                raise

    task = asyncio.create_task(saved())
    with locked(file):
        await anyio.wait_all_tasks_blocked()
        if by_scope:
            scope.cancel()
        else:
            task.cancel()
        await anyio.wait_all_tasks_blocked()
        assert not task.done()
    await asyncio.wait([task])
    assert cancelled
    assert await objects(store, "one") == ["x"]


async def test_closing_commits_what_was_saved_before(file: Path) -> None:
    store = SqliteProcessStore(file, busy_seconds=20)
    await save(store, process("before"))
    async with anyio.create_task_group() as group:
        with locked(file):
            for each in range(20):
                group.start_soon(save, store, process(f"p{each}"))
            await anyio.wait_all_tasks_blocked()
            group.start_soon(store.close)
            await anyio.wait_all_tasks_blocked()
    with pytest.raises(StoreError, match="It is closed"):
        await save(store, process("late"))
    with pytest.raises(StoreError, match="It is closed"):
        await store.records()
    await store.close()
    async with SqliteProcessStore(file) as again:
        assert len(await known(again)) == 21


async def test_a_store_that_was_never_used_can_be_closed(file: Path) -> None:
    await SqliteProcessStore(file).close()
    assert not (await anyio.Path(file).exists())


# Other programs.


async def test_nothing_that_was_confirmed_is_lost_when_the_program_is_killed(file: Path, tmp_path: Path) -> None:
    confirmed = tmp_path / "confirmed"
    with start("acknowledge", file, confirmed, 300) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "enough\n"
        program.kill()
    lines = [each.split() for each in confirmed.read_text().splitlines()]
    assert len(lines) >= 300
    last = {name: int(number) for name, number in lines}
    async with SqliteProcessStore(file) as store:
        for name, number in last.items():
            found = await objects(store, name)
            saves = len(found) // 2
            assert saves in {number + 1, number + 2}
            assert found == [f"{name} {each} {half}" for each in range(saves) for half in "ab"]


async def test_several_programs_use_one_file(file: Path) -> None:
    programs = [start("save_many", file, prefix, 20) for prefix in "abc"]
    assert [each.wait(timeout=120) for each in programs] == [0, 0, 0]
    for each in programs:
        each.communicate()
    async with SqliteProcessStore(file) as store:
        assert sorted(await known(store)) == sorted(f"{prefix}{each}" for prefix in "abc" for each in range(20))
        for prefix in "abc":
            assert await objects(store, f"{prefix}7") == ["x", "y"]


async def test_one_program_reads_what_another_has_just_saved(store: SqliteProcessStore, file: Path) -> None:
    async with SqliteProcessStore(file, synchronous="normal") as other:
        await save(store, process("one", "x"))
        assert await objects(other, "one") == ["x"]
        await save(other, process("one", "y", first=1))
        assert await objects(store, "one") == ["x", "y"]


async def test_a_file_that_stays_locked_is_said_and_can_still_be_read(file: Path) -> None:
    async with SqliteProcessStore(file, busy_seconds=0.1) as store:
        await save(store, process("before"))
        with locked(file):
            with pytest.raises(StoreError, match=r"locked for more than 0.1 s. Try again"):
                await save(store, process("after"))
            assert await known(store) == ["before"]
        await save(store, process("after"))
        assert await known(store) == ["before", "after"]


async def test_a_file_that_is_locked_while_it_is_opened_can_be_used_afterwards(file: Path) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("begin exclusive")
        store = SqliteProcessStore(file, busy_seconds=0.1)
        with pytest.raises(StoreError, match=r"locked for more than 0\.1 s"):
            await save(store, process("one"))
        other.execute("commit")
        await save(store, process("one"))
        await store.close()


async def test_a_file_that_another_program_reads_is_waited_for_when_its_log_must_be_made(file: Path) -> None:
    async with SqliteProcessStore(file) as store:
        await save(store, process("one"))
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("pragma journal_mode=delete")
        other.execute("begin")
        other.execute("select * from process").fetchone()
        store, began = SqliteProcessStore(file, busy_seconds=0.2), time.monotonic()
        with pytest.raises(StoreError, match=r"locked for more than 0\.2 s"):
            await save(store, process("two"))
        assert time.monotonic() - began >= 0.2
        other.execute("rollback")
        await save(store, process("two"))
        assert await known(store) == ["one", "two"]
        await store.close()


async def test_who_reads_what_was_deleted_keeps_nobody_from_writing(store: SqliteProcessStore, file: Path) -> None:
    written = anyio.Event()

    async def delete_and_write() -> None:
        assert await store.delete_context("anna")
        assert await store.save_context("bert", "green", instead_of=None)
        written.set()

    assert await store.save_context("anna", "blue", instead_of=None)
    async with anyio.create_task_group() as group:
        with closing(sqlite3.connect(file)) as reader:
            reader.execute("begin")
            reader.execute("select count(*) from sqlite_master").fetchone()
            group.start_soon(delete_and_write)
            with anyio.fail_after(20):
                await written.wait()


# What it costs those who do not use it.


def test_a_store_in_a_file_imports_nothing_heavy() -> None:
    program = "import sys, goalport.store.sqlite; print(bool({'sqlalchemy', 'asyncpg'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n"
