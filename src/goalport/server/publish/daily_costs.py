"""What the processes of each caller have cost today, in this program and in those that share its store.

A day begins at midnight in UTC, which is the same moment for all programs. `limits` is above.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from goalport.base.caller import Caller
from goalport.runtime.process import AgentProcess
from goalport.store import ProcessStore

_KEPT_SECONDS: Final = 5.0
"""For how many seconds counts what was read from the store."""
_NEVER: Final = float("-inf")


@dataclass
class _Day:
    """The day of one caller."""

    begins: datetime
    going_on: dict[str, AgentProcess] = field(default_factory=dict[str, AgentProcess])
    """The processes that were started here and had not ended when they were looked at last."""
    ended: dict[str, float] = field(default_factory=dict[str, float])
    stored: Mapping[str, float] = field(default_factory=dict[str, float])
    """The costs by process as the store has them."""
    read_at: float = _NEVER


class DailyCosts:
    """The costs of callers who have a limit: of processes that were started here exactly, of others as stored."""

    def __init__(
        self,
        store: ProcessStore,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._now, self._clock = store, now, clock
        self._today = _midnight(now())
        self._days: dict[tuple[str, str], _Day] = {}

    @property
    def seconds_left(self) -> float:
        """For how many seconds the day goes on."""
        return (_midnight(self._now()) + timedelta(days=1) - self._now()).total_seconds()

    def note(self, caller: Caller, process: AgentProcess) -> None:
        """Count the costs of a process that was started here."""
        self._day(caller).going_on[process.id] = process

    async def spent(self, caller: Caller) -> float:
        """What the processes of a caller have cost today, in US dollars. Raises `StoreError`."""
        day = self._day(caller)
        here = {root: _cost_since(day.begins, process) for root, process in day.going_on.items()}
        for root in [root for root, process in day.going_on.items() if process.status.ended]:
            del day.going_on[root]
            day.ended[root] = here[root]
        if self._store.durable and self._clock() >= day.read_at + _KEPT_SECONDS:
            read_at = day.read_at
            if read_at > _NEVER:
                day.read_at = self._clock()  # for calls that come meanwhile counts what was read before
            try:
                day.stored = await self._store.spent(caller, day.begins)
                read_at = self._clock()
            finally:
                day.read_at = read_at
        known = {**day.ended, **here}
        others = (cost for root, cost in day.stored.items() if cost > known.get(root, 0.0))
        ours = (cost for root, cost in known.items() if cost >= day.stored.get(root, 0.0))
        return sum(others) + sum(ours)

    def _day(self, caller: Caller) -> _Day:
        who, begins = caller.identity, _midnight(self._now())
        day = self._days.get(who)
        if begins != self._today:
            self._today = begins
            self._days = {each: _Day(begins, other.going_on) for each, other in self._days.items() if other.going_on}
            day = self._days.get(who)
        if day is None:
            day = self._days[who] = _Day(begins)
        return day


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _cost_since(moment: datetime, process: AgentProcess) -> float:
    if process.created_at >= moment:
        return process.usage.cost
    return sum(each.usage.cost for each in process.ledger.entries if each.at >= moment)
