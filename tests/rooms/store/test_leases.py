"""Several programs on one database: one of them runs a family at a time, and others take it over when it has died."""

import os
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from goalport.base.errors import LeaseHeld, LeaseLost
from goalport.store import Lease
from goalport.store.database import DatabaseProcessStore, Program
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.store.conftest import MakeDatabase, Open
from tests.rooms.store.programs import START, objects, process, save, start


@pytest.fixture
def open_store(make_database: MakeDatabase) -> Open:
    return make_database()


@pytest.fixture
def store(open_store: Open) -> DatabaseProcessStore:
    return open_store()


@pytest.fixture
def other(open_store: Open) -> DatabaseProcessStore:
    return open_store()


# Who runs a family.


async def test_a_family_that_a_living_program_runs_is_not_given_to_another(
    store: DatabaseProcessStore, other: DatabaseProcessStore
) -> None:
    await store.heartbeat(600)
    await other.heartbeat(600)
    lease = await store.save([process("one", "x")], Lease("one"), wake_at=START, release=False)
    with pytest.raises(LeaseHeld, match="Another program runs process one"):
        await other.claim("one")
    assert list(await other.due(9)) == []
    with pytest.raises(LeaseLost):
        await other.save([process("one", "y")], Lease("one"), wake_at=None, release=False)
    await store.release(lease)
    assert await other.claim("one") == Lease("one", 2, 1)
    with pytest.raises(LeaseLost, match="Another program has taken process one over"):
        await store.save([process("one", "y")], lease, wake_at=None, release=False)
    assert await objects(store, "one") == ["x"]


async def test_a_family_that_a_living_program_runs_is_not_dropped_by_another(
    store: DatabaseProcessStore, other: DatabaseProcessStore
) -> None:
    await store.heartbeat(600)
    lease = await store.save([process("one", "x")], Lease("one"), wake_at=START, release=False)
    with pytest.raises(LeaseHeld, match="Another program runs process one"):
        await other.drop("one")
    assert await objects(store, "one") == ["x"]
    await store.release(lease)
    assert await other.drop("one")
    with pytest.raises(LeaseLost):
        await store.save([process("one", "y")], lease, wake_at=None, release=True)
    assert await store.find("one") is None


async def test_who_has_lost_a_lease_writes_nothing_and_gives_nothing_back(
    store: DatabaseProcessStore, other: DatabaseProcessStore
) -> None:
    await other.heartbeat(600)
    old = await store.save([process("one", "x")], Lease("one"), wake_at=None, release=True)
    lease = await other.claim("one")
    assert lease == Lease("one", 2, 1)
    await store.release(old)
    for each in (old, Lease("one"), Lease("one", 7)):
        with pytest.raises(LeaseLost):
            await store.save([process("one", "y"), process("child", root="one")], each, wake_at=START, release=True)
    assert await store.find("child") is None
    assert await objects(store, "one") == ["x"]
    assert await other.claim("one") == lease
    assert list(await store.due(9)) == []


async def test_a_save_that_has_lost_its_lease_fails_alone(
    store: DatabaseProcessStore, other: DatabaseProcessStore
) -> None:
    old = await store.save([process("lost")], Lease("lost"), wake_at=None, release=True)
    await other.claim("lost")
    lost: list[LeaseLost] = []

    async def lose() -> None:
        with pytest.raises(LeaseLost) as raised:
            await store.save([process("lost", "y")], old, wake_at=None, release=True)
        lost.append(raised.value)

    async with anyio.create_task_group() as group:
        for each in range(10):
            group.start_soon(save, store, process(f"p{each}", "x"))
            group.start_soon(lose)
    assert len(lost) == 10
    assert len(await store.records()) == 11
    assert await objects(store, "p9") == ["x"]


async def test_a_program_that_says_nothing_any_more_loses_its_leases_when_another_one_takes_them(
    store: DatabaseProcessStore, other: DatabaseProcessStore
) -> None:
    await store.heartbeat(0)
    await other.heartbeat(600)
    one, two, three = [
        await store.save([process(name)], Lease(name), wake_at=START, release=False) for name in ("one", "two", "three")
    ]
    one = await store.save([], one, wake_at=None, release=False)
    assert await other.claim("one") == Lease("one", 2, 2)
    assert list(await other.due(1)) == [Lease("two", 2, 1)]
    three = await store.save([], three, wake_at=START, release=False)
    await store.heartbeat(600)
    assert list(await other.due(9)) == []
    for each in (one, two):
        with pytest.raises(LeaseLost):
            await store.save([], each, wake_at=None, release=False)
    await store.save([], three, wake_at=None, release=True)


