"""The statements of a store in a database: SQL with `:name` for values and `{word}` where databases differ.

Values have the names of columns, and a few others: `me` is the id of this program in the table `program`, `lifetime`
and `age` are in microseconds, and `…_list` is a list of texts in JSON. The store combines the statements; each database
fills in its words.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

Dialect = Literal["sqlite", "postgresql"]

_SPENDING: Final = "goalport.process.ledger:Spending"
_COSTS: Final = (f"{_SPENDING}@2", "usage", "cost"), (_SPENDING, "usage", "goalport.llm.model:TokenUsage", "cost")
_TIMES: Final = (f"{_SPENDING}@2", "at"), (_SPENDING, "at", "$datetime", "0")
"""The JSON paths of the cost and the time of a spending: the current one, and that of earlier versions."""


def _in_sqlite(path: Sequence[str]) -> str:
    steps = "".join(f"[{each}]" if each.isdecimal() else f'."{each}"' for each in path)
    return f"json_extract(spending.value, '${steps}')"


def _in_postgres(path: Sequence[str]) -> str:
    return f"CAST(spending.value AS JSON) #>> '{{{','.join(path)}}}'"


WORDS: Final[Mapping[Dialect, Mapping[str, str]]] = {
    "sqlite": {
        "now": "(SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER))",
        "texts": "json_each",
        "place": "instr",
        "same": "IS",
        "unlocked": "",
        "bytes": "page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size",
        "cost": f"coalesce({', '.join(map(_in_sqlite, _COSTS))}, 0)",
        "spent_at": f"coalesce({', '.join(map(_in_sqlite, _TIMES))})",
    },
    "postgresql": {
        "now": "(SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT))",
        "texts": "json_array_elements_text",
        "place": "strpos",
        "same": "IS NOT DISTINCT FROM",
        "unlocked": "FOR UPDATE OF process SKIP LOCKED",
        "bytes": "pg_database_size(current_database()) AS bytes",
        "cost": f"CAST(coalesce({', '.join(map(_in_postgres, _COSTS))}, '0') AS DOUBLE PRECISION)",
        "spent_at": f"coalesce({', '.join(map(_in_postgres, _TIMES))})",
    },
}
"""The parts of SQL that differ between databases.

`now` is the database's clock in microseconds, by which all programs compare times; as a subquery it is evaluated once,
and an index can be searched with it. `texts` expands a JSON list into rows with one column, `value`. `place` returns
the position of a text in another, from 1; 0: it is not in it. `same` compares values that may be null.
"""


def _listed(*columns: str, of: str = "") -> str:
    """A list of column names; `of`: their table."""
    return ", ".join(f"{of}.{each}" if of else each for each in columns)


def _values(*columns: str) -> str:
    """The placeholders of columns' values."""
    return ", ".join(f":{each}" for each in columns)


def _upsert(table: str, columns: tuple[str, ...], keys: int = 2) -> str:
    """A statement that adds a row, or updates the row with the same key: the first `keys` columns."""
    changed = ", ".join(f"{each} = excluded.{each}" for each in columns[keys:])
    added = f"INSERT INTO {table} ({_listed(*columns)}) VALUES ({_values(*columns)})"
    return f"{added} ON CONFLICT ({_listed(*columns[:keys])}) DO UPDATE SET {changed}"


