"""The listeners of a process or a platform: they are told of events in order, on the event loop.

Events may come from worker threads. Below: the events. Above: the process and the platform, which have one of these.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache, partial
from logging import getLogger

from goalport.events import Event, EventListener, ObjectBound
from goalport.secrecy import hide_known

__all__ = ["Listeners"]

_log = getLogger(__name__)
_TEXTS = frozenset({"arguments", "error", "message", "prompt", "reason", "reply", "result"})
"""The fields of events that hold what somebody said."""


class Listeners:
    """Listeners of a process or a platform, and a listener itself; one that fails is logged and harms nobody."""

    def __init__(self, listeners: Iterable[EventListener] = ()) -> None:
        self._listeners: dict[object, EventListener] = {object(): each for each in listeners}
        """By a key for each time that one was added: listeners may be equal, or be added twice."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.get_ident()

    def use_running_loop(self) -> None:
        """From now on listeners are called on the running event loop, wherever an event comes from.

        Where none runs, as in a plain test, they are called at once.
        """
        with suppress(RuntimeError):
            self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def add(self, listener: EventListener) -> Callable[[], None]:
        """Let a listener hear every event from now on; call what is returned to stop that."""
        key = object()
        self._listeners[key] = listener

        def remove() -> None:
            self._listeners.pop(key, None)

        return remove

    @property
    def attentive(self) -> bool:
        """Whether anybody would hear an event; `Listeners` among them are as attentive as theirs."""
        for each in tuple(self._listeners.values()):  # noqa: SIM110 - this is asked before each event, and a generator costs twice as much
            if not isinstance(each, Listeners) or each.attentive:
                return True
        return False

    def on_event(self, event: Event, /) -> None:
        """Tell everybody."""
        if self._listeners:
            self.on_loop(partial(self._tell_all, _without_secrets(event)))

    def on_loop(self, function: Callable[[], None]) -> None:
        """Call a function on the event loop: at once from there or when it is over, soon from a worker thread."""
        if self._loop is not None and threading.get_ident() != self._thread and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)
        else:
            function()

    def binding_listener(self, process_id: str) -> Callable[[str, object], None]:
        """What is to be called for each object that is put on the process's blackboard: it makes an event of it."""

        def bound(name: str, value: object) -> None:
            if self.attentive:
                self.on_event(ObjectBound(name, type(value).__name__, process_id=process_id))

        return bound

    def _tell_all(self, event: Event) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                listener.on_event(event)
            except Exception:
                _log.exception("A listener failed on %r; the process goes on.", event)


@cache
def _texts_of(kind: type[Event]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.name in _TEXTS)


def _without_secrets(event: Event) -> Event:
    told = {name: getattr(event, name) for name in _texts_of(type(event))}
    hidden = {name: hidden for name, text in told.items() if text and (hidden := _hidden(text)) != text}
    return replace(event, **hidden) if hidden else event


def _hidden(text: object) -> object:
    return hide_known(text) if isinstance(text, str) else text
