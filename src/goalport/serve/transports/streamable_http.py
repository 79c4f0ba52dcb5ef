"""Streamable HTTP: `/mcp`, for every revision of the protocol, on the SDK's session manager.

A call is answered in one piece when nothing can come before its answer, else as a stream of events. A stream costs the
server as much again as all the rest of a quick call. So an ASGI middleware looks at a call before the SDK does: when it
asks for no progress and no log, and calls a tool that asks nothing back, the SDK is told to answer in one piece. If the
answer is long in coming, a stream is begun after all, so that no proxy takes the silence for an end and a client that
disconnects is noticed. `posts` stands before it.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Final, cast

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types import LOG_LEVEL_META_KEY
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.publish.raw_definitions import RawTool
from goalport.serve.disconnects import DisconnectMiddleware, new_disconnect
from goalport.serve.server import GoalServer
from goalport.serve.state import McpState
from goalport.serve.transports.posts import Posts, message_of

__all__ = ["StreamableHttp"]

_PATIENCE: Final = 1.0
_SESSION: Final = b"mcp-session-id"
_STREAM: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_TOLD_MEANWHILE: Final = frozenset({"progressToken", LOG_LEVEL_META_KEY})
"""What a call has in its `_meta` that wants to hear something before its answer."""
_brief: ContextVar[bool] = ContextVar("goalport_brief_reply", default=False)


class StreamableHttp:
    """The transport of today's clients: each message is a POST, answered in one piece or as a stream of events."""

    def __init__(self, server: GoalServer, state: McpState) -> None:
        self._state = state
        settings = state.settings
        self._sessions = StreamableHTTPSessionManager(
            server,
            json_response=cast("bool", _InOnePiece()),
            stateless=settings.stateless,
            session_idle_timeout=settings.session_idle_seconds,
            max_sessions=settings.max_sessions,
            max_request_body_size=settings.max_body_bytes,
        )
        transport = DisconnectMiddleware(StreamableHTTPASGIApp(self._sessions))
        replies = _Replies(transport, self._asks_back, settings.max_sessions, settings.heartbeat_seconds)
        self.routes: Sequence[Route] = [Route("/mcp", Posts(replies, settings.max_body_bytes))]

    def running(self) -> AbstractAsyncContextManager[None]:
        """The time in which sessions can be opened; at its end all are closed."""
        return self._sessions.run()

    def _asks_back(self, tool: str) -> bool:
        return isinstance(self._state.publication.tools.get(tool), RawTool)


class _InOnePiece:
    """The SDK's setting `json_response`, which it only asks whether it is true: it is while a brief call comes in."""

    def __bool__(self) -> bool:
        return _brief.get()


class _Replies:
    """Decides for each POST how it is answered.

    `asks_back`: whether the tool of that name may send its caller anything before its answer. `sessions`: how many
    there may be. `ping_seconds`: how often a stream that has nothing to tell shows that it is alive.
    """

    def __init__(self, app: ASGIApp, asks_back: Callable[[str], bool], sessions: int, ping_seconds: float) -> None:
        self._app = app
        self._ping_seconds = ping_seconds
        self._asks_back = asks_back
        self._sessions = sessions
        self._logging: dict[bytes, None] = {}
        """The sessions that asked for the log, the latest last."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_brief(scope, message_of(scope)):
            await self._app(scope, receive, send)
            return
        token, reply = _brief.set(True), _Reply(scope, receive, send, self._ping_seconds)
        try:
            await self._app(scope, receive, reply.send)
        finally:
            reply.end()
            _brief.reset(token)

    def _is_brief(self, scope: Scope, message: object) -> bool:
        method, params = _read(message)
        session = _header(scope, _SESSION)
        if method == "logging/setLevel":
            self._note(session)
        if method != "tools/call" or session in self._logging or not _takes_both(scope):
            return False
        tool, meta = params.get("name"), params.get("_meta")
        wanted = cast("dict[str, object]", meta).keys() & _TOLD_MEANWHILE if isinstance(meta, dict) else ()
        return isinstance(tool, str) and not wanted and not self._asks_back(tool)

    def _note(self, session: bytes) -> None:
        self._logging[session] = None
        if len(self._logging) > self._sessions:
            del self._logging[next(iter(self._logging))]


class _Reply:
    """The answer to one brief call: in one piece, unless it is long in coming."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, ping_seconds: float) -> None:
        self._ping_seconds = ping_seconds
        self._session = _header(scope, _SESSION)
        self._disconnect = new_disconnect(scope)
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
            await asyncio.sleep(self._ping_seconds)

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._answered:
            self._disconnect.note()


def _takes_both(scope: Scope) -> bool:
    accepted = _header(scope, b"accept")
    return b"text/event-stream" in accepted and b"application/json" in accepted


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((value for name, value in scope["headers"] if name == wanted), b"")


def _read(message: object) -> tuple[object, dict[str, object]]:
    """The method and the parameters of a message; of what is none, nothing."""
    fields = cast("dict[str, object]", message) if isinstance(message, dict) else {}
    params = fields.get("params")
    return fields.get("method"), cast("dict[str, object]", params) if isinstance(params, dict) else {}
