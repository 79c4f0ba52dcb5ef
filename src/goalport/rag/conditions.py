"""What has to hold of the rows that are read, in the words that all databases share: filters and rights to read.

Values are bound, and never become part of a statement; their places are question marks. Above: how each database
compares metadata.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, assert_never

from goalport.caller import Caller
from goalport.rag.filters import (
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
from goalport.rag.query import Group, Leaf, Node

__all__ = [
    "Comparison",
    "Condition",
    "Findable",
    "all_of",
    "combined",
    "may_read",
    "negated",
    "of_tree",
    "reader_of",
    "readers_of",
]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition and the values for its places."""

    sql: str
    values: tuple[Any, ...] = ()


Comparison = Literal["=", ">=", "<="]
_ORDERED: Final[dict[type, Comparison]] = {AtLeast: ">=", AtMost: "<="}


def all_of(conditions: Sequence[Condition], joined: str = "and") -> Condition:
    """One condition of several; of none, one that always holds (`and`) or never (`or`)."""
    if not conditions:
        return Condition("1 = 1" if joined == "and" else "1 = 0")
    sql = f" {joined} ".join(f"({each.sql})" for each in conditions)
    return Condition(sql, tuple(value for each in conditions for value in each.values))


def combined(
    wanted: Filter,
    compared: Callable[[str, Comparison, Value], Condition],
    containing: Callable[[Containing], Condition],
) -> Condition:
    """Whether a row of `chunks`, beside its row of `documents`, fits a filter.

    `compared` compares the value of a key of metadata with another, and `containing` looks into it.
    """
    match wanted:
        case Equal(key, value):
            return compared(key, "=", value)
        case OneOf(key, values):
            return all_of([compared(key, "=", each) for each in values], "or")
        case AtLeast(key, value) | AtMost(key, value):
            return compared(key, _ORDERED[type(wanted)], value)
        case Containing():
            return containing(wanted)
        case UriPrefix(prefix):
            return Condition("substr(documents.uri, 1, ?) = ?", (len(prefix), prefix))
        case AllOf(filters):
            return all_of([combined(each, compared, containing) for each in filters])
        case AnyOf(filters):
            return all_of([combined(each, compared, containing) for each in filters], "or")
        case Not(inner):
            return negated(combined(inner, compared, containing))
        case _:
            assert_never(wanted)


def negated(condition: Condition) -> Condition:
    return Condition(f"not ({condition.sql})", condition.values)


def of_tree(node: Node, having: Callable[[Leaf], Condition]) -> Condition:
    """Whether a row has what a query says has to be there; `having`: whether it has a part of the query."""
    if not isinstance(node, Group):
        return having(node)
    conditions = [of_tree(each, having) for each in node.required]
    if node.optional and not node.required:
        conditions.append(all_of([of_tree(each, having) for each in node.optional], "or"))
    conditions += [negated(of_tree(each, having)) for each in node.prohibited]
    return all_of(conditions)


def may_read(caller: Caller) -> Condition:
    """Whether a row of `documents` may be read on behalf of a caller."""
    known = readers_of(caller)
    one_of_them = f"readers.reader in ({', '.join('?' * len(known))})"
    sql = f"exists (select 1 from readers where readers.document = documents.id and {one_of_them})"  # noqa: S608 - ours
    return Condition(f"not documents.restricted or {sql}", tuple(known))


@dataclass(frozen=True, slots=True)
class Findable:
    """What may be found: what a filter leaves in, of the documents that a caller may read."""

    left_in: Condition | None
    """Whether a filter leaves a chunk in; None: there is no filter."""
    caller: Caller

    @property
    def chunk(self) -> Condition:
        """Whether a row of `chunks`, beside its row of `documents`, may be found."""
        readable = may_read(self.caller)
        return readable if self.left_in is None else all_of([readable, self.left_in])

    @property
    def document(self) -> Condition:
        """Whether a row of `documents` may be found: with a filter, if one of its chunks may."""
        readable = may_read(self.caller)
        if self.left_in is None:
            return readable
        sql = f"exists (select 1 from chunks where chunks.document = documents.id and ({self.left_in.sql}))"  # noqa: S608 - ours
        return all_of([readable, Condition(sql, self.left_in.values)])

    def section_of(self, document: int) -> Condition:
        """Whether a row of `sections`, of a document that may be found, is left in: `filters` says which are."""
        if self.left_in is None:
            return all_of([])
        sql = (
            "sections.element in (with recursive kept (element) as ("  # noqa: S608 - ours, and values are bound
            "select chunks.parent from chunks join documents on documents.id = chunks.document "
            "where documents.id = ? group by chunks.parent "
            f"having count(*) = sum(case when {self.left_in.sql} then 1 else 0 end) "
            "union select held.parent from sections as held join kept on held.element = kept.element"
            ") select element from kept)"
        )
        return Condition(sql, (document, *self.left_in.values))


def reader_of(allowed: Caller | str) -> str:
    """How a caller, or a scope given as text, is written down among those who may read a document."""
    if isinstance(allowed, str):
        return f"scope {allowed}"
    return f"caller {json.dumps([allowed.issuer, allowed.id])}"


def readers_of(caller: Caller) -> list[str]:
    """All that a caller can be among those who may read a document."""
    return [reader_of(caller), *map(reader_of, sorted(caller.scopes))]
