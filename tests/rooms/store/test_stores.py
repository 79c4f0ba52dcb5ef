"""What every store does: it keeps records, adds to them, and gives a family back whole and in order.

The values in these records are what JSON can say, because a store in a database gets no others.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from goalport.errors import LeaseLost
from goalport.store import (
    InMemoryProcessStore,
    JournalRecord,
    Lease,
    ObjectRecord,
    ProcessStore,
    QuestionRecord,
    StoredProcess,
)
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.store.programs import START, process, record, save

PAST, FUTURE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
MakeStore = Callable[[], ProcessStore]


@pytest.fixture(params=["memory", "sqlite"])
async def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MakeStore]:
    async with AsyncExitStack() as stack:
        numbers = count()

        def in_a_file() -> ProcessStore:
            store = SqliteProcessStore(tmp_path / f"{next(numbers)}.db", synchronous="normal")
            stack.push_async_callback(store.close)
            return store

        yield {"memory": InMemoryProcessStore, "sqlite": in_a_file}[request.param]


@pytest.fixture
def store(make_store: MakeStore) -> ProcessStore:
    return make_store()


def question(number: int, status: str = "open") -> QuestionRecord:
    return QuestionRecord(
        number=number, id=f"q-{number}", action="Writer.ask", wait="?", in_action=False, asked_at=START, status=status
    )


async def started(store: ProcessStore, *changes: StoredProcess, wake_at: datetime | None = None) -> Lease:
    """The lease of a family that this program runs."""
    return await store.save(changes, Lease(changes[0].process.root), wake_at=wake_at, release=False)


async def member(store: ProcessStore, process_id: str) -> StoredProcess:
    members, _ = await store.family(process_id)
    found = next(each for each in members if each.process.id == process_id)
    parts = (found.objects, found.history, found.spendings, found.questions, found.journal)
    return StoredProcess(found.process, *map(list, parts), whole=found.whole)


# Records.


async def test_what_was_saved_comes_back_as_it_was(store: ProcessStore) -> None:
    saved = StoredProcess(
        record("one"),
        [ObjectRecord(0, "draft"), ObjectRecord(1, [], "list[str]")],
        ["drafted"],
        ["spent"],
        [question(0)],
        [JournalRecord(0, "Writer.plan", "reply", "step 1", "Oslo")],
    )
    await save(store, saved)
    assert await store.find("one") == saved.process
    assert list(await store.records()) == [saved.process._replace(definition=None, state=None)]
    assert await member(store, "one") == saved


async def test_numbered_records_are_added_or_take_the_place_of_their_number(store: ProcessStore) -> None:
    steps = [JournalRecord(number, "Writer.plan", "reply", f"step {number}", "Oslo") for number in (0, 1)]
    first = StoredProcess(record("one"), [ObjectRecord(0, "a")], ["x"], ["1"], [question(0), question(1)], steps)
    lease = await started(store, first)
    changed = record("one", status="stuck")
    second = StoredProcess(
        changed,
        [ObjectRecord(1, "b")],
        ["y"],
        ["2"],
        [question(0, "answered"), question(2)],
        [JournalRecord(1, "Writer.plan", "result", "step 1", "Bergen"), JournalRecord(2, "A.b", "reply", "c", 1)],
        history_from=1,
        spendings_from=1,
    )
    for _ in range(2):
        lease = await store.save([second], lease, wake_at=None, release=False)
    found = await member(store, "one")
    assert found.process == changed
    assert found.objects == [ObjectRecord(0, "a"), ObjectRecord(1, "b")]
    assert (found.history, found.spendings) == (["x", "y"], ["1", "2"])
    assert found.questions == [question(0, "answered"), question(1), question(2)]
    assert found.journal == [steps[0], *second.journal]
    assert lease.version == 3


async def test_the_steps_of_actions_that_are_over_are_forgotten(store: ProcessStore) -> None:
    steps = [JournalRecord(number, action, "reply", "a", number) for number, action in enumerate(["A.a", "A.b", "A.a"])]
    lease = await started(store, StoredProcess(record("one"), journal=steps))
    later = JournalRecord(3, "A.a", "begun", "", 2)
    await store.save([StoredProcess(record("one"), journal=[later], over=["A.a"])], lease, wake_at=None, release=True)
    assert (await member(store, "one")).journal == [steps[1], later]


async def test_what_a_change_does_not_say_stays_as_it_was(store: ProcessStore) -> None:
    child = process("child", root="one")
    lease = await started(store, process("one"), child)
    changed = record("one", status="waiting")._replace(definition=None, state=None)
    child = StoredProcess(child.process._replace(definition=None, state="new"))
    await store.save([StoredProcess(changed), child], lease, wake_at=None, release=False)
    assert await store.find("one") == record("one", status="waiting")
    assert await store.find("child") == process("child", root="one").process._replace(state="new")


async def test_an_unknown_process_has_no_record_and_no_family(store: ProcessStore) -> None:
    assert await store.find("nobody") is None
    assert await store.family("nobody") == ((), 0)
    assert await store.claim("nobody") is None
    assert list(await store.records()) == []
    assert await store.versions(["nobody"]) == {}
    assert await store.save([], Lease("nobody"), wake_at=None, release=True) == Lease("nobody")


@st.composite
def families(draw: st.DrawFn) -> Sequence[tuple[str, str]]:
    """The processes of a family, each with the one that started it, in any order."""
    size = draw(st.integers(1, 8))
    pairs = [(f"p{each}", f"p{draw(st.integers(0, each - 1))}" if each else "") for each in range(size)]
    return draw(st.permutations(pairs))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50)
@given(family=families(), data=st.data())
async def test_a_family_comes_back_whole_with_each_process_after_the_one_that_started_it(
    make_store: MakeStore, family: Sequence[tuple[str, str]], data: st.DataObject
) -> None:
    store = make_store()
    await save(store, *(StoredProcess(record(each, parent, root="p0")) for each, parent in family))
    asked = data.draw(st.sampled_from([each for each, _ in family]))
    members, _ = await store.family(asked)
    found = [(each.process.id, each.process.parent) for each in members]
    assert sorted(found) == sorted(family)
    names = [each for each, _ in found]
    assert all(not parent or names.index(parent) < names.index(each) for each, parent in found)


# Leases.


async def test_each_save_raises_the_version_of_its_family(store: ProcessStore) -> None:
    lease = await started(store, process("one"))
    assert lease == Lease("one", 1, 1)
    lease = await store.save([process("child", root="one")], lease, wake_at=None, release=False)
    lease = await store.save([], lease, wake_at=None, release=True)
    assert lease == Lease("one", 1, 3)
    await started(store, process("two"))
    assert await store.versions(["one", "two", "child", "nobody"]) == {"one": 3, "two": 1}
    assert (await store.family("child"))[1] == 3


async def test_a_family_is_made_with_its_root(store: ProcessStore) -> None:
    with pytest.raises(ValueError, match="Expected the record of process 'one', the first of its family"):
        await store.save([process("child", root="one")], Lease("one"), wake_at=None, release=False)
    assert list(await store.records()) == []


async def test_a_new_family_can_be_saved_again_when_it_is_not_clear_whether_it_was_saved(store: ProcessStore) -> None:
    for _ in range(2):
        lease = await started(store, process("one", "x"))
    assert lease == Lease("one", 1, 2)
    for _ in range(2):
        await save(store, process("two", "x"))
    assert [each.value for each in (await member(store, "two")).objects] == ["x"]


async def test_a_lease_is_kept_when_it_is_claimed_again_and_another_one_when_it_was_given_back(
    store: ProcessStore,
) -> None:
    lease = await started(store, process("one"), process("child", root="one"))
    assert await store.claim("child") == lease
    await store.release(lease)
    assert await store.claim("child") == Lease("one", 2, 1)
    lease = await store.save([], Lease("one", 2, 1), wake_at=None, release=True)
    assert await store.claim("one") == Lease("one", 3, 2)


async def test_who_has_lost_a_lease_writes_nothing(store: ProcessStore) -> None:
    old = await started(store, process("one", "x"))
    await store.release(old)
    lease = await store.claim("one")
    assert lease is not None
    await store.release(old)
    for each in (old, Lease("one"), Lease("one", 7)):
        with pytest.raises(LeaseLost):
            await store.save([process("one", "y"), process("child", root="one")], each, wake_at=PAST, release=True)
    assert await store.find("child") is None
    assert [each.value for each in (await member(store, "one")).objects] == ["x"]
    assert await store.claim("one") == lease
    with pytest.raises(LeaseLost):
        await store.save([process("two")], Lease("two", 1), wake_at=None, release=False)


async def test_a_family_is_due_from_its_time_on_when_nobody_runs_it(store: ProcessStore) -> None:
    later = PAST + timedelta(seconds=1)
    for name, wake_at in {"second": later, "first": PAST, "never": None, "tomorrow": FUTURE}.items():
        await store.save([process(name)], Lease(name), wake_at=wake_at, release=True)
    running = await started(store, process("running"), wake_at=PAST)
    assert list(await store.due(1)) == [Lease("first", 2, 1)]
    assert list(await store.due(9)) == [Lease("second", 2, 1)]
    assert list(await store.due(9)) == []
    await store.release(Lease("first", 2, 1))
    await store.release(running)
    assert list(await store.due(9)) == [Lease("first", 3, 1), Lease("running", 2, 1)]
