"""The conversations in the memory of the program: they end with it."""

from collections.abc import Iterator, Sequence
from itertools import count, islice

from goalport.caller import Caller
from goalport.store.conversations import ConversationRecord, MessageRecord, searchable, words_of

__all__ = ["InMemoryConversations"]


class _Kept:
    """A conversation with its messages, by their ids."""

    def __init__(self, number: int, record: ConversationRecord) -> None:
        self.number, self.record = number, record
        self.messages: dict[str, MessageRecord] = {}

    def add(self, messages: Sequence[MessageRecord]) -> None:
        for each in messages:
            self.messages.setdefault(each.id, each._replace(number=len(self.messages) + 1))

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
    """Keeps conversations in memory; see `ConversationStore`."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._numbers = count(1)

    async def save(
        self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = (), /
    ) -> ConversationRecord | None:
        known = self._kept.get(conversation.id)
        if (known.record.version if known is not None else 0) != conversation.version:
            return None
        saved = conversation._replace(version=conversation.version + 1)
        if known is None:
            known = self._kept[saved.id] = _Kept(next(self._numbers), saved)
        known.record = saved
        known.add(messages)
        return saved

    async def find(self, conversation_id: str, /) -> ConversationRecord | None:
        known = self._kept.get(conversation_id)
        return known and known.record

    async def messages(self, conversation_id: str, /) -> Sequence[MessageRecord]:
        known = self._kept.get(conversation_id)
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

    async def delete(self, conversation_id: str, /) -> bool:
        return self._kept.pop(conversation_id, None) is not None


def _order(kept: _Kept) -> tuple[object, ...]:
    return kept.record.updated_at, kept.number
