"""The limits of callers: what each may do at once, in a minute and in a day, and whose turn it is.

Every door checks them before it answers a call, so they apply to a caller across all doors. Each replica counts for
itself; only costs are counted over all replicas that share a store. `publisher` is above.
"""

import asyncio
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NoReturn
from weakref import WeakSet

from goalport.base.caller import Caller
from goalport.base.errors import GoalportError
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess
from goalport.runtime.process.ledger import in_dollars
from goalport.store import ProcessStore
from goalport.workspace.settings import LimitSettings

Who = tuple[str, str]
"""A caller: its issuer and its id."""
LimitKind = Literal["calls", "waiting_calls", "processes", "calls_per_minute", "cost_per_day"]
_MINUTE: Final = 60.0
_SOON: Final = 1.0
_LATER: Final = 5.0
"""Seconds after which a refused caller should try again: `_SOON` if a call has to end first, `_LATER` if a process."""
_READABLE: Final = 120
_MANY: Final = 10_000
"""From this number of callers on, those that have not called for a minute are forgotten."""


class LimitReached(GoalportError):
    """A call that is refused, because its caller has reached a limit; the message says which, and when to try again."""

    def __init__(self, kind: LimitKind, reason: str, retry_seconds: float) -> None:
        self.kind: LimitKind = kind
        self.retry_seconds = max(1, math.ceil(retry_seconds))
        minutes = math.ceil(self.retry_seconds / _MINUTE)
        soon = f"{self.retry_seconds} s" if self.retry_seconds <= _READABLE else f"{minutes} min"
        after = soon if minutes <= _READABLE else f"{minutes // 60} h {minutes % 60} min"
        super().__init__(f"{reason} Try again in {after}.")


class FairQueue:
    """Assigns a fixed number of places to calls. Waiting callers take turns; the calls of one caller keep their order.

    So other callers get a place in between, however many calls of one caller wait. When the last call of a caller is
    answered, a place is kept for `seconds`, since it will probably call again; callers who have one cannot take it.
    """

    def __init__(self, places: int, seconds: float = 1.0) -> None:
        self._free = places
        self._most_kept = places * 4 // 5
        """The most places that are kept. Of a thousand callers who called within a second, few call again at once."""
        self._seconds = seconds
        self._held: Counter[Who] = Counter()
        """How many places each caller has."""
        self._kept: dict[Who, asyncio.TimerHandle] = {}
        """The callers for whom a place is kept, and the timer that ends that."""
        self._lines: OrderedDict[Who, deque[asyncio.Event]] = OrderedDict()
        """The waiting calls by caller; the caller whose turn is next comes first."""

    def take(self, who: Who) -> bool:
        """Take a place if one is free for this caller; return whether it was."""
        if not self._free or (who in self._held and self._free <= min(len(self._kept), self._most_kept)):
            return False
        self._free -= 1
        self._held[who] += 1
        if kept := self._kept.pop(who, None):
            kept.cancel()
        return True

    @property
    def waiting(self) -> Counter[Who]:
        """How many places each caller waits for."""
        return Counter({who: len(line) for who, line in self._lines.items()})

    def length(self, who: Who) -> int:
        """How many places one caller waits for."""
        return len(self._lines.get(who, ()))

    async def wait(self, who: Who) -> None:
        """Wait until this caller gets a place."""
        if self.take(who):
            return
        place = asyncio.Event()
        self._lines.setdefault(who, deque()).append(place)
        try:
            await place.wait()
        except asyncio.CancelledError:
            if place.is_set():
                self.leave(who)
            else:
                self._lines[who].remove(place)
                if not self._lines[who]:
                    del self._lines[who]
            raise

    def leave(self, who: Who) -> None:
        """Give back a place of this caller; the caller whose turn is next gets it."""
        self._free += 1
        self._held[who] -= 1
        if not self._held[who]:
            del self._held[who]
            if who not in self._lines:
                self._kept[who] = asyncio.get_running_loop().call_later(self._seconds, self._keep_no_longer, who)
        self._assign_free_places()

    def _keep_no_longer(self, who: Who) -> None:
        del self._kept[who]
        self._assign_free_places()

    def _assign_free_places(self) -> None:
        """Give free places to waiting callers in turn, but no kept place to a caller that already has a place."""
        while who := next(filter(self.take, self._lines), None):
            line = self._lines.pop(who)
            line.popleft().set()
            if line:
                self._lines[who] = line


