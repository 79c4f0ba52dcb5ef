"""What a store does with conversations in a database: the statements, and the operations that put them together.

Operations are as those of `operations`: steps that any driver can take, in one transaction each. The row of a
conversation is changed before its messages, so that programs that write the same one come one after the other. Above:
the store in a database.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    not_,
    select,
    tuple_,
    update,
)

from goalport.caller import Caller
from goalport.store.conversations import ConversationRecord, MessageRecord, searchable
from goalport.store.expressions import ONE, ZERO, Place, texts_in
from goalport.store.operations import Operation
from goalport.store.rows import Row, caller_in, caller_row, json_text, microseconds, time_of
from goalport.store.statements import Dialect
from goalport.store.tables import conversation_messages, conversations

__all__ = [
    "ConversationRows",
    "delete_conversation",
    "find_conversation",
    "list_conversations",
    "messages_of",
    "processes_of",
]

_ID: Final = conversations.c.id == bindparam("id")
_OF_CONVERSATION: Final = conversation_messages.c.conversation == bindparam("conversation")
_COMPUTED: Final = {"number", "id", "version", "earlier_processes"}
_GIVEN: Final[dict[str, Any]] = {
    each.name: bindparam(each.name) for each in conversations.columns if each.name not in _COMPUTED
}
_PROCESS: Final = conversations.c.process
_SPACE: Final = literal_column("' '", Text)
_EARLIER: Final = case(
    (bindparam("process") == _PROCESS, conversations.c.earlier_processes),
    else_=conversations.c.earlier_processes + _SPACE + _PROCESS,
)
"""The processes before one that takes the place of what is there."""
_CHANGED: Final = (
    update(conversations)
    .where(_ID, conversations.c.version == bindparam("known"))
    .values({**_GIVEN, "version": conversations.c.version + ONE, "earlier_processes": _EARLIER})
    .returning(conversations.c.number)
)
"""Changes a conversation that has the `known` version; gives its number, or no row."""
_FOUND: Final = select(conversations).where(_ID)
_MESSAGES: Final = (
    select(*(each for each in conversation_messages.columns if each.name != "searchable"))
    .join(conversations, conversations.c.number == conversation_messages.c.conversation)
    .where(_ID)
    .order_by(conversation_messages.c.number)
)
_DELETED: Final = delete(conversations).where(_ID).returning(conversations.c.number)
_MESSAGES_DELETED: Final = delete(conversation_messages).where(_OF_CONVERSATION)


class _Additions:
    """The statements that add rows; SQLAlchemy has them for each database."""

    def __init__(self, dialect: Dialect) -> None:
        insert: Any = import_module(f"sqlalchemy.dialects.{dialect}").insert
        self.conversation = (
            insert(conversations)
            .values({**_GIVEN, "id": bindparam("id"), "version": ONE, "earlier_processes": literal_column("''", Text)})
            .on_conflict_do_nothing(index_elements=[conversations.c.id])
            .returning(conversations.c.number)
        )
        """Adds a conversation; gives its number, or no row if there is one of its id."""
        table = conversation_messages
        before = select(func.coalesce(func.max(table.c.number), ZERO)).where(_OF_CONVERSATION).scalar_subquery()
        given: dict[str, Any] = {each.name: bindparam(each.name) for each in table.columns}
        self.message = (
            insert(table)
            .inline()
            .values({**given, "number": before + ONE})
            .on_conflict_do_nothing(index_elements=[table.c.conversation, table.c.id])
        )
        """Adds a message behind the others, unless the conversation has one of its id."""


@cache
def _additions(dialect: Dialect) -> _Additions:
    return _Additions(dialect)


class ConversationRows:
    """The rows of a conversation and of messages that are to be added to it.

    Raises `TypeError` or `ValueError` for a value that JSON cannot say.
    """

    def __init__(self, record: ConversationRecord, messages: Sequence[MessageRecord]) -> None:
        self._record = record
        self._row = _conversation_row(record)
        self._messages = [_message_row(each) for each in messages]

    def save(self, dialect: Dialect) -> Operation[ConversationRecord | None]:
        """Keep them; returns None, and keeps nothing, if the version of the conversation is another one."""
        known, additions = self._record.version, _additions(dialect)
        if known:
            rows = yield _CHANGED, {**self._row, "known": known}
        else:
            rows = yield additions.conversation, self._row
        if not rows:
            return None
        if self._messages:
            yield additions.message, [{**each, "conversation": rows[0]["number"]} for each in self._messages]
        return self._record._replace(version=known + 1)


def find_conversation(conversation_id: str) -> Operation[ConversationRecord | None]:
    rows = yield _FOUND, {"id": conversation_id}
    return _conversation(rows[0]) if rows else None


def messages_of(conversation_id: str) -> Operation[Sequence[MessageRecord]]:
    rows = yield _MESSAGES, {"id": conversation_id}
    return [_message(each) for each in rows]


def processes_of(conversation_id: str) -> Operation[Sequence[str]]:
    rows = yield _FOUND, {"id": conversation_id}
    known = [process for each in rows for process in (*each["earlier_processes"].split(), each["process"]) if process]
    return list(reversed(dict.fromkeys(reversed(known))))


def list_conversations(
    caller: Caller | None, chatbot: str, words: Sequence[str], after: str, limit: int
) -> Operation[Sequence[ConversationRecord]]:
    chosen: dict[str, object] = {}
    if caller is not None:
        chosen |= {"caller_id": caller.id, "caller_issuer": caller.issuer}
    if chatbot:
        chosen["chatbot"] = chatbot
    if words:
        chosen["word_list"] = json.dumps(words)
    if after:
        chosen["after"] = after
    rows = yield _listing(frozenset(chosen)), {**chosen, "limit": limit}
    return [_conversation(each) for each in rows]


def delete_conversation(conversation_id: str) -> Operation[bool]:
    rows = yield _DELETED, {"id": conversation_id}
    for each in rows:
        yield _MESSAGES_DELETED, {"conversation": each["number"]}
    return bool(rows)


@cache
def _listing(wanted: frozenset[str]) -> Select[Any]:
    """Conversations, the one that was updated last first; `wanted` are the parameters that choose."""
    order = (conversations.c.updated_at, conversations.c.number)
    last = conversations.alias("last")
    before = select(last.c.updated_at, last.c.number).where(last.c.id == bindparam("after")).scalar_subquery()
    chosen = {
        "caller_id": and_(
            conversations.c.caller_id == bindparam("caller_id"),
            conversations.c.caller_issuer == bindparam("caller_issuer"),
        ),
        "chatbot": conversations.c.chatbot == bindparam("chatbot"),
        "word_list": _has_words(),
        "after": tuple_(*order) < before,
    }
    found = select(conversations).where(*(chosen[each] for each in chosen if each in wanted))
    return found.order_by(*(each.desc() for each in order)).limit(bindparam("limit", type_=Integer)).offset(ZERO)


def _has_words() -> ColumnElement[bool]:
    """Whether there is no word that is neither in the title nor in a message."""
    word = texts_in("word_list").c.value
    messages = conversation_messages.c
    with_word = exists().where(messages.conversation == conversations.c.number, Place(messages.searchable, word) > ZERO)
    in_message = with_word.correlate_except(conversation_messages)
    missing = select(ONE).where(Place(conversations.c.searchable, word) == ZERO, not_(in_message))
    return not_(exists(missing.correlate(conversations)))


def _conversation_row(record: ConversationRecord) -> Mapping[str, object]:
    return {
        "id": record.id,
        "chatbot": record.chatbot,
        **caller_row(record.caller),
        "updated_at": microseconds(record.updated_at),
        "created_at": microseconds(record.created_at),
        "finished": record.finished,
        "head": record.head,
        "process": record.process,
        "context_id": record.context_id,
        # People write titles, names and messages, and not every database takes each character as plain text.
        "title": json_text(record.title),
        "searchable": searchable(record.title),
    }


def _conversation(row: Row) -> ConversationRecord:
    return ConversationRecord(
        id=row["id"],
        chatbot=row["chatbot"],
        caller=caller_in(row),
        title=json.loads(row["title"]),
        head=row["head"],
        process=row["process"],
        context_id=row["context_id"],
        finished=bool(row["finished"]),
        created_at=time_of(row["created_at"]),
        updated_at=time_of(row["updated_at"]),
        version=row["version"],
    )


def _message_row(record: MessageRecord) -> Mapping[str, object]:
    return {
        "id": record.id,
        "parent": record.parent,
        "role": record.role,
        "at": microseconds(record.at),
        "name": json_text(record.name),
        "searchable": searchable(record.text),
        "text": json_text(record.text),
        "value": json_text(record.value),
    }


def _message(row: Row) -> MessageRecord:
    return MessageRecord(
        id=row["id"],
        parent=row["parent"],
        role=row["role"],
        name=json.loads(row["name"]),
        text=json.loads(row["text"]),
        value=json.loads(row["value"]),
        at=time_of(row["at"]),
        number=row["number"],
    )
