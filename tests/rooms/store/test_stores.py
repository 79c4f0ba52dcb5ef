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

from goalport.caller import Caller
from goalport.store import (
    InMemoryProcessStore,
    JournalRecord,
    ObjectRecord,
    ProcessRecord,
    ProcessStore,
    QuestionRecord,
    StoredProcess,
)
from goalport.store.sqlite import SqliteProcessStore

START = datetime(2026, 1, 1, tzinfo=UTC)
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


def record(process_id: str, parent: str = "", *, root: str = "", status: str = "waiting") -> ProcessRecord:
    ended = status in {"completed", "failed", "killed", "stuck"}
    return ProcessRecord(
        id=process_id,
        root=root or process_id,
        parent=parent,
        agent="Writer",
        caller=Caller("ann", "house"),
        status=status,
        ended=ended,
        final=ended and status != "stuck",
        created_at=START,
        finished_at=START + timedelta(seconds=1) if ended else None,
        long=False,
        result=None,
        definition="the definition",
        state={"plan": []},
    )


def question(question_id: str, status: str = "open") -> QuestionRecord:
    return QuestionRecord(
        id=question_id, action="Writer.ask", wait="What?", in_action=False, asked_at=START, status=status
    )


async def test_what_was_saved_comes_back_as_it_was(make_store: MakeStore) -> None:
    store = make_store()
    saved = StoredProcess(
        record("one"),
        [ObjectRecord(0, "draft"), ObjectRecord(1, [], "list[str]")],
        ["drafted"],
        ["spent"],
        [question("q-1")],
        [JournalRecord("Writer.plan", "reply", "step 1", "Oslo")],
    )
    await store.save([saved])
    assert await store.find("one") == saved.process
    assert list(await store.records()) == [saved.process]
    (found,) = await store.family("one")
    assert (found.process, list(found.objects), list(found.history)) == (saved.process, saved.objects, saved.history)
    assert (list(found.spendings), list(found.questions)) == (saved.spendings, saved.questions)
    assert (list(found.journal), found.whole) == (saved.journal, True)


async def test_objects_history_and_costs_are_added_and_everything_else_is_replaced(make_store: MakeStore) -> None:
    store = make_store()
    journal = [JournalRecord("Writer.plan", "reply", "step 1", "Oslo")]
    await store.save([StoredProcess(record("one"), [ObjectRecord(0, "a")], ["x"], ["1"], [question("q-1")], journal)])
    changed = record("one", status="stuck")
    await store.save([StoredProcess(changed, [ObjectRecord(1, "b")], ["y"], ["2"], [question("q-1", "answered")])])
    (found,) = await store.family("one")
    assert found.process == changed
    assert list(found.objects) == [ObjectRecord(0, "a"), ObjectRecord(1, "b")]
    assert (list(found.history), list(found.spendings)) == (["x", "y"], ["1", "2"])
    assert [each.status for each in found.questions] == ["answered"]
    assert list(found.journal) == []


async def test_an_unknown_process_has_no_record_and_no_family(make_store: MakeStore) -> None:
    store = make_store()
    assert await store.find("nobody") is None
    assert list(await store.family("nobody")) == []
    assert not await store.claim("nobody")
    await store.save([])
    assert list(await store.records()) == []


async def test_a_saved_process_can_be_claimed(make_store: MakeStore) -> None:
    store = make_store()
    await store.save([StoredProcess(record("one"))])
    assert await store.claim("one")
    assert await store.find("one") is not None


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
    await store.save([StoredProcess(record(each, parent, root="p0")) for each, parent in family])
    asked = data.draw(st.sampled_from([each for each, _ in family]))
    found = [(each.process.id, each.process.parent) for each in await store.family(asked)]
    assert sorted(found) == sorted(family)
    names = [each for each, _ in found]
    assert all(not parent or names.index(parent) < names.index(each) for each, parent in found)
