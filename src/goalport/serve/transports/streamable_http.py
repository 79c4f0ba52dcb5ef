"""Streamable HTTP: `/mcp`, for every revision of the protocol, on the SDK's session manager.

A call is answered as one JSON body if no message can precede its answer, else as an event stream. Most calls do not
reach the SDK: `common_calls` answers them, both ways. An ASGI middleware looks at every call before the SDK does: if it
asks for no progress and no log messages, and its tool sends no requests to the client, the SDK is told to answer with
JSON, because its stream doubles the server's cost of a quick call.
`jsonrpc.PostReader` and `session_resumption` are the middleware before this one.
"""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol, cast

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types import LOG_LEVEL_META_KEY
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.errors import GoalportError
from goalport.publish.companions import Companion
from goalport.publish.goal_tools import GoalTool
from goalport.publish.publication import RawTool
from goalport.serve.disconnects import DisconnectMiddleware, is_modern_request
from goalport.serve.elicitation import take_from_elsewhere
from goalport.serve.scope_check import guarded
from goalport.serve.server import GoalServer
from goalport.serve.session_tickets import SessionTickets
from goalport.serve.state import McpState
from goalport.serve.transports.common_calls import CommonCalls
from goalport.serve.transports.jsonrpc import SESSION_ID, PostReader, header, message_of
from goalport.serve.transports.replies import Reply
from goalport.serve.transports.session_calls import SessionCalls
from goalport.serve.transports.session_resumption import SessionResumption

__all__ = ["StreamableHttp"]

_REST: Final = 10.0
"""Seconds without a request after which a session is closed that its ticket opens again."""
_MESSAGE_KEYS: Final = frozenset({"progressToken", LOG_LEVEL_META_KEY})
"""Keys of `_meta` by which a client asks for messages before the answer."""
_brief: ContextVar[bool] = ContextVar("goalport_brief_reply", default=False)


class AsksBack(Protocol):
    """Whether a tool may send messages to its client before its answer; `elicits`: whether the client can be asked."""

    def __call__(self, tool: str, *, elicits: bool) -> bool: ...


class StreamableHttp:
    """The transport of current clients: each message is a POST, answered as one JSON body or as an event stream."""

    title = "Streamable HTTP (Claude, Cursor, VS Code, Codex, Inspector)"

    def __init__(self, server: GoalServer, state: McpState, *, common_calls: bool = True) -> None:
        """Without `common_calls`, the SDK answers every call."""
        self._state = state
        settings = state.settings
        self._resumption: SessionResumption | None = None
        self._sessions = StreamableHTTPSessionManager(
            server,
            json_response=cast("bool", _JsonWhenBrief()),
            stateless=settings.stateless,
            session_idle_timeout=settings.session_idle_seconds,
            max_sessions=settings.max_sessions,
            max_request_body_size=settings.max_body_bytes,
        )
        transport = DisconnectMiddleware(StreamableHTTPASGIApp(self._sessions))
        # The SDK's middleware makes the span of a call.
        calls, answers = SessionCalls(), common_calls and not server.is_traced
        common = CommonCalls(server, state, self._sessions, calls) if answers else None
        app: ASGIApp = _Replies(transport, common, self._asks_back, settings.max_sessions, settings.heartbeat_seconds)
        if not settings.stateless:
            # Before `_Replies`, because the SDK's task of a session keeps the context in which the session is opened.
            tickets = SessionTickets(state.keys, settings.name, settings.state_ttl_seconds)
            answer = partial(take_from_elsewhere, state)
            rest = min(settings.session_idle_seconds, _REST)
            cancel = state.cancellations.cancel
            app = self._resumption = SessionResumption(app, tickets, settings.max_sessions, cancel, answer, calls, rest)
        self._app, self._running = app, False
        self.routes: Sequence[Route] = [Route("/mcp", PostReader(guarded(self._answer, state)))]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """A context in which sessions can be opened; at its end all are closed."""
        async with self._sessions.run(), anyio.create_task_group() as tasks:
            if self._resumption is not None:
                tasks.start_soon(self._resumption.close_idle)
            self._running = True
            yield
            tasks.cancel_scope.cancel()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._running:
            raise GoalportError(
                "The app of this server was called outside of its lifespan. An app that mounts it has to enter that in"
                " its own: `async with app.router.lifespan_context(app)`."
            )
        await self._app(scope, receive, send)

    def _asks_back(self, tool: str, *, elicits: bool) -> bool:
        published = self._state.publication.tools.get(tool)
        return isinstance(published, RawTool) or (elicits and isinstance(published, GoalTool | Companion))


