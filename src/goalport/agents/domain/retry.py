"""How often a failing action is tried again, and for which failures.

Pure decisions: nothing here waits or runs.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import cast

from goalport.agents.domain.checks import require_amount
from goalport.base.errors import BadInput, ModelError, NonRetryable, ProcessEnded, Retryable, causes, leaves

_DEEPEST = 5
"""How many groups of failures are looked into, each the cause of a part of the one before."""
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


def transient(error: BaseException, depth: int = 0) -> bool:
    """Whether a failure may pass by itself: as `Retryable` or `NonRetryable` among its causes say, the nearest first.

    Where none of them does, time-outs may pass, and what transports raise, also as a cause.
    """
    marked = _marked(error, depth)
    return _passing(error, depth) if marked is None else marked


def _marked(error: BaseException, depth: int = 0) -> bool | None:
    """What the nearest marker in the chain of causes says; of several failures at once, one no is enough."""
    given_up = False
    for each in causes(error):
        if isinstance(each, (BadInput, NonRetryable)):
            return False
        if isinstance(each, Retryable) and not given_up:
            return True
        given_up = given_up or isinstance(each, ProcessEnded)  # what a sub-process gave up was tried there
        if isinstance(each, BaseExceptionGroup) and depth < _DEEPEST:
            said = {_marked(leaf, depth + 1) for leaf in leaves(cast("BaseException", each))}
            if False in said or said == {True}:
                return False not in said
    return None


def _passing(error: BaseException, depth: int = 0) -> bool:
    for each in causes(error):
        if isinstance(each, (ModelError, ProcessEnded)):
            # It was tried again already: as often as the provider's settings say, or in the sub-process.
            return False
        if isinstance(each, BaseExceptionGroup):
            parts = leaves(cast("BaseException", each))
            return depth < _DEEPEST and all(transient(leaf, depth + 1) for leaf in parts)
        if isinstance(each, (TimeoutError, ConnectionError, *_transport_errors())):
            return True
    return False


def _transport_errors() -> Iterator[type[BaseException]]:
    # Only a library that is loaded can have raised; importing one here would cost every start.
    for module, name in _TRANSPORTS:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            yield kind