# Saving. The lease of a family is in the row of its root.
_SAVED_COLUMNS: Final = (
    *("agent", "caller_id", "caller_issuer", "caller_scopes", "caller_claims", "status", "ended", "final"),
    *("created_at", "finished_at", "long", "whole", "result", "run_time", "definition", "state"),
)
"""The columns that a save replaces. The others are fixed (the family), or belong to the lease and the store."""
# SQLite rewrites each index with a column that an UPDATE names, even if the value is the same. Most saves do not change
# these columns: `UPDATE_ROOT_UNINDEXED` and `UPDATE_MEMBER_UNINDEXED` do not name them, and update no row if one of
# them has to change.
_INDEXED: Final = ("caller_id", "caller_issuer", "status", "finished_at")
_LONG: Final = ("definition", "state")
"""The columns that a save leaves unchanged if the value is null."""
_SHORT: Final = (
    *("number", "id", "root", "parent", *(each for each in _SAVED_COLUMNS if each not in (*_LONG, "run_time"))),
    *("version", "lease_owner", "lease_token", "wake_at"),
)
_PROCESS_COLUMNS: Final = (*_SHORT, "run_time", *_LONG)
_INSERTED: Final = tuple(f"coalesce(:{each}, 'null')" if each in _LONG else f":{each}" for each in _PROCESS_COLUMNS[1:])
_ASSIGNMENTS: Final = {
    each: f"{each} = coalesce(:{each}, process.{each})" if each in _LONG else f"{each} = :{each}"
    for each in _SAVED_COLUMNS
}
_ASSIGN_ALL: Final = ", ".join(_ASSIGNMENTS.values())
_ASSIGN_UNINDEXED: Final = ", ".join(change for each, change in _ASSIGNMENTS.items() if each not in _INDEXED)
_INDEXED_UNCHANGED: Final = " AND ".join(f"{each} {{same}} :{each}" for each in _INDEXED)
_INSERT_PROCESS: Final = (
    f"INSERT INTO process ({_listed(*_PROCESS_COLUMNS[1:])}) VALUES ({_listed(*_INSERTED)}) ON CONFLICT (id)"
)
INSERT_ROOT: Final = f"{_INSERT_PROCESS} DO NOTHING RETURNING number"
"""Adds the root of a new family with its lease; returns its number, or no row if the id exists already."""
UPSERT_MEMBER: Final = f"{_INSERT_PROCESS} DO UPDATE SET {_ASSIGN_ALL} RETURNING number"
"""Adds or updates the row of a process; returns its number."""
UPDATE_MEMBER_UNINDEXED: Final = (
    f"UPDATE process SET {_ASSIGN_UNINDEXED} WHERE id = :member AND {_INDEXED_UNCHANGED} RETURNING number"
)
_FENCED: Final = "id = :root AND lease_token = :token"
_ASSIGN_LEASE: Final = "version = version + 1, lease_owner = :lease_owner"
_RETURNING: Final = "RETURNING number, version"
UPDATE_LEASE: Final = f"UPDATE process SET {_ASSIGN_LEASE}, wake_at = :wake_at WHERE {_FENCED} {_RETURNING}"
UPDATE_ROOT: Final = (
    f"UPDATE process SET {_ASSIGN_ALL}, {_ASSIGN_LEASE}, wake_at = :wake_at WHERE {_FENCED} {_RETURNING}"
)
"""Updates the row of a root, and the lease in it."""
UPDATE_ROOT_UNINDEXED: Final = (
    f"UPDATE process SET {_ASSIGN_UNINDEXED}, {_ASSIGN_LEASE}"
    f" WHERE {_FENCED} AND {_INDEXED_UNCHANGED} AND wake_at {{same}} :wake_at {_RETURNING}"
)
OWNER: Final = "SELECT lease_owner FROM process WHERE id = :id"
DELETE_JOURNAL: Final = "DELETE FROM journal WHERE process = :process AND action = :action"
_PARTS: Final = {
    "object": ("process", "number", "kind", "value"),
    "history": ("process", "place", "value"),
    "spending": ("process", "place", "value"),
    "question": ("process", "place", "id", "action", "status", "in_action", "asked_at", "wait", "answer", "reason"),
    "journal": ("process", "place", "action", "kind", "name", "value"),
}
"""The tables of a process's parts, in order, with their columns; the first two are the key."""
UPSERT_PARTS: Final = {table: _upsert(table, columns) for table, columns in _PARTS.items()}
UPSERT_EVENTS: Final = _upsert("event", ("process", "number", "value"))

# Leases.
_OWNER_IS_ALIVE: Final = "EXISTS (SELECT * FROM program WHERE program.id = process.lease_owner AND alive_until > {now})"
_RUN_BY_NOBODY: Final = f"(process.lease_owner IS NULL OR process.lease_owner != :me AND NOT {_OWNER_IS_ALIVE})"
_ROOTS: Final = "IN (SELECT value FROM {texts}(:root_list))"
_ROOT_OF_ID: Final = "(SELECT root FROM process WHERE id = :id)"
_LEASE: Final = "id, lease_token, version, wake_at, number"
CLAIM_FAMILY: Final = f"""
    UPDATE process
    SET lease_owner = :me, lease_token = lease_token + CASE WHEN lease_owner = :me THEN 0 ELSE 1 END
    WHERE id = {_ROOT_OF_ID} AND (lease_owner = :me OR lease_owner IS NULL OR NOT {_OWNER_IS_ALIVE})
    RETURNING {_LEASE}
"""
RELEASE_LEASE: Final = f"UPDATE process SET lease_owner = NULL WHERE {_FENCED}"
DUE_HERE: Final = f"SELECT {_LEASE} FROM process WHERE wake_at <= {{now}} AND lease_owner = :me"
HELD_ROOTS: Final = f"SELECT id FROM process WHERE id {_ROOTS} AND lease_owner = :me"
DUE: Final = f"""
    SELECT number FROM process WHERE wake_at <= {{now}} AND {_RUN_BY_NOBODY} AND id NOT {_ROOTS}
    ORDER BY wake_at, number LIMIT :limit
"""
CLAIM_DUE: Final = f"""
    UPDATE process SET lease_owner = :me, lease_token = lease_token + 1
    WHERE number IN ({DUE} {{unlocked}})
    RETURNING {_LEASE}
"""

