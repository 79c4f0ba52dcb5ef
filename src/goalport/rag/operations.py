"""What a store does in a database, as steps that any driver can take: generators of statements.

An operation yields statements, gets the rows of each, and returns what it is for. It is one transaction, which the
database begins and ends; an operation that raises has written nothing. Places for values are question marks. Above:
what reads and writes rows, and the databases that run it.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from goalport.rag.conditions import Condition

__all__ = ["Batch", "Operation", "Rows", "Statement", "selected"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and the values for its places."""

    sql: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """A statement that is run once for the values of each row, and gives nothing."""

    sql: str
    rows: Sequence[tuple[Any, ...]]


Rows = Sequence[Sequence[Any]]
Operation = Generator[Statement | Batch, Rows, T]


def selected(columns: str, tables: str, condition: Condition, ending: str = "") -> Statement:
    """A statement that reads rows; all its parts are texts of this room, and values are bound."""
    return Statement(f"select {columns} from {tables} where {condition.sql} {ending}", condition.values)  # noqa: S608
