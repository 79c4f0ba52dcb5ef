"""The listeners of a process or a platform: they receive events in order, on the event loop.

Events may come from worker threads. One listener is defined here: `EventLog` collects the events of a family (a root
process and its sub-processes) until they are stored with the family's next save. Below: the events. Above: the process
and the platform, which each have listeners, and the repository, which saves events.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from logging import getLogger
from typing import Any, Final, NamedTuple, cast

from goalport.base.events import Event, EventListener, MessageDelta, ObjectBound, as_json, from_json
from goalport.base.secrecy import hide_known
from goalport.store import EventRecord, ProcessStore

_log = getLogger(__name__)
_TEXT_FIELDS = frozenset({"arguments", "error", "message", "prompt", "reason", "reply", "result", "text"})
"""The fields of events that contain text from people, models or tools."""
_INCARNATIONS: Final = 1 << 20
"""How many event numbers each program has for a family; the next program to take the family over starts above them."""
_MOST: Final = 100_000
"""The most events that wait for the store; if the store is away for too long, the oldest are dropped."""
DIALOGUE: Final = frozenset({"prompt", "reply", "arguments", "result"})
"""The event fields that contain the dialogue between models and tools."""


class Listeners:
    """The listeners of a process or platform, and a listener itself. An exception of a listener is only logged."""

    def __init__(self, listeners: Iterable[EventListener] = (), *, on_running_loop: bool = False) -> None:
        """`on_running_loop`: call them on the event loop that runs now, from whatever thread an event comes.

        Otherwise, or if no loop runs (as in a plain test), they are called at once.
        """
        self._listeners: dict[object, EventListener] = {object(): each for each in listeners}
        """Each listener under a key of its own, since listeners may be equal or be added twice."""
        self._thread = threading.get_ident()
        try:
            self._loop = asyncio.get_running_loop() if on_running_loop else None
        except RuntimeError:
            self._loop = None

    def add(self, listener: EventListener) -> Callable[[], None]:
        """Add a listener for all events from now on; the returned function removes it."""
        key = object()
        self._listeners[key] = listener

        def remove() -> None:
            self._listeners.pop(key, None)

        return remove

    @property
    def attentive(self) -> bool:
        """Whether any listener would receive an event; nested `Listeners` count only if they have one."""
        for each in tuple(self._listeners.values()):  # asked before each event: a generator would cost twice as much
            if not isinstance(each, Listeners) or (each._listeners and each.attentive):  # noqa: SLF001 - its own class
                return True
        return False

    def on_event(self, event: Event, /) -> None:
        if not self._listeners:
            return
        texts = ((name, getattr(event, name)) for name in _text_fields(type(event)))
        changed = {name: safe for name, text in texts if isinstance(text, str) and (safe := hide_known(text)) != text}
        masked = replace(event, **changed) if changed else event

        def send() -> None:
            for listener in tuple(self._listeners.values()):
                try:
                    listener.on_event(masked)
                except Exception:
                    _log.exception("A listener failed on %r; the process goes on.", masked)

        self.on_loop(send)

    def on_loop(self, function: Callable[[], None]) -> None:
        """Call a function on the event loop: at once if called there or if the loop is closed, else soon."""
        if self._loop is not None and threading.get_ident() != self._thread and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)
        else:
            function()

    def binding_listener(self, process_id: str) -> Callable[[str, object], None]:
        """A function that emits an event for each object that is put on the process's blackboard."""

        def bound(name: str, value: object) -> None:
            if self.attentive:
                self.on_event(ObjectBound(name, type(value).__name__, process_id=process_id))

        return bound


@cache
def _text_fields(kind: type[Event]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.name in _TEXT_FIELDS)


class Alarm:
    """A listener that calls a function at each event, whatever it is."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def on_event(self, _event: Event, /) -> None:
        self._function()


class LoggedEvent(NamedTuple):
    """An event of a process or of one that it started, with its number."""

    number: int
    """Its place among the events of the family. Numbers only grow; some are never used."""
    event: Event


class EventLog:
    """Collects the events of a family as they happen: a listener.

    Parameters: `dialogue`: also keep the dialogue between models and tools. `holds` says whether this program may
    number events of the family; it may not while another program has the family's lease.
    """

    def __init__(self, holds: Callable[[], bool], *, dialogue: bool) -> None:
        self._holds, self._dialogue = holds, dialogue
        self._early: deque[Mapping[str, object]] = deque(maxlen=_MOST)
        """The events from before this program had the family: they have no numbers yet."""
        self.unstored: deque[EventRecord] = deque(maxlen=_MOST)
        """The events that the store does not have yet."""
        self._last = self._stored_up_to = 0
        """The number of the last event, and of the last one that the store has, as far as this program knows."""
        self.waiting_since = float("inf")
        """The time at which the oldest unstored event arrived (`time.monotonic`); infinite: there is none."""

    def on_event(self, event: Event, /) -> None:
        """Record an event, unless it is a piece of a message: whole messages are recorded."""
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
        self.waiting_since = min(self.waiting_since, time.monotonic())
        self.unstored.append(EventRecord(self._last, event))

    def continue_at(self, incarnation: int) -> None:
        """Number the next events higher than those of any program that had the family before.

        Another program may have shown events to readers without storing them. `incarnation` is higher each time that
        the family changes hands.
        """
        self._last = max(self._last, incarnation * _INCARNATIONS)
        while self._early:
            self._number(self._early.popleft())

    def forget(self) -> None:
        """Drop the unstored events: another program continues the family, and does not have them."""
        self.unstored.clear()
        self._early.clear()
        self.waiting_since = float("inf")

    def confirm(self, events: Sequence[EventRecord]) -> None:
        """Note that the store has these events now."""
        if events:
            self._stored_up_to = events[-1].number
            while self.unstored and self.unstored[0].number <= self._stored_up_to:
                self.unstored.popleft()
            self.waiting_since = time.monotonic() if self.unstored else float("inf")

    async def read(self, store: ProcessStore, root_id: str, after: int, limit: int) -> Sequence[EventRecord]:
        """The next events of a family after number `after`, in order; the stored ones come first."""
        while True:
            known = self._stored_up_to
            if found := await store.events(root_id, after, limit):
                return found
            if self._stored_up_to == known:  # otherwise some have been stored meanwhile
                return [each for each in self.unstored if each.number > after]


def event_of(record: EventRecord) -> Event | None:
    """The event of a record; None: another version of the program stored it, and this version does not know it."""
    return from_json(cast("Mapping[str, Any]", record.value))
