"""How a call over HTTP is answered: in one piece when nothing can come before the answer, else as a stream of events.

A stream costs the server as much again as all the rest of a quick call. So this ASGI layer reads a call before the SDK
does: when it asks for no progress and no log, and calls a tool that asks nothing back, the SDK is told to answer in one
piece. If the answer is long in coming, a stream is begun after all, so that no proxy takes the silence for an end and a
client that goes away is noticed. The SDK's transports are behind it, `departures` is below.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, cast

from pydantic_core import from_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.serve.departures import departing

__all__ = ["InOnePiece", "Replies"]

_PATIENCE: Final = 1.0
_PING: Final = 15.0
_SESSION: Final = b"mcp-session-id"
_STREAM: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_brief: ContextVar[bool] = ContextVar("goalport_brief_reply", default=False)


class InOnePiece:
    """The SDK's setting `json_response`, which it only asks whether it is true: it is while a brief call comes in."""

    def __bool__(self) -> bool:
        return _brief.get()


class Replies:
    """Decides for each POST how it is answered.

    `asks_back`: whether the tool of that name may send its caller anything before its answer. `sessions`: how many
    there may be.
    """

    def __init__(self, app: ASGIApp, asks_back: Callable[[str], bool], sessions: int) -> None:
        self._app = app
        self._asks_back = asks_back
        self._sessions = sessions
        self._logging: dict[bytes, None] = {}
        """The sessions that asked for the log, the latest last."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        first = await receive()
        again = _from(first, receive)
        if not self._is_brief(scope, first):
            await self._app(scope, again, send)
            return
        token, reply = _brief.set(True), _Reply(scope, receive, send)
        try:
            await self._app(scope, again, reply.send)
        finally:
            reply.end()
            _brief.reset(token)

    def _is_brief(self, scope: Scope, first: Message) -> bool:
        body: bytes = first.get("body", b"")
        # Searching the bytes may find a word that is only an argument: then there is a stream that nobody needed.
        if first.get("more_body") or b"progressToken" in body or b"logLevel" in body or not _takes_both(scope):
            return False
        session = _header(scope, _SESSION)
        if b'"logging/setLevel"' in body:
            self._note(session)
        if b'"tools/call"' not in body or session in self._logging:
            return False
        tool = _tool_in(body)
        return tool is not None and not self._asks_back(tool)

    def _note(self, session: bytes) -> None:
        self._logging[session] = None
        if len(self._logging) > self._sessions:
            del self._logging[next(iter(self._logging))]


class _Reply:
    """The answer to one brief call: in one piece, unless it is long in coming."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._session = _header(scope, _SESSION)
        self._departure = departing(scope)
        self._receive = receive
        self._send = send
        self._answered = False
        self._streaming = False
        self._parts: list[bytes] = []
        self._tasks: list[asyncio.Task[None]] = []
        """What keeps the stream, once the patience is over."""
        self._timer = asyncio.get_running_loop().call_later(_PATIENCE, self._begin_stream)

    def end(self) -> None:
        """Nothing more will be sent."""
        self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    async def send(self, message: Message) -> None:
        """Send what the SDK answers, in the form that is still possible."""
        self._answered = True
        if not self._streaming:
            # The answer may come in the moment in which a stream was about to begin.
            self.end()
            await self._send(message)
            return
        self._parts.append(message.get("body", b""))
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.end()
            lines = b"".join(b"data: %b\r\n" % line for line in b"".join(self._parts).splitlines())
            await self._send({"type": "http.response.body", "body": b"event: message\r\n%b\r\n" % lines})

    def _begin_stream(self) -> None:
        if not self._answered:
            self._tasks = [asyncio.create_task(self._keep_open()), asyncio.create_task(self._watch())]

    async def _keep_open(self) -> None:
        self._streaming = True
        session = [(_SESSION, self._session)] if self._session else []
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *session]})
        while True:
            await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            await asyncio.sleep(_PING)

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._answered:
            self._departure.note()


def _from(first: Message, receive: Receive) -> Receive:
    """The messages of a request of which the first has been read already."""
    before = [first]

    async def again() -> Message:
        return before.pop() if before else await receive()

    return again


def _takes_both(scope: Scope) -> bool:
    accepted = _header(scope, b"accept")
    return b"text/event-stream" in accepted and b"application/json" in accepted


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((value for name, value in scope["headers"] if name == wanted), b"")


def _tool_in(body: bytes) -> str | None:
    """The tool that a message calls; None when it is no message, or no call."""
    message: Any = None
    with suppress(ValueError):
        message = from_json(body)
    params = cast("dict[str, Any]", message).get("params") if isinstance(message, dict) else None
    name = cast("dict[str, Any]", params).get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) else None
