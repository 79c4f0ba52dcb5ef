"""Filters as conditions of SQLite. Values are bound, and never become part of a statement."""

from typing import Final

from goalport.rag.conditions import Comparison, Condition, combined
from goalport.rag.filters import Containing, Filter, Value

__all__ = ["fits"]

_COMPARED: Final = "json_extract(chunks.metadata, ?)"


def fits(wanted: Filter) -> Condition:
    """Whether a row of `chunks`, beside its row of `documents`, fits a filter. It is never null."""
    return combined(wanted, _compared, _containing)


def _compared(key: str, operator: Comparison, value: Value) -> Condition:
    """A comparison with a value of the same kind: SQLite orders any number before any text."""
    path = _path(key)
    kinds = "('text')" if isinstance(value, str) else "('integer', 'real', 'true', 'false')"
    return Condition(
        f"coalesce(json_type(chunks.metadata, ?), '') in {kinds} and {_COMPARED} {operator} ?", (path, path, value)
    )


def _containing(wanted: Containing) -> Condition:
    path = _path(wanted.key)
    return Condition(
        "case json_type(chunks.metadata, ?) when 'text' then instr(json_extract(chunks.metadata, ?), ?) > 0 "
        "when 'array' then exists (select 1 from json_each(chunks.metadata, ?) where value = ?) else 0 end",
        (path, path, wanted.value, path, wanted.value),
    )


def _path(key: str) -> str:
    return f'$."{key}"'