async def test_a_store_that_is_closed_gives_its_leases_back(
    store: DatabaseProcessStore, other: DatabaseProcessStore
) -> None:
    await other.heartbeat(600)
    await store.heartbeat(600)
    await store.save([process("one")], Lease("one"), wake_at=START, release=False)
    assert list(await other.due(9)) == []
    await store.close()
    assert list(await other.due(9)) == [Lease("one", 2, 1)]


async def test_two_programs_never_get_the_same_family(store: DatabaseProcessStore, other: DatabaseProcessStore) -> None:
    await store.heartbeat(600)
    await other.heartbeat(600)
    for number in range(20):
        await store.save([process(f"p{number}")], Lease(f"p{number}"), wake_at=START, release=True)
    taken: list[str] = []

    async def take(program: DatabaseProcessStore) -> None:
        while found := await program.due(3):
            taken.extend(each.root for each in found)

    async with anyio.create_task_group() as group:
        group.start_soon(take, store)
        group.start_soon(take, other)
    assert sorted(taken) == sorted(f"p{number}" for number in range(20))


# Programs that die.


@contextmanager
def killed_while_running(file: Path) -> Generator[None]:
    """A program that ran two families was killed, and nobody has asked yet how it ended."""
    with start("run_families", file) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "running\n"
        program.kill()
        os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
        yield


def by_heartbeat(store: SqliteProcessStore) -> Awaitable[None]:
    return store.heartbeat(600)


async def by_due(store: SqliteProcessStore) -> None:
    assert [each.root for each in await store.due(1)] == ["one"]


async def by_claim(store: SqliteProcessStore) -> None:
    assert await store.claim("one") == Lease("one", 2, 1)


@pytest.mark.parametrize("noticed", [by_heartbeat, by_due, by_claim])
async def test_the_processes_of_a_program_that_was_killed_on_this_machine_can_be_taken_over_at_once(
    file: Path, noticed: Callable[[SqliteProcessStore], Awaitable[None]]
) -> None:
    with killed_while_running(file):
        async with SqliteProcessStore(file) as store:
            await noticed(store)
            assert await store.claim("two") == Lease("two", 2, 1)


def test_a_number_that_was_given_to_another_program_is_not_mistaken_for_the_first() -> None:
    this = Program.this()
    assert this.sees(os.getpid(), this.started)
    assert this.sees(os.getpid(), "")
    assert not this.sees(os.getpid(), "1")
    assert this.sees(1, "")
    assert Program.this().id != this.id


# News.


async def test_news_of_what_was_written_before_come_at_once(
    store: DatabaseProcessStore, other: DatabaseProcessStore
) -> None:
    await save(store, process("one"))
    await store.wait_for_changes(0)
    await save(other, process("two"))
    with anyio.fail_after(60):
        await store.wait_for_changes(600)


async def test_what_this_program_writes_to_a_file_is_no_news(file: Path) -> None:
    async with SqliteProcessStore(file) as store:
        await store.wait_for_changes(0)
        await save(store, process("one"))
        began = time.monotonic()
        await store.wait_for_changes(0.2)
        assert time.monotonic() - began >= 0.2


async def test_who_waits_for_news_gets_them_soon_and_can_give_up(
    store: DatabaseProcessStore, other: DatabaseProcessStore
) -> None:
    await save(store, process("one"))
    await store.wait_for_changes(0)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(store.wait_for_changes, 600)
            await anyio.wait_all_tasks_blocked()
            await save(other, process("two"))
        async with anyio.create_task_group() as group:
            group.start_soon(store.wait_for_changes, 600)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        async with anyio.create_task_group() as group:
            group.start_soon(store.wait_for_changes, 600)
            await anyio.wait_all_tasks_blocked()
            await store.close()


async def test_a_program_sees_which_leases_it_still_has(
    store: DatabaseProcessStore, other: DatabaseProcessStore
) -> None:
    await store.heartbeat(0.01)
    first = await store.save([process("one")], Lease("one"), wake_at=START, release=False)
    await store.save([process("two")], Lease("two"), wake_at=None, release=False)
    assert set(await store.held(["one", "two", "three"])) == {"one", "two"}
    with anyio.fail_after(60):
        while not await other.due(1):
            await anyio.sleep(0.01)
    assert (await store.held(["one", "two"]), await other.held(["one", "two"])) == (["two"], ["one"])
    with pytest.raises(LeaseLost):
        await store.save([process("one")], first, wake_at=None, release=False)
