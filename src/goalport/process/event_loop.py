"""Detects `async` functions that block the event loop instead of awaiting: nothing else can run meanwhile.

Above: `context`, which calls the functions of users.
"""

from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

__all__ = ["BLOCKING_SECONDS", "Timed"]

T = TypeVar("T")
BLOCKING_SECONDS: Final = 0.5
"""The number of seconds for which a function may block the event loop before a warning is logged."""


class Timed(Generic[T]):
    """A coroutine to be awaited in place of another; `tell` is given the seconds of each turn that took too long."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], tell: Callable[[float], None]) -> None:
        self._coroutine = coroutine
        self._tell = tell

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine = self._coroutine
        error: BaseException | None = None
        while True:
            start = perf_counter()
            try:
                waits_for = coroutine.send(None) if error is None else coroutine.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                if (seconds := perf_counter() - start) >= BLOCKING_SECONDS:
                    self._tell(seconds)
            try:
                yield waits_for
                error = None
            except BaseException as thrown:
                error = thrown
