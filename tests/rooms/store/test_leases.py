"""Several programs on one database: one of them runs a family at a time, and others take it over when it has died."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goalport.errors import LeaseHeld, LeaseLost
from goalport.store import Lease
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.store.programs import START, objects, process, save


@pytest.fixture
async def other(file: Path) -> AsyncIterator[SqliteProcessStore]:
    async with SqliteProcessStore(file, synchronous="normal", busy_seconds=20) as opened:
        yield opened


async def test_a_family_that_a_living_program_runs_is_not_given_to_another(
    store: SqliteProcessStore, other: SqliteProcessStore
) -> None:
    await store.beat(600)
    await other.beat(600)
    lease = await store.save([process("one", "x")], Lease("one"), wake_at=START, release=False)
    with pytest.raises(LeaseHeld, match="Another program runs process one"):
        await other.claim("one")
    assert list(await other.due(9)) == []
    with pytest.raises(LeaseLost):
        await other.save([process("one", "y")], Lease("one"), wake_at=None, release=False)
    await store.release(lease)
    assert await other.claim("one") == Lease("one", 2, 1)
    with pytest.raises(LeaseLost):
        await store.save([process("one", "y")], lease, wake_at=None, release=False)
    assert await objects(store, "one") == ["x"]


async def test_a_program_that_says_nothing_any_more_loses_its_leases_when_another_one_takes_them(
    store: SqliteProcessStore, other: SqliteProcessStore
) -> None:
    await store.beat(0)
    await other.beat(600)
    one, two, three = [
        await store.save([process(name)], Lease(name), wake_at=START, release=False) for name in ("one", "two", "three")
    ]
    one = await store.save([], one, wake_at=None, release=False)
    assert await other.claim("one") == Lease("one", 2, 2)
    assert list(await other.due(1)) == [Lease("two", 2, 1)]
    three = await store.save([], three, wake_at=START, release=False)
    await store.beat(600)
    assert list(await other.due(9)) == []
    for each in (one, two):
        with pytest.raises(LeaseLost):
            await store.save([], each, wake_at=None, release=False)
    await store.save([], three, wake_at=None, release=True)


async def test_a_store_that_is_closed_gives_its_leases_back(file: Path, other: SqliteProcessStore) -> None:
    await other.beat(600)
    async with SqliteProcessStore(file) as store:
        await store.beat(600)
        await store.save([process("one")], Lease("one"), wake_at=START, release=False)
        assert list(await other.due(9)) == []
    assert list(await other.due(9)) == [Lease("one", 2, 1)]
    await save(other, process("two"))
