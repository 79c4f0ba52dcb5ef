"""What each operation of a store does in a database, as steps that any driver can take.

An operation yields statements with their parameters, gets the rows of each, and returns what it is for. It is one
transaction, which the store begins and ends; an operation that raises has written nothing. A list of parameters means
the statement once for each. Below: the statements. Above: a store that runs them.
"""

import json
from collections.abc import Collection, Generator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from sqlalchemy import SelectBase, TextClause, UpdateBase

from goalport.caller import Caller
from goalport.errors import LeaseHeld, LeaseLost
from goalport.store import statements as the
from goalport.store.programs import Program
from goalport.store.records import EventRecord, Lease, Message, ProcessRecord, Runner, StoredProcess
from goalport.store.rows import (
    FamilyRows,
    ProcessRows,
    Row,
    comparable_text,
    event_records,
    json_text,
    microseconds,
    process_record,
    stored_processes,
)
from goalport.store.spent_statement import COSTS_KEPT, SPENT
from goalport.store.statements import Dialect, upserts

__all__ = [
    "Operation",
    "Operations",
    "Statement",
    "Step",
    "context_ids",
    "counts",
    "delete_context",
    "events",
    "family",
    "find",
    "find_context",
    "forget_keys",
    "nothing",
    "records",
    "replied",
    "reply",
    "send",
    "spent",
    "versions",
    "withdraw",
]

T = TypeVar("T")
Values = Mapping[str, object]
Statement = SelectBase | UpdateBase | TextClause
Step = tuple[Statement, Values | Sequence[Values]]
Operation = Generator[Step, Sequence[Row], T]

_DAY: Final = timedelta(days=1)
_FIRST_LEASE = {"lease_token": 1, "version": 1}
_NO_LEASE = {"lease_token": 0, "version": 0, "lease_owner": None, "wake_at": None}


