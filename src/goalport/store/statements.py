"""The statements of a store in a database, made once by SQLAlchemy Core; each store compiles them for its driver.

The names of parameters are those of the columns, and a few that say what they stand for: `me` is the id of this program
as `programs` has it, `lifetime` is in microseconds, and `…_list` is a list of texts in JSON. `operations` puts the
statements together.
"""

from functools import cache
from typing import Any, Final, Literal

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Integer,
    ScalarSelect,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal_column,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from goalport.store.tables import PARTS, journal, process, programs, schema_version

__all__ = [
    "BURIED",
    "CLAIMED",
    "COUNTS",
    "DUE",
    "EXPIRED",
    "FAMILY",
    "FIND",
    "FORGOTTEN",
    "HISTORY",
    "JOURNAL",
    "LEASE",
    "NEIGHBOURS",
    "OBJECTS",
    "OWNER",
    "QUESTIONS",
    "RELEASED",
    "ROOT",
    "SAVED",
    "SPENDINGS",
    "TAKEN",
    "VERSION",
    "VERSIONS",
    "VERSION_MADE",
    "Dialect",
    "Upserts",
    "listing",
]

Dialect = Literal["sqlite", "postgresql"]
_INSERTS: Final = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}

# In the text of a statement, so that each parameter of it is the value of a column.
_ZERO: Final[ColumnElement[int]] = literal_column("0", Integer)
_ONE: Final[ColumnElement[int]] = literal_column("1", Integer)


class _Clock(FunctionElement[int]):
    """The clock of the database in microseconds: the one clock by which programs compare times."""

    type = BigInteger()
    inherit_cache = True


@compiles(_Clock, "sqlite")
def _clock_of_sqlite(*_: object, **__: object) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"


@compiles(_Clock, "postgresql")
def _clock_of_postgresql(*_: object, **__: object) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


class _Texts(FunctionElement[str]):
    """The texts in a list that is given as JSON, a row each."""

    inherit_cache = True


@compiles(_Texts, "sqlite")
def _texts_in_sqlite(element: _Texts, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Texts, "postgresql")
def _texts_in_postgresql(element: _Texts, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clauses, **options)} AS JSON))"


def _among(column: Column[str], name: str) -> ColumnElement[bool]:
    texts = _Texts(bindparam(name, type_=Text)).table_valued("value", name="texts")
    return column.in_(select(texts.c.value))


# A query of its own is evaluated once, and an index can be searched with it.
_NOW: Final[ScalarSelect[int]] = select(_Clock()).scalar_subquery()
_ME: Final = bindparam("me", type_=Text)
_LIVES: Final = exists().where(programs.c.id == process.c.lease_owner, programs.c.alive_until > _NOW)
_FREE: Final = or_(process.c.lease_owner.is_(None), not_(_LIVES))

_VALUES: Final = {"definition", "state"}
_UPDATED: Final = (
    *("agent", "caller_id", "caller_issuer", "caller_scopes", "status", "ended", "final"),
    *("created_at", "finished_at", "long", "whole", "result"),
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
        self._insert = _INSERTS[dialect]
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
        self.alive = self._row(programs, programs.c.id, alive_until=_NOW + bindparam("lifetime", type_=BigInteger))

    def _process(self) -> Any:
        values: dict[str, Any] = {
            each.name: bindparam(each.name) for each in process.columns if each is not process.c.number
        }
        values |= {name: func.coalesce(bindparam(name, type_=Text), literal_column("'null'")) for name in _VALUES}
        return self._insert(process).values(values)

    def _row(self, table: Table, *key: Column[Any], **computed: ColumnElement[Any]) -> Any:
        values: dict[str, Any] = {each.name: bindparam(each.name) for each in table.columns}
        values |= computed
        added = self._insert(table).values(values)
        changed = {each.name: added.excluded[each.name] for each in table.columns if each not in set(key)}
        return added.on_conflict_do_update(index_elements=list(key), set_=changed)


# The lease of a family. Who saves has to have the right token.
_LEASE: Final[dict[str, Any]] = {
    "version": process.c.version + _ONE,
    "lease_owner": bindparam("lease_owner"),
    "wake_at": bindparam("wake_at"),
}
_FENCED: Final = and_(process.c.id == bindparam("root"), process.c.lease_token == bindparam("token"))
LEASE: Final = update(process).where(_FENCED).values(_LEASE).returning(process.c.number, process.c.version)
SAVED: Final = LEASE.values(_CHANGED)
"""Changes the row of a root and the lease in it at once."""
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
        lease_token=process.c.lease_token + case((process.c.lease_owner == _ME, _ZERO), else_=_ONE),
    )
    .returning(*_LEASE_COLUMNS)
)
RELEASED: Final = update(process).where(_FENCED).values(lease_owner=literal_column("NULL"))
DUE: Final = (
    select(process.c.number)
    .where(process.c.wake_at <= _NOW, or_(process.c.lease_owner.is_(None), and_(process.c.lease_owner != _ME, _FREE)))
    .order_by(process.c.wake_at, process.c.number)
    .limit(bindparam("limit", type_=Integer))
    .offset(_ZERO)
)
TAKEN: Final = (
    update(process)
    .where(process.c.number.in_(DUE.with_for_update(skip_locked=True, of=process)))
    .values(lease_owner=_ME, lease_token=process.c.lease_token + _ONE)
    .returning(*_LEASE_COLUMNS)
)

# The programs.
NEIGHBOURS: Final = select(programs).where(programs.c.host == bindparam("host"))
BURIED: Final = delete(programs).where(programs.c.id == bindparam("id"))
EXPIRED: Final = delete(programs).where(programs.c.alive_until <= _NOW)

# Reading.
FIND: Final = select(process).where(process.c.id == bindparam("id"))
OWNER: Final = select(process.c.lease_owner).where(process.c.id == bindparam("id"))
ROOT: Final = select(process.c.root).where(process.c.id == bindparam("id"))
COUNTS: Final = select(process.c.status, func.count().label("count")).group_by(process.c.status)
FAMILY: Final = select(process).where(process.c.root == bindparam("root")).order_by(process.c.number)
VERSIONS: Final = select(process.c.id, process.c.version).where(
    _among(process.c.id, "root_list"), process.c.id == process.c.root
)
VERSION: Final = select(func.coalesce(func.max(schema_version.c.version), _ZERO))
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
        "status_list": _among(process.c.status, "status_list"),
    }
    columns = [each for each in process.columns if each.name not in _VALUES]
    found = select(*columns).where(*(chosen[each] for each in chosen if each in wanted))
    found = found.order_by(process.c.number.desc() if newest_first else process.c.number)
    return found.limit(bindparam("limit", type_=Integer)).offset(_ZERO) if "limit" in wanted else found
