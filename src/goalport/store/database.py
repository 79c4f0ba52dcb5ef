"""The store in a database: each of its methods is an operation that any database driver can run.

The values in records are JSON data. The row of a conversation is changed before its messages, so that programs that
write the same conversation wait for each other. Above, the platform saves and reads; nothing here knows what a process
does. Below: the statements.
"""

import json
import os
import secrets
import socket
import sys
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self

from goalport.base.caller import Caller
from goalport.base.errors import LeaseHeld, LeaseLost, StoreError
from goalport.store import statements as sql
from goalport.store.operations import Database, ObservedDatabase, Operation, Values, deletes, reads, writes
from goalport.store.records import (
    ConversationRecord,
    ConversationStore,
    EventRecord,
    Lease,
    MessageRecord,
    ProcessRecord,
    ProgramMessage,
    Runner,
    StoredProcess,
    searchable,
    words_of,
)
from goalport.store.rows import (
    ProcessRows,
    Row,
    caller_in,
    caller_row,
    comparable_text,
    event_records,
    json_text,
    microseconds,
    process_record,
    rows_of,
    stored_processes,
    time_of,
)

_TEXTS: Final = ("name", "text", "value")


class DatabaseConversations:
    """Stores conversations in a database, which other programs may use too; see `ConversationStore`."""

    def __init__(self, database: ObservedDatabase) -> None:
        self.database = database

    async def save(
        self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = (), /
    ) -> ConversationRecord | None:
        # Titles, names and messages may have characters that not every database accepts as plain text.
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
        rows = yield (sql.UPDATE_CONVERSATION if record.version else sql.INSERT_CONVERSATION), row
        if not rows:
            return None
        if messages:
            yield sql.INSERT_CONVERSATION_MESSAGE, [{**each, "conversation": rows[0]["number"]} for each in messages]
        return record._replace(version=record.version + 1)

    @reads
    def find(self, conversation_id: str, /) -> Operation[ConversationRecord | None]:
        rows = yield sql.CONVERSATION, {"id": conversation_id}
        return _conversation(rows[0]) if rows else None

    @reads
    def messages(self, conversation_id: str, /) -> Operation[Sequence[MessageRecord]]:
        rows = yield sql.CONVERSATION_MESSAGES, {"id": conversation_id}
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
        """Conversations, the most recently updated first."""
        rows = yield sql.conversations(chosen), chosen
        return [_conversation(each) for each in rows]

    @reads
    def processes(self, conversation_id: str, /) -> Operation[Sequence[str]]:
        rows = yield sql.CONVERSATION, {"id": conversation_id}
        known = [each for row in rows for each in (*row["earlier_processes"].split(), row["process"]) if each]
        return [*reversed(dict.fromkeys(reversed(known)))]

    @deletes
    def delete(self, conversation_id: str, /) -> Operation[bool]:
        rows = yield sql.DELETE_CONVERSATION, {"id": conversation_id}
        for each in rows:
            yield sql.DELETE_CONVERSATION_MESSAGES, {"conversation": each["number"]}
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


_BATCH: Final = 200
"""The number of families that are deleted in one transaction."""
_FOUND: Final = 10_000
"""The most families to be deleted that are looked for at a time."""
_RESERVE: Final = 256 * 1024
"""With fewer free bytes on the disk no new process begins: they are for saves of running ones."""
_PROBE: Final = "goalport: can this be written?"
_PROBE_BYTES: Final = 65_536
"""The bytes of the test write: a full disk may still have room for a small row."""
_DAY: Final = timedelta(days=1)


