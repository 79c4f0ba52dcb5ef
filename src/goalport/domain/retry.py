"""How often a failing action is tried again, and for which failures.

Pure decisions: nothing here waits or runs.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import cast

from goalport.domain.checks import require_amount
from goalport.errors import BadInput, ModelError, NonRetryable, Retryable, leaves

__all__ = ["RetryPolicy", "transient"]

_TRANSPORTS = (("httpx2", "TransportError"), ("httpx", "TransportError"))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often an action is tried, and the waits in between. By default only transient failures are retried."""

    attempts: int = 3
    """The number of attempts in all; 1: no retry."""
    first_delay: float = 0.2
    """Seconds before the second attempt."""
    factor: float = 5.0
    """How many times as long each further wait is as the one before."""
    max_delay: float = 60.0
    """The longest wait, in seconds."""
    every_error: bool = False
    """Retry after any failure, not only after a transient one."""

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise TypeError(f"Expected attempts to be a whole number from 1 up, but got {self.attempts!r}.")
        require_amount("first_delay", self.first_delay, "a number of seconds")
        require_amount("max_delay", self.max_delay, "a number of seconds")
        require_amount("factor", self.factor)

    def delays(self) -> Iterator[float]:
        """The waits before the second attempt, the third, and so on; as many as there are attempts left."""
        delay = self.first_delay
        for _ in repeat(None, self.attempts - 1):
            yield min(delay, self.max_delay)
            delay *= self.factor

    def retries(self, error: Exception) -> bool:
        """Whether to try again after this failure; a `Retryable` or `NonRetryable` among its causes decides."""
        marked = _marked(error)
        return (self.every_error or transient(error)) if marked is None else marked


def transient(error: BaseException) -> bool:
    """Whether a failure may pass by itself: as `Retryable` or `NonRetryable` among its causes say, the nearest first.

    Where none of them does, time-outs may pass, and what transports raise, also as a cause.
    """
    marked = _marked(error)
    return _passing(error) if marked is None else marked


def _marked(error: BaseException) -> bool | None:
    """What the nearest marker in the chain of causes says; of several failures at once, one no is enough."""
    if isinstance(error, (BadInput, NonRetryable)):
        return False
    if isinstance(error, Retryable):
        return True
    if isinstance(error, BaseExceptionGroup):
        said = set(map(_marked, leaves(cast("BaseException", error))))
        if False in said or said == {True}:
            return False not in said
    return None if error.__cause__ is None else _marked(error.__cause__)


def _passing(error: BaseException) -> bool:
    if isinstance(error, ModelError):
        # A model has been asked again as often as its provider's settings say.
        return False
    if isinstance(error, BaseExceptionGroup):
        return all(map(transient, leaves(cast("BaseException", error))))
    if isinstance(error, (TimeoutError, ConnectionError, *_transport_errors())):
        return True
    return error.__cause__ is not None and _passing(error.__cause__)


def _transport_errors() -> Iterator[type[BaseException]]:
    # Only a library that is loaded can have raised; importing one here would cost every start.
    for module, name in _TRANSPORTS:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            yield kind
