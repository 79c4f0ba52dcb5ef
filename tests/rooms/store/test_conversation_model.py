"""Whatever programs do with the conversations of a store, in whatever order: it does the same as a simple model."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings, strategies as st

from goalport.base.caller import Caller
from goalport.store import ConversationRecord, ConversationStore, MessageRecord
from tests.rooms.store.conftest import MakeDatabase, MakeStore
from tests.rooms.store.programs import START

NASTY = [
    "%",
    "_",
    "*",
    "'",
    '"',
    "\\",
    "\0",
    "\ud800",
    "\udfff\ud83d",
    "NEAR(",
    "Straße",
    "STRASSE",
    "İ",
    "ﬁ",
    "Oslo oslo",
]
TEXTS = st.lists(st.sampled_from(NASTY) | st.text(st.characters(), max_size=3), max_size=4).map(" ".join)
IDS, MESSAGE_IDS = st.sampled_from(["one", "two", "three"]), st.sampled_from("abcd")
CALLERS = st.sampled_from([Caller("ann", "house", frozenset({"read"}), {"tenant": "ä"}), Caller("ann"), Caller("bob")])
CHATBOTS = st.sampled_from(["Support", "Guide"])
TIMES = st.integers(0, 3).map(lambda seconds: START + timedelta(seconds=seconds, microseconds=1))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=3,
)
MESSAGES = st.builds(
    MessageRecord, MESSAGE_IDS, st.just("") | MESSAGE_IDS, st.sampled_from(["user", "tool"]), TEXTS, TEXTS, JSON, TIMES
)
RECORDS = st.builds(
    ConversationRecord,
    IDS,
    CHATBOTS,
    CALLERS,
    TEXTS,
    head=MESSAGE_IDS,
    process=st.sampled_from(["", "p", "q"]),
    context_id=st.sampled_from(["", "c"]),
    finished=st.booleans(),
    created_at=TIMES,
    updated_at=TIMES,
)


class Save(NamedTuple):
    record: ConversationRecord
    messages: Sequence[MessageRecord]
    behind: int | None
    """How many versions behind that of now; None: as a new one."""


class Delete(NamedTuple):
    id: str


class Choice(NamedTuple):
    """What a list shows."""

    caller: Caller | None
    chatbot: str
    search: str
    after: str
    limit: int


SAVES = st.builds(Save, RECORDS, st.lists(MESSAGES, max_size=4), st.sampled_from([None, 0, 0, 0, 1]))
CHOICES = st.builds(
    Choice, st.none() | CALLERS, st.just("") | CHATBOTS, st.just("") | TEXTS, st.just("") | IDS, st.integers(0, 4)
)
STEPS = st.lists(SAVES | SAVES | CHOICES | CHOICES | st.builds(Delete, IDS), min_size=1, max_size=20)


class Model:
    def __init__(self) -> None:
        self.kept: dict[str, tuple[int, ConversationRecord, dict[str, MessageRecord]]] = {}
        self.processes: dict[str, list[str]] = {}
        self.made = 0

    def save(self, record: ConversationRecord, messages: Sequence[MessageRecord]) -> ConversationRecord | None:
        number, known, kept = self.kept.get(record.id, (self.made, record._replace(version=0), {}))
        if known.version != record.version:
            return None
        self.made += 1
        record = record._replace(version=record.version + 1)
        for each in messages:
            if each.id not in kept:
                kept[each.id] = each._replace(number=len(kept) + 1)
        self.kept[record.id] = number, record, kept
        before = self.processes.setdefault(record.id, [])
        before[:] = [*(each for each in before if each != record.process), *filter(None, [record.process])]
        return record

    def delete(self, conversation_id: str) -> bool:
        self.processes.pop(conversation_id, None)
        return self.kept.pop(conversation_id, None) is not None

    def list(self, choice: Choice) -> Sequence[ConversationRecord]:
        order = sorted(self.kept.values(), key=lambda kept: (kept[1].updated_at, kept[0]), reverse=True)
        ids = [record.id for _, record, _ in order]
        begin = 0 if not choice.after else ids.index(choice.after) + 1 if choice.after in ids else len(ids)
        found = [
            record
            for _, record, messages in order[begin:]
            if (choice.caller is None or record.caller.identity == choice.caller.identity)
            and choice.chatbot in {"", record.chatbot}
            and has([record.title, *(each.text for each in messages.values())], choice.search)
        ]
        return found[: choice.limit]


def has(texts: Sequence[str], search: str) -> bool:
    return all(any(word in folded(each) for each in texts) for word in folded(search).split())


def folded(text: str) -> str:
    """No database needs to tell apart what it cannot take as a character."""
    return re.sub("[\0\ud800-\udfff]", "\ufffd", text.casefold())


async def do(store: ConversationStore, model: Model, step: Save | Delete | Choice) -> None:
    match step:
        case Save(record, messages, behind):
            known = model.kept.get(record.id)
            version = 0 if behind is None or known is None else max(known[1].version - behind, 0)
            given = record._replace(version=version)
            assert await store.save(given, messages) == model.save(given, messages)
        case Delete(conversation_id):
            assert await store.delete(conversation_id) == model.delete(conversation_id)
        case Choice():
            assert list(await store.list(**step._asdict())) == model.list(step)


async def compare(store: ConversationStore, model: Model) -> None:
    for each in ("one", "two", "three"):
        known = model.kept.get(each)
        found = await store.find(each)
        assert found == (known and known[1])
        assert list(await store.processes(each)) == model.processes.get(each, [])
        assert known is None or found is None or found.caller.claims == known[1].caller.claims
        assert list(await store.messages(each)) == ([] if known is None else list(known[2].values()))


SETTINGS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    max_examples=25,
    deadline=None,
)


@SETTINGS
@given(STEPS)
async def test_a_store_does_the_same_with_conversations_as_the_model(
    make_store: MakeStore, steps: Sequence[Save | Delete | Choice]
) -> None:
    store, model = make_store().conversations, Model()
    for each in steps:
        await do(store, model, each)
    await compare(store, model)


@SETTINGS
@given(st.lists(st.tuples(st.booleans(), SAVES | SAVES | CHOICES | st.builds(Delete, IDS)), max_size=20))
async def test_two_programs_do_the_same_with_conversations_as_the_model(
    make_database: MakeDatabase, steps: Sequence[tuple[bool, Save | Delete | Choice]]
) -> None:
    open_store = make_database()
    programs, model = [open_store(), open_store()], Model()
    for of_second, each in steps:
        await do(programs[of_second].conversations, model, each)
    for each in programs:
        await compare(each.conversations, model)
        await each.close()
