"""The events of a process as a stream of server-sent events, from any number on and as they happen.

The stream takes the next event from the platform only when the client has taken the one before it: a slow client has
no queue here, and the connection buffers at most 32 KiB and an event for it. Above: the door.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, aclosing
from http import HTTPStatus
from typing import Any, Final

from pydantic.alias_generators import to_camel
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from goalport.base.errors import HandedOver, StoreError
from goalport.base.events import Event, as_json
from goalport.base.secrecy import hide_known
from goalport.runtime.process import LoggedEvent
from goalport.runtime.process.event_log import DIALOGUE
from goalport.server.auth import current_caller
from goalport.server.doors.rest.processes import own_process, query_of
from goalport.server.doors.rest.requests import EventsQuery
from goalport.server.publish.publisher import Publisher
from goalport.server.web.endpoint import read
from goalport.server.web.event_streams import EventStream, OpenStreams

EVENT_NAME: Final = "agent-process-event"
_LAST_ID: Final = "last-event-id"


class EventHandlers:
    """The handler of requests for events."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._open = OpenStreams(publisher.settings)

    async def follow(self, request: Request) -> Response:
        """The events after a number; 204, after which browsers do not connect again, if none can follow."""
        process = await own_process(self._publisher, request)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        asked = read(EventsQuery, query_of(request))
        if _LAST_ID in request.headers:  # a client that connects again repeats its query
            asked = read(EventsQuery, {"after": request.headers[_LAST_ID]})
        ended = process.status.ended
        events = self._publisher.platform.events(process.id, asked.after)
        with ExitStack() as counted:
            counted.enter_context(self._open.one_of(current_caller()))
            first = await anext(events, None) if ended else None
            if ended and first is None:
                return Response(status_code=HTTPStatus.NO_CONTENT)
            return EventStream(_written(first, events), self._publisher.settings.heartbeat_seconds, counted.pop_all())


async def _written(first: LoggedEvent | None, events: AsyncGenerator[LoggedEvent]) -> AsyncIterator[ServerSentEvent]:
    async with aclosing(events):
        if first is not None:
            yield _message(first)
        try:
            async for each in events:
                yield _message(each)
        except (HandedOver, StoreError):  # the client connects again, perhaps with another replica, or reads the reason
            return


def _message(logged: LoggedEvent) -> ServerSentEvent:
    data = json.dumps(event_view(logged.event), ensure_ascii=False)
    return ServerSentEvent(hide_known(data), event=EVENT_NAME, id=str(logged.number), sep="\n")


def event_view(event: Event) -> dict[str, Any]:
    """An event as JSON data, without what models and tools say to each other."""
    return {to_camel(name): value for name, value in as_json(event).items() if name not in DIALOGUE}
