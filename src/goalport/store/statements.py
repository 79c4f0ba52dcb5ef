"""The statements of a store in a database, made once by SQLAlchemy Core; each store compiles them for its driver.

The names of parameters are those of the columns. Reading takes `id`, `root` or nothing.
"""

from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Delete,
    Insert,
    Integer,
    Select,
    Table,
    bindparam,
    func,
    insert,
    literal_column,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from goalport.store.tables import ADDED, REPLACED, objects, process, schema_version

__all__ = [
    "ADDING",
    "COUNTS",
    "FAMILY",
    "FIND",
    "LIST",
    "PARTS",
    "REMOVING",
    "ROOT",
    "VERSION",
    "VERSION_MADE",
    "saving",
]

# In the text of a statement, so that each parameter of it is the value of a column.
_ZERO: Final[ColumnElement[int]] = literal_column("0", Integer)
_ONE: Final[ColumnElement[int]] = literal_column("1", Integer)
_UPDATED: Final = (
    *("agent", "caller_id", "caller_issuer", "caller_scopes", "status", "ended", "final"),
    *("created_at", "finished_at", "long", "whole", "result", "definition", "state"),
)
"""The columns that a save replaces. A process never changes its family; the rest is of the lease and the store."""


def saving(dialect: str) -> Insert:
    """Adds the row of a process or changes it; gives its number, and its version, 1 if it is new."""
    values: dict[str, Any] = {name: bindparam(name) for name in ("id", "root", "parent", *_UPDATED)}
    values |= {"version": _ONE, "lease_token": _ZERO}
    added = (postgresql if dialect == "postgresql" else sqlite).insert(process).values(values)
    changed: dict[str, Any] = {name: added.excluded[name] for name in _UPDATED}
    changed["version"] = process.c.version + _ONE
    return added.on_conflict_do_update(index_elements=[process.c.id], set_=changed).returning(
        process.c.number, process.c.version
    )


def _adding(table: Table) -> Insert:
    """Adds a row to what belongs to a process; what has no number of its own goes to the next place."""
    values: dict[str, Any] = {each.name: bindparam(each.name) for each in table.columns}
    if table in ADDED and table is not objects:
        of_process = table.c.process == bindparam("process")
        values["place"] = (
            select(func.coalesce(func.max(table.c.place) + _ONE, _ZERO)).where(of_process).scalar_subquery()
        )
    return insert(table).values(values).inline()


def _removing(table: Table) -> Delete:
    return table.delete().where(table.c.process == bindparam("process"))


def _of_family(table: Table) -> Select[Any]:
    order: Column[Any] = list(table.primary_key.columns)[1]
    return (
        select(table)
        .join(process, process.c.number == table.c.process)
        .where(process.c.root == bindparam("root"))
        .order_by(table.c.process, order)
    )


ADDING: Final = [_adding(each) for each in (*ADDED, *REPLACED)]
"""One for each table of what belongs to a process: objects, history, spendings, questions, journal."""
REMOVING: Final = [_removing(each) for each in REPLACED]
FIND: Final = select(process).where(process.c.id == bindparam("id"))
ROOT: Final = select(process.c.root).where(process.c.id == bindparam("id"))
LIST: Final = select(process).order_by(process.c.number)
COUNTS: Final = select(process.c.status, func.count()).group_by(process.c.status)
FAMILY: Final = select(process).where(process.c.root == bindparam("root")).order_by(process.c.number)
PARTS: Final = [_of_family(each) for each in (*ADDED, *REPLACED)]
"""The rows of a family in each table of what belongs to a process, in the order of `ADDING`."""
VERSION: Final = select(func.coalesce(func.max(schema_version.c.version), _ZERO))
VERSION_MADE: Final = insert(schema_version).values(version=bindparam("version"), applied_at=bindparam("applied_at"))