# The programs.
HEARTBEAT: Final = _upsert("program", ("id", "host", "pid", "started", "alive_until"), 1).replace(
    ":alive_until", "{now} + :lifetime"
)
NEIGHBOURS: Final = "SELECT id, host, pid, started FROM program WHERE host = :host"
RUNNER: Final = f"""
    SELECT program.id, host, pid, started, alive_until > {{now}} AS alive
    FROM program JOIN process ON lease_owner = program.id WHERE process.id = {_ROOT_OF_ID}
"""
DELETE_PROGRAM: Final = "DELETE FROM program WHERE id = :id"
DELETE_EXPIRED_PROGRAMS: Final = "DELETE FROM program WHERE alive_until <= {now}"

# What programs leave for each other.
INSERT_MESSAGE: Final = """
    INSERT INTO message (process, sent_at, withdrawn, value) VALUES (:process, {now}, FALSE, :value) RETURNING number
"""
INBOX: Final = """
    SELECT message.number, message.process, message.value
    FROM message JOIN process ON process.id = message.process JOIN process AS root ON root.id = process.root
    WHERE message.reply IS NULL AND root.lease_owner = :me ORDER BY message.number
"""
SET_REPLY: Final = "UPDATE message SET reply = :reply WHERE number = :to AND reply IS NULL"
REPLY: Final = "SELECT reply FROM message WHERE number = :number"
DELETE_MESSAGE: Final = "DELETE FROM message WHERE number = :number AND (reply IS NULL OR withdrawn) RETURNING reply"
MARK_WITHDRAWN: Final = "UPDATE message SET withdrawn = TRUE WHERE number = :number RETURNING number"
_DAY_AGO: Final = "{now} - 86400000000"
DELETE_OUTDATED: Final = (
    f"DELETE FROM message WHERE sent_at < {_DAY_AGO} OR withdrawn AND sent_at < {{now}} - 60000000",
    f"DELETE FROM idempotency_key WHERE made_at < {_DAY_AGO}",
    f"DELETE FROM dropped_cost WHERE dropped_at < {_DAY_AGO}",
)
"""Delete messages that nobody waits for any more, and old keys and costs."""
_IF_REPLACED: Final = "CASE WHEN idempotency_key.process = :instead_of THEN"
_KEY_CHANGES: Final = ", ".join(
    f"{each} = {_IF_REPLACED} excluded.{each} ELSE idempotency_key.{each} END"
    for each in ("digest", "process", "made_at")
)
UPSERT_KEY: Final = f"""
    INSERT INTO idempotency_key (key, digest, process, made_at) VALUES (:key, :digest, :process, {{now}})
    ON CONFLICT (key) DO UPDATE SET {_KEY_CHANGES} RETURNING digest, process
"""
"""Stores a process under a key unless another than `instead_of` is stored; returns what is stored then."""
# For a turn, `process` is the id of its process, a colon and the message that began the turn.
DELETE_KEYS: Final = """
    DELETE FROM idempotency_key
    WHERE substr(process, 1, {place}(process || ':', ':') - 1) IN (SELECT value FROM {texts}(:process_list))
"""
CONTEXT_IDS: Final = "SELECT id FROM context"
CONTEXT: Final = "SELECT value FROM context WHERE id = :id"
INSERT_CONTEXT: Final = """
    INSERT INTO context (id, value, saved_at) VALUES (:id, :value, {now}) ON CONFLICT (id) DO NOTHING RETURNING id
"""
"""Adds a context; returns no row if the id exists already."""
UPDATE_CONTEXT: Final = """
    UPDATE context SET value = :value, saved_at = {now} WHERE id = :id AND value = :before RETURNING id
"""
"""Updates a context whose value is `before`; returns no row otherwise."""
DELETE_CONTEXT: Final = "DELETE FROM context WHERE id = :id RETURNING id"