class Operations:
    """What a program does in a database.

    Parameters: `dialect` is how the database speaks; `program` is this one.
    """

    def __init__(self, dialect: Dialect, program: Program) -> None:
        self._dialect: Dialect = dialect
        self._upserts = upserts(dialect)
        self._program = program

    # Saving.

    def save(
        self,
        changes: Sequence[ProcessRows],
        lease: Lease,
        wake_at: int | None,
        events: Mapping[str, object] | None,
        *,
        release: bool,
    ) -> Operation[Lease]:
        hold = {"lease_owner": None if release else self._program.id, "wake_at": wake_at}
        rest = changes
        if lease.token:
            root = next((each for each in changes if each.process["id"] == lease.root), None)
            saved, number = yield from self._fenced(lease, root, hold)
        else:
            root = next(each for each in changes if each.process["id"] == lease.root)
            saved, number = yield from self._made(lease, root, hold)
        if root is not None:
            rest = [each for each in changes if each is not root]
            yield from self._parts(root, number)
        if events:
            yield self._upserts.events, {**events, "process": number}
        for each in rest:
            row = {**each.process, **_NO_LEASE, "member": each.process["id"]}
            rows = (yield the.SAME_MEMBER, row) or (yield self._upserts.member, row)
            yield from self._parts(each, rows[0]["number"])
        return saved

    def _fenced(self, lease: Lease, root: ProcessRows | None, hold: Values) -> Operation[tuple[Lease, int]]:
        fence = {"root": lease.root, "token": lease.token, **hold}
        if root is None:
            rows = yield the.LEASE, fence
        else:
            row = {**root.process, **fence}
            rows = (yield the.SAME, row) or (yield the.SAVED, row)
        if not rows:
            raise LeaseLost(lease.root)
        return Lease(lease.root, lease.token, rows[0]["version"]), rows[0]["number"]

    def _made(self, lease: Lease, root: ProcessRows, hold: Values) -> Operation[tuple[Lease, int]]:
        rows = yield self._upserts.made, {**root.process, **_FIRST_LEASE, **hold}
        if rows:
            return Lease(lease.root, 1, 1), rows[0]["number"]
        # It was saved before, and this program was not told. Whoever took it since has raised the token.
        rows = yield the.OWNER, {"id": lease.root}
        if any(each["lease_owner"] not in {None, self._program.id} for each in rows):
            raise LeaseLost(lease.root)
        return (yield from self._fenced(lease._replace(token=1), root, hold))

    def _parts(self, change: ProcessRows, number: int) -> Operation[None]:
        if change.over:
            yield the.FORGOTTEN, [{"process": number, "action": each} for each in change.over]
        parts = (change.objects, change.history, change.spendings, change.questions, change.journal)
        for statement, rows in zip(self._upserts.parts, parts, strict=True):
            if rows:
                yield statement, [{**row, "process": number} for row in rows]

    # Leases.

    def release(self, lease: Lease) -> Operation[None]:
        yield the.RELEASED, {"root": lease.root, "token": lease.token}

    def claim(self, process_id: str) -> Operation[Lease | None]:
        asked = {"id": process_id, "me": self._program.id}
        rows = yield the.CLAIMED, asked
        if not rows and (yield the.ROOT, asked):
            # Perhaps its program has died and has not been missed yet.
            yield from self.reap(_dead((yield the.NEIGHBOURS, {"host": self._program.host}), self._program))
            rows = yield the.CLAIMED, asked
            if not rows:
                raise LeaseHeld(process_id)
        return _lease(rows[0]) if rows else None

    def runner(self, process_id: str) -> Operation[Runner | None]:
        for each in (yield the.RUNNER, {"id": process_id}):
            dead = bool(_dead([each], self._program)) if each["host"] == self._program.host else False
            return Runner(each["host"].partition(" ")[0], each["pid"], bool(each["alive"]) and not dead)
        return None

    def held(self, roots: Sequence[str]) -> Operation[Sequence[str]]:
        rows = yield the.HELD, {"me": self._program.id, "root_list": json.dumps(roots)}
        return [each["id"] for each in rows]

    def due_here(self) -> Operation[Sequence[Lease]]:
        rows = yield the.DUE_HERE, {"me": self._program.id}
        return [_lease(each) for each in rows]

    def awaited(self, limit: int, without: Collection[str]) -> Operation[tuple[bool, Sequence[str]]]:
        """Whether something is due, and which programs of this host have died; it only reads."""
        dead = _dead((yield the.NEIGHBOURS, {"host": self._program.host}), self._program)
        rows = yield the.DUE, self._wanted(limit, without)
        return bool(rows), dead

    def due(self, limit: int, without: Collection[str], dead: Sequence[str]) -> Operation[Sequence[Lease]]:
        yield from self.reap(dead)
        rows = yield the.TAKEN, self._wanted(limit, without)
        return [_lease(each) for each in sorted(rows, key=lambda row: (row["wake_at"], row["number"]))]

    def _wanted(self, limit: int, without: Collection[str]) -> Values:
        return {"me": self._program.id, "limit": limit, "root_list": json.dumps([*without])}

    # Programs.

    def heartbeat(self, seconds: float, *, first: bool) -> Operation[None]:
        if first:
            yield from self.reap(_dead((yield the.NEIGHBOURS, {"host": self._program.host}), self._program))
            yield the.EXPIRED, {}
        for each in the.TIDIED:
            yield each, {}
        yield self._upserts.heartbeat, {**self._program._asdict(), "lifetime": round(seconds * 1_000_000)}

    def reap(self, dead: Sequence[str]) -> Operation[None]:
        if dead:
            yield the.REAPED, [{"id": each} for each in dead]

    def leave(self) -> Operation[None]:
        yield the.REAPED, {"id": self._program.id}

    def size_and_age(self) -> Operation[tuple[int, float]]:
        (size,) = yield the.SIZE[self._dialect], {}
        (oldest,) = yield the.OLDEST_QUESTION, {}
        now = microseconds(datetime.now(UTC))
        return size["bytes"], max(0, now - (oldest["asked_at"] or now)) / 1_000_000

    # What programs leave for each other.

    def inbox(self) -> Operation[Sequence[Message]]:
        rows = yield the.INBOX, {"me": self._program.id}
        return [Message(each["number"], each["process"], json.loads(each["value"])) for each in rows]

    def join(self, key: str, digest: str, process_id: str, instead_of: str) -> Operation[tuple[str, str]]:
        given = {"key": key, "digest": digest, "process": process_id, "instead_of": instead_of}
        (row,) = yield self._upserts.joined, given
        return row["digest"], row["process"]

    def save_context(self, context_id: str, value: object, instead_of: object) -> Operation[bool]:
        new = {"id": context_id, "value": comparable_text(value)}
        if instead_of is None:
            return bool((yield self._upserts.context, new))
        return bool((yield the.CHANGED_CONTEXT, {**new, "before": comparable_text(instead_of)}))

    # Dropping.

    def too_old(self, age: int, limit: int) -> Operation[Sequence[str]]:
        """The roots of families that ended before that age; it only reads."""
        rows = yield the.OLD, {"me": self._program.id, "limit": limit, "age": age}
        return [each["root"] for each in rows]

    def too_many(self, keep: int, limit: int) -> Operation[Sequence[str]]:
        """The roots of families that have ended, without the newest; it only reads."""
        rows = yield the.TOO_MANY, {"me": self._program.id, "limit": limit, "keep": keep}
        return [each["root"] for each in rows]

    def prune(self, roots: Sequence[str]) -> Operation[int]:
        """Drop families that have ended, but for those that somebody runs again; return how many."""
        rows = yield the.STILL_OVER, {"me": self._program.id, "root_list": json.dumps(roots)}
        yield from _dropped([each["root"] for each in rows])
        return len(rows)

    def drop(self, root: str) -> Operation[bool]:
        """Drop a family, whether it has ended or not."""
        rows = yield the.ROOT, {"id": root}
        if not rows or rows[0]["root"] != root:
            return False
        yield from self.claim(root)  # which fails if another program runs it
        yield COSTS_KEPT, {"root": root, "since_text": _iso(datetime.now(UTC) - _DAY)}
        yield the.MESSAGES_DROPPED, {"root": root}
        members = [{"member": each["number"]} for each in (yield the.MEMBERS, {"root": root})]
        for each in the.MEMBER_DROPPED:
            yield each, members
        return True


