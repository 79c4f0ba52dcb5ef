"""The events of processes for those who follow them: as they happen, and as they were for who comes later or elsewhere.

The log of a family holds the events that the store does not have yet; with the next save of the family they go there. A
follower reads what happens in one process until it rests, as a request does. Above: the repository, which saves events,
and doors.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast
from weakref import WeakKeyDictionary, ref

from goalport.base.events import Event, MessageDelta, ProcessCreated, as_json, from_json
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.lifecycle import Outcome
from goalport.store import EventRecord, ProcessStore

_INCARNATIONS: Final = 1 << 20
"""How many events a program may number before the next one that takes the family over goes on at a higher number."""
_MOST: Final = 100_000
"""The most events that wait for the store; if it is away for so long, the oldest are dropped."""
DIALOGUE: Final = frozenset({"prompt", "reply", "arguments", "result"})
"""The fields of events with what is said between models and tools."""


class LoggedEvent(NamedTuple):
    """An event of a process or of one that it started, with its number."""

    number: int
    """Its place among the events of the family. Numbers only grow; some are never used."""
    event: Event


class EventLog:
    """The events of a family as they happen: a listener.

    Parameters: `dialogue`: keep what is said between models and tools, too. `holds` says whether this program may
    number events of the family: another one does while it has the family.
    """

    def __init__(self, holds: Callable[[], bool], *, dialogue: bool) -> None:
        self._holds, self._dialogue = holds, dialogue
        self._early: deque[Mapping[str, object]] = deque(maxlen=_MOST)
        """What happened before this program had the family: it has no numbers yet."""
        self.unstored: deque[EventRecord] = deque(maxlen=_MOST)
        """The events that the store does not have yet."""
        self._last = 0
        self.stored_up_to = 0
        """The number of the last event that the store has, as far as this program knows."""
        self.waiting_since: float | None = None
        """Since when the oldest of those waits for the store."""

    def on_event(self, event: Event, /) -> None:
        """Keep an event; not a piece of a message, which is kept as a whole."""
        if isinstance(event, MessageDelta):
            return
        written: Mapping[str, object] = as_json(event)
        if not self._dialogue:
            written = {**written, **dict.fromkeys(DIALOGUE & written.keys(), "")}
        if self._holds():
            self._number(written)
        else:
            self._early.append(written)

    def _number(self, event: Mapping[str, object]) -> None:
        self._last += 1
        if self.waiting_since is None:
            self.waiting_since = time.monotonic()
        self.unstored.append(EventRecord(self._last, event))

    def continue_at(self, incarnation: int) -> None:
        """Number the next events higher than those of any program that had the family before.

        Another program may have shown events that it could not store any more. `incarnation` is higher each time that
        the family changes hands.
        """
        self._last = max(self._last, incarnation * _INCARNATIONS)
        while self._early:
            self._number(self._early.popleft())

    def forget(self) -> None:
        """Forget what the store does not have: another program goes on with the family, and knows nothing of it."""
        self.unstored.clear()
        self._early.clear()
        self.waiting_since = None


class EventLogs:
    """The logs of the families that live in this program, by their roots; a family without one keeps no events.

    Parameters: `holds` says of a root whether this program has its family.
    """

    def __init__(self, store: ProcessStore, holds: Callable[[AgentProcess], bool]) -> None:
        self._store, self._holds = store, holds
        self.by_root: WeakKeyDictionary[AgentProcess, EventLog] = WeakKeyDictionary()

    def open(self, root: AgentProcess, *, new: bool = False) -> None:
        """Keep the events of a family from now on; of a `new` one the first is that it was created."""
        if root not in self.by_root:
            here = ref(root)  # the log must not keep it alive

            def holds() -> bool:
                process = here()
                return process is not None and self._holds(process)

            log = self.by_root[root] = EventLog(holds, dialogue=root.platform.keep_journals)
            if new:
                log.on_event(ProcessCreated(root.agent.name, root.caller.id, process_id=root.id, at=root.created_at))
            root.listeners.add(log)

    def unstored(self, root: AgentProcess) -> Sequence[EventRecord]:
        """The events of a family that the store does not have yet."""
        log = self.by_root.get(root)
        return () if log is None else tuple(log.unstored)

    def confirm(self, root: AgentProcess, events: Sequence[EventRecord]) -> None:
        """Note that the store has these events now."""
        log = self.by_root.get(root)
        if log is not None and events:
            log.stored_up_to = events[-1].number
            while log.unstored and log.unstored[0].number <= log.stored_up_to:
                log.unstored.popleft()
            log.waiting_since = time.monotonic() if log.unstored else None

    def waiting(self, seconds: float) -> Sequence[AgentProcess]:
        """The roots of which an event has waited for the store for longer than that."""
        since = time.monotonic() - seconds
        logs = self.by_root.items()
        return [root for root, log in logs if log.waiting_since is not None and log.waiting_since <= since]

    async def read(self, root: AgentProcess, after: int, limit: int) -> Sequence[tuple[int, Event | None]]:
        """The next events of a family after the one of that number, with their numbers, in order.

        Those that are stored come first. None: another version of the program wrote it, and this one does not know it.
        """
        log = self.by_root.get(root)
        while True:
            known = 0 if log is None else log.stored_up_to
            found = await self._store.events(root.id, after, limit)
            if found or log is None:
                break
            if log.stored_up_to == known:  # otherwise some have been stored meanwhile
                found = [each for each in log.unstored if each.number > after]
                break
        return [(each.number, from_json(cast("Mapping[str, Any]", each.value))) for each in found]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The process still runs."""

    seconds: float
    """For how long it has been followed."""


