"""What every store does with conversations: versions decide, words are found, and deletion is for good."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from goalport.caller import Caller
from goalport.errors import BadInput
from goalport.store import ConversationRecord, ConversationStore, MessageRecord
from tests.rooms.store.conftest import MakeStore

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


async def test_a_deleted_conversation_is_gone_with_its_messages(store: ConversationStore) -> None:
    await store.save(conversation("one"), [message("m1")])
    assert await store.delete("one")
    assert not await store.delete("one")
    assert (await store.find("one"), list(await store.messages("one")), list(await store.list())) == (None, [], [])
