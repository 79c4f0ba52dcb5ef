"""What the databases say differently, as expressions of SQLAlchemy that each compiles in its own way.

Below: SQLAlchemy. Above: the statements.
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    ScalarSelect,
    TableValuedAlias,
    Text,
    bindparam,
    literal_column,
    select,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

__all__ = ["NOW", "ONE", "ZERO", "Place", "among", "texts_in"]

# In the text of a statement, so that each parameter of it is the value of a column.
ZERO: Final[ColumnElement[int]] = literal_column("0", Integer)
ONE: Final[ColumnElement[int]] = literal_column("1", Integer)


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


# A query of its own is evaluated once, and an index can be searched with it.
NOW: Final[ScalarSelect[int]] = select(_Clock()).scalar_subquery()


class _Texts(FunctionElement[str]):
    """The texts in a list that is given as JSON, a row each."""

    inherit_cache = True


@compiles(_Texts, "sqlite")
def _texts_in_sqlite(element: _Texts, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Texts, "postgresql")
def _texts_in_postgresql(element: _Texts, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clauses, **options)} AS JSON))"


def texts_in(name: str) -> TableValuedAlias:
    """The texts of the parameter of that name, a list in JSON, as rows with one column, `value`."""
    return _Texts(bindparam(name, type_=Text)).table_valued("value", name="texts")


def among(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Whether a column has one of the texts of the parameter of that name, a list in JSON."""
    return column.in_(select(texts_in(name).c.value))


class Place(FunctionElement[int]):
    """Where the second text begins in the first one, in characters from 1; 0: it is not in it."""

    type = Integer()
    inherit_cache = True


@compiles(Place, "sqlite")
def _place_in_sqlite(element: Place, compiler: SQLCompiler, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)})"


@compiles(Place, "postgresql")
def _place_in_postgresql(element: Place, compiler: SQLCompiler, **options: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **options)})"
