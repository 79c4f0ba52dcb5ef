"""What every store does with conversations: versions decide, words are found, and deletion is for good."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, StoreError
from goalport.store import ConversationRecord, ConversationStore, MessageRecord
from goalport.store.memory import InMemoryConversations
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.store.conftest import MakeDatabase, MakeStore
from tests.rooms.store.programs import locked

START = datetime(2026, 1, 1, tzinfo=UTC)
ANN, BOB = Caller("ann", "house", frozenset({"read"}), {"tenant": "acme"}), Caller("bob", "house")


def conversation(conversation_id: str, *, title: str = "", second: int = 0, **fields: Any) -> ConversationRecord:
    at = START + timedelta(seconds=second)
    made = ConversationRecord(
        conversation_id, "Support", ANN, title, "", "", "", finished=False, created_at=START, updated_at=at
    )
    return made._replace(**fields)


def message(message_id: str, text: str = "", *, parent: str = "") -> MessageRecord:
    return MessageRecord(message_id, parent, "user", "Ann", text, {"content": [text]}, START)


async def listed(store: ConversationStore, **chosen: Any) -> Sequence[str]:
    return [each.id for each in await store.list(**chosen)]


@pytest.fixture
def store(make_store: MakeStore) -> ConversationStore:
    return make_store().conversations


async def test_what_was_saved_comes_back_as_it_was_with_numbers(store: ConversationStore) -> None:
    fields: dict[str, Any] = {"head": "m2", "process": "p", "context_id": "c", "finished": True}
    saved = await store.save(
        conversation("one", title="Tea", **fields), [message("m1", "a"), message("m2", parent="m1")]
    )
    assert saved == conversation("one", title="Tea", version=1, **fields)
    assert await store.find("one") == saved
    assert await store.list() == [saved]
    found = await store.messages("one")
    assert list(found) == [message("m1", "a")._replace(number=1), message("m2", parent="m1")._replace(number=2)]


async def test_who_does_not_know_the_version_of_now_changes_nothing(store: ConversationStore) -> None:
    first = await store.save(conversation("one"), [message("m1")])
    assert first is not None
    assert await store.save(conversation("one", title="again")) is None
    second = await store.save(first._replace(title="mine"), [message("m2")])
    assert second is not None
    assert await store.save(first._replace(title="late"), [message("m3")]) is None
    assert await store.save(conversation("gone", version=1), [message("m1")]) is None
    assert (await store.find("one"), await store.find("gone")) == (second, None)
    assert [each.id for each in await store.messages("one")] == ["m1", "m2"]
    assert list(await store.messages("gone")) == []


async def test_a_message_whose_id_is_kept_stays_as_it_is(store: ConversationStore) -> None:
    first = await store.save(conversation("one"), [message("m1", "a")])
    assert first is not None
    await store.save(first, [message("m1", "b"), message("m2", "c"), message("m2", "d")])
    assert [(each.id, each.text, each.number) for each in await store.messages("one")] == [
        ("m1", "a", 1),
        ("m2", "c", 2),
    ]


async def test_conversations_are_listed_in_pages_the_newest_first(store: ConversationStore) -> None:
    for number in range(5):
        await store.save(conversation(f"c{number}", second=number // 2, caller=BOB if number == 2 else ANN))
    assert await listed(store) == ["c4", "c3", "c2", "c1", "c0"]
    assert await listed(store, limit=2, after="c4") == ["c3", "c2"]
    assert await listed(store, after="gone") == []
    assert await listed(store, caller=ANN, after="c3") == ["c1", "c0"]
    assert await listed(store, caller=Caller("ann", "garden")) == []
    assert await listed(store, chatbot="Other") == []


async def test_each_word_is_found_in_the_title_or_in_a_message(store: ConversationStore) -> None:
    await store.save(conversation("one", title="Straße nach Oslo"), [message("m1", "Wo ist die FÄHRE?")])
    await store.save(conversation("two", title="Oslo", second=1), [message("m1", "Und Bergen?")])
    assert await listed(store, search="oslo STRASSE fähre") == ["one"]
    assert await listed(store, search="oslo") == ["two", "one"]
    assert await listed(store, search="oslo bergen fähre") == []


async def test_a_search_for_too_many_words_is_refused(store: ConversationStore) -> None:
    await store.save(conversation("one", title=" ".join(map(str, range(1000)))))
    assert await listed(store, search=" ".join(map(str, range(100))) + " 99 98") == ["one"]
    with pytest.raises(BadInput, match="at most 100 different words to search for, but got 101"):
        await store.list(search=" ".join(map(str, range(101))))


async def test_whatever_is_searched_for_is_words_and_nothing_else(store: ConversationStore) -> None:
    words = ["%", "_", "*", '"', "\\", "');drop", "NEAR(a)", "\0"]
    for number, word in enumerate(words):
        await store.save(conversation(f"c{number}"), [message("m1", f"a{word}b")])
        assert (await store.messages(f"c{number}"))[0].text == f"a{word}b"
    for number, word in enumerate(words):
        assert await listed(store, search=word) == [f"c{number}"]


async def test_a_word_may_be_as_long_as_a_message(store: ConversationStore) -> None:
    text = "x" * 1_000_000
    await store.save(conversation("one"), [message("m1", text)])
    assert await listed(store, search=text) == ["one"]
    assert await listed(store, search=f"{text}x") == []


async def test_ten_thousand_messages_come_back_in_order(store: ConversationStore) -> None:
    ids = [f"m{number}" for number in range(10_000)]
    saved = await store.save(conversation("one"), [message(each, each) for each in ids])
    assert saved is not None
    await store.save(saved, [message("m1"), message("last")])
    assert [(each.id, each.number) for each in await store.messages("one")] == [
        (each, number) for number, each in enumerate([*ids, "last"], start=1)
    ]


async def test_a_thousand_conversations_are_listed_page_by_page(store: ConversationStore) -> None:
    for number in range(1000):
        await store.save(conversation(f"c{number}", title=f"Talk {number % 10}", second=number // 3))
    pages: list[str] = []
    while page := await listed(store, caller=ANN, search="talk 7", after=pages[-1] if pages else ""):
        assert len(page) <= 50
        pages += page
    assert pages == [f"c{number}" for number in range(997, 0, -10)]


async def test_a_deleted_conversation_is_gone_with_its_messages(store: ConversationStore) -> None:
    await store.save(conversation("one"), [message("m1")])
    assert await store.delete("one")
    assert not await store.delete("one")
    assert (await store.find("one"), list(await store.messages("one")), list(await store.list())) == (None, [], [])


async def test_memory_has_room_for_the_conversations_that_were_used_last() -> None:
    store = InMemoryConversations(3)
    for number in range(3):
        await store.save(conversation(f"c{number}"))
    await store.find("c0")
    await store.save(conversation("c3"))
    assert sorted(await listed(store)) == ["c0", "c2", "c3"]
    await store.delete("c2")
    await store.save(conversation("c4"))
    assert sorted(await listed(store)) == ["c0", "c3", "c4"]


# Several programs, and databases that cannot be used.


async def test_programs_that_write_the_same_conversation_come_one_after_the_other(make_database: MakeDatabase) -> None:
    open_store = make_database()
    programs = [open_store().conversations for _ in range(4)]
    made: list[ConversationRecord] = []

    async def write(store: ConversationStore, message_id: str) -> None:
        """Add a message behind the last one, however often others are faster."""
        if saved := await store.save(conversation("one")):
            made.append(saved)
        while (known := await store.find("one")) is not None:
            if await store.save(known._replace(head=message_id), [message(message_id, parent=known.head)]):
                break

    async with anyio.create_task_group() as group:
        for number, each in enumerate(programs):
            group.start_soon(write, each, f"m{number}")
    found = await programs[0].messages("one")
    ids = [each.id for each in found]
    last = await programs[0].find("one")
    assert len(made) == 1
    assert sorted(ids) == ["m0", "m1", "m2", "m3"]
    assert [each.parent for each in found] == ["", *ids[:-1]]
    assert (last and (last.head, last.version)) == (ids[-1], 5)


async def test_a_conversation_that_cannot_be_written_is_as_it_was(make_database: MakeDatabase) -> None:
    store = make_database()()
    saved = await store.conversations.save(conversation("one"), [message("m1")])
    assert saved is not None
    with pytest.raises(StoreError, match=r"A value is not as it must be: .* Nothing was written."):
        await store.conversations.save(saved._replace(title="new"), [message("m2"), message("half a pair \ud800")])
    with pytest.raises(TypeError):
        await store.conversations.save(saved, [message("m2")._replace(value=object())])
    assert await store.conversations.find("one") == saved
    assert [each.id for each in await store.conversations.messages("one")] == ["m1"]
    await store.close()
    with pytest.raises(StoreError, match="It is closed"):
        await store.conversations.save(saved)
    with pytest.raises(StoreError, match="It is closed"):
        await store.conversations.list()


async def test_a_file_that_another_program_has_locked_is_said_and_works_again(file: Path) -> None:
    async with SqliteProcessStore(file, busy_seconds=0.1) as store:
        saved = await store.conversations.save(conversation("one"))
        with locked(file):
            with pytest.raises(StoreError, match=r"locked for more than 0.1 s. Try again"):
                await store.conversations.delete("one")
            assert await store.conversations.find("one") == saved
        assert await store.conversations.delete("one")


async def test_nothing_of_a_deleted_conversation_is_left_in_the_file(file: Path) -> None:
    async with SqliteProcessStore(file) as store:
        await store.conversations.save(conversation("kept", title="Kept Title"), [message("m1", "kept text")])
        texts = [f"Forgotten {number} " * 200 for number in range(30)]
        secret = [message(f"s{number}", text) for number, text in enumerate(texts)]
        await store.conversations.save(conversation("one", title="Forgotten Title"), secret)
        await store.conversations.delete("one")
    written = await anyio.Path(file).read_bytes()
    assert b"kept text" in written
    assert b"forgotten" not in written.lower()