class DatabaseProcessStore:
    """Stores the records of processes in a database, which other programs may use too; see `ProcessStore`."""

    durable = True
    max_waiting = sys.maxsize
    """A database has room for any number of processes that wait."""

    def __init__(self, database: Database) -> None:
        self.database = ObservedDatabase(database)
        self.conversations: ConversationStore = DatabaseConversations(self.database)
        self._program = Program.this()
        self._has_heartbeat = False

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release all leases, commit what was saved, and close the database for good."""
        if self._has_heartbeat:
            self._has_heartbeat = False
            with suppress(StoreError):  # the others notice when this program sends no more heartbeats
                await self._open(leaves=True)
        await self.database.close()

    @writes
    def _open(self, *, leaves: bool = False) -> Operation[None]:
        """Open the database; `leaves`: release all leases of this program."""
        if leaves:
            yield sql.DELETE_PROGRAM, {"id": self._program.id}

    def attach(self, watched: Callable[[str], bool], /) -> None:
        """Does nothing: there is room for every process."""

    # Saving.

    async def save(
        self,
        changes: Sequence[StoredProcess],
        lease: Lease,
        /,
        *,
        wake_at: datetime | None,
        release: bool,
        events: Sequence[EventRecord] = (),
    ) -> Lease:
        """Commit records of a family. Once the commit has begun, a cancelled caller waits until its result is known."""
        if not lease.token and not changes:
            return lease
        if not lease.token and all(each.process.id != lease.root for each in changes):
            raise ValueError(f"Expected the record of process {lease.root!r}, the first of its family.")
        lease_columns = {
            "lease_owner": None if release else self._program.id,
            "wake_at": None if wake_at is None else microseconds(wake_at),
        }
        row = {"number": events[-1].number, "value": json_text(events)} if events else None
        save = partial(self._save, [rows_of(each) for each in changes], lease, lease_columns, row)
        # Nobody waits for the commit of a new process that has ended: its caller has the result.
        final = all(each.process.final and not each.process.long for each in changes)
        return await self.database.write(save, patient=not lease.token and final)

    def _save(
        self, changes: Sequence[ProcessRows], lease: Lease, lease_columns: Values, events: Values | None
    ) -> Operation[Lease]:
        root = next((each for each in changes if each.process["id"] == lease.root), None)
        rows: Sequence[Row] = ()
        saved = lease
        if not lease.token and root is not None:
            rows = yield sql.INSERT_ROOT, {**root.process, "lease_token": 1, "version": 1, **lease_columns}
            saved = Lease(lease.root, 1, 1)
            if not rows:
                # It was saved before, but this program did not learn of it. A takeover since has raised the token.
                owners = yield sql.OWNER, {"id": lease.root}
                if any(each["lease_owner"] not in {None, self._program.id} for each in owners):
                    raise LeaseLost(lease.root)
        if not rows:
            fence = {"root": lease.root, "token": saved.token, **lease_columns}
            if root is None:
                rows = yield sql.UPDATE_LEASE, fence
            else:
                row = {**root.process, **fence}
                rows = (yield sql.UPDATE_ROOT_UNINDEXED, row) or (yield sql.UPDATE_ROOT, row)
            if not rows:
                raise LeaseLost(lease.root)
            saved = Lease(lease.root, saved.token, rows[0]["version"])
        number = rows[0]["number"]
        if root is not None:
            yield from _parts(root, number)
        if events:
            yield sql.UPSERT_EVENTS, {**events, "process": number}
        no_lease = {"lease_token": 0, "version": 0, "lease_owner": None, "wake_at": None}
        for each in changes:
            if each is not root:
                row = {**each.process, **no_lease, "member": each.process["id"]}
                rows = (yield sql.UPDATE_MEMBER_UNINDEXED, row) or (yield sql.UPSERT_MEMBER, row)
                yield from _parts(each, rows[0]["number"])
        return saved

    async def check_writes(self) -> None:
        """Raise `StoreError` if the store cannot be written. If the last write failed, this makes a test write."""
        free = self.database.free_bytes
        if free is not None and free < _RESERVE:
            raise StoreError("of processes", "Its disk is full.", "Free some space. It works again by itself.")
        if self.database.last_write_failed:
            await self.save_context(_PROBE, "x" * _PROBE_BYTES, instead_of=None)
            await self.delete_context(_PROBE)

    # Leases.

    @writes
    def release(self, lease: Lease, /) -> Operation[None]:
        yield sql.RELEASE_LEASE, {"root": lease.root, "token": lease.token}

    def _claim(self, process_id: str, /) -> Operation[Lease | None]:
        asked = {"id": process_id, "me": self._program.id}
        rows = yield sql.CLAIM_FAMILY, asked
        if not rows and (yield sql.ROOT, asked):
            # Perhaps its program has died a moment ago, before its heartbeat expired.
            yield from self._reap((yield from self._dead_neighbours()))
            rows = yield sql.CLAIM_FAMILY, asked
            if not rows:
                raise LeaseHeld(process_id)
        return _lease(rows[0]) if rows else None

    claim = writes(_claim)

    @reads
    def runner(self, process_id: str, /) -> Operation[Runner | None]:
        for each in (yield sql.RUNNER, {"id": process_id}):
            dead = each["host"] == self._program.host and bool(self._program.dead_among([each]))
            return Runner(each["host"].partition(" ")[0], each["pid"], bool(each["alive"]) and not dead)
        return None

    @reads
    def held(self, roots: Sequence[str], /) -> Operation[Sequence[str]]:
        rows = yield sql.HELD_ROOTS, {"me": self._program.id, "root_list": json.dumps(roots)}
        return [each["id"] for each in rows]

    @reads
    def due_here(self) -> Operation[Sequence[Lease]]:
        return [*map(_lease, (yield sql.DUE_HERE, {"me": self._program.id}))]

    async def due(self, limit: int, /, *, without: Collection[str] = ()) -> Sequence[Lease]:
        wanted = {"me": self._program.id, "limit": limit, "root_list": json.dumps([*without])}
        some, dead = await self._look_for_due(wanted)
        return await self._due(wanted, dead) if some or dead else ()

    @reads
    def _look_for_due(self, wanted: Values) -> Operation[tuple[bool, Sequence[str]]]:
        """Whether a family is due, and which programs on this host have died."""
        dead = yield from self._dead_neighbours()
        return bool((yield sql.DUE, wanted)), dead

    @writes
    def _due(self, wanted: Values, dead: Sequence[str]) -> Operation[Sequence[Lease]]:
        yield from self._reap(dead)
        rows = yield sql.CLAIM_DUE, wanted
        return [_lease(each) for each in sorted(rows, key=lambda row: (row["wake_at"], row["number"]))]

    # Programs.

    async def heartbeat(self, seconds: float, /) -> None:
        await self._write_heartbeat(round(seconds * 1_000_000), first=not self._has_heartbeat)
        self._has_heartbeat = True

    @writes
    def _write_heartbeat(self, lifetime: int, *, first: bool) -> Operation[None]:
        if first:
            yield from self._reap((yield from self._dead_neighbours()))
            yield sql.DELETE_EXPIRED_PROGRAMS, {}
        for each in sql.DELETE_OUTDATED:
            yield each, {}
        yield sql.HEARTBEAT, {**self._program._asdict(), "lifetime": lifetime}

    def _dead_neighbours(self) -> Operation[Sequence[str]]:
        return self._program.dead_among((yield sql.NEIGHBOURS, {"host": self._program.host}))

    def _reap(self, dead: Sequence[str]) -> Operation[None]:
        if dead:
            yield sql.DELETE_PROGRAM, [{"id": each} for each in dead]

    async def wait_for_changes(self, seconds: float, /) -> None:
        await self.database.wait_for_changes(seconds)

    # What programs leave for each other.

    @writes
    def send(self, process_id: str, value: object, /) -> Operation[int]:
        (row,) = yield sql.INSERT_MESSAGE, {"process": process_id, "value": json_text(value)}
        return row["number"]

    @reads
    def inbox(self) -> Operation[Sequence[ProgramMessage]]:
        rows = yield sql.INBOX, {"me": self._program.id}
        return [ProgramMessage(each["number"], each["process"], json.loads(each["value"])) for each in rows]

    @writes
    def reply(self, number: int, value: object, /) -> Operation[None]:
        yield sql.SET_REPLY, {"to": number, "reply": json_text(value)}

    @reads
    def replied(self, number: int, /) -> Operation[object]:
        rows = yield sql.REPLY, {"number": number}
        return json.loads(rows[0]["reply"]) if rows and rows[0]["reply"] is not None else None

    @writes
    def withdraw(self, number: int, /) -> Operation[bool]:
        rows = yield sql.DELETE_MESSAGE, {"number": number}
        if rows:
            return rows[0]["reply"] is None
        return not (yield sql.MARK_WITHDRAWN, {"number": number})

    @writes
    def join(self, key: str, digest: str, process_id: str, /, *, instead_of: str = "") -> Operation[tuple[str, str]]:
        given = {"key": key, "digest": digest, "process": process_id, "instead_of": instead_of}
        (row,) = yield sql.UPSERT_KEY, given
        return row["digest"], row["process"]

    @deletes
    def forget_keys(self, process_ids: Collection[str], /) -> Operation[None]:
        yield sql.DELETE_KEYS, {"process_list": json.dumps([*process_ids])}

    @reads
    def context_ids(self) -> Operation[Sequence[str]]:
        return [each["id"] for each in (yield sql.CONTEXT_IDS, {})]

    @reads
    def find_context(self, context_id: str, /) -> Operation[object]:
        rows = yield sql.CONTEXT, {"id": context_id}
        return json.loads(rows[0]["value"]) if rows else None

    @writes
    def save_context(self, context_id: str, value: object, /, *, instead_of: object) -> Operation[bool]:
        new = {"id": context_id, "value": comparable_text(value)}
        if instead_of is None:
            return bool((yield sql.INSERT_CONTEXT, new))
        return bool((yield sql.UPDATE_CONTEXT, {**new, "before": comparable_text(instead_of)}))

    @deletes
    def delete_context(self, context_id: str, /) -> Operation[bool]:
        return bool((yield sql.DELETE_CONTEXT, {"id": context_id}))

    # Reading.

    @reads
    def versions(self, roots: Sequence[str], /) -> Operation[Mapping[str, int]]:
        rows = yield sql.VERSIONS, {"root_list": json.dumps(roots)}
        return {each["id"]: each["version"] for each in rows}

    @reads
    def events(self, root: str, /, after: int, limit: int) -> Operation[Sequence[EventRecord]]:
        rows = yield sql.EVENTS, {"root": root, "after": after, "limit": limit}
        return event_records((each["value"] for each in rows), after, limit)

    @reads
    def find(self, process_id: str, /) -> Operation[ProcessRecord | None]:
        rows = yield sql.PROCESS, {"id": process_id}
        return process_record(rows[0]) if rows else None

    @reads
    def family(self, process_id: str, /) -> Operation[tuple[Sequence[StoredProcess], int]]:
        known = yield sql.ROOT, {"id": process_id}
        if not known:
            return (), 0
        root = {"root": known[0]["root"]}
        processes = yield sql.FAMILY, root
        parts: dict[str, Sequence[Row]] = {}
        for table, statement in sql.PARTS_OF_FAMILY.items():
            parts[table] = yield statement, root
        version = next((each["version"] for each in processes if each["id"] == root["root"]), 0)
        return stored_processes(processes, parts), version

    @reads
    def records(
        self,
        *,
        after: str = "",
        limit: int | None = None,
        caller: Caller | None = None,
        statuses: Collection[str] = (),
        newest_first: bool = False,
    ) -> Operation[Sequence[ProcessRecord]]:
        values: dict[str, object] = {"after": after} if after else {}
        if limit is not None:
            values["limit"] = limit
        if caller is not None:
            values |= {"caller_id": caller.id, "caller_issuer": caller.issuer}
        if statuses:
            values["status_list"] = json.dumps(sorted(statuses))
        rows = yield sql.listing(values, newest_first=newest_first), values
        return [process_record(each, whole=False) for each in rows]

    @reads
    def spent(self, caller: Caller, since: datetime, /) -> Operation[Mapping[str, float]]:
        moments = {"since": microseconds(since), "since_text": _iso(since)}
        rows = yield sql.COSTS_OF_CALLER, {"caller_id": caller.id, "caller_issuer": caller.issuer, **moments}
        return {each["root"]: each["cost"] for each in rows}

    @reads
    def counts(self, *, without: Collection[str] = ()) -> Operation[Mapping[str, int]]:
        rows = yield sql.COUNTS, {"without_list": json.dumps([*without])}
        return {each["status"]: each["count"] for each in rows}

    @reads
    def size_and_age(self) -> Operation[tuple[int, float]]:
        """The bytes of the database, and the seconds for which the oldest open question has waited; 0: none."""
        (size,) = yield sql.SIZE, {}
        (oldest,) = yield sql.OLDEST_QUESTION, {}
        now = microseconds(datetime.now(UTC))
        return size["bytes"], max(0, now - (oldest["asked_at"] or now)) / 1_000_000

    async def overflow(self) -> Sequence[str]:
        """Always empty: there is room for every process."""
        return ()

    # Dropping.

    async def prune(self, *, older_than: timedelta | None = None, keep: int | None = None) -> int:
        """Delete families that have ended, a few in each transaction, so that others can write in between."""
        total, chosen = 0, list[tuple[str, Values]]()
        if older_than is not None:
            chosen.append((sql.ENDED_BEFORE, {"age": older_than // timedelta(microseconds=1)}))
        if keep is not None:
            chosen.append((sql.ENDED_BEYOND_NEWEST, {"keep": keep}))
        for which, values in chosen:
            dropped = -1
            while dropped:
                found, dropped = await self._ended_roots(which, values), 0
                for first in range(0, len(found), _BATCH):
                    dropped += await self._drop_ended(found[first : first + _BATCH])
                total += dropped
        return total

    @reads
    def _ended_roots(self, which: str, chosen: Values) -> Operation[Sequence[str]]:
        """The roots of families that have ended."""
        rows = yield which, {"me": self._program.id, "limit": _FOUND, **chosen}
        return [each["root"] for each in rows]

    @deletes
    def _drop_ended(self, roots: Sequence[str]) -> Operation[int]:
        """Delete families that have ended, except those that somebody runs again; return the number."""
        rows = yield sql.STILL_ENDED, {"me": self._program.id, "root_list": json.dumps(roots)}
        over = json.dumps([each["root"] for each in rows])
        for each in sql.DELETE_FAMILIES if rows else ():
            yield each, {"root_list": over}
        return len(rows)

    @deletes
    def drop(self, root: str, /) -> Operation[bool]:
        """Delete a family, whether it has ended or not. Raises `LeaseHeld` if another program runs it."""
        rows = yield sql.ROOT, {"id": root}
        if not rows or rows[0]["root"] != root:
            return False
        yield from self._claim(root)
        yield sql.KEEP_COSTS, {"root": root, "since_text": _iso(datetime.now(UTC) - _DAY)}
        yield sql.DELETE_MESSAGES, {"root": root}
        members = [{"member": each["number"]} for each in (yield sql.MEMBERS, {"root": root})]
        for each in sql.DELETE_MEMBER:
            yield each, members
        return True


def _parts(change: ProcessRows, number: int) -> Operation[None]:
    if change.ended_actions:
        yield sql.DELETE_JOURNAL, [{"process": number, "action": each} for each in change.ended_actions]
    for table, rows in change.parts.items():
        if rows:
            yield sql.UPSERT_PARTS[table], [{**row, "process": number} for row in rows]


def _lease(row: Row) -> Lease:
    return Lease(row["id"], row["lease_token"], row["version"])


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat()


class Program(NamedTuple):
    """A program that uses the database."""

    id: str
    host: str
    """The machine, its boot, and its namespace of process ids."""
    pid: int
    started: str
    """The time at which the system started it, since a pid may be used again; empty if unknown."""

    @classmethod
    def this(cls) -> Self:
        """This program, with a new id."""
        booted = _text("/proc/sys/kernel/random/boot_id") or f"{uuid.getnode():x}"
        try:
            space = str(Path("/proc/self/ns/pid").readlink())
        except OSError:
            space = ""
        host = f"{socket.gethostname()} {booted} {space}".strip()
        return cls(secrets.token_hex(8), host, os.getpid(), _started(os.getpid()) or "")

    def dead_among(self, neighbours: Sequence[Row]) -> Sequence[str]:
        """Those programs of this host that have died, even if their heartbeats have not expired."""
        others = [each for each in neighbours if each["id"] != self.id]
        return [each["id"] for each in others if not self.sees(each["pid"], each["started"])]

    def sees(self, pid: int, started: str) -> bool:
        """Whether a program of this host may be alive; True if unknown."""
        if sys.platform == "win32":  # on Windows, os.kill would end it
            return True
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return not started or _started(pid) in {None, started}


def _started(pid: int) -> str | None:
    """The start time of a process, in ticks since boot; "ended" if it is a zombie; None if unknown."""
    _, _, fields = _text(f"/proc/{pid}/stat").rpartition(")")
    if not fields:
        return None
    state, *rest = fields.split()
    return "ended" if state in {"Z", "X"} else rest[18]


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