class Limits:
    """The limits of one server; `on_refusal` is called with the name of a limit that refuses a call."""

    def __init__(
        self,
        platform: AgentPlatform,
        settings: LimitSettings,
        on_refusal: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.costs = DailyCosts(platform.store)
        self._processes = platform.processes
        self._settings = settings
        platform.limits_of = lambda caller: settings.of(caller).of_processes
        self._on_refusal = on_refusal
        self._clock = clock
        self._queue = FairQueue(settings.total_calls) if settings.total_calls else None
        self._calls: Counter[Who] = Counter()
        self._starting: Counter[Who] = Counter()
        self._settled: WeakSet[AgentProcess] = WeakSet()
        """The processes that are known not to be starting any more; those that start are counted in `_starting`."""
        self._begun: dict[Who, deque[float]] = {}

    @property
    def waiting(self) -> Counter[Who]:
        """How many calls of each caller wait for their turn."""
        return Counter() if self._queue is None else self._queue.waiting

    async def admit(self, caller: Caller, *, begins: bool) -> "Place":
        """The place of a call: it has it already, or has to wait for it. Its door has to call `leave` at the end.

        `begins` says whether the call starts something, or only continues something. Raises `LimitReached`, and
        `StoreError` if the costs of the caller cannot be read from the store.
        """
        own, who = self._settings.of(caller), caller.identity
        if begins:
            await self._check_cost(caller)
        # Nothing is awaited from here on, so that no other call is counted meanwhile.
        if own.calls and self._calls[who] >= own.calls:
            self._refuse("calls", f"{own.calls} calls of yours are being answered, as many as may be at once.", _SOON)
        most = self._settings.waiting_calls
        if self._queue is not None and self._queue.length(who) >= most:
            self._refuse("waiting_calls", f"{most} calls of yours wait for their turn, as many as may.", _SOON)
        if begins:
            self._count(caller)
        return Place(self._queue, self._calls if own.calls else None, who)

    async def begin(self, caller: Caller) -> None:
        """Count that a call starts something, though it was admitted without `begins`. Raises what `admit` raises."""
        await self._check_cost(caller)
        self._count(caller)

    @contextmanager
    def starting(self, caller: Caller) -> Generator[Callable[[AgentProcess], None]]:
        """A context that counts the process started in it for a caller; it yields a function to call with the process.

        Raises `LimitReached`.
        """
        own, who = self._settings.of(caller), caller.identity
        if own.processes:
            running = [each for each in self._processes.running if each.parent is None and caller.same_as(each.caller)]
            # The process of a conversation rests between turns, so each turn starts it again.
            self._settled -= {each for each in self._settled if each.options.turns and each.outcome is not None}
            if not (starting := self._starting[who]):
                self._settled.update(running)
            # A process that is starting may run already; it counts once.
            begun = sum(each not in self._settled for each in running)
            if len(running) - begun + max(begun, starting) >= own.processes:
                told = f"{own.processes} processes of yours are running, as many as may be at once."
                self._refuse("processes", told, _LATER)
        started: list[AgentProcess] = []
        self._starting[who] += 1
        try:
            yield started.append
        finally:
            self._starting[who] -= 1
            if not self._starting[who]:
                del self._starting[who]
        for process in started:
            self._settled.add(process)
            if own.cost_per_day:
                self.costs.note(caller, process)

    async def _check_cost(self, caller: Caller) -> None:
        most = self._settings.of(caller).cost_per_day
        if most and (spent := await self.costs.spent(caller)) >= most:
            told = f"You have spent {in_dollars(spent)} today, and may spend {in_dollars(most)} in a day (UTC)."
            self._refuse("cost_per_day", told, self.costs.seconds_left)

    def _count(self, caller: Caller) -> None:
        """Count a call. Raises `LimitReached` if the caller has made too many within a minute."""
        most, who, now = self._settings.of(caller).calls_per_minute, caller.identity, self._clock()
        if not most:
            return
        if who not in self._begun and len(self._begun) >= _MANY:
            self._begun = {each: calls for each, calls in self._begun.items() if calls[-1] > now - _MINUTE}
        begun = self._begun.setdefault(who, deque())
        while begun and begun[0] <= now - _MINUTE:
            begun.popleft()
        if len(begun) >= most:
            told = f"You have made {most} calls within a minute, as many as may be."
            self._refuse("calls_per_minute", told, begun[0] + _MINUTE - now)
        begun.append(now)

    def _refuse(self, kind: LimitKind, reason: str, retry_seconds: float) -> NoReturn:
        self._on_refusal(kind)
        raise LimitReached(kind, reason, retry_seconds)


class Place:
    """The place of one call among the calls answered at the same time; a call that waits for a person has none."""

    __slots__ = ("_calls", "_counted", "_queue", "_who", "held")

    def __init__(self, queue: FairQueue | None, calls: "Counter[Who] | None", who: Who) -> None:
        self.held = queue is None or queue.take(who)
        """Whether the call has its place; if not, it has to wait."""
        self._queue, self._calls, self._who = queue, calls, who
        self._counted = 0
        self._count(1)

    async def wait(self) -> None:
        """Wait until the call gets its place, unless it has it already."""
        self._count(1)
        if not self.held and self._queue is not None:
            await self._queue.wait(self._who)
            self.held = True

    def leave(self) -> None:
        """Give the place back, since the call has been answered, has lost its client, or waits for a person."""
        if self.held and self._queue is not None:
            self.held = False
            self._queue.leave(self._who)
        self._count(0)

    def _count(self, times: int) -> None:
        """Set how many times, 0 or 1, this call counts among the calls of its caller."""
        if self._calls is not None and self._counted != times:
            self._calls[self._who] += times - self._counted
            self._counted = times
            if not self._calls[self._who]:
                del self._calls[self._who]


_KEPT_SECONDS: Final = 5.0
"""Seconds for which costs that were read from the store are reused."""


@dataclass
class _Day:
    """The costs of one caller on one day."""

    begins: datetime
    going_on: dict[str, AgentProcess] = field(default_factory=dict[str, AgentProcess])
    """The processes started here that had not ended when their costs were last read."""
    ended: dict[str, float] = field(default_factory=dict[str, float])
    stored: Mapping[str, float] = field(default_factory=dict[str, float])
    """The costs by process as the store has them."""
    read_at: float = -math.inf


class DailyCosts:
    """The costs of callers who have a limit: exact for processes started here, for others as the store has them."""

    def __init__(
        self,
        store: ProcessStore,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._now, self._clock = store, now, clock
        self._today = self._midnight()
        self._days: dict[Who, _Day] = {}

    @property
    def seconds_left(self) -> float:
        """Seconds until the day (UTC) ends."""
        return (self._midnight() + timedelta(days=1) - self._now()).total_seconds()

    def note(self, caller: Caller, process: AgentProcess) -> None:
        """Count the costs of a process that was started here."""
        self._day(caller).going_on[process.id] = process

    async def spent(self, caller: Caller) -> float:
        """What the processes of a caller have cost today, in US dollars. Raises `StoreError`."""
        day = self._day(caller)
        known = {**day.ended}
        for root, process in [*day.going_on.items()]:
            since = [each.usage.cost for each in process.ledger.entries if each.at >= day.begins]
            known[root] = process.usage.cost if process.created_at >= day.begins else sum(since)
            if process.status.ended:
                day.ended[root] = known[root]
                del day.going_on[root]
        if self._store.durable and self._clock() >= day.read_at + _KEPT_SECONDS:
            day.stored = await self._store.spent(caller, day.begins)
            day.read_at = self._clock()
        return sum(max(known.get(root, 0.0), day.stored.get(root, 0.0)) for root in {*known, *day.stored})

    def _day(self, caller: Caller) -> _Day:
        begins = self._midnight()
        if begins != self._today:
            self._today = begins
            self._days = {who: _Day(begins, each.going_on) for who, each in self._days.items() if each.going_on}
        return self._days.setdefault(caller.identity, _Day(begins))

    def _midnight(self) -> datetime:
        return self._now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
