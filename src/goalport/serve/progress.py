"""Progress: the notifications to a request that waits for a process, and the outcome that it waits for.

Waiting for a process does not change it; but an attached process is killed when the last request that waits for it is
gone (`runs`). The numbers of progress only grow, and its messages are for people. `runs` is below, `calls` and
`companion_calls` are above.
"""

import asyncio
import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, get_args

import anyio
from mcp.server.context import ServerRequestContext
from mcp_types import LoggingLevel

from goalport.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    Event,
    ModelCalled,
    ProcessFinished,
    ProgressUpdated,
    ToolCalled,
)
from goalport.observe import in_words
from goalport.process import AgentProcess, Outcome
from goalport.serve.disconnects import disconnect_of
from goalport.serve.runs import Run, Watch
from goalport.serve.sessions import log_level_of, progress_wanted, send_log
from goalport.words import first_line

__all__ = ["Meter", "ProgressStep", "observed_outcome", "outcome_of"]

Context = ServerRequestContext[Any, Any]

_LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
_EARLY: Final = 0.95
"""The part of the interval after which a notification is sent, so that clients never wait for a whole interval."""
_MOST_NEWS: Final = 500
"""The most events that wait to be reported; for a client that reads too slowly the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """One progress notification."""

    progress: float
    total: float | None
    message: str


class Meter:
    """The progress of one process: the number of its finished actions, plus a growing fraction between two actions."""

    def __init__(self) -> None:
        self._done = 0
        self._between = 0
        self._planned: int | None = None
        self._doing = ""

    def after(self, event: Event) -> ProgressStep | None:
        """The progress after an event; None if the event is none of progress."""
        match event:
            case ActionStarted(action=action, planned=planned):
                self._doing, self._planned = _short(action), planned
                return None
            case ActionFinished(action=action, number=number, planned=planned, status=status):
                self._done, self._between, self._planned = number, 0, planned
                how = "" if status == "succeeded" else f" {status}"
                return ProgressStep(number, planned, f"{number}/{planned} {_short(action)}{how}")
            case ActionRetried(action=action, attempt=attempt, delay_seconds=delay):
                return self._creep(f"{_short(action)} failed at attempt {attempt}, trying again in {delay:g} s")
            case ModelCalled(model=model, turn=1, action=action):
                return self._creep(f"{_short(action)} asks {model}")
            case ToolCalled(tool=tool, action=action):
                return self._creep(f"{_short(action)} calls {tool}")
            case ProgressUpdated(message=message):
                return self._creep(message)
            case _:
                return None

    def beat(self, seconds: float) -> ProgressStep:
        """The heartbeat after this many seconds of work."""
        doing = f"still at {self._doing}" if self._doing else "still planning"
        return self._creep(f"{doing} after {seconds:.0f} s")

    def _creep(self, message: str) -> ProgressStep:
        self._between += 1
        return ProgressStep(self._done + self._between / (self._between + 1), self._planned, message)


def _short(action: str) -> str:
    return action.rpartition(".")[2]


async def outcome_of(context: Context, run: Run, heartbeat: float, patience: float | None = None) -> Outcome | None:
    """The outcome of the run; None if it still runs after `patience` seconds. `heartbeat` is in seconds too.

    If the request is cancelled or its client disconnects, its watch on the run ends (`Watch.leave`).
    """
    watch = Watch(run)
    disconnect = disconnect_of(context)
    if disconnect is not None:
        disconnect.then(watch.leave)
    try:
        outcome = await observed_outcome(context, run.process, heartbeat, patience)
        watch.end()
    finally:
        # After `end` this does nothing; after a cancellation or an error this request watches the run no more.
        watch.leave()
    return outcome


async def observed_outcome(
    context: Context, process: AgentProcess, heartbeat: float, patience: float | None
) -> Outcome | None:
    """As `outcome_of`, without a watch: the process runs on if the request is cancelled or its client disconnects."""
    with anyio.move_on_after(patience):
        progress, level = progress_wanted(context), log_level_of(context)
        if progress or level:
            await _News(context, progress=progress, level=level).follow(process, heartbeat)
        return await process.wait()
    return process.outcome


class _News:
    """The progress and log notifications to one request while it waits for a process."""

    def __init__(self, context: Context, *, progress: bool, level: LoggingLevel | None) -> None:
        self._context = context
        self._progress = progress
        self._least = _LEVELS.index(level) if level else len(_LEVELS)
        self._meter = Meter()
        self._inbox: deque[Event] = deque(maxlen=_MOST_NEWS)
        self._arrived = asyncio.Event()
        self._spoke = 0.0
        """The time of the last progress notification, on anyio's clock."""

    def on_event(self, event: Event, /) -> None:
        """Store the event; `follow` reports it."""
        self._inbox.append(event)
        self._arrived.set()

    async def follow(self, process: AgentProcess, heartbeat: float) -> None:
        """Report all events until the process has ended or waits for a person."""
        began = self._spoke = anyio.current_time()
        unsubscribe = process.subscribe(self)
        try:
            await self._report(ProgressStep(0, None, f"process {process.id} begins"))
            while process.outcome is None or self._inbox:
                due = self._spoke + _EARLY * heartbeat if self._progress else math.inf
                with anyio.CancelScope(deadline=due):
                    await self._arrived.wait()
                self._arrived.clear()
                while self._inbox:
                    await self._tell(self._inbox.popleft())
                # Events that are no progress also set `_arrived`, so the clock decides whether a heartbeat is due.
                if anyio.current_time() >= self._spoke + _EARLY * heartbeat and process.outcome is None:
                    await self._report(self._meter.beat(anyio.current_time() - began))
        finally:
            unsubscribe()

    async def _report(self, step: ProgressStep) -> None:
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
