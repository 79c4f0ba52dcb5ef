"""What every store does: it keeps records, adds to them, and gives a family back whole and in order.

The values in these records are what JSON can say, because a store in a database gets no others.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from goalport.base.caller import Caller
from goalport.base.errors import LeaseLost
from goalport.store import (
    EventRecord,
    JournalRecord,
    Lease,
    ObjectRecord,
    ProcessStore,
    ProgramMessage,
    QuestionRecord,
    StoredProcess,
)
from goalport.store.database import DatabaseProcessStore
from goalport.store.export import exported, imported
from tests.rooms.store.conftest import MakeDatabase, MakeStore
from tests.rooms.store.programs import START, process, record, save

PAST, FUTURE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(make_store: MakeStore) -> ProcessStore:
    return make_store()


@pytest.fixture
def shared(make_database: MakeDatabase) -> ProcessStore:
    """A store that programs share."""
    return make_database()()


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
    return StoredProcess(
        found.process,
        list(found.objects),
        list(found.history),
        list(found.spendings),
        list(found.questions),
        list(found.journal),
        whole=found.whole,
    )


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
    assert list(await store.records()) == [saved.process._replace(definition=None, state=None, seconds_run=0.0)]
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
    await store.save(
        [StoredProcess(record("one"), journal=[later], ended_actions=["A.a"])], lease, wake_at=None, release=True
    )
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
    await started(store, process("one", "x"))
    assert await started(store, process("one", "x")) == Lease("one", 1, 2)
    for _ in range(2):
        await save(store, process("two", "x"))
    assert [each.value for each in (await member(store, "two")).objects] == ["x"]


async def test_a_lease_that_this_program_has_is_claimed_again_with_the_version_of_now(store: ProcessStore) -> None:
    lease = await started(store, process("one"), process("child", root="one"))
    assert await store.claim("child") == lease
    lease = await store.save([], lease, wake_at=None, release=True)
    await store.release(lease)
    claimed = await store.claim("one")
    assert claimed is not None
    assert (claimed.root, claimed.version) == ("one", 2)
    assert await store.claim("child") == claimed
    assert (await store.save([process("one")], claimed, wake_at=None, release=True)).version == 3


async def test_the_lease_of_a_family_that_is_not_kept_is_lost(store: ProcessStore) -> None:
    for each in ([process("one")], []):
        with pytest.raises(LeaseLost):
            await store.save(each, Lease("one", 1, 3), wake_at=None, release=False)
    await store.release(Lease("one", 1, 3))
    assert list(await store.records()) == []


async def test_a_family_is_due_from_its_time_on_when_nobody_runs_it(shared: ProcessStore) -> None:
    later = PAST + timedelta(seconds=1)
    for name, wake_at in {"second": later, "first": PAST, "never": None, "tomorrow": FUTURE}.items():
        await shared.save([process(name)], Lease(name), wake_at=wake_at, release=True)
    running = await started(shared, process("running"), wake_at=PAST)
    (first,) = await shared.due(1)
    (second,) = await shared.due(9)
    assert ((first.root, first.version), (second.root, second.version)) == (("first", 1), ("second", 1))
    assert list(await shared.due(9)) == []
    await shared.release(first)
    await shared.release(running)
    assert [each.root for each in await shared.due(9)] == ["first", "running"]
    await shared.save([], second, wake_at=FUTURE, release=True)
    assert list(await shared.due(9)) == []


async def test_a_program_says_that_it_lives_and_hears_nothing_of_itself(store: ProcessStore) -> None:
    await store.heartbeat(30)
    await store.heartbeat(30)
    await started(store, process("one"))
    with anyio.fail_after(60):
        await store.wait_for_changes(0.01)


# Lists.


async def test_records_are_listed_in_pages_in_both_orders(store: ProcessStore) -> None:
    for number in range(5):
        await save(store, process(f"p{number}"))
    pages: list[str] = []
    while page := await store.records(after=pages[-1] if pages else "", limit=2):
        assert len(page) <= 2
        pages += [each.id for each in page]
    assert pages == ["p0", "p1", "p2", "p3", "p4"]
    assert [each.id for each in await store.records(newest_first=True, limit=2)] == ["p4", "p3"]
    assert [each.id for each in await store.records(newest_first=True, after="p3", limit=2)] == ["p2", "p1"]
    assert list(await store.records(after="dropped")) == []
    assert list(await store.records(limit=0)) == []


async def test_the_claims_of_a_caller_come_back_with_its_process(store: ProcessStore) -> None:
    await save(store, process("one"))
    (one,), _ = await store.family("one")
    assert one.process.caller.claims == {"tenant": "acme", "groups": ["a", "b"]}


async def test_records_of_a_caller_or_of_some_statuses_are_listed_alone(store: ProcessStore) -> None:
    ann, namesake, bob = Caller("ann", "house"), Caller("ann", "garden"), Caller("bob", "house")
    for number, (caller, status) in enumerate(
        [(ann, "running"), (namesake, "running"), (bob, "waiting"), (ann, "waiting"), (ann, "completed")]
    ):
        await save(store, StoredProcess(record(f"p{number}", status=status)._replace(caller=caller)))

    async def listed(**chosen: Any) -> Sequence[str]:
        return [each.id for each in await store.records(**chosen)]

    assert await listed(caller=Caller("ann", "house", frozenset({"other"}))) == ["p0", "p3", "p4"]
    assert await listed(statuses=["waiting", "completed"]) == ["p2", "p3", "p4"]
    assert await listed(caller=ann, statuses=["waiting"], newest_first=True, after="p4") == ["p3"]
    assert await listed(caller=ann, after="p0", limit=1) == ["p3"]
    assert await store.counts() == {"running": 2, "waiting": 2, "completed": 1}


# Messages.


async def test_a_message_is_given_to_who_runs_the_family_until_there_is_a_reply(shared: ProcessStore) -> None:
    lease = await started(shared, process("one"), process("child", root="one"))
    await save(shared, process("rests"))
    first, second = await shared.send("child", {"do": "stop"}), await shared.send("one", None)
    for each in ("rests", "nobody"):
        await shared.send(each, "?")
    assert list(await shared.inbox()) == [
        ProgramMessage(first, "child", {"do": "stop"}),
        ProgramMessage(second, "one", None),
    ]
    assert await shared.replied(first) is None
    await shared.reply(first, ["done"])
    await shared.reply(first, "a second reply")
    assert await shared.replied(first) == ["done"]
    assert [each.number for each in await shared.inbox()] == [second]
    await shared.release(lease)
    assert list(await shared.inbox()) == []


async def test_a_message_can_be_taken_back_before_its_reply(shared: ProcessStore) -> None:
    await started(shared, process("one"))
    number = await shared.send("one", 1)
    assert await shared.withdraw(number)
    assert list(await shared.inbox()) == []
    await shared.reply(number, "late")
    assert await shared.replied(number) is None
    assert await shared.send("one", 2) > number


async def test_a_reply_stays_when_its_message_is_taken_back_until_that_is_done_again(shared: ProcessStore) -> None:
    await started(shared, process("one"))
    number = await shared.send("one", 1)
    await shared.reply(number, "done")
    assert not await shared.withdraw(number)
    assert await shared.replied(number) == "done"
    assert not await shared.withdraw(number)
    assert await shared.replied(number) is None
    assert await shared.withdraw(number)


# Keys and contexts.


async def test_who_comes_second_with_a_key_gets_what_the_first_one_left(store: ProcessStore) -> None:
    assert await store.join("key", "digest", "one") == ("digest", "one")
    assert await store.join("key", "other", "two") == ("digest", "one")
    assert await store.join("key", "other", "two", instead_of="nobody") == ("digest", "one")
    assert await store.join("key", "other", "two", instead_of="one") == ("other", "two")
    assert await store.join("key", "digest", "one") == ("other", "two")
    assert await store.join("another", "digest", "three") == ("digest", "three")


async def test_a_context_is_replaced_as_a_whole_by_who_knows_what_is_kept(store: ProcessStore) -> None:
    assert await store.find_context("ann") is None
    assert await store.save_context("ann", {"likes": "tea", "since": 1.5e300}, instead_of=None)
    assert await store.save_context("bob", [1], instead_of=None)
    tea = await store.find_context("ann")
    assert not await store.save_context("ann", {"likes": "milk"}, instead_of=None)
    assert await store.save_context("ann", {"likes": "coffee ☕"}, instead_of=tea)
    assert not await store.save_context("ann", {"likes": "milk"}, instead_of=tea)
    assert (await store.find_context("ann"), await store.find_context("bob")) == ({"likes": "coffee ☕"}, [1])


async def test_a_context_with_half_a_character_is_kept_and_replaced(store: ProcessStore) -> None:
    assert await store.save_context("ann", {"likes": "te\ud83c"}, instead_of=None)
    half = await store.find_context("ann")
    assert half == {"likes": "te\ud83c"}
    assert await store.save_context("ann", {"likes": "tea"}, instead_of=half)
    assert await store.find_context("ann") == {"likes": "tea"}


async def test_a_context_is_kept_until_it_is_deleted(store: ProcessStore) -> None:
    await store.save_context("ann", {"likes": "tea"}, instead_of=None)
    tea = await store.find_context("ann")
    await store.prune(older_than=timedelta(0), keep=0)
    assert await store.find_context("ann") == tea
    assert [await store.delete_context("ann"), await store.delete_context("ann")] == [True, False]
    assert not await store.save_context("ann", {"likes": "milk"}, instead_of=tea)
    assert await store.find_context("ann") is None


# Dropping.


async def ended(store: ProcessStore, name: str, at: datetime, status: str = "completed") -> None:
    await save(store, StoredProcess(record(name, status=status)._replace(finished_at=at), [ObjectRecord(0, name)]))


async def left(store: ProcessStore) -> Sequence[str]:
    return [each.id for each in await store.records()]


async def test_families_that_ended_long_ago_are_dropped(store: ProcessStore) -> None:
    now = datetime.now(UTC)
    await ended(store, "old", now - timedelta(days=3))
    await ended(store, "new", now - timedelta(days=1))
    await ended(store, "stuck", now - timedelta(days=3), "stuck")
    await save(store, process("waiting", status="waiting"))
    assert await store.prune() == 0
    assert await store.prune(older_than=timedelta(days=2)) == 1
    assert await left(store) == ["new", "stuck", "waiting"]
    assert await store.family("old") == ((), 0)
    assert await store.claim("old") is None
    await ended(store, "old", now)
    assert [each.value for each in (await member(store, "old")).objects] == ["old"]


async def test_the_families_that_ended_last_are_kept(store: ProcessStore) -> None:
    now = datetime.now(UTC)
    for hours in (1, 3, 2, 4):
        await ended(store, f"{hours} h", now - timedelta(hours=hours))
    assert await store.prune(keep=3, older_than=timedelta(hours=3.5)) == 1
    assert await store.prune(keep=2, older_than=timedelta(days=1)) == 1
    assert await left(store) == ["1 h", "2 h"]
    assert await store.prune(keep=0) == 2
    assert await left(store) == []


async def test_a_family_goes_as_a_whole_and_only_when_nothing_can_happen_in_it(store: ProcessStore) -> None:
    child = StoredProcess(record("child", "one", root="one", status="stuck"))
    lease = await started(store, StoredProcess(record("one", status="completed")), child)
    assert await store.prune(keep=0) == 0
    child = StoredProcess(record("child", "one", root="one", status="killed"))
    lease = await store.save([child], lease, wake_at=None, release=False)
    assert await store.prune(keep=0) == 0
    await store.release(lease)
    assert await store.prune(keep=0) == 1
    assert await left(store) == []


def happened(*numbers: int) -> list[EventRecord]:
    return [EventRecord(each, {"event": "ProgressUpdated", "message": f"Number {each} ☃"}) for each in numbers]


async def test_events_of_a_family_are_read_in_order_from_any_of_them_on(store: ProcessStore) -> None:
    lease = await store.save([process("a")], Lease("a"), wake_at=None, release=False, events=happened(1, 2, 3))
    lease = await store.save([], lease, wake_at=None, release=False, events=happened(4))
    await store.save([process("a", root="a")], lease, wake_at=None, release=True, events=happened(1 << 40))
    await started(store, process("b"))
    everything = happened(1, 2, 3, 4, 1 << 40)
    for place in range(len(everything) + 1):
        after = everything[place - 1].number if place else 0
        assert await store.events("a", after, 100) == everything[place:]
    assert await store.events("b", 0, 100) == []
    assert await store.events("nobody", 0, 100) == []


async def test_not_all_events_are_read_at_once(store: ProcessStore) -> None:
    lease = await started(store, process("a"))
    for each in range(1, 8):
        lease = await store.save([], lease, wake_at=None, release=False, events=happened(each))
    assert await store.events("a", 2, 3) == happened(3, 4, 5)


async def test_a_save_that_is_repeated_with_more_events_adds_each_once(store: ProcessStore) -> None:
    lease = await started(store, process("a"))
    await store.save([], lease, wake_at=None, release=False, events=happened(1, 2))
    await store.save([], lease, wake_at=None, release=False, events=happened(1, 2, 3))
    assert await store.events("a", 0, 100) == happened(1, 2, 3)


async def test_events_are_dropped_with_their_family(store: ProcessStore) -> None:
    await store.save([process("a", status="completed")], Lease("a"), wake_at=None, release=True, events=happened(1, 2))
    await store.prune(keep=0)
    lease = await started(store, process("a"))
    assert await store.events("a", 0, 100) == []
    await store.release(lease)


async def test_a_family_is_dropped_whole_by_its_root_while_it_goes_on(store: ProcessStore) -> None:
    lease = await store.save(
        [process("a", "x"), process("child", root="a")], Lease("a"), wake_at=None, release=False, events=happened(1)
    )
    await started(store, process("b", "kept"))
    number = await store.send("child", "?")
    assert not await store.drop("child")
    assert await store.drop("a")
    assert not await store.drop("a")
    assert [each.id for each in await store.records()] == ["b"]
    assert (await store.family("child"), await store.events("a", 0, 9)) == (((), 0), [])
    await store.reply(number, "!")
    assert await store.replied(number) is None
    with pytest.raises(LeaseLost):
        await store.save([process("a")], lease, wake_at=None, release=False)
    await started(store, process("a"))
    assert (await member(store, "a")).objects == []
    assert await store.events("a", 0, 9) == []


def test_an_export_has_the_claims_of_its_caller_and_one_without_them_is_read() -> None:
    written = json.loads(json.dumps(exported([process("one")], version="test")))
    assert imported(written)[0].process.caller.claims == {"tenant": "acme", "groups": ["a", "b"]}
    del written["processes"][0]["caller"]["claims"]
    assert imported(written)[0].process.caller.claims == {}


async def test_a_database_says_how_large_it_is_and_for_how_long_the_oldest_question_has_waited(
    store: ProcessStore,
) -> None:
    if not isinstance(store, DatabaseProcessStore):
        return
    size, age = await store.size_and_age()
    assert (size > 0, age) == (True, 0)
    ended = process("ended", status="completed")._replace(questions=[question(0)])
    await save(store, ended)
    assert (await store.size_and_age())[1] == 0
    await save(store, process("one", status="waiting")._replace(questions=[question(0, "answered"), question(1)]))
    assert (await store.size_and_age())[1] >= (datetime.now(UTC) - START).total_seconds() - 1
