"""Timers for the questions of processes that a store in memory keeps; any other store says itself when to wake."""

import asyncio
import time
from collections.abc import Callable
from weakref import WeakSet

from goalport.process import AgentProcess

__all__ = ["ExpiryTimers"]


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
        times = [each.expires_at.timestamp() for each in process.questions.open if each.expires_at is not None]
        if times:
            delay = max(min(times) - time.time(), 0)
            asyncio.get_running_loop().call_later(delay, self._expire, process)
