"""Sending a reply, as one object when it is complete or as a stream while it is made, and what a reader's leaving does.

Below: replies, and the two formats. Above: the handlers.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any, Protocol

from sse_starlette import ServerSentEvent
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from goalport.base.errors import HandedOver, StoreError
from goalport.server.doors.openai.replies import Reply, ReplyText, gathered
from goalport.server.publish.faults import unavailable_words
from goalport.server.web import AnswerStream, client_left


class Format(Protocol):
    """How replies are written."""

    def whole(self, reply: ReplyText, /) -> Mapping[str, Any]:
        """A whole reply. Raises `Problem` if there is none."""
        ...

    def stream(self, reply: Reply, /) -> AsyncGenerator[ServerSentEvent]:
        """A reply while it is made."""
        ...

    def failed(self, reason: str, /) -> Iterator[ServerSentEvent]:
        """The end of a stream that broke off."""
        ...


async def sent_whole(request: Request, reply: Reply, written: Format, headers: Mapping[str, str]) -> Response:
    """A response with the whole reply. Raises `ClientDisconnect` if the client leaves before, and `Problem`."""
    making, leaving = asyncio.create_task(gathered(reply)), asyncio.create_task(client_left(request))
    try:
        await asyncio.wait((making, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not making.done():
            reply.leave()
            raise ClientDisconnect
        text = making.result()
    finally:
        making.cancel()
        leaving.cancel()
    return JSONResponse(written.whole(text), headers=headers)


def sent_as_stream(
    reply: Reply, written: Format, headers: Mapping[str, str], beat: float, place: AsyncExitStack
) -> Response:
    """A response with the reply as a stream; `place` is left when it has been sent."""
    return AnswerStream(_until_left(reply, written), beat, place, headers)


async def _until_left(reply: Reply, written: Format) -> AsyncGenerator[ServerSentEvent]:
    ended = False
    try:
        async with aclosing(written.stream(reply)) as events:
            async for each in events:
                yield each
        ended = True
    except (HandedOver, StoreError) as error:
        ended = True
        for each in written.failed(unavailable_words(error)):
            yield each
    finally:
        if not ended:
            reply.leave()