def _dropped(roots: Sequence[str]) -> Operation[None]:
    for each in the.DROPPED if roots else ():
        yield each, {"root_list": json.dumps(roots)}


def _lease(row: Row) -> Lease:
    return Lease(row["id"], row["lease_token"], row["version"])


def _dead(neighbours: Sequence[Row], program: Program) -> Sequence[str]:
    """Those of the programs of this host that have died, whatever they said before."""
    return [
        each["id"] for each in neighbours if each["id"] != program.id and not program.sees(each["pid"], each["started"])
    ]


def nothing() -> Operation[None]:
    """Only opens the database."""
    yield from ()


# Messages and contexts.


def send(process_id: str, value: object) -> Operation[int]:
    (row,) = yield the.SENT, {"process": process_id, "value": json_text(value)}
    return row["number"]


def reply(number: int, value: object) -> Operation[None]:
    yield the.REPLIED, {"to": number, "reply": json_text(value)}


def replied(number: int) -> Operation[object]:
    rows = yield the.REPLY, {"number": number}
    return json.loads(rows[0]["reply"]) if rows and rows[0]["reply"] is not None else None


def withdraw(number: int) -> Operation[bool]:
    rows = yield the.TAKEN_BACK, {"number": number}
    if rows:
        return rows[0]["reply"] is None
    return not (yield the.WITHDRAWN, {"number": number})


def forget_keys(process_ids: Collection[str]) -> Operation[None]:
    yield the.FORGOTTEN_KEYS, {"process_list": json.dumps([*process_ids])}


def context_ids() -> Operation[Sequence[str]]:
    return [each["id"] for each in (yield the.CONTEXT_IDS, {})]


def find_context(context_id: str) -> Operation[object]:
    rows = yield the.CONTEXT, {"id": context_id}
    return json.loads(rows[0]["value"]) if rows else None


def delete_context(context_id: str) -> Operation[bool]:
    return bool((yield the.DELETED_CONTEXT, {"id": context_id}))


# Reading.


def events(root: str, after: int, limit: int) -> Operation[Sequence[EventRecord]]:
    rows = yield the.EVENTS, {"root": root, "after": after, "limit": limit}
    return event_records((each["value"] for each in rows), after, limit)


def find(process_id: str) -> Operation[ProcessRecord | None]:
    rows = yield the.FIND, {"id": process_id}
    return process_record(rows[0]) if rows else None


def family(process_id: str) -> Operation[tuple[Sequence[StoredProcess], int]]:
    known = yield the.ROOT, {"id": process_id}
    if not known:
        return (), 0
    root = {"root": known[0]["root"]}
    processes = yield the.FAMILY, root
    objects = yield the.OBJECTS, root
    history = yield the.HISTORY, root
    spendings = yield the.SPENDINGS, root
    questions = yield the.QUESTIONS, root
    journal = yield the.JOURNAL, root
    rows = FamilyRows(processes, objects, history, spendings, questions, journal)
    version = next((each["version"] for each in processes if each["id"] == root["root"]), 0)
    return stored_processes(rows), version


def versions(roots: Sequence[str]) -> Operation[Mapping[str, int]]:
    rows = yield the.VERSIONS, {"root_list": json.dumps(roots)}
    return {each["id"]: each["version"] for each in rows}


def records(
    after: str, limit: int | None, caller: Caller | None, statuses: Collection[str], *, newest_first: bool
) -> Operation[Sequence[ProcessRecord]]:
    values: dict[str, object] = {}
    if after:
        values["after"] = after
    if limit is not None:
        values["limit"] = limit
    if caller is not None:
        values |= {"caller_id": caller.id, "caller_issuer": caller.issuer}
    if statuses:
        values["status_list"] = json.dumps(sorted(statuses))
    rows = yield the.listing(frozenset(values), newest_first=newest_first), values
    return [process_record(each, whole=False) for each in rows]


def spent(caller: Caller, since: datetime) -> Operation[Mapping[str, float]]:
    values: dict[str, object] = {
        "caller_id": caller.id,
        "caller_issuer": caller.issuer,
        "since": microseconds(since),
        "since_text": _iso(since),
    }
    rows = yield SPENT, values
    return {each["root"]: each["cost"] for each in rows}


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat()


def counts(without: Collection[str]) -> Operation[Mapping[str, int]]:
    rows = yield the.COUNTS, {"without_list": json.dumps([*without])}
    return {each["status"]: each["count"] for each in rows}
