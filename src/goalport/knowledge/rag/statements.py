"""Statements of an index, in the words that its databases share: steps, conditions, filters, and rights to read.

An operation is a generator: it yields statements with values, gets the rows of each, and returns what it is for. Any
driver can run it, as one transaction. Values are bound, and never become part of a statement.
"""

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, assert_never

from goalport.base.caller import Caller
from goalport.knowledge.rag.filters import (
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Containing,
    Equal,
    Filter,
    Not,
    OneOf,
    UriPrefix,
    Value,
)

T = TypeVar("T")

Rows: TypeAlias = Sequence[Sequence[Any]]
Statement: TypeAlias = tuple[str, Sequence[Any]]
"""A statement, whose places are question marks, with its values; a list of tuples: it is run once for each."""
Operation: TypeAlias = Generator[Statement, Rows, T]
Comparison = Literal["=", ">=", "<="]

JOINED = "chunks join documents on documents.id = chunks.document"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition and the values for its places."""

    sql: str
    values: tuple[Any, ...] = ()


def all_of(conditions: Sequence[Condition], joined: str = "and") -> Condition:
    """One condition of several; of none, one that always holds (`and`) or never (`or`)."""
    if not conditions:
        return Condition("1 = 1" if joined == "and" else "1 = 0")
    sql = f" {joined} ".join(f"({each.sql})" for each in conditions)
    return Condition(sql, tuple(value for each in conditions for value in each.values))


def selected(columns: str, tables: str, condition: Condition, ending: str = "") -> Statement:
    """A statement that reads rows; all its parts are texts of this room."""
    return f"select {columns} from {tables} where {condition.sql} {ending}", condition.values  # noqa: S608 - ours


def fitting(
    wanted: Filter,
    compared: Callable[[str, Comparison, Value], Condition],
    containing: Callable[[Containing], Condition],
) -> Condition:
    """Whether a row of `chunks`, beside its row of `documents`, fits a filter; the database compares metadata."""

    def of(each: Filter) -> Condition:
        match each:
            case Equal(key, value):
                return compared(key, "=", value)
            case AtLeast(key, value):
                return compared(key, ">=", value)
            case AtMost(key, value):
                return compared(key, "<=", value)
            case OneOf(key, values):
                return all_of([compared(key, "=", value) for value in values], "or")
            case Containing():
                return containing(each)
            case UriPrefix(prefix):
                return Condition("substr(documents.uri, 1, ?) = ?", (len(prefix), prefix))
            case AllOf(filters):
                return all_of([of(inner) for inner in filters])
            case AnyOf(filters):
                return all_of([of(inner) for inner in filters], "or")
            case Not(inner):
                negated = of(inner)
                return Condition(f"not ({negated.sql})", negated.values)
            case _:
                assert_never(each)

    return of(wanted)


@dataclass(frozen=True, slots=True)
class Findable:
    """What may be found: what a filter leaves in, of the documents that a caller may read."""

    left_in: Condition | None
    """Whether a filter leaves a chunk in; None: there is no filter."""
    caller: Caller

    @property
    def readable(self) -> Condition:
        """Whether a row of `documents` may be read on behalf of the caller."""
        known = [reader_of(self.caller), *map(reader_of, sorted(self.caller.scopes))]
        one_of_them = f"readers.reader in ({', '.join('?' * len(known))})"
        sql = f"exists (select 1 from readers where readers.document = documents.id and {one_of_them})"  # noqa: S608 - ours
        return Condition(f"not documents.restricted or {sql}", tuple(known))

    @property
    def chunk(self) -> Condition:
        """Whether a row of `chunks`, beside its row of `documents`, may be found."""
        return self.readable if self.left_in is None else all_of([self.readable, self.left_in])

    @property
    def document(self) -> Condition:
        """Whether a row of `documents` may be found: with a filter, if one of its chunks may."""
        if self.left_in is None:
            return self.readable
        sql = f"exists (select 1 from chunks where chunks.document = documents.id and ({self.left_in.sql}))"  # noqa: S608 - ours
        return all_of([self.readable, Condition(sql, self.left_in.values)])

    def restrictions(self) -> Operation[list[Condition]]:
        """What has to hold of `chunks` and `documents`; nothing where everything may be found."""
        if (yield selected("1", "documents", Condition("documents.restricted"), "limit 1")):
            return [self.chunk]
        return [self.left_in] if self.left_in is not None else []


def reader_of(allowed: Caller | str) -> str:
    """How a caller, or a scope given as text, is written down among those who may read a document."""
    if isinstance(allowed, str):
        return f"scope {allowed}"
    return f"caller {json.dumps([allowed.issuer, allowed.id])}"
