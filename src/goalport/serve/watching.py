"""Watching a run for one request: its end, its progress and its log, and what the watcher's leaving means.

The process is detached from the request: watching changes nothing in it, but for ending it when nobody who wanted it is
left. `runs` is below, `calls` above.
"""

import asyncio
import math
from collections import deque
from typing import Any, Final, get_args

import anyio
from mcp.server.context import ServerRequestContext
from mcp_types import LoggingLevel

from goalport.events import (
    ActionFinished,
    ActionRetried,
    Event,
    ProcessFinished,
    ProgressUpdated,
)
from goalport.observe import in_words
from goalport.process import AgentProcess, Outcome
from goalport.serve.connections import log_level_of, progress_wanted, send_log
from goalport.serve.departures import departure_of
from goalport.serve.progress import Meter, Step
from goalport.serve.runs import Run, Watch
from goalport.words import first_line

__all__ = ["outcome_of", "seen"]

Context = ServerRequestContext[Any, Any]

_LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
_EARLY: Final = 0.95
"""The part of a heartbeat after which silence is broken, so that clients never wait for longer than a whole one."""
_MOST_NEWS: Final = 500
"""A client that reads more slowly than its process works misses the oldest news."""


async def outcome_of(context: Context, run: Run, heartbeat: float, patience: float | None = None) -> Outcome | None:
    """How the run ends or what it waits for; None when it still goes on after `patience` seconds.

    When the request is cancelled or its client goes, the run is left to its other watchers.
    """
    watch = Watch(run)
    departure = departure_of(context)
    if departure is not None:
        departure.then(watch.leave)
    try:
        outcome = await seen(context, run.process, heartbeat, patience)
        watch.end()
    finally:
        # Whatever else ended the wait, nobody hears of the end any more.
        watch.leave()
    return outcome


async def seen(context: Context, process: AgentProcess, heartbeat: float, patience: float | None) -> Outcome | None:
    """The same for one who only looks on: nothing happens to the process when the request ends early."""
    with anyio.move_on_after(patience):
        progress, level = progress_wanted(context), log_level_of(context)
        if progress or level:
            await _News(context, progress=progress, level=level).follow(process, heartbeat)
        return await process.wait()
    return process.outcome


class _News:
    """What one request wants to be told while it waits."""

    def __init__(self, context: Context, *, progress: bool, level: LoggingLevel | None) -> None:
        self._context = context
        self._progress = progress
        self._least = _LEVELS.index(level) if level else len(_LEVELS)
        self._meter = Meter()
        self._inbox: deque[Event] = deque(maxlen=_MOST_NEWS)
        self._arrived = asyncio.Event()
        self._spoke = 0.0
        """When the caller last heard of progress."""

    def on_event(self, event: Event, /) -> None:
        """Take it in; the request tells it on when it can."""
        self._inbox.append(event)
        self._arrived.set()

    async def follow(self, process: AgentProcess, heartbeat: float) -> None:
        """Tell all news until the process has ended or waits for a person."""
        began = self._spoke = anyio.current_time()
        unsubscribe = process.subscribe(self)
        try:
            await self._report(Step(0, None, f"process {process.id} begins"))
            while process.outcome is None or self._inbox:
                due = self._spoke + _EARLY * heartbeat if self._progress else math.inf
                with anyio.CancelScope(deadline=due):
                    await self._arrived.wait()
                self._arrived.clear()
                while self._inbox:
                    await self._tell(self._inbox.popleft())
                # The bell may ring for news that was told already, or that is no progress: only time makes a silence.
                if anyio.current_time() >= self._spoke + _EARLY * heartbeat and process.outcome is None:
                    await self._report(self._meter.beat(anyio.current_time() - began))
        finally:
            unsubscribe()

    async def _report(self, step: Step) -> None:
        if self._progress:
            self._spoke = anyio.current_time()
            await self._context.session.report_progress(step.progress, step.total, first_line(step.message))

    async def _tell(self, event: Event) -> None:
        step = self._meter.after(event)
        if step is not None:
            await self._report(step)
        level, words = _level_of(event), in_words(event)
        if words and _LEVELS.index(level) >= self._least:
            await send_log(self._context.session, level, first_line(words), self._context.request_id)


def _level_of(event: Event) -> LoggingLevel:
    match event:
        case ActionRetried() | ActionFinished(status="failed"):
            return "warning"
        case ProgressUpdated() | ActionFinished() | ProcessFinished():
            return "info"
        case _:
            return "debug"
