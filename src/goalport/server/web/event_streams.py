"""Streams of server-sent events: how many are open, and the response that sends one, with a comment as its heartbeat.

A stream asks for the next event only when the client has taken the one before it, so a slow client has no queue here.
The heartbeat keeps proxies from closing a stream in which nothing happens. Above: the doors.
"""

from collections import Counter
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from http import HTTPStatus

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from goalport.base.caller import Caller
from goalport.server.web.problems import unavailable
from goalport.workspace.settings import Settings


class OpenStreams:
    """How many streams are open, in all and of each caller."""

    def __init__(self, settings: Settings) -> None:
        self._most = settings.max_event_streams
        self._most_of_one = settings.max_event_streams_per_caller or max(1, self._most * 3 // 4)
        self._of: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def one_of(self, caller: Caller) -> Generator[None]:
        """Counts a stream of a caller for as long as the block lasts. Raises `Problem` if too many are open."""
        who = caller.identity
        if self._of[who] >= self._most_of_one:
            told = f"You have {self._most_of_one} streams of events open, as many as you may. Close one first."
            raise unavailable(told, HTTPStatus.TOO_MANY_REQUESTS)
        if self._of.total() >= self._most:
            raise unavailable(f"{self._most} streams of events are open, as many as may be. Try again later.")
        self._of[who] += 1
        try:
            yield
        finally:
            self._of[who] -= 1
            if not self._of[who]:
                del self._of[who]


class EventStream(EventSourceResponse):
    """A response of events, with a comment every `beat` seconds; `counted` is closed when it has been sent."""

    def __init__(
        self,
        events: AsyncIterator[ServerSentEvent],
        beat: float,
        counted: ExitStack,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(events, headers=headers, ping=beat, ping_message_factory=_heartbeat, sep="\n")  # pyright: ignore[reportUnknownMemberType]
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._counted:
            await super().__call__(scope, receive, send)


class AnswerStream(EventStream):
    """A stream that is the answer to a call: the call is open until it has been sent, and a shutdown waits for it.

    `place` is left when it has been sent.
    """

    def __init__(
        self,
        events: AsyncIterator[ServerSentEvent],
        beat: float,
        place: AsyncExitStack,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(events, beat, ExitStack(), headers)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._place:
            await super().__call__(scope, receive, send)


def _heartbeat() -> ServerSentEvent:
    return ServerSentEvent(comment="still here", sep="\n")
