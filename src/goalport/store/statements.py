"""The statements of a store in a database, made once by SQLAlchemy Core; each store compiles them for its driver.

The names of parameters are those of the columns, and a few that say what they stand for: `me` is the id of this program
as `programs` has it, `lifetime` is in microseconds, and `…_list` is a list of texts in JSON. `operations` puts the
statements together.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Integer,
    Select,
    Table,
    Text,
    TextClause,
    and_,
    bindparam,
    case,
    delete,
    exists,
    false,
    func,
    insert,
    literal_column,
    not_,
    or_,
    select,
    text,
    true,
    update,
)

from goalport.store.expressions import NOW, ONE, ZERO, Place, among
from goalport.store.tables import (
    PARTS,
    contexts,
    dropped_costs,
    events,
    journal,
    keys,
    messages,
    process,
    programs,
    questions,
    schema_version,
)

__all__ = [
    "CHANGED_CONTEXT",
    "CLAIMED",
    "CONTEXT",
    "CONTEXT_IDS",
    "COUNTS",
    "DELETED_CONTEXT",
    "DROPPED",
    "DUE",
    "DUE_HERE",
    "EVENTS",
    "EXPIRED",
    "FAMILY",
    "FIND",
    "FORGOTTEN",
    "FORGOTTEN_KEYS",
    "HELD",
    "HISTORY",
    "INBOX",
    "JOURNAL",
    "LEASE",
    "MEMBERS",
    "MEMBER_DROPPED",
    "MESSAGES_DROPPED",
    "NEIGHBOURS",
    "OBJECTS",
    "OLD",
    "OLDEST_QUESTION",
    "OWNER",
    "QUESTIONS",
    "REAPED",
    "RELEASED",
    "REPLIED",
    "REPLY",
    "ROOT",
    "RUNNER",
    "SAME",
    "SAME_MEMBER",
    "SAVED",
    "SENT",
    "SIZE",
    "SPENDINGS",
    "STILL_OVER",
    "TAKEN",
    "TAKEN_BACK",
    "TIDIED",
    "TOO_MANY",
    "VERSION",
    "VERSIONS",
    "VERSION_MADE",
    "WITHDRAWN",
    "Dialect",
    "listing",
    "upserts",
]

Dialect = Literal["sqlite", "postgresql"]
_ME: Final = bindparam("me", type_=Text)
_LIVES: Final = exists().where(programs.c.id == process.c.lease_owner, programs.c.alive_until > NOW)
_FREE: Final = or_(process.c.lease_owner.is_(None), not_(_LIVES))
_NOBODYS: Final = or_(process.c.lease_owner.is_(None), and_(process.c.lease_owner != _ME, not_(_LIVES)))

_VALUES: Final = {"definition", "state"}
_UPDATED: Final = (
    *("agent", "caller_id", "caller_issuer", "caller_scopes", "caller_claims", "status", "ended", "final"),
    *("created_at", "finished_at", "long", "whole", "result", "run_time"),
)
"""The columns that a save replaces. A process never changes its family; the rest is of the lease and the store."""


def _kept(name: str) -> ColumnElement[Any]:
    """The value of a column that a save may leave as it is."""
    return func.coalesce(bindparam(name, type_=Text), process.c[name])


_CHANGED: Final[dict[str, Any]] = {
    **{name: bindparam(name) for name in _UPDATED},
    **{name: _kept(name) for name in _VALUES},
}


class Upserts:
    """The statements that add a row or change the one that is there; SQLAlchemy has them for each database."""

    def __init__(self, dialect: Dialect) -> None:
        # A server on SQLite starts sooner without the dialect of PostgreSQL.
        self._insert: Any = import_module(f"sqlalchemy.dialects.{dialect}").insert
        self.made = self._process().on_conflict_do_nothing(index_elements=[process.c.id]).returning(process.c.number)
        """Adds the root of a new family with its lease; gives its number, or no row if it is there already."""
        self.member = (
            self._process()
            .on_conflict_do_update(index_elements=[process.c.id], set_=_CHANGED)
            .returning(process.c.number)
        )
        """Adds the row of a process or changes it; gives its number."""
        self.parts = [self._row(each, *list(each.primary_key.columns)) for each in PARTS]
        """One for each of `PARTS`."""
        self.events = self._row(events, *list(events.primary_key.columns))
        self.heartbeat = self._row(programs, programs.c.id, alive_until=NOW + bindparam("lifetime", type_=BigInteger))
        self.context = self._context()
        """Adds a context; gives no row if there is one of that id."""
        self.joined = self._joined()
        """Keeps a process under a key, unless there is one that it is not `instead_of`; gives what is kept then."""

    def _process(self) -> Any:
        values: dict[str, Any] = {
            each.name: bindparam(each.name) for each in process.columns if each is not process.c.number
        }
        values |= {name: func.coalesce(bindparam(name, type_=Text), literal_column("'null'")) for name in _VALUES}
        return self._insert(process).values(values)

    def _context(self) -> Any:
        given: dict[str, Any] = {"id": bindparam("id"), "value": bindparam("value"), "saved_at": NOW}
        added = self._insert(contexts).values(given)
        return added.on_conflict_do_nothing(index_elements=[contexts.c.id]).returning(contexts.c.id)

    def _joined(self) -> Any:
        columns = (keys.c.digest, keys.c.process, keys.c.made_at)
        given: dict[str, Any] = {
            "key": bindparam("key"),
            "digest": bindparam("digest"),
            "process": bindparam("process"),
        }
        added = self._insert(keys).values({**given, "made_at": NOW})
        outdated = keys.c.process == bindparam("instead_of", type_=Text)
        changed = {each.name: case((outdated, added.excluded[each.name]), else_=each) for each in columns}
        changing = added.on_conflict_do_update(index_elements=[keys.c.key], set_=changed)
        return changing.returning(keys.c.digest, keys.c.process)

    def _row(self, table: Table, *key: Column[Any], **computed: ColumnElement[Any]) -> Any:
        values: dict[str, Any] = {each.name: bindparam(each.name) for each in table.columns}
        values |= computed
        added = self._insert(table).values(values)
        changed = {each.name: added.excluded[each.name] for each in table.columns if each not in set(key)}
        return added.on_conflict_do_update(index_elements=list(key), set_=changed)


@cache
def upserts(dialect: Dialect) -> Upserts:
    """Made once for all stores of a dialect, so that each statement is compiled once."""
    return Upserts(dialect)


# The lease of a family. Who saves has to have the right token.
_LEASE: Final[dict[str, Any]] = {
    "version": process.c.version + ONE,
    "lease_owner": bindparam("lease_owner"),
    "wake_at": bindparam("wake_at"),
}
_FENCED: Final = and_(process.c.id == bindparam("root"), process.c.lease_token == bindparam("token"))
LEASE: Final = update(process).where(_FENCED).values(_LEASE).returning(process.c.number, process.c.version)
SAVED: Final = LEASE.values(_CHANGED)
"""Changes the row of a root and the lease in it at once."""
# SQLite writes each index anew that has one of the columns an update names, whether it changes or not. Most saves are
# of a process that goes on as before; these statements change its row unless such a column is to be changed.
_INDEXED: Final = ("caller_id", "caller_issuer", "status", "finished_at")


def _unchanged(*names: str) -> ColumnElement[bool]:
    return and_(*(process.c[each].is_not_distinct_from(bindparam(each)) for each in names))


_REST: Final = {name: value for name, value in _CHANGED.items() if name not in _INDEXED}
SAME: Final = (
    update(process)
    .where(_FENCED, _unchanged(*_INDEXED, "wake_at"))
    .values({**_REST, "version": _LEASE["version"], "lease_owner": _LEASE["lease_owner"]})
    .returning(process.c.number, process.c.version)
)
SAME_MEMBER: Final = (
    update(process)
    .where(process.c.id == bindparam("member"), _unchanged(*_INDEXED))
    .values(_REST)
    .returning(process.c.number)
)
FORGOTTEN: Final = delete(journal).where(
    journal.c.process == bindparam("process"), journal.c.action == bindparam("action")
)
_ROOT_OF_ID: Final = select(process.c.root).where(process.c.id == bindparam("id")).scalar_subquery()
_LEASE_COLUMNS: Final = (process.c.id, process.c.lease_token, process.c.version, process.c.wake_at, process.c.number)
CLAIMED: Final = (
    update(process)
    .where(process.c.id == _ROOT_OF_ID, or_(process.c.lease_owner == _ME, _FREE))
    .values(
        lease_owner=_ME,
        lease_token=process.c.lease_token + case((process.c.lease_owner == _ME, ZERO), else_=ONE),
    )
    .returning(*_LEASE_COLUMNS)
)
RELEASED: Final = update(process).where(_FENCED).values(lease_owner=literal_column("NULL"))
DUE_HERE: Final = select(*_LEASE_COLUMNS).where(process.c.wake_at <= NOW, process.c.lease_owner == _ME)
HELD: Final = select(process.c.id).where(among(process.c.id, "root_list"), process.c.lease_owner == _ME)
DUE: Final = (
    select(process.c.number)
    .where(process.c.wake_at <= NOW, _NOBODYS, not_(among(process.c.id, "root_list")))
    .order_by(process.c.wake_at, process.c.number)
    .limit(bindparam("limit", type_=Integer))
    .offset(ZERO)
)
TAKEN: Final = (
    update(process)
    .where(process.c.number.in_(DUE.with_for_update(skip_locked=True, of=process)))
    .values(lease_owner=_ME, lease_token=process.c.lease_token + ONE)
    .returning(*_LEASE_COLUMNS)
)

# The programs.
NEIGHBOURS: Final = select(programs).where(programs.c.host == bindparam("host"))
RUNNER: Final = (
    select(programs, (programs.c.alive_until > NOW).label("alive"))
    .join(process, process.c.lease_owner == programs.c.id)
    .where(process.c.id == _ROOT_OF_ID)
)
REAPED: Final = delete(programs).where(programs.c.id == bindparam("id"))
EXPIRED: Final = delete(programs).where(programs.c.alive_until <= NOW)

# What programs leave for each other.
SENT: Final = (
    insert(messages)
    .values(process=bindparam("process"), value=bindparam("value"), sent_at=NOW, withdrawn=false())
    .returning(messages.c.number)
)
_NUMBERED: Final = messages.c.number == bindparam("number")
_ROOT: Final = process.alias("root")
INBOX: Final = (
    select(messages.c.number, messages.c.process, messages.c.value)
    .join(process, process.c.id == messages.c.process)
    .join(_ROOT, _ROOT.c.id == process.c.root)
    .where(messages.c.reply.is_(None), _ROOT.c.lease_owner == _ME)
    .order_by(messages.c.number)
)
REPLIED: Final = (
    update(messages)
    .where(messages.c.number == bindparam("to"), messages.c.reply.is_(None))
    .values(reply=bindparam("reply"))
)
REPLY: Final = select(messages.c.reply).where(_NUMBERED)
TAKEN_BACK: Final = (
    delete(messages).where(_NUMBERED, or_(messages.c.reply.is_(None), messages.c.withdrawn)).returning(messages.c.reply)
)
WITHDRAWN: Final = update(messages).where(_NUMBERED).values(withdrawn=true()).returning(messages.c.number)
_DAY_AGO: Final = NOW - literal_column("86400000000", BigInteger)
_MINUTE_AGO: Final = NOW - literal_column("60000000", BigInteger)
TIDIED: Final = (
    delete(messages).where(
        or_(messages.c.sent_at < _DAY_AGO, and_(messages.c.withdrawn, messages.c.sent_at < _MINUTE_AGO))
    ),
    delete(keys).where(keys.c.made_at < _DAY_AGO),
    delete(dropped_costs).where(dropped_costs.c.dropped_at < _DAY_AGO),
)
"""Remove messages that nobody waits for any more, and keys and costs that are old."""
# The key of a turn leads to its process and, behind a colon, to the message that began it.
_COLON: Final = literal_column("':'", Text)
_OF_PROCESS: Final = func.substr(keys.c.process, ONE, Place(keys.c.process + _COLON, _COLON) - ONE)
FORGOTTEN_KEYS: Final = delete(keys).where(among(_OF_PROCESS, "process_list"))
CONTEXT_IDS: Final = select(contexts.c.id)
_CONTEXT_OF_ID: Final = contexts.c.id == bindparam("id")
CONTEXT: Final = select(contexts.c.value).where(_CONTEXT_OF_ID)
CHANGED_CONTEXT: Final = (
    update(contexts)
    .where(_CONTEXT_OF_ID, contexts.c.value == bindparam("before"))
    .values(value=bindparam("value"), saved_at=NOW)
    .returning(contexts.c.id)
)
"""Changes a context that is as it was `before`; gives no row otherwise."""
DELETED_CONTEXT: Final = delete(contexts).where(_CONTEXT_OF_ID).returning(contexts.c.id)

# Dropping what has ended.
_MEMBER: Final = process.alias("member")
_AGE: Final = bindparam("age", type_=BigInteger)
_OVER: Final = select(process.c.root).where(
    process.c.finished_at.is_not(None),
    process.c.id == process.c.root,
    _NOBODYS,
    not_(exists().where(_MEMBER.c.root == process.c.root, not_(_MEMBER.c.final))),
)
_SOME: Final = _OVER.limit(bindparam("limit", type_=Integer))
OLD: Final = _SOME.where(process.c.finished_at < NOW - _AGE).order_by(process.c.finished_at).offset(ZERO)
"""The roots of families that ended before that age."""
TOO_MANY: Final = _SOME.order_by(process.c.finished_at.desc(), process.c.number.desc()).offset(
    bindparam("keep", type_=Integer)
)
"""The roots of families that have ended, without the newest."""
# Where programs write at the same time, nobody claims what is being dropped.
STILL_OVER: Final = _OVER.where(among(process.c.root, "root_list")).with_for_update(skip_locked=True, of=process)
"""Those of some roots whose families have ended and that nobody runs."""
_NUMBERS: Final = select(process.c.number).where(among(process.c.root, "root_list"))
DROPPED: Final = (
    *(delete(each).where(each.c.process.in_(_NUMBERS)) for each in (*PARTS, events)),
    delete(process).where(among(process.c.root, "root_list")),
)
# By numbers, so that PostgreSQL takes the keys of these tables also where it knows little of what is in them.
MEMBERS: Final = select(process.c.number).where(process.c.root == bindparam("root"))
MEMBER_DROPPED: Final = tuple(
    delete(each).where(each.c[column] == bindparam("member"))
    for each, column in (*((each, "process") for each in (*PARTS, events)), (process, "number"))
)
MESSAGES_DROPPED: Final = delete(messages).where(
    messages.c.process.in_(select(process.c.id).where(process.c.root == bindparam("root")))
)

# Reading.
EVENTS: Final = (
    select(events.c.value)
    .join(process, process.c.number == events.c.process)
    .where(process.c.id == bindparam("root"), events.c.number > bindparam("after"))
    .order_by(events.c.number)
    .limit(bindparam("limit", type_=Integer))
    .offset(ZERO)
)
FIND: Final = select(process).where(process.c.id == bindparam("id"))
OWNER: Final = select(process.c.lease_owner).where(process.c.id == bindparam("id"))
ROOT: Final = select(process.c.root).where(process.c.id == bindparam("id"))
COUNTS: Final = (
    select(process.c.status, func.count().label("count"))
    .where(~among(process.c.id, "without_list"))
    .group_by(process.c.status)
)
FAMILY: Final = select(process).where(process.c.root == bindparam("root")).order_by(process.c.number)
VERSIONS: Final = select(process.c.id, process.c.version).where(
    among(process.c.id, "root_list"), process.c.id == process.c.root
)
OLDEST_QUESTION: Final = (
    select(func.min(questions.c.asked_at).label("asked_at"))
    .join_from(questions, process, questions.c.process == process.c.number)
    .where(questions.c.status == literal_column("'open'"), process.c.ended.is_(false()))
)
SIZE: Final[Mapping[Dialect, TextClause]] = {
    "sqlite": text("select page_count * page_size as bytes from pragma_page_count, pragma_page_size"),
    "postgresql": text("select pg_database_size(current_database()) as bytes"),
}
VERSION: Final = select(
    func.coalesce(func.max(schema_version.c.version), ZERO).label("version"),
    func.coalesce(func.max(func.abs(schema_version.c.version)), ZERO).label("step"),
)
VERSION_MADE: Final = insert(schema_version).values(version=bindparam("version"), applied_at=bindparam("applied_at"))


def _of_family(table: Table) -> Select[Any]:
    order: Column[Any] = list(table.primary_key.columns)[1]
    return (
        select(table)
        .join(process, process.c.number == table.c.process)
        .where(process.c.root == bindparam("root"))
        .order_by(table.c.process, order)
    )


OBJECTS, HISTORY, SPENDINGS, QUESTIONS, JOURNAL = (_of_family(each) for each in PARTS)
"""The rows of a family in each of `PARTS`."""


@cache
def listing(wanted: frozenset[str], *, newest_first: bool) -> Select[Any]:
    """The records of processes in order, without their long values; `wanted` are the parameters that choose."""
    after = select(process.c.number).where(process.c.id == bindparam("after")).scalar_subquery()
    chosen = {
        "after": process.c.number < after if newest_first else process.c.number > after,
        "caller_id": and_(
            process.c.caller_id == bindparam("caller_id"), process.c.caller_issuer == bindparam("caller_issuer")
        ),
        "status_list": among(process.c.status, "status_list"),
    }
    columns = [each for each in process.columns if each.name not in {*_VALUES, "run_time", "caller_claims"}]
    found = select(*columns).where(*(chosen[each] for each in chosen if each in wanted))
    found = found.order_by(process.c.number.desc() if newest_first else process.c.number)
    return found.limit(bindparam("limit", type_=Integer)).offset(ZERO) if "limit" in wanted else found
