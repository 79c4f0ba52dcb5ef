"""The statements about what the processes of a caller have cost, from the spendings that are stored as JSON.

`SPENT` sums it. Its parameters are the caller's `caller_id` and `caller_issuer`, and the moment as `since`, in
microseconds, and as `since_text`, in UTC as ISO 8601 has it. `COSTS_KEPT` keeps it for a family, by its `root`, that is
going to be dropped. `operations` is above.
"""

from typing import Any, ClassVar, Final

from sqlalchemy import Float, Text, and_, bindparam, func, insert, literal_column, select, union, union_all
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from goalport.store.expressions import NOW, ZERO
from goalport.store.tables import dropped_costs, process, spendings

__all__ = ["COSTS_KEPT", "SPENT"]

_SPENDING: Final = "goalport.process.ledger:Spending"


class _Part(FunctionElement[Any]):
    """A part of a value that is stored as JSON."""

    path: ClassVar[tuple[str, ...]] = ()


class _Cost(_Part):
    path = (_SPENDING, "usage", "goalport.llm.model:TokenUsage", "cost")
    type = Float()
    inherit_cache = True


class _Time(_Part):
    """In UTC and as ISO 8601 has it, so that times compare as texts."""

    path = (_SPENDING, "at", "$datetime", "0")
    type = Text()
    inherit_cache = True


@compiles(_Part, "sqlite")
def _part_in_sqlite(element: _Part, compiler: SQLCompiler, **options: Any) -> str:
    steps = "".join(f"[{each}]" if each.isdecimal() else f'."{each}"' for each in element.path)
    return f"json_extract({compiler.process(element.clauses, **options)}, '${steps}')"


@compiles(_Part, "postgresql")
def _part_in_postgresql(element: _Part, compiler: SQLCompiler, **options: Any) -> str:
    text = f"CAST({compiler.process(element.clauses, **options)} AS JSON) #>> '{{{','.join(element.path)}}}'"
    return f"CAST({text} AS DOUBLE PRECISION)" if isinstance(element, _Cost) else f"({text})"


_OPEN: Final = ("not_started", "running", "waiting", "paused", "stuck", "resting")
_CALLERS: Final = and_(
    process.c.caller_id == bindparam("caller_id"), process.c.caller_issuer == bindparam("caller_issuer")
)
# A caller may have a hundred thousand processes that ended before. Those since the first one that ended after the
# moment are found by the index of callers. The others that go on are found by that of statuses: SQLite would take the
# first one for them too, but cannot for what is computed.
_CALLERS_TOO: Final = and_(
    process.c.caller_id.concat(literal_column("''")) == bindparam("caller_id"),
    process.c.caller_issuer == bindparam("caller_issuer"),
)
# SQLite would also look for the least number from the first process on, were it not computed.
_FIRST: Final = (
    select(func.min(process.c.number + ZERO)).where(process.c.finished_at >= bindparam("since")).scalar_subquery()
)
_SPENDERS: Final = union(
    select(process.c.number, process.c.root).where(_CALLERS, process.c.number >= _FIRST),
    select(process.c.number, process.c.root).where(
        _CALLERS_TOO, process.c.status.in_([literal_column(f"'{each}'") for each in _OPEN])
    ),
).subquery("spenders")
_COST, _SPENT_AT = _Cost(spendings.c.value), _Time(spendings.c.value)
_SINCE: Final = bindparam("since_text", type_=Text)
SPENT: Final = union_all(
    select(_SPENDERS.c.root, func.sum(_COST).label("cost"))
    .join(spendings, spendings.c.process == _SPENDERS.c.number)
    .where(_SPENT_AT >= _SINCE)
    .group_by(_SPENDERS.c.root),
    select(dropped_costs.c.root, func.sum(dropped_costs.c.cost).label("cost"))
    .where(
        dropped_costs.c.caller_id == bindparam("caller_id"),
        dropped_costs.c.caller_issuer == bindparam("caller_issuer"),
        dropped_costs.c.spent_at >= _SINCE,
    )
    .group_by(dropped_costs.c.root),
)
COSTS_KEPT: Final = insert(dropped_costs).from_select(
    [each.name for each in dropped_costs.columns],
    select(process.c.root, process.c.caller_id, process.c.caller_issuer, _SPENT_AT, _COST, NOW)
    .join(spendings, spendings.c.process == process.c.number)
    .where(process.c.root == bindparam("root"), _SPENT_AT >= _SINCE, _COST > ZERO),
)
