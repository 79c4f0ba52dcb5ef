"""Admission: a call of a tool gets its place among those that are answered at once, or is refused by a limit.

`publish.limits` knows the limits. `calls` and `companion_calls` are above.
"""

from typing import Any, Final

from goalport.base.errors import BadInput
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.cancellations import ended_by
from goalport.server.doors.mcp.progress_notifications import heartbeat
from goalport.server.doors.mcp.state import CallContext
from goalport.server.publish.answers import error_wire
from goalport.server.publish.limits import LimitReached, Place
from goalport.server.publish.output import Wire

GONE: Final = "Its caller went away."


class Admission:
    """A context in which a call has its place; it waits for its turn, and its client gets heartbeats meanwhile.

    `begins`: the call begins something, and does not only go on with it. Raises `LimitReached`, `StoreError`, and
    `BadInput` where the client leaves while the call waits. A generator would cost every call more than its place does.
    """

    __slots__ = ("_begins", "_context", "_place")

    def __init__(self, context: CallContext, *, begins: bool) -> None:
        self._context = context
        self._begins = begins
        self._place: Place | None = None

    async def __aenter__(self) -> Place:
        self._place = place = await self._context.state.publisher.limits.admit(current_caller(), begins=self._begins)
        is_entered = False
        try:
            if not place.held:
                with heartbeat(self._context, place), ended_by(self._context.disconnect):
                    await place.wait()
                if not place.held:
                    raise BadInput(GONE)
            is_entered = True
        finally:
            if not is_entered:
                place.leave()
        return place

    async def __aexit__(self, *_: object) -> None:
        if self._place is not None:
            self._place.leave()


def limit_wire(error: LimitReached) -> Wire:
    """The refusal of a call by a limit, as an error of its tool: a model reads it and can try again later."""
    meta: dict[str, Any] = {"goalport/limit": error.kind, "goalport/retryAfterSeconds": error.retry_seconds}
    return {**error_wire(str(error)), "_meta": meta}
