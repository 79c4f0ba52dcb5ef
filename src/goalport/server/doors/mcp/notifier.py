"""Notifications of one request: what its client is told before the answer, if it asked to be told.

Both ways to the client satisfy the protocol: that of the SDK, which is here, and the event stream of
`transports.replies`. `call_context` and `progress_notifications` are above.
"""

from typing import Any, Protocol

from mcp.server.context import ServerRequestContext
from mcp_types import LoggingLevel

from goalport.server.doors.mcp.sessions import log_level_of, progress_wanted, send_log


class Notifier(Protocol):
    """The way to the client of one request."""

    @property
    def progress_wanted(self) -> bool:
        """Whether the client asked for progress."""
        ...

    @property
    def log_level(self) -> LoggingLevel | None:
        """The least severe level of the log messages that the client gets; None if it asked for none."""
        ...

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell progress. It may wait for `flush`, or for the answer."""
        ...

    async def log(self, level: LoggingLevel, text: str) -> None:
        """Tell one log message. It may wait for `flush`, or for the answer."""
        ...

    async def flush(self) -> None:
        """Send what still waits. Call it before a wait whose end is not known."""
        ...


class SdkNotifier:
    """The way of the SDK, which sends each notification at once."""

    def __init__(self, context: ServerRequestContext[Any, Any]) -> None:
        self._context = context

    @property
    def progress_wanted(self) -> bool:
        """Whether the client asked for progress."""
        return progress_wanted(self._context)

    @property
    def log_level(self) -> LoggingLevel | None:
        """The least severe level of the log messages that the client gets; None if it asked for none."""
        return log_level_of(self._context)

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Send progress."""
        await self._context.session.report_progress(progress, total, message)

    async def log(self, level: LoggingLevel, text: str) -> None:
        """Send one log message."""
        await send_log(self._context.session, level, text, self._context.request_id)

    async def flush(self) -> None:
        """Do nothing, as nothing waits."""
