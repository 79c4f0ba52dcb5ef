"""The listeners of a process or a platform: they receive events in order, on the event loop.

Events may come from worker threads. Below: the events. Above: the process and the platform, which each have one.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import cache
from logging import getLogger

from goalport.base.events import Event, EventListener, ObjectBound
from goalport.base.secrecy import hide_known

_log = getLogger(__name__)
_TEXT_FIELDS = frozenset({"arguments", "error", "message", "prompt", "reason", "reply", "result", "text"})
"""The fields of events that contain text from people, models or tools."""


class Listeners:
    """The listeners of a process or platform, and a listener itself; an exception of one is logged, nothing more."""

    def __init__(self, listeners: Iterable[EventListener] = ()) -> None:
        self._listeners: dict[object, EventListener] = {object(): each for each in listeners}
        """Each listener under a key of its own, since listeners may be equal or be added twice."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.get_ident()

    def use_running_loop(self) -> None:
        """From now on listeners are called on the running event loop, wherever an event comes from.

        Where none runs, as in a plain test, they are called at once.
        """
        try:
            self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        except RuntimeError:
            return

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


class Alarm:
    """A listener that calls a function at each event, whatever it is."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def on_event(self, _event: Event, /) -> None:
        self._function()


@cache
def _text_fields(kind: type[Event]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.name in _TEXT_FIELDS)
