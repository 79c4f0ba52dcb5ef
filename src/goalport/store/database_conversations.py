"""The conversations in a database; see `ConversationStore`. Their statements are as those of `statements`.

The row of a conversation is changed before its messages, so that programs that write the same one come one after the
other. Above: the store in a database.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from goalport.base.caller import Caller
from goalport.store.operations import ObservedDatabase, Operation, Values, deletes, reads
from goalport.store.records import ConversationRecord, MessageRecord, searchable, words_of
from goalport.store.rows import Row, caller_in, caller_row, json_text, microseconds, time_of
from goalport.store.statements import listed, values

_GIVEN: Final = (
    *("chatbot", "caller_id", "caller_issuer", "updated_at", "created_at", "finished", "head", "process"),
    *("context_id", "caller_scopes", "caller_claims", "title", "searchable"),
)
_COLUMNS: Final = ("id", "version", "earlier_processes", *_GIVEN)
_ADDED: Final = f"""
    INSERT INTO conversation ({listed(*_COLUMNS)}) VALUES (:id, 1, '', {values(*_GIVEN)})
    ON CONFLICT (id) DO NOTHING RETURNING number
"""
"""Adds a conversation; gives its number, or no row if there is one of its id."""
_CHANGED: Final = f"""
    UPDATE conversation SET {", ".join(f"{each} = :{each}" for each in _GIVEN)}, version = version + 1,
        earlier_processes = earlier_processes || CASE WHEN process = :process THEN '' ELSE ' ' || process END
    WHERE id = :id AND version = :known RETURNING number
"""
"""Changes a conversation that has the `known` version; gives its number, or no row."""
_FOUND: Final = f"SELECT number, {listed(*_COLUMNS)} FROM conversation WHERE id = :id"
_DELETED: Final = "DELETE FROM conversation WHERE id = :id RETURNING number"
_MESSAGE: Final = ("id", "parent", "role", "at", "name", "text", "value")
_TEXTS: Final = ("name", "text", "value")
_MESSAGE_ADDED: Final = f"""
    INSERT INTO conversation_message (conversation, number, searchable, {listed(*_MESSAGE)}) VALUES (
        :conversation,
        (SELECT coalesce(max(number), 0) + 1 FROM conversation_message WHERE conversation = :conversation),
        :searchable, {values(*_MESSAGE)}
    ) ON CONFLICT (conversation, id) DO NOTHING
"""
"""Adds a message behind the others, unless the conversation has one of its id."""
_MESSAGES: Final = f"""
    SELECT message.number, {listed(*_MESSAGE, of="message")}
    FROM conversation_message AS message JOIN conversation ON conversation.number = message.conversation
    WHERE conversation.id = :id ORDER BY message.number
"""
_MESSAGES_DELETED: Final = "DELETE FROM conversation_message WHERE conversation = :conversation"
_CHOICES: Final = {
    "caller_id": "caller_id = :caller_id AND caller_issuer = :caller_issuer",
    "chatbot": "chatbot = :chatbot",
    # There is no word that is neither in the title nor in a message.
    "word_list": """NOT EXISTS (
        SELECT 1 FROM {texts}(:word_list) AS word WHERE {place}(searchable, word.value) = 0 AND NOT EXISTS (
            SELECT * FROM conversation_message AS message
            WHERE message.conversation = conversation.number AND {place}(message.searchable, word.value) > 0
        )
    )""",
    "after": "(updated_at, number) < (SELECT updated_at, number FROM conversation WHERE id = :after)",
}


class DatabaseConversations:
    """Keeps conversations in a database, which other programs may use too; see `ConversationStore`."""

    def __init__(self, database: ObservedDatabase) -> None:
        self.database = database

    async def save(
        self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = (), /
    ) -> ConversationRecord | None:
        # People write titles, names and messages, and not every database takes each character as plain text.
        row = {
            **conversation._asdict(),
            **caller_row(conversation.caller),
            "updated_at": microseconds(conversation.updated_at),
            "created_at": microseconds(conversation.created_at),
            "title": json_text(conversation.title),
            "searchable": searchable(conversation.title),
            "known": conversation.version,
        }
        added = [
            {
                **each._asdict(),
                **{name: json_text(getattr(each, name)) for name in _TEXTS},
                "at": microseconds(each.at),
                "searchable": searchable(each.text),
            }
            for each in messages
        ]
        return await self.database.write(partial(self._save, conversation, row, added))

    def _save(
        self, record: ConversationRecord, row: Values, messages: Sequence[Mapping[str, object]]
    ) -> Operation[ConversationRecord | None]:
        rows = yield (_CHANGED if record.version else _ADDED), row
        if not rows:
            return None
        if messages:
            yield _MESSAGE_ADDED, [{**each, "conversation": rows[0]["number"]} for each in messages]
        return record._replace(version=record.version + 1)

    @reads
    def find(self, conversation_id: str, /) -> Operation[ConversationRecord | None]:
        rows = yield _FOUND, {"id": conversation_id}
        return _conversation(rows[0]) if rows else None

    @reads
    def messages(self, conversation_id: str, /) -> Operation[Sequence[MessageRecord]]:
        rows = yield _MESSAGES, {"id": conversation_id}
        return [
            MessageRecord(
                **{name: row[name] for name in ("id", "parent", "role", "number")},
                **{name: json.loads(row[name]) for name in _TEXTS},
                at=time_of(row["at"]),
            )
            for row in rows
        ]

    async def list(
        self,
        *,
        caller: Caller | None = None,
        chatbot: str = "",
        search: str = "",
        after: str = "",
        limit: int = 50,
    ) -> Sequence[ConversationRecord]:
        chosen: dict[str, object] = {}
        if caller is not None:
            chosen |= {"caller_id": caller.id, "caller_issuer": caller.issuer}
        if words := words_of(search):
            chosen["word_list"] = json.dumps(words)
        chosen |= {name: value for name, value in (("chatbot", chatbot), ("after", after)) if value}
        return await self._list({**chosen, "limit": limit})

    @reads
    def _list(self, chosen: Mapping[str, object]) -> Operation[Sequence[ConversationRecord]]:
        """Conversations, the one that was updated last first."""
        where = " AND ".join(text for each, text in _CHOICES.items() if each in chosen) or "TRUE"
        found = f"SELECT {listed(*_COLUMNS)} FROM conversation WHERE {where}"
        rows = yield f"{found} ORDER BY updated_at DESC, number DESC LIMIT :limit", chosen
        return [_conversation(each) for each in rows]

    @reads
    def processes(self, conversation_id: str, /) -> Operation[Sequence[str]]:
        rows = yield _FOUND, {"id": conversation_id}
        known = [each for row in rows for each in (*row["earlier_processes"].split(), row["process"]) if each]
        return [*reversed(dict.fromkeys(reversed(known)))]

    @deletes
    def delete(self, conversation_id: str, /) -> Operation[bool]:
        rows = yield _DELETED, {"id": conversation_id}
        for each in rows:
            yield _MESSAGES_DELETED, {"conversation": each["number"]}
        return bool(rows)


def _conversation(row: Row) -> ConversationRecord:
    return ConversationRecord(
        **{each: row[each] for each in ("id", "chatbot", "head", "process", "context_id", "version")},
        caller=caller_in(row),
        title=json.loads(row["title"]),
        finished=bool(row["finished"]),
        created_at=time_of(row["created_at"]),
        updated_at=time_of(row["updated_at"]),
    )
