"""The listeners of a process or a platform: they receive events in order, on the event loop.

Events may come from worker threads. One listener is here: the log of a family holds the events that the store does not
have yet; with the next save of the family they go there. Below: the events. Above: the process and the platform, which
each have listeners, and the repository, which saves events.
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
"""How many events a program may number before the next one that takes the family over goes on at a higher number."""
_MOST: Final = 100_000
"""The most events that wait for the store; if it is away for so long, the oldest are dropped."""
DIALOGUE: Final = frozenset({"prompt", "reply", "arguments", "result"})
"""The fields of events with what is said between models and tools."""


class Listeners:
    """The listeners of a process or platform, and a listener itself; an exception of one is logged, nothing more."""

    def __init__(self, listeners: Iterable[EventListener] = (), *, on_running_loop: bool = False) -> None:
        """`on_running_loop`: they are called on the event loop that runs now, wherever an event comes from.

        Otherwise, and where none runs, as in a plain test, they are called at once.
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
        told = replace(event, **changed) if changed else event

        def tell() -> None:
            for listener in tuple(self._listeners.values()):
                try:
                    listener.on_event(told)
                except Exception:
                    _log.exception("A listener failed on %r; the process goes on.", told)

        self.on_loop(tell)

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
        self._last = self._stored_up_to = 0
        """The number of the last event, and of the last one that the store has, as far as this program knows."""
        self.waiting_since = float("inf")
        """Since when the oldest event waits for the store; infinite: none does."""

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
        self.waiting_since = min(self.waiting_since, time.monotonic())
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
        self.waiting_since = float("inf")

    def confirm(self, events: Sequence[EventRecord]) -> None:
        """Note that the store has these events now."""
        if events:
            self._stored_up_to = events[-1].number
            while self.unstored and self.unstored[0].number <= self._stored_up_to:
                self.unstored.popleft()
            self.waiting_since = time.monotonic() if self.unstored else float("inf")

    async def read(self, store: ProcessStore, root_id: str, after: int, limit: int) -> Sequence[EventRecord]:
        """The next events of a family after the one of that number, in order. Those that are stored come first."""
        while True:
            known = self._stored_up_to
            if found := await store.events(root_id, after, limit):
                return found
            if self._stored_up_to == known:  # otherwise some have been stored meanwhile
                return [each for each in self.unstored if each.number > after]


def event_of(record: EventRecord) -> Event | None:
    """The event of a record; None: another version of the program wrote it, and this one does not know it."""
    return from_json(cast("Mapping[str, Any]", record.value))
