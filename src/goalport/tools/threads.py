"""Functions in worker threads, which count against a limit until they have really ended.

A thread cannot be stopped: when nobody waits for a function any more, it runs on. Were its place given away then, there
would be no limit. Above: whoever calls functions of users.
"""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from anyio import CapacityLimiter, WouldBlock, to_thread

__all__ = ["in_thread"]

T = TypeVar("T")


async def in_thread(
    function: Callable[[], T], limiter: CapacityLimiter, when_full: Callable[[], None] | None = None
) -> T:
    """Call a function in a worker thread; when the wait is cancelled, it is abandoned and keeps its place to its end.

    `when_full` is called where all places are taken, before one is waited for.
    """
    place = _Place(function, limiter)
    try:
        limiter.acquire_on_behalf_of_nowait(place)
    except WouldBlock:
        if when_full is not None:
            when_full()
        await limiter.acquire_on_behalf_of(place)
    try:
        result = await to_thread.run_sync(place.call, abandon_on_cancel=True, limiter=CapacityLimiter(math.inf))
    finally:
        place.leave()
    if isinstance(result, _Escape):
        raise result.error
    return result


@dataclass(frozen=True, slots=True)
class _Escape:
    """What a function raised that is no `Exception`: an event loop would take it for its own end, or its task's."""

    error: BaseException


class _Place(Generic[T]):
    """A place of a limiter: given back by whoever comes last, the function or the one who waits for it."""

    def __init__(self, function: Callable[[], T], limiter: CapacityLimiter) -> None:
        self._function = function
        self._limiter = limiter
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._runs = self._left = False

    def call(self) -> T | _Escape:
        """Call the function, in its thread, unless nobody waits for it any more."""
        with self._lock:
            if self._left:
                raise RuntimeError("Nobody waits for this any more.")
            self._runs = True
        try:
            return self._function()
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            return _Escape(error)
        finally:
            with self._lock:
                self._runs = False
                abandoned = self._left
            if abandoned:
                with suppress(RuntimeError):  # the loop is over, and its limiter with it
                    self._loop.call_soon_threadsafe(self._limiter.release_on_behalf_of, self)

    def leave(self) -> None:
        """Nobody waits any more, on the event loop."""
        with self._lock:
            self._left = True
            running = self._runs
        if not running:
            self._limiter.release_on_behalf_of(self)
