"""The tables of the databases that keep processes and conversations, and the numbered steps that make them.

Statements are made of `process`, `objects` and the other tables below. What a database really has is made by
`MIGRATIONS`, which is text and is never changed once it is released; a test compares the two. It knows no driver: each
store runs the steps in its own way, each in one transaction under an exclusive lock.

Times are whole microseconds since 1970 in UTC, so that they compare in every database as they do in Python. Values are
JSON as text.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

__all__ = [
    "LATEST_VERSION",
    "MIGRATIONS",
    "PARTS",
    "contexts",
    "conversation_messages",
    "conversations",
    "dropped_costs",
    "events",
    "history",
    "journal",
    "keys",
    "messages",
    "metadata",
    "objects",
    "process",
    "programs",
    "questions",
    "schema_version",
    "spendings",
    "steps_after",
]

metadata = MetaData()
_LONG_INTEGER = BigInteger().with_variant(Integer(), "sqlite")

process = Table(
    "process",
    metadata,
    # A number besides the id keeps the rows of the other tables short, and orders processes by when they came.
    Column("number", _LONG_INTEGER, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("root", Text, nullable=False),
    Column("parent", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("caller_id", Text, nullable=False),
    Column("caller_issuer", Text, nullable=False),
    Column("caller_scopes", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("ended", Boolean, nullable=False),
    Column("final", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("long", Boolean, nullable=False),
    Column("whole", Boolean, nullable=False),
    Column("result", BigInteger),
    # The lease of a family stands in the row of its root; in the others it means nothing.
    Column("version", BigInteger, nullable=False),
    Column("lease_owner", Text),
    Column("lease_token", BigInteger, nullable=False),
    Column("wake_at", BigInteger),
    # The long values come last: SQLite reads a row from its beginning, and most readers need only that.
    Column("definition", Text, nullable=False),
    Column("state", Text, nullable=False),
    # Only who goes on with a process needs it.
    Column("run_time", BigInteger, nullable=False, server_default=text("0")),
    Column("caller_claims", Text, nullable=False, server_default=text("'{}'")),
)
Index("process_root", process.c.root)
Index(
    "process_wake",
    process.c.wake_at,
    sqlite_where=process.c.wake_at.is_not(None),
    postgresql_where=process.c.wake_at.is_not(None),
)
Index("process_status", process.c.status)
Index("process_caller", process.c.caller_id, process.c.caller_issuer, process.c.number)
Index(
    "process_finished",
    process.c.finished_at,
    sqlite_where=process.c.finished_at.is_not(None),
    postgresql_where=process.c.finished_at.is_not(None),
)


def _part(name: str, order: str, *columns: Column[str] | Column[bool] | Column[int]) -> Table:
    """A table of what belongs to a process, in order.

    In SQLite it is no table `WITHOUT ROWID`: the rows that many processes add at once then fill the same pages, and a
    commit writes half as much.
    """
    return Table(
        name,
        metadata,
        Column("process", BigInteger, primary_key=True),
        Column(order, BigInteger, primary_key=True),
        *columns,
    )


objects = _part("object", "number", Column("kind", Text), Column("value", Text, nullable=False))
history = _part("history", "place", Column("value", Text, nullable=False))
spendings = _part("spending", "place", Column("value", Text, nullable=False))
questions = _part(
    "question",
    "place",
    Column("id", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("in_action", Boolean, nullable=False),
    Column("asked_at", BigInteger, nullable=False),
    Column("wait", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("reason", Text, nullable=False),
)
journal = _part(
    "journal",
    "place",
    Column("action", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
)
events = _part("event", "number", Column("value", Text, nullable=False))
"""Those of a family, under the number of its root. A row has all of one save; its number is that of the last."""
schema_version = Table(
    "schema_version",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied_at", BigInteger, nullable=False),
)

programs = Table(
    "program",
    metadata,
    Column("id", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("started", Text, nullable=False),
    Column("alive_until", BigInteger, nullable=False),
)
messages = Table(
    "message",
    metadata,
    # A number is never used again, or a late reply would go to another message.
    Column("number", _LONG_INTEGER, primary_key=True),
    Column("process", Text, nullable=False),
    Column("sent_at", BigInteger, nullable=False),
    Column("withdrawn", Boolean, nullable=False),
    Column("value", Text, nullable=False),
    Column("reply", Text),
    sqlite_autoincrement=True,
)
Index(
    "message_open",
    messages.c.process,
    sqlite_where=messages.c.reply.is_(None),
    postgresql_where=messages.c.reply.is_(None),
)
keys = Table(
    "idempotency_key",
    metadata,
    Column("key", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("process", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
)
Index("idempotency_key_made", keys.c.made_at)
contexts = Table(
    "context",
    metadata,
    Column("id", Text, primary_key=True),
    Column("saved_at", BigInteger, nullable=False),
    Column("value", Text, nullable=False),
)
dropped_costs = Table(
    "dropped_cost",
    metadata,
    # What a process has cost that was dropped counts for its caller until the day is over.
    Column("root", Text, nullable=False),
    Column("caller_id", Text, nullable=False),
    Column("caller_issuer", Text, nullable=False),
    Column("spent_at", Text, nullable=False),
    Column("cost", Double, nullable=False),
    Column("dropped_at", BigInteger, nullable=False),
)
Index("dropped_cost_caller", dropped_costs.c.caller_id, dropped_costs.c.caller_issuer)
conversations = Table(
    "conversation",
    metadata,
    Column("number", _LONG_INTEGER, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("chatbot", Text, nullable=False),
    Column("caller_id", Text, nullable=False),
    Column("caller_issuer", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("finished", Boolean, nullable=False),
    Column("head", Text, nullable=False),
    Column("process", Text, nullable=False),
    # The ids of those before it, each behind a space.
    Column("earlier_processes", Text, nullable=False),
    Column("context_id", Text, nullable=False),
    Column("caller_scopes", Text, nullable=False),
    Column("caller_claims", Text, nullable=False),
    Column("title", Text, nullable=False),
    # The title once more, as it is searched.
    Column("searchable", Text, nullable=False),
)
Index(
    "conversation_caller",
    *(conversations.c[each] for each in ("caller_id", "caller_issuer", "updated_at", "number")),
)
Index("conversation_updated", conversations.c.updated_at, conversations.c.number)
conversation_messages = Table(
    "conversation_message",
    metadata,
    Column("conversation", BigInteger, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("id", Text, nullable=False),
    Column("parent", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("searchable", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("value", Text, nullable=False),
    UniqueConstraint("conversation", "id"),
)

PARTS: Final = (objects, history, spendings, questions, journal)
"""The tables of what belongs to a process."""

_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "sqlite": {"numbered": "INTEGER PRIMARY KEY", "counted": "INTEGER PRIMARY KEY AUTOINCREMENT"},
    "postgresql": {
        "numbered": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        "counted": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    },
}
"""What the databases say differently."""

_FIRST: Final = (
    "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at BIGINT NOT NULL)",
    """
    CREATE TABLE process (
        number {numbered}, id TEXT NOT NULL UNIQUE, root TEXT NOT NULL, parent TEXT NOT NULL, agent TEXT NOT NULL,
        caller_id TEXT NOT NULL, caller_issuer TEXT NOT NULL, caller_scopes TEXT NOT NULL, status TEXT NOT NULL,
        ended BOOLEAN NOT NULL, final BOOLEAN NOT NULL, created_at BIGINT NOT NULL, finished_at BIGINT,
        long BOOLEAN NOT NULL, whole BOOLEAN NOT NULL, result BIGINT, version BIGINT NOT NULL, lease_owner TEXT,
        lease_token BIGINT NOT NULL, lease_until BIGINT, wake_at BIGINT, definition TEXT NOT NULL, state TEXT NOT NULL
    )
    """,
    "CREATE INDEX process_root ON process (root)",
    "CREATE INDEX process_open ON process (status, lease_until, wake_at) WHERE NOT ended",
    """
    CREATE TABLE object (
        process BIGINT NOT NULL, number BIGINT NOT NULL, kind TEXT, value TEXT NOT NULL, PRIMARY KEY (process, number)
    )
    """,
    """
    CREATE TABLE history (
        process BIGINT NOT NULL, place BIGINT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (process, place)
    )
    """,
    """
    CREATE TABLE spending (
        process BIGINT NOT NULL, place BIGINT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (process, place)
    )
    """,
    """
    CREATE TABLE question (
        process BIGINT NOT NULL, place BIGINT NOT NULL, id TEXT NOT NULL, action TEXT NOT NULL, status TEXT NOT NULL,
        in_action BOOLEAN NOT NULL, asked_at BIGINT NOT NULL, wait TEXT NOT NULL, answer TEXT NOT NULL,
        reason TEXT NOT NULL, PRIMARY KEY (process, place)
    )
    """,
    """
    CREATE TABLE journal (
        process BIGINT NOT NULL, place BIGINT NOT NULL, action TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
        value TEXT NOT NULL, PRIMARY KEY (process, place)
    )
    """,
)

_SECOND: Final = (
    "DROP INDEX process_open",
    "ALTER TABLE process DROP COLUMN lease_until",
    "ALTER TABLE process ADD COLUMN run_time BIGINT NOT NULL DEFAULT 0",
    "CREATE INDEX process_wake ON process (wake_at) WHERE wake_at IS NOT NULL",
    "CREATE INDEX process_status ON process (status)",
    "CREATE INDEX process_caller ON process (caller_id, caller_issuer, number)",
    "CREATE INDEX process_finished ON process (finished_at) WHERE finished_at IS NOT NULL",
    # Nobody wrote down when they go on. Who runs them writes it.
    "UPDATE process SET wake_at = 0 WHERE id = root AND root IN (SELECT root FROM process WHERE NOT ended)",
    """
    CREATE TABLE program (
        id TEXT NOT NULL PRIMARY KEY, host TEXT NOT NULL, pid BIGINT NOT NULL, started TEXT NOT NULL,
        alive_until BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE message (
        number {counted}, process TEXT NOT NULL, sent_at BIGINT NOT NULL, withdrawn BOOLEAN NOT NULL,
        value TEXT NOT NULL, reply TEXT
    )
    """,
    "CREATE INDEX message_open ON message (process) WHERE reply IS NULL",
    """
    CREATE TABLE idempotency_key (
        key TEXT NOT NULL PRIMARY KEY, digest TEXT NOT NULL, process TEXT NOT NULL, made_at BIGINT NOT NULL
    )
    """,
    "CREATE INDEX idempotency_key_made ON idempotency_key (made_at)",
    "CREATE TABLE context (id TEXT NOT NULL PRIMARY KEY, saved_at BIGINT NOT NULL, value TEXT NOT NULL)",
    """
    CREATE TABLE event (
        process BIGINT NOT NULL, number BIGINT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (process, number)
    )
    """,
)

_THIRD: Final = ("ALTER TABLE process ADD COLUMN caller_claims TEXT NOT NULL DEFAULT '{{}}'",)

_FOURTH: Final = (
    """
    CREATE TABLE dropped_cost (
        root TEXT NOT NULL, caller_id TEXT NOT NULL, caller_issuer TEXT NOT NULL, spent_at TEXT NOT NULL,
        cost DOUBLE PRECISION NOT NULL, dropped_at BIGINT NOT NULL
    )
    """,
    "CREATE INDEX dropped_cost_caller ON dropped_cost (caller_id, caller_issuer)",
    """
    CREATE TABLE conversation (
        number {numbered}, id TEXT NOT NULL UNIQUE, chatbot TEXT NOT NULL, caller_id TEXT NOT NULL,
        caller_issuer TEXT NOT NULL, updated_at BIGINT NOT NULL, created_at BIGINT NOT NULL, version BIGINT NOT NULL,
        finished BOOLEAN NOT NULL, head TEXT NOT NULL, process TEXT NOT NULL, earlier_processes TEXT NOT NULL,
        context_id TEXT NOT NULL, caller_scopes TEXT NOT NULL, caller_claims TEXT NOT NULL, title TEXT NOT NULL,
        searchable TEXT NOT NULL
    )
    """,
    "CREATE INDEX conversation_caller ON conversation (caller_id, caller_issuer, updated_at, number)",
    "CREATE INDEX conversation_updated ON conversation (updated_at, number)",
    """
    CREATE TABLE conversation_message (
        conversation BIGINT NOT NULL, number BIGINT NOT NULL, id TEXT NOT NULL, parent TEXT NOT NULL,
        role TEXT NOT NULL, at BIGINT NOT NULL, name TEXT NOT NULL, searchable TEXT NOT NULL, text TEXT NOT NULL,
        value TEXT NOT NULL, PRIMARY KEY (conversation, number), UNIQUE (conversation, id)
    )
    """,
)

MIGRATIONS: Final[Sequence[Sequence[str]]] = (_FIRST, _SECOND, _THIRD, _FOURTH)
"""The statements of each step, by their numbers from 1. Only append: released steps are never changed."""
EXPANSIONS: Final[frozenset[int]] = frozenset()
"""The numbers of the steps that only add tables, indexes, and columns that may be left out: programs that do not know
them go on beside them. Such a step makes no version, and is noted as a negative number."""
LATEST_VERSION: Final = max({*range(1, len(MIGRATIONS) + 1)} - EXPANSIONS)
"""The version that a program has to know."""


def steps_after(version: int, dialect: str) -> Sequence[tuple[int, Sequence[str]]]:
    """The steps after the one of a number, each with its own number, in the words of a database."""
    return [
        (made, [each.format(**_WORDS[dialect]) for each in statements])
        for made, statements in enumerate(MIGRATIONS, start=1)
        if made > version
    ]