class _JsonWhenBrief:
    """A value for the SDK's setting `json_response` that is true only in the context of a brief call."""

    def __bool__(self) -> bool:
        return _brief.get()


class _Replies:
    """Decides for each call who answers it, and whether as JSON or as an event stream.

    Common calls are answered by `common`, where there is one; everything else goes to `app`. `sessions` is the most
    sessions at once. `ping_seconds` is the interval of the pings of a stream.
    """

    def __init__(
        self, app: ASGIApp, common: CommonCalls | None, asks_back: AsksBack, sessions: int, ping_seconds: float
    ) -> None:
        self._app = app
        self._common = common
        self._ping_seconds = ping_seconds
        self._asks_back = asks_back
        self._sessions = sessions
        self._logging: dict[bytes, None] = {}
        """The sessions that asked for log messages, the latest last."""
        self._eliciting: dict[bytes, None] = {}
        """The sessions whose clients can ask a person, the latest last."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = message_of(scope)
        if not self._is_sent_no_requests(scope, message):
            if _declares_elicitation(message):
                send = self._noting(send)
            elif scope["method"] == "DELETE":
                send = self._forgetting(send, header(scope, SESSION_ID))
            await self._app(scope, receive, send)
            return
        call, is_brief = self._common.read(scope) if self._common is not None else None, not _wants_messages(message)
        if call is None and not is_brief:
            await self._app(scope, receive, send)
            return
        reply = Reply(scope, receive, send, self._ping_seconds, streams=not (is_brief or is_modern_request(scope)))
        try:
            if call is not None and self._common is not None:
                await self._common.answer(call, reply)
            else:
                with _briefly():
                    await self._app(scope, receive, reply.send)
        finally:
            reply.end()

    def _is_sent_no_requests(self, scope: Scope, message: object) -> bool:
        """Whether a message is a call before whose answer nothing is sent but what it asks for itself."""
        method, params = _method_and_params(message)
        session = header(scope, SESSION_ID)
        if method == "logging/setLevel":
            self._note(self._logging, session)
        if method != "tools/call" or session in self._logging:
            return False
        accepted = header(scope, b"accept")
        if b"text/event-stream" not in accepted or b"application/json" not in accepted:
            return False
        tool = params.get("name")
        return isinstance(tool, str) and not self._asks_back(tool, elicits=session in self._eliciting)

    def _noting(self, send: Send) -> Send:
        """A `send` that notes the session which a response opens as one whose client can ask a person."""

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start" and (session := header(message, SESSION_ID)):
                self._note(self._eliciting, session)
            await send(message)

        return note

    def _forgetting(self, send: Send, session: bytes) -> Send:
        """A `send` that forgets a session once a response says that it is ended: its place is for those that last."""

        async def forget(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.OK:
                for each in (self._logging, self._eliciting):
                    each.pop(session, None)
            await send(message)

        return forget

    def _note(self, sessions: dict[bytes, None], session: bytes) -> None:
        sessions[session] = None
        if len(sessions) > self._sessions:
            del sessions[next(iter(sessions))]


@contextmanager
def _briefly() -> Generator[None]:
    """A context in which the SDK answers a call as JSON."""
    token = _brief.set(True)
    try:
        yield
    finally:
        _brief.reset(token)


def _wants_messages(message: object) -> bool:
    """Whether a call asks for messages before its answer."""
    meta = _method_and_params(message)[1].get("_meta")
    return isinstance(meta, dict) and not _MESSAGE_KEYS.isdisjoint(cast("dict[str, object]", meta))


def _declares_elicitation(message: object) -> bool:
    """Whether a message opens a session of a client that can ask a person."""
    method, params = _method_and_params(message)
    declared = params.get("capabilities")
    return method == "initialize" and isinstance(declared, dict) and "elicitation" in declared


def _method_and_params(message: object) -> tuple[object, dict[str, object]]:
    """The method and the parameters of a message; None and an empty dict if it has none."""
    fields = cast("dict[str, object]", message) if isinstance(message, dict) else {}
    params = fields.get("params")
    return fields.get("method"), cast("dict[str, object]", params) if isinstance(params, dict) else {}