# Dropping.
_ENDED: Final = f"""
    SELECT root FROM process
    WHERE finished_at IS NOT NULL AND id = root AND {_RUN_BY_NOBODY}
    AND NOT EXISTS (SELECT * FROM process AS member WHERE member.root = process.root AND NOT member.final)
"""
ENDED_BEFORE: Final = f"{_ENDED} AND finished_at < {{now}} - :age ORDER BY finished_at LIMIT :limit"
"""The roots of families that ended longer ago than `age`."""
ENDED_BEYOND_NEWEST: Final = f"{_ENDED} ORDER BY finished_at DESC, number DESC LIMIT :limit OFFSET :keep"
"""The roots of ended families, without the newest."""
# If programs write at the same time (PostgreSQL), the rows are locked, so that nobody claims a family being deleted.
STILL_ENDED: Final = f"{_ENDED} AND root {_ROOTS} {{unlocked}}"
"""Those roots whose families have ended and that nobody runs."""
DELETE_FAMILIES: Final = (
    *(
        f"DELETE FROM {each} WHERE process IN (SELECT number FROM process WHERE root {_ROOTS})"
        for each in (*_PARTS, "event")
    ),
    f"DELETE FROM process WHERE root {_ROOTS}",
)
# By numbers, so that PostgreSQL uses the keys of these tables even without statistics.
MEMBERS: Final = "SELECT number FROM process WHERE root = :root"
DELETE_MEMBER: Final = (
    *(f"DELETE FROM {each} WHERE process = :member" for each in (*_PARTS, "event")),
    "DELETE FROM process WHERE number = :member",
)
DELETE_MESSAGES: Final = "DELETE FROM message WHERE process IN (SELECT id FROM process WHERE root = :root)"

# Reading.
PROCESS: Final = f"SELECT {_listed(*_PROCESS_COLUMNS)} FROM process WHERE id = :id"
ROOT: Final = "SELECT root FROM process WHERE id = :id"
FAMILY: Final = f"SELECT {_listed(*_PROCESS_COLUMNS)} FROM process WHERE root = :root ORDER BY number"
PARTS_OF_FAMILY: Final = {
    table: f"SELECT {_listed(*columns, of=table)} FROM {table} JOIN process ON process.number = {table}.process"
    f" WHERE process.root = :root ORDER BY {table}.process, {table}.{columns[1]}"
    for table, columns in _PARTS.items()
}
EVENTS: Final = """
    SELECT event.value FROM event JOIN process ON process.number = event.process
    WHERE process.id = :root AND event.number > :after ORDER BY event.number LIMIT :limit
"""
COUNTS: Final = """
    SELECT status, count(*) AS count FROM process
    WHERE id NOT IN (SELECT value FROM {texts}(:without_list)) GROUP BY status
"""
VERSIONS: Final = f"SELECT id, version FROM process WHERE id {_ROOTS} AND id = root"
OLDEST_QUESTION: Final = """
    SELECT min(asked_at) AS asked_at FROM question JOIN process ON process.number = question.process
    WHERE question.status = 'open' AND NOT process.ended
"""
SIZE: Final = "SELECT {bytes}"
_CHOICES: Final = {
    "after": "number {order} (SELECT number FROM process WHERE id = :after)",
    "caller_id": "caller_id = :caller_id AND caller_issuer = :caller_issuer",
    "status_list": "status IN (SELECT value FROM {{texts}}(:status_list))",
}


def listing(wanted: Collection[str], *, newest_first: bool) -> str:
    """The query for records of processes, without their long values; `wanted` are the filters in use."""
    chosen = [text.format(order="<" if newest_first else ">") for each, text in _CHOICES.items() if each in wanted]
    where, order = f"WHERE {' AND '.join(chosen)}" if chosen else "", "DESC" if newest_first else "ASC"
    limit = "LIMIT :limit" if "limit" in wanted else ""
    return f"SELECT {_listed(*_SHORT)} FROM process {where} ORDER BY number {order} {limit}"


