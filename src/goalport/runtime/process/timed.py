"""Watches how long the coroutines of users hold the event loop. Above: `context`, which calls what users write."""

from collections.abc import Callable, Coroutine, Generator
from inspect import CO_COROUTINE, iscoroutinefunction
from time import perf_counter
from typing import Any, Final, Generic, TypeGuard, TypeVar

T = TypeVar("T")
_BLOCKING_SECONDS: Final = 0.5
"""The number of seconds for which a function may block the event loop before a warning is logged."""


def is_async(function: Callable[..., object]) -> TypeGuard[Callable[..., Coroutine[Any, Any, object]]]:
    """Whether calling a function gives a coroutine; most say it themselves, and inspect looks for long."""
    code = getattr(function, "__code__", None)
    return (code is not None and bool(code.co_flags & CO_COROUTINE)) or iscoroutinefunction(function)


class Timed(Generic[T]):
    """A coroutine to be awaited in place of another; `report` is given the seconds of each turn that took too long."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], report: Callable[[float], None]) -> None:
        self._coroutine = coroutine
        self._report = report

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
                if (seconds := perf_counter() - start) >= _BLOCKING_SECONDS:
                    self._report(seconds)
            try:
                yield waits_for
                error = None
            except BaseException as thrown:
                error = thrown
