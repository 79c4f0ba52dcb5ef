"""Filters as conditions of PostgreSQL. Values are bound, and never become part of a statement."""

from decimal import Decimal
from typing import Final

from goalport.rag.conditions import Comparison, Condition, combined
from goalport.rag.filters import Containing, Filter, Value

__all__ = ["fits"]

_TEXT: Final = 'chunks.metadata ->> ? collate "C"'
_NUMBER: Final = (
    "case jsonb_typeof(chunks.metadata -> ?) when 'number' then (chunks.metadata ->> ?)::numeric {operator} ?::numeric "
    "when 'boolean' then (chunks.metadata ->> ?)::boolean::integer {operator} ?::numeric else false end"
)
"""A truth counts as a number, as it does for SQLite and for Python."""


def fits(wanted: Filter) -> Condition:
    """Whether a row of `chunks`, beside its row of `documents`, fits a filter. It is never null."""
    return combined(wanted, _compared, _containing)


def _compared(key: str, operator: Comparison, value: Value) -> Condition:
    if isinstance(value, str):
        return Condition(
            f"case jsonb_typeof(chunks.metadata -> ?) when 'string' then {_TEXT} {operator} ? else false end",
            (key, key, value),
        )
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(int(value))
    return Condition(_NUMBER.format(operator=operator), (key, key, number, key, number))


def _containing(wanted: Containing) -> Condition:
    key, value = wanted.key, wanted.value
    return Condition(
        "case jsonb_typeof(chunks.metadata -> ?) when 'string' then position(? in chunks.metadata ->> ?) > 0 "
        "when 'array' then (chunks.metadata -> ?) @> to_jsonb(?::text) else false end",
        (key, value, key, key, value),
    )
