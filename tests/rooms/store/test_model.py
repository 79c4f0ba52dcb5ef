"""Whatever programs do with one database, in whatever order: it does the same as a simple model of a store."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from hypothesis import HealthCheck, given, settings, strategies as st

from goalport.base.errors import LeaseHeld, LeaseLost
from goalport.store import (
    EventRecord,
    InMemoryProcessStore,
    JournalRecord,
    Lease,
    ObjectRecord,
    ProcessStore,
    QuestionRecord,
    StoredProcess,
)
from tests.rooms.store.conftest import MakeDatabase
from tests.rooms.store.model import Model
from tests.rooms.store.programs import START, record

T = TypeVar("T")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=3,
)
ROOTS = st.sampled_from(["a.0", "b.0"])
IDS = st.builds("{}.{}".format, st.sampled_from("ab"), st.integers(0, 2))
PLACES, ACTIONS = st.integers(0, 3), st.sampled_from(["A.a", "A.b"])
STATUSES = st.sampled_from(["running", "waiting", "stuck", "completed", "killed"])
SECONDS = st.integers(0, 9).map(lambda seconds: START + timedelta(seconds=seconds))
TIMES = SECONDS | SECONDS | st.sampled_from([None, datetime(2200, 1, 1, tzinfo=UTC)])
QUESTIONS = st.builds(
    QuestionRecord,
    number=PLACES,
    id=st.just("q"),
    action=ACTIONS,
    wait=JSON,
    in_action=st.booleans(),
    asked_at=SECONDS,
    status=STATUSES,
    answer=JSON,
    reason=st.text(st.characters()),
)


def numbered(records: st.SearchStrategy[T]) -> st.SearchStrategy[Sequence[T]]:
    """Records in the order of their numbers."""
    return st.lists(records, max_size=2, unique_by=number_of).map(lambda some: sorted(some, key=number_of))


def number_of(numbered_record: Any) -> int:
    return numbered_record.number


@st.composite
def changed(draw: st.DrawFn, root: str) -> StoredProcess:
    number = draw(st.integers(0, 2))
    process = record(f"{root[0]}.{number}", root if number else "", root=root, status=draw(STATUSES))
    finished_at = START + timedelta(days=draw(st.integers(0, 300))) if process.ended else None
    return StoredProcess(
        process._replace(finished_at=finished_at, definition=draw(st.sampled_from([None, "d"])), state=draw(JSON)),
        draw(numbered(st.builds(ObjectRecord, PLACES, JSON, JSON))),
        draw(st.lists(JSON, max_size=2)),
        draw(st.lists(JSON, max_size=2)),
        draw(numbered(QUESTIONS)),
        draw(numbered(st.builds(JournalRecord, PLACES, ACTIONS, st.just("reply"), ACTIONS, JSON))),
        history_from=draw(PLACES),
        spendings_from=draw(PLACES),
        ended_actions=draw(st.lists(ACTIONS, max_size=1)),
    )


class Save(NamedTuple):
    me: int
    root: str
    lease: int
    changes: Sequence[StoredProcess]
    events: Sequence[object]
    wake_at: datetime | None
    release: bool


async def outcome(work: Awaitable[T]) -> T | type[Exception]:
    try:
        return await work
    except (LeaseHeld, LeaseLost) as error:
        return type(error)


def expected(work: Callable[[], T]) -> T | type[Exception]:
    try:
        return work()
    except (LeaseHeld, LeaseLost) as error:
        return type(error)


LEASE, MESSAGE = st.integers(0, 2), st.integers(0, 3)
"""Which lease of a family, the newest first; which message, none first."""


def steps(programs: int) -> st.SearchStrategy[Sequence[object]]:
    """What programs do, one after the other; one alone has nobody to take over from, or to write to."""
    me = st.integers(0, programs - 1)
    saves = ROOTS.flatmap(
        lambda root: st.builds(
            Save,
            me,
            st.just(root),
            LEASE,
            st.lists(changed(root), max_size=3),
            events=st.lists(JSON, max_size=2),
            wake_at=TIMES,
            release=st.booleans(),
        )
    )
    shared = [
        st.tuples(st.just("due"), me, st.integers(0, 3)),
        st.tuples(st.just("due"), me, st.just(3)),
        st.tuples(st.just("heartbeat"), me, st.booleans()),
        st.tuples(st.just("send"), me, IDS, JSON),
        st.tuples(st.just("reply"), me, MESSAGE, JSON.filter(lambda value: value is not None)),
        st.tuples(st.just("withdraw"), me, MESSAGE),
    ]
    others = [
        *(shared if programs > 1 else ()),
        st.tuples(st.just("claim"), me, IDS),
        st.tuples(st.just("release"), me, ROOTS, LEASE),
        st.tuples(st.just("join"), me, st.sampled_from("kl"), st.sampled_from("de"), IDS, st.just("") | IDS),
        st.tuples(st.just("drop"), me, IDS),
        st.tuples(st.just("prune"), me, st.sampled_from([None, 1, 100_000]), st.none() | st.integers(0, 2)),
    ]
    return st.lists(st.one_of(saves, saves, *others), min_size=1, max_size=20)


class Both:
    """The stores of some programs for one database, and the model of it."""

    def __init__(self, stores: Sequence[ProcessStore]) -> None:
        self.stores, self.model = stores, Model(fenced=stores[0].durable)
        self.leases: dict[str, list[Lease]] = {}
        self.messages: list[int] = []
        self.happened = 0

    async def step(self, step: Any) -> None:
        """A program does something, and the same happens in the model."""
        match step:
            case Save():
                await self.save(step)
            case ("claim", me, process_id):
                found = await outcome(self.of(me).claim(process_id))
                assert found == expected(lambda: self.model.claim(me, process_id))
                self.note(found)
            case ("due", me, limit):
                found = await self.of(me).due(limit)
                assert list(found) == self.model.due(me, limit)
                self.note(*found)
            case ("release", me, root, number):
                lease = self.lease(root, number)
                await self.of(me).release(lease)
                self.model.release(lease)
            case ("heartbeat", me, lives):
                await self.of(me).heartbeat(600 if lives else 0)
                (self.model.alive.add if lives else self.model.alive.discard)(me)
            case _:
                await self.other_step(step)

    def of(self, me: int) -> ProcessStore:
        return self.stores[me]

    async def other_step(self, step: Any) -> None:
        match step:
            case ("send", me, process_id, value):
                self.messages.append(await self.of(me).send(process_id, value))
                self.model.send(len(self.messages), process_id, value)
            case ("reply", me, number, value):
                await self.of(me).reply(self.message(number), value)
                self.model.reply(number, value)
            case ("withdraw", me, number):
                assert await self.of(me).withdraw(self.message(number)) == self.model.withdraw(number)
            case ("join", me, key, digest, process_id, other):
                found = await self.of(me).join(key, digest, process_id, instead_of=other)
                assert found == self.model.join(key, digest, process_id, other)
            case ("drop", me, root):
                dropped = await outcome(self.of(me).drop(root))
                assert dropped == expected(lambda: self.model.drop(me, root))
            case (_, me, days, keep):
                age = None if days is None else timedelta(days=days)
                assert await self.of(me).prune(older_than=age, keep=keep) == self.model.prune(me, age, keep)
            case _:
                raise AssertionError(step)

    def changes(self, save: Save) -> Sequence[StoredProcess]:
        """Each process once, and what has no number of its own after what is there."""
        found: list[StoredProcess] = []
        for each in {each.process.id: each for each in save.changes}.values():
            history, spendings = self.model.lengths(each.process.id)
            found.append(
                each._replace(
                    history_from=min(each.history_from, history), spendings_from=min(each.spendings_from, spendings)
                )
            )
        return found

    async def save(self, save: Save) -> None:
        changes = self.changes(save)
        lease = self.lease(save.root, save.lease)
        if changes and not lease.token and all(each.process.id != save.root for each in changes):
            return
        events = [EventRecord(self.happened + place, each) for place, each in enumerate(save.events, start=1)]
        self.happened += len(events)
        found = await outcome(
            self.of(save.me).save(changes, lease, wake_at=save.wake_at, release=save.release, events=events)
        )
        assert found == expected(
            lambda: self.model.save(save.me, changes, lease, save.wake_at, events, release=save.release)
        )
        self.note(found)

    async def compare(self) -> None:
        """All that each program can see is as in the model."""
        store = self.stores[0]
        for me, each in enumerate(self.stores):
            inbox = [
                (self.messages.index(message.number) + 1, message.process, message.value)
                for message in await each.inbox()
            ]
            assert inbox == self.model.inbox(me)
        for number, each in enumerate(self.messages, start=1):
            assert await store.replied(each) == self.model.replies.get(number)
        for statuses in ([], ["running", "stuck"]):
            listed = await store.records(statuses=statuses)
            assert sorted(each.id for each in listed) == sorted(self.model.listed(statuses))
            assert [each.id for each in await store.records(statuses=statuses, newest_first=True)] == [
                each.id for each in reversed(listed)
            ]
        for each in (f"{family}.{number}" for family in "ab" for number in range(3)):
            members, version = await store.family(each)
            assert ({one.process.id: seen(one) for one in members}, version) == self.model.seen(each)
        for root in ("a.0", "b.0"):
            known = self.model.families.get(root)
            assert list(await store.events(root, 0, 1000)) == (known.events if known else [])

    def lease(self, root: str, number: int) -> Lease:
        known = [*reversed(self.leases.get(root, [])), Lease(root)]
        return known[min(number, len(known) - 1)]

    def note(self, *leases: Lease | type[Exception] | None) -> None:
        for each in leases:
            if isinstance(each, Lease) and each.token:
                self.leases.setdefault(each.root, []).append(each)

    def message(self, number: int) -> int:
        """The number of a message in the database; in the model they are numbered from 1."""
        return self.messages[number - 1] if 0 < number <= len(self.messages) else 0


def seen(stored: StoredProcess) -> Sequence[object]:
    parts = (stored.objects, stored.history, stored.spendings, stored.questions, stored.journal)
    return [stored.process, *map(list, parts)]


SETTINGS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    max_examples=40,
    deadline=None,
)


@SETTINGS
@given(steps(2))
async def test_programs_do_the_same_to_a_database_as_to_the_model(
    make_database: MakeDatabase, steps: Sequence[object]
) -> None:
    open_store = make_database()
    programs = [open_store(), open_store()]
    both = Both(programs)
    for each in steps:
        await both.step(each)
    await both.compare()
    for each in programs:
        await each.close()


@SETTINGS
@given(steps(1))
async def test_one_program_does_the_same_in_memory_as_to_the_model(steps: Sequence[object]) -> None:
    both = Both([InMemoryProcessStore()])
    for each in steps:
        await both.step(each)
    await both.compare()
