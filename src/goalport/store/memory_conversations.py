"""The conversations in the memory of the program, as many as there is room for: they end with it."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Final

from goalport.caller import Caller
from goalport.store.conversations import ConversationRecord, MessageRecord, searchable, words_of
from goalport.store.sizes import estimated_size

__all__ = ["InMemoryConversations"]

_CONVERSATION: Final = 2_000
"""About how many bytes a conversation takes besides its messages."""


class _Kept:
    """A conversation with its messages, by their ids."""

    def __init__(self, number: int, record: ConversationRecord) -> None:
        self.number, self.record = number, record
        self.messages: dict[str, MessageRecord] = {}
        self.processes: dict[str, None] = {}
        """The ids of those that have ever gone on with it."""
        self.size = _CONVERSATION

    def add(self, messages: Sequence[MessageRecord]) -> int:
        """Add messages; return about how many bytes they take."""
        before = self.size
        for each in messages:
            if each.id not in self.messages:
                self.messages[each.id] = each._replace(number=len(self.messages) + 1)
                self.size += estimated_size(each)
        return self.size - before

    def has(self, words: Sequence[str]) -> bool:
        """Whether each word is in the title or in a message."""
        missing = set(words)
        for text in self._texts():
            if not missing:
                break
            missing -= {each for each in missing if each in text}
        return not missing

    def _texts(self) -> Iterator[str]:
        yield searchable(self.record.title)
        for each in self.messages.values():
            yield searchable(each.text)


class InMemoryConversations:
    """Keeps conversations in memory; see `ConversationStore`.

    All together take about `most_bytes` at most: for more, those that were not used for longest are dropped.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        """By their ids, the one that was used last at the end."""
        self._numbers = count(1)

    async def save(
        self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = (), /
    ) -> ConversationRecord | None:
        known = self._used(conversation.id)
        if (known.record.version if known is not None else 0) != conversation.version:
            return None
        saved = conversation._replace(version=conversation.version + 1)
        if known is None:
            known = self._kept[saved.id] = _Kept(next(self._numbers), saved)
            self._bytes += known.size
        known.record = saved
        if saved.process:
            known.processes[saved.process] = known.processes.pop(saved.process, None)
        self._bytes += known.add(messages)
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))
        return saved

    async def find(self, conversation_id: str, /) -> ConversationRecord | None:
        known = self._used(conversation_id)
        return known and known.record

    async def messages(self, conversation_id: str, /) -> Sequence[MessageRecord]:
        known = self._used(conversation_id)
        return list(known.messages.values()) if known is not None else []

    async def list(
        self,
        *,
        caller: Caller | None = None,
        chatbot: str = "",
        search: str = "",
        after: str = "",
        limit: int = 50,
    ) -> Sequence[ConversationRecord]:
        words = words_of(search)
        last = self._kept.get(after)
        if after and last is None:
            return []
        found = (
            each
            for each in sorted(self._kept.values(), key=_order, reverse=True)
            if (last is None or _order(each) < _order(last))
            and (caller is None or caller.same_as(each.record.caller))
            and (not chatbot or each.record.chatbot == chatbot)
            and each.has(words)
        )
        return [each.record for each in islice(found, limit)]

    async def processes(self, conversation_id: str, /) -> Sequence[str]:
        known = self._kept.get(conversation_id)
        return list(known.processes) if known is not None else []

    async def delete(self, conversation_id: str, /) -> bool:
        return self._drop(conversation_id)

    def _used(self, conversation_id: str) -> _Kept | None:
        known = self._kept.get(conversation_id)
        if known is not None:
            self._kept.move_to_end(conversation_id)
        return known

    def _drop(self, conversation_id: str) -> bool:
        known = self._kept.pop(conversation_id, None)
        self._bytes -= 0 if known is None else known.size
        return known is not None


def _order(kept: _Kept) -> tuple[object, ...]:
    return kept.record.updated_at, kept.number
