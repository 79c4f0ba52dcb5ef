"""Timers for the questions of processes, where no store says when to wake, or its clock is ahead of this program's."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakSet

from goalport.process import AgentProcess

__all__ = ["ExpiryTimers"]


_MOST_SKEW: Final = 120.0
"""By how many seconds the clock of a database may be ahead."""


class ExpiryTimers:
    """Calls `expire` with a process when one of its open questions expires."""

    def __init__(self, expire: Callable[[AgentProcess], None]) -> None:
        self._expire = expire
        self._timed: WeakSet[AgentProcess] = WeakSet()

    def __contains__(self, process: AgentProcess) -> bool:
        return process in self._timed

    def set(self, process: AgentProcess) -> None:
        """Wait for the next of its questions that expires."""
        self._timed.add(process)
        if (left := _seconds_left(process)) is not None:
            asyncio.get_running_loop().call_later(max(left, 0), self._expire, process)

    def set_soon(self, family: Sequence[AgentProcess]) -> bool:
        """Set timers for a family that was woken too early by this program's clock. Returns False if it was not."""
        early = [each for each in family if (left := _seconds_left(each)) is not None and left < _MOST_SKEW]
        for each in early:
            self.set(each)
        return bool(early)


def _seconds_left(process: AgentProcess) -> float | None:
    times = [each.expires_at.timestamp() for each in process.questions.open if each.expires_at is not None]
    return min(times) - time.time() if times else None
