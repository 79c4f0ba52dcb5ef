"""Credentials that were not valid, counted for each address that sends them, so that no address has many tried at once.

A valid credential passes whatever its address has sent: many callers may be behind one proxy. Above: `guard`.
"""

import time
from collections.abc import Callable
from typing import Final

from goalport.base.hosts import source_of

_AT_ONCE: Final = 20
_SECONDS: Final = 0.25
"""Seconds after which an address may fail once more."""
_MOST_COUNTED: Final = 40
"""Failed attempts that count against an address; more, which were begun before, do not make it wait for longer."""
_MOST_ADDRESSES: Final = 10_000


class FailedAttempts:
    """The failed attempts of each address; of too many addresses, those that failed longest ago are forgotten.

    `clock` gives seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._forgiven_at: dict[str, float] = {}
        """When all failed attempts of an address are forgiven, one after the other."""

    def add(self, address: str) -> float:
        """Count a failed attempt; the value is after how many seconds one would not be too many, so 0 if it is not."""
        source, now = source_of(address), self._clock()
        forgiven_at = max(self._forgiven_at.pop(source, now), now) + _SECONDS
        self._forgiven_at[source] = min(forgiven_at, now + _MOST_COUNTED * _SECONDS)
        if len(self._forgiven_at) > _MOST_ADDRESSES:
            del self._forgiven_at[next(iter(self._forgiven_at))]
        return max(0.0, self._forgiven_at[source] - now - _AT_ONCE * _SECONDS)

    def too_many(self, address: str) -> bool:
        """Whether one more failed attempt of an address would be too many."""
        forgiven_at = self._forgiven_at.get(source_of(address), 0.0)
        return forgiven_at - self._clock() > (_AT_ONCE - 1) * _SECONDS
