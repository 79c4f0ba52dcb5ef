"""A history that a client sends: it continues the stored one, edits it, asks for another reply, or is unknown."""

from hypothesis import given, strategies as st

from goalport.models.llm import AssistantMessage, Image, Message, SystemMessage, ToolCall, ToolReply, UserMessage
from goalport.runtime.chat import ConversationMessage, compare
from goalport.runtime.chat.conversation import from_record, to_record

TEXTS = st.text(max_size=8)
IMAGES = st.lists(st.builds(Image, st.just("image/png"), st.binary(min_size=1, max_size=4)), max_size=2).map(tuple)
CALLS = st.lists(st.builds(ToolCall, TEXTS, TEXTS, TEXTS), max_size=2).map(tuple)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, TEXTS, IMAGES),
    st.builds(AssistantMessage, TEXTS, CALLS, TEXTS),
    st.builds(ToolReply, TEXTS, TEXTS, TEXTS, IMAGES, is_error=st.booleans()),
)


def _entries(messages: list[Message]) -> list[ConversationMessage]:
    return [ConversationMessage.of(each) for each in messages]


@given(st.lists(MESSAGES, max_size=6), st.lists(MESSAGES, max_size=3))
def test_what_follows_the_stored_messages_is_the_tail(stored: list[Message], more: list[Message]) -> None:
    entries = _entries(stored)
    match = compare(entries, [SystemMessage("Be brief."), *stored, *more])
    assert match.tail == tuple(more)
    assert not match.forks
    assert match.after == (entries[-1].id if entries else "")


@given(st.lists(MESSAGES, min_size=1, max_size=6), st.data())
def test_an_edited_message_forks_where_it_stood(stored: list[Message], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(stored) - 1))
    entries, edited = _entries(stored), UserMessage(f"{stored[place].content.strip()} edited")
    match = compare(entries, [*stored[:place], edited])
    assert match.forks
    assert match.tail == (edited,)
    assert match.after == (entries[place - 1].id if place else "")
    assert not match.regenerates


def test_a_history_without_its_last_reply_asks_for_another_one() -> None:
    entries = _entries([UserMessage("Why?"), AssistantMessage("Because.")])
    match = compare(entries, [UserMessage("Why? \n")])
    assert match.regenerates
    assert match.after == entries[0].id


def test_an_unknown_history_is_all_tail() -> None:
    said = [UserMessage("One"), AssistantMessage("Two"), UserMessage("Three")]
    assert compare([], said).tail == tuple(said)


@given(st.lists(TEXTS.filter(str.strip), min_size=2, max_size=4), st.lists(MESSAGES, max_size=3))
def test_several_replies_in_a_row_may_be_shown_as_one(replies: list[str], more: list[Message]) -> None:
    entries = _entries([UserMessage("Well?"), *map(AssistantMessage, replies)])
    shown = AssistantMessage("\n\n".join(replies))
    match = compare(entries, [UserMessage("Well?"), shown, *more])
    assert (match.after, match.tail, match.forks) == (entries[-1].id, tuple(more), False)
    edited = compare(entries, [UserMessage("Well?"), AssistantMessage(f"{shown.content} edited")])
    assert edited.after == entries[0].id


@given(MESSAGES, TEXTS)
def test_a_stored_message_is_read_as_it_was_written(message: Message, name: str) -> None:
    entry = ConversationMessage.of(message, name=name)
    assert from_record(to_record(entry)) == entry


def test_a_history_is_compared_with_very_many_replies_in_a_row_at_once() -> None:
    entries = _entries([UserMessage("Well?"), *map(AssistantMessage, ["so " * 20] * 10_000)])
    whole = "\n\n".join(each.text for each in entries[1:])
    for shown, agree in ((whole, True), (f"{whole} edited", False)):
        assert compare(entries, [UserMessage("Well?"), AssistantMessage(shown)]).forks is not agree
