"""The records of conversations, and the protocol of a store that keeps them.

A conversation is a tree of messages: each names the one before it, and the head of the conversation is the last message
of the branch that is shown. Messages are only added; a message that is said again in other words begins another branch.
What they hold is what JSON can say, in memory too, since it outlives the classes of a program. Above: the room `chat`
makes records of a conversation and a conversation of records.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from goalport.base.caller import Caller
from goalport.base.errors import BadInput

_MOST_WORDS: Final = 100
"""How many different words are searched for at once: each is looked for in every message."""
_NO_TEXT: Final = dict.fromkeys([0, *range(0xD800, 0xE000)], "\ufffd")
"""What not every database takes as a character, and what stands for it."""


class MessageRecord(NamedTuple):
    """A message of a conversation. It is never changed, only others are added."""

    id: str
    parent: str
    """The id of the message before it in its branch; empty for one that begins the conversation."""
    role: str
    """`user`, `assistant`, `system`, `tool` or `summary`."""
    name: str
    """Of the speaker; empty if there is no other than the role."""
    text: str
    """What is searched."""
    value: object
    """The message, as JSON can say it."""
    at: datetime
    number: int = 0
    """Its place among all messages of the conversation, from 1; the store gives it."""


class ConversationRecord(NamedTuple):
    """What is known of a conversation without its messages: what lists show, and what is needed to go on with it."""

    id: str
    chatbot: str
    """The name of the chatbot."""
    caller: Caller
    title: str
    head: str
    """The id of the last message of the branch that is shown; empty as long as there is none."""
    process: str
    """The id of the process that goes on with it; empty for none."""
    context_id: str
    """The context that it begins with and adds to; empty for none."""
    finished: bool
    """Whether it has reached its goal, so that no message follows."""
    created_at: datetime
    updated_at: datetime
    version: int = 0
    """How often it was saved."""


class ConversationStore(Protocol):
    """Keeps conversations, for one program or several that use the same database: their versions decide who was first.

    Its methods raise `StoreError` when the database cannot be used, and nothing is written then.
    """

    async def save(
        self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = (), /
    ) -> ConversationRecord | None:
        """Keep a conversation in place of the one that has its version, and add messages; all of it or nothing.

        Version 0 makes a new one. Returns the conversation with its new version; None if it was changed meanwhile, was
        deleted, or, as a new one, is there already. A message whose id the conversation has already stays as it is.
        """
        ...

    async def find(self, conversation_id: str, /) -> ConversationRecord | None:
        """The conversation of that id; None if there is none."""
        ...

    async def messages(self, conversation_id: str, /) -> Sequence[MessageRecord]:
        """The messages of a conversation, of all its branches, in the order in which they were added."""
        ...

    async def list(
        self,
        *,
        caller: Caller | None = None,
        chatbot: str = "",
        search: str = "",
        after: str = "",
        limit: int = 50,
    ) -> Sequence[ConversationRecord]:
        """Conversations, the one that was updated last first; `caller` and `chatbot` leave others out.

        Of a `search` each word has to occur in the title or in a message, as a word or in one, in capitals or not. A
        page begins behind the conversation with the id `after`; there is none behind one that is not kept. Raises
        `BadInput` for a search of more than a hundred different words.
        """
        ...

    async def processes(self, conversation_id: str, /) -> Sequence[str]:
        """The ids of all processes that have ever gone on with a conversation, the one of now last."""
        ...

    async def delete(self, conversation_id: str, /) -> bool:
        """Drop a conversation with all its messages, for good. Returns whether there was one of that id."""
        ...


def searchable(text: str) -> str:
    """A text as it is searched: without regard to capitals."""
    return text.casefold().translate(_NO_TEXT)


def words_of(search: str) -> Sequence[str]:
    """The different words of a search, as they are found in searchable texts. Raises `BadInput` for too many."""
    words = list(dict.fromkeys(searchable(search).split()))
    if len(words) > _MOST_WORDS:
        raise BadInput(
            f"Expected at most {_MOST_WORDS} different words to search for, but got {len(words)}. Search for fewer."
        )
    return words
