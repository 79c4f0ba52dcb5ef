"""Follows one process: its events until it ends or waits, for requests that wait for it. Above: doors."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from goalport.base.events import Event
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.lifecycle import Outcome


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The process still runs."""

    seconds: float
    """Seconds since following began."""


@dataclass(frozen=True, slots=True)
class Rested:
    """The last item: the process has ended, or waits for the answers to its open questions."""

    outcome: Outcome | None
    """None: it still runs, but the reader's `patience` is over."""


class Follower:
    """Reads the events of one process. It is a listener, so it can subscribe before the process begins.

    `most`: the most unread events that are kept; if the reader is too slow, the oldest are dropped.
    """

    def __init__(self, most: int | None = None) -> None:
        self._unread: deque[Event] = deque(maxlen=most)
        self._news = asyncio.Event()
        self._closed = False

    def on_event(self, event: Event, /) -> None:
        """Keep an event until it is read."""
        if not self._closed:
            self._unread.append(event)
            self._news.set()

    async def follow(
        self, process: AgentProcess, *, patience: float = math.inf, heartbeat: float = math.inf
    ) -> AsyncGenerator[Event | Heartbeat | Rested]:
        """Yields events and heartbeats, at the end a `Rested`; intervals and `patience` are in seconds.

        Raises `HandedOver` if this program ends first, and `StoreError`. Close it (`aclosing`) to stop following.
        """
        now = asyncio.get_running_loop().time
        began = beaten = now()

        def wake(ended: "asyncio.Future[Outcome]") -> None:
            if not ended.cancelled():
                ended.exception()  # mark it as retrieved: `rest.result()` raises it for the reader
            self._news.set()

        rest = asyncio.ensure_future(process.wait())
        rest.add_done_callback(wake)
        try:
            while True:
                self._news.clear()
                while self._unread:
                    yield self._unread.popleft()
                if rest.done():
                    yield Rested(rest.result())
                    return
                until = min(began + patience, beaten + heartbeat)
                try:
                    async with asyncio.timeout_at(None if until == math.inf else until):
                        await self._news.wait()
                except TimeoutError:
                    beaten = now()
                    if beaten >= began + patience:
                        yield Rested(None)
                        return
                    yield Heartbeat(beaten - began)
        finally:
            self._closed = True
            rest.cancel()


async def follow(
    process: AgentProcess, *, patience: float = math.inf, heartbeat: float = math.inf, most: int | None = None
) -> AsyncGenerator[Event | Heartbeat | Rested]:
    """The events of a process from now on, as `Follower.follow` yields them."""
    follower = Follower(most)
    unsubscribe = process.subscribe(follower)
    try:
        async with aclosing(follower.follow(process, patience=patience, heartbeat=heartbeat)) as items:
            async for each in items:
                yield each
    finally:
        unsubscribe()