# The costs of a caller's processes. A caller may have a hundred thousand processes that ended before. The index of
# callers finds all processes from the first one that ended after the moment on. The index of statuses finds earlier
# ones that have not ended: SQLite would use the index of callers for them too, but cannot for a computed column. Were
# the least number not computed, it would search for it from the first process on.
COSTS_OF_CALLER: Final = """
    SELECT root, sum({cost}) AS cost FROM (
        SELECT number, root FROM process
        WHERE caller_id = :caller_id AND caller_issuer = :caller_issuer
        AND number >= (SELECT min(number + 0) FROM process WHERE finished_at >= :since)
        UNION
        SELECT number, root FROM process
        WHERE caller_id || '' = :caller_id AND caller_issuer = :caller_issuer
        AND status IN ('not_started', 'running', 'waiting', 'paused', 'stuck', 'resting')
    ) AS spenders JOIN spending ON spending.process = spenders.number
    WHERE {spent_at} >= :since_text GROUP BY root
    UNION ALL
    SELECT root, sum(cost) AS cost FROM dropped_cost
    WHERE caller_id = :caller_id AND caller_issuer = :caller_issuer AND spent_at >= :since_text GROUP BY root
"""
KEEP_COSTS: Final = """
    INSERT INTO dropped_cost (root, caller_id, caller_issuer, spent_at, cost, dropped_at)
    SELECT root, caller_id, caller_issuer, {spent_at}, {cost}, {now}
    FROM process JOIN spending ON spending.process = process.number
    WHERE root = :root AND {spent_at} >= :since_text AND {cost} > 0
"""
"""Keeps the recent costs of a family that is being deleted."""

# Conversations.
_CONVERSATION_SAVED: Final = (
    *("chatbot", "caller_id", "caller_issuer", "updated_at", "created_at", "finished", "head", "process"),
    *("context_id", "caller_scopes", "caller_claims", "title", "searchable"),
)
_CONVERSATION: Final = ("id", "version", "earlier_processes", *_CONVERSATION_SAVED)
INSERT_CONVERSATION: Final = f"""
    INSERT INTO conversation ({_listed(*_CONVERSATION)}) VALUES (:id, 1, '', {_values(*_CONVERSATION_SAVED)})
    ON CONFLICT (id) DO NOTHING RETURNING number
"""
"""Adds a conversation; returns its number, or no row if the id exists already."""
UPDATE_CONVERSATION: Final = f"""
    UPDATE conversation SET {", ".join(f"{each} = :{each}" for each in _CONVERSATION_SAVED)}, version = version + 1,
        earlier_processes = earlier_processes || CASE WHEN process = :process THEN '' ELSE ' ' || process END
    WHERE id = :id AND version = :known RETURNING number
"""
"""Updates a conversation that has the version `known`; returns its number, or no row."""
CONVERSATION: Final = f"SELECT number, {_listed(*_CONVERSATION)} FROM conversation WHERE id = :id"
DELETE_CONVERSATION: Final = "DELETE FROM conversation WHERE id = :id RETURNING number"
_MESSAGE_COLUMNS: Final = ("id", "parent", "role", "at", "name", "text", "value")
INSERT_CONVERSATION_MESSAGE: Final = f"""
    INSERT INTO conversation_message (conversation, number, searchable, {_listed(*_MESSAGE_COLUMNS)}) VALUES (
        :conversation,
        (SELECT coalesce(max(number), 0) + 1 FROM conversation_message WHERE conversation = :conversation),
        :searchable, {_values(*_MESSAGE_COLUMNS)}
    ) ON CONFLICT (conversation, id) DO NOTHING
"""
"""Adds a message after the others, unless the conversation has one of its id."""
CONVERSATION_MESSAGES: Final = f"""
    SELECT message.number, {_listed(*_MESSAGE_COLUMNS, of="message")}
    FROM conversation_message AS message JOIN conversation ON conversation.number = message.conversation
    WHERE conversation.id = :id ORDER BY message.number
"""
DELETE_CONVERSATION_MESSAGES: Final = "DELETE FROM conversation_message WHERE conversation = :conversation"
_CONVERSATION_CHOICES: Final = {
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


def conversations(wanted: Collection[str]) -> str:
    """The query for conversations, the most recently updated first; `wanted` are the filters in use."""
    where = " AND ".join(text for each, text in _CONVERSATION_CHOICES.items() if each in wanted) or "TRUE"
    found = f"SELECT {_listed(*_CONVERSATION)} FROM conversation WHERE {where}"
    return f"{found} ORDER BY updated_at DESC, number DESC LIMIT :limit"