@dataclass(frozen=True, slots=True)
class Rested:
    """The last item: the process has ended, or waits for the answers to its open questions."""

    outcome: Outcome | None
    """None: it still runs, but the reader's patience is over."""


class Follower:
    """Reads the events of one process; a listener, so that it can be there before the process begins.

    `most`: how many events wait to be read; of a reader that is too slow the oldest are dropped.
    """

    def __init__(self, most: int | None = None) -> None:
        self._unread: deque[Event] = deque(maxlen=most)
        self._news = asyncio.Event()
        self._closed = False

    def on_event(self, event: Event, /) -> None:
        """Keep an event until it is read."""
        if not self._closed:
            self._unread.append(event)
            self._news.set()

    async def follow(
        self, process: AgentProcess, *, patience: float = math.inf, heartbeat: float = math.inf
    ) -> AsyncGenerator[Event | Heartbeat | Rested]:
        """Its events, a heartbeat every so many seconds, and at the end how it rests.

        Raises `HandedOver` if this program ends first, and `StoreError`. Close it (`aclosing`) to stop following.
        """
        now = asyncio.get_running_loop().time
        began = beaten = now()
        rest = asyncio.ensure_future(process.wait())
        rest.add_done_callback(self._on_rest)
        try:
            while True:
                self._news.clear()
                while self._unread:
                    yield self._unread.popleft()
                if rest.done():
                    yield Rested(rest.result())
                    return
                until = min(began + patience, beaten + heartbeat)
                try:
                    async with asyncio.timeout_at(None if until == math.inf else until):
                        await self._news.wait()
                except TimeoutError:
                    beaten = now()
                    if beaten >= began + patience:
                        yield Rested(None)
                        return
                    yield Heartbeat(beaten - began)
        finally:
            self._closed = True
            rest.cancel()

    def _on_rest(self, rest: "asyncio.Future[Outcome]") -> None:
        if not rest.cancelled():
            rest.exception()  # it is raised for a reader who is still there
        self._news.set()


async def follow(
    process: AgentProcess, *, patience: float = math.inf, heartbeat: float = math.inf, most: int | None = None
) -> AsyncGenerator[Event | Heartbeat | Rested]:
    """What happens in a process from now on, as `Follower.follow` gives it."""
    follower = Follower(most)
    unsubscribe = process.subscribe(follower)
    try:
        async with aclosing(follower.follow(process, patience=patience, heartbeat=heartbeat)) as items:
            async for each in items:
                yield each
    finally:
        unsubscribe()
