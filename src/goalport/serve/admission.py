"""Admission: a call of a tool gets its place among those that are answered at once, or is refused by a limit.

`publish.limits` knows the limits. `calls` and `companion_calls` are above.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from goalport.auth import current_caller
from goalport.errors import BadInput
from goalport.publish.answers import error_wire
from goalport.publish.limits import LimitReached, Place
from goalport.publish.output import Wire
from goalport.serve.call_context import CallContext
from goalport.serve.disconnects import ended_by
from goalport.serve.progress_notifications import heartbeat

__all__ = ["GONE", "admitted", "limit_wire"]

GONE: Final = "Its caller went away."


@asynccontextmanager
async def admitted(context: CallContext, *, begins: bool) -> AsyncGenerator[Place]:
    """A context in which a call has its place; it waits for its turn, and its client gets heartbeats meanwhile.

    `begins`: the call begins something, and does not only go on with it. Raises `LimitReached`, `StoreError`, and
    `BadInput` where the client leaves while the call waits.
    """
    place = await context.state.publisher.limits.admit(current_caller(), begins=begins)
    try:
        if not place.held:
            async with heartbeat(context, place):
                with ended_by(context.disconnect):
                    await place.wait()
            if not place.held:
                raise BadInput(GONE)
        yield place
    finally:
        place.leave()


def limit_wire(error: LimitReached) -> Wire:
    """The refusal of a call by a limit, as an error of its tool: a model reads it and can try again later."""
    meta: dict[str, Any] = {"goalport/limit": error.kind, "goalport/retryAfterSeconds": error.retry_seconds}
    return {**error_wire(str(error)), "_meta": meta}
