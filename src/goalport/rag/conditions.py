"""Filters and rights to read as conditions of SQLite. Values are bound, and never become part of a statement."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

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

__all__ = ["Condition", "Findable", "all_of", "fits", "may_read", "reader_of", "readers_of"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition and the values for its places."""

    sql: str
    values: tuple[Any, ...] = ()


_NEVER: Final = Condition("0")
_ALWAYS: Final = Condition("1")
_COMPARED: Final = "json_extract(chunks.metadata, ?)"
_ORDERED: Final = {AtLeast: ">=", AtMost: "<="}


def all_of(conditions: Sequence[Condition], joined: str = "and") -> Condition:
    """One condition of several; of none, one that always holds (`and`) or never (`or`)."""
    if not conditions:
        return _ALWAYS if joined == "and" else _NEVER
    sql = f" {joined} ".join(f"({each.sql})" for each in conditions)
    return Condition(sql, tuple(value for each in conditions for value in each.values))


def fits(wanted: Filter) -> Condition:
    """Whether a row of `chunks`, beside its row of `documents`, fits a filter. It is never null."""
    match wanted:
        case Equal(key, value):
            return _compared(key, "=", value)
        case OneOf(key, values):
            return all_of([_compared(key, "=", each) for each in values], "or")
        case AtLeast(key, value) | AtMost(key, value):
            return _compared(key, _ORDERED[type(wanted)], value)
        case Containing(key, value):
            path = _path(key)
            return Condition(
                "case json_type(chunks.metadata, ?) when 'text' then instr(json_extract(chunks.metadata, ?), ?) > 0 "
                "when 'array' then exists (select 1 from json_each(chunks.metadata, ?) where value = ?) else 0 end",
                (path, path, value, path, value),
            )
        case UriPrefix(prefix):
            return Condition("substr(documents.uri, 1, ?) = ?", (len(prefix), prefix))
        case AllOf(filters):
            return all_of([fits(each) for each in filters])
        case AnyOf(filters):
            return all_of([fits(each) for each in filters], "or")
        case Not(inner):
            condition = fits(inner)
            return Condition(f"not ({condition.sql})", condition.values)
        case _:
            assert_never(wanted)


def may_read(caller: Caller) -> Condition:
    """Whether a row of `documents` may be read on behalf of a caller."""
    return Condition(
        "documents.restricted = 0 or exists (select 1 from readers where readers.document = documents.id "
        "and readers.reader in (select value from json_each(?)))",
        (json.dumps(readers_of(caller)),),
    )


@dataclass(frozen=True, slots=True)
class Findable:
    """What may be found: what a filter leaves in, of the documents that a caller may read."""

    filter: Filter | None
    caller: Caller

    @property
    def chunk(self) -> Condition:
        """Whether a row of `chunks`, beside its row of `documents`, may be found."""
        readable = may_read(self.caller)
        return readable if self.filter is None else all_of([readable, fits(self.filter)])

    @property
    def document(self) -> Condition:
        """Whether a row of `documents` may be found: with a filter, if one of its chunks may."""
        readable = may_read(self.caller)
        if self.filter is None:
            return readable
        left_in = fits(self.filter)
        sql = f"exists (select 1 from chunks where chunks.document = documents.id and ({left_in.sql}))"  # noqa: S608 - ours
        return all_of([readable, Condition(sql, left_in.values)])

    def section_of(self, document: int) -> Condition:
        """Whether a row of `sections`, of a document that may be found, is left in: `filters` says which are."""
        if self.filter is None:
            return _ALWAYS
        left_in = fits(self.filter)
        sql = (
            "sections.element in (with recursive kept (element) as ("  # noqa: S608 - ours, and values are bound
            "select chunks.parent from chunks join documents on documents.id = chunks.document "
            f"where documents.id = ? group by chunks.parent having min({left_in.sql}) "
            "union select held.parent from sections as held join kept on held.element = kept.element"
            ") select element from kept)"
        )
        return Condition(sql, (document, *left_in.values))


def reader_of(allowed: Caller | str) -> str:
    """How a caller, or a scope given as text, is written down among those who may read a document."""
    if isinstance(allowed, str):
        return f"scope {allowed}"
    return f"caller {json.dumps([allowed.issuer, allowed.id])}"


def readers_of(caller: Caller) -> list[str]:
    """All that a caller can be among those who may read a document."""
    return [reader_of(caller), *map(reader_of, sorted(caller.scopes))]


def _compared(key: str, operator: str, value: Value) -> Condition:
    """A comparison with a value of the same kind: SQLite orders any number before any text."""
    path = _path(key)
    kinds = "('text')" if isinstance(value, str) else "('integer', 'real', 'true', 'false')"
    return Condition(
        f"coalesce(json_type(chunks.metadata, ?), '') in {kinds} and {_COMPARED} {operator} ?", (path, path, value)
    )


def _path(key: str) -> str:
    return f'$."{key}"'
