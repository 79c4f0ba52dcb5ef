"""The heartbeat of an exported tool: the progress that it reports, and a notification when it has reported none.

Such a tool has no process with events to report; `progress` reports those of goals. `calls` is above.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from mcp.server.context import ServerRequestContext

from goalport.serve.sessions import progress_wanted
from goalport.upstream.calls import call_hooks
from goalport.words import first_line

__all__ = ["heartbeat"]

Context = ServerRequestContext[Any, Any]

_EARLY: Final = 0.95
"""The part of the interval after which a notification is sent, so that clients never wait for a whole interval."""
_LITTLE: Final = 0.001
"""What a heartbeat adds to the progress that a tool reported: progress must grow, but not overtake the tool."""


@asynccontextmanager
async def heartbeat(context: Context, what: str, interval: float) -> AsyncGenerator[None]:
    """A context for one call: a client that asked for progress is notified at least every `interval` seconds."""
    if not progress_wanted(context):
        yield
        return
    beat = _Heartbeat(context, what, _EARLY * interval)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat.beat)
        with call_hooks(progress=beat.tell):
            yield
        tasks.cancel_scope.cancel()


class _Heartbeat:
    """The progress notifications of one call, whose numbers only grow."""

    def __init__(self, context: Context, what: str, silence: float) -> None:
        self._context = context
        self._what = what
        self._silence = silence
        self._began = self._spoke = anyio.current_time()
        self._told = 0.0
        self._total: float | None = None
        self._before: float | None = None
        """The progress sent before the tool's first report; None while the tool has reported nothing."""

    async def beat(self) -> None:
        """Send a notification whenever none was sent for `silence` seconds, until cancelled."""
        while True:
            await anyio.sleep_until(self._spoke + self._silence)
            now = anyio.current_time()
            if now >= self._spoke + self._silence:
                more = 1 if self._before is None else _LITTLE
                await self._report(self._told + more, f"still at {self._what} after {now - self._began:.0f} s")

    async def tell(self, progress: float, total: float | None, message: str | None) -> None:
        """Send progress that the tool reports; a number that does not grow is left out."""
        if self._before is None:
            self._before = self._told
        if self._before + progress > self._told:
            self._total = None if total is None else self._before + total
            await self._report(self._before + progress, message or "")

    async def _report(self, progress: float, message: str) -> None:
        self._spoke, self._told = anyio.current_time(), progress
        await self._context.session.report_progress(progress, self._total, first_line(message) or None)
