"""How many worker threads of a platform are busy at once."""

import asyncio
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter

from goalport.base.errors import GoalportError


class ThreadLimits:
    """Limits how many worker threads are busy at once, on each event loop.

    A limiter belongs to the event loop on which it is waited for, and a platform may be used on several, one by one.
    """

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
        self._known: WeakKeyDictionary[asyncio.AbstractEventLoop, CapacityLimiter] = WeakKeyDictionary()

    def here(self) -> CapacityLimiter:
        """The limiter of the running event loop. Raises `GoalportError` where none is running."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise GoalportError(
                "Expected a running event loop, in which processes run, but there is none. Call this in an `async def`"
                " that asyncio.run(…) runs, or use AgentInvocation.on(platform).returning(…).invoke_sync(…)."
            ) from None
        known = self._known.get(loop)
        if known is None:
            known = self._known[loop] = CapacityLimiter(self._max_threads)
        return known
