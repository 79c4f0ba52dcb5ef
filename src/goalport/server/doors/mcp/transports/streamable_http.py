"""Streamable HTTP: `/mcp`, for every revision of the protocol, on the SDK's session manager.

A call is answered as one JSON body if no message can precede its answer, else as an event stream. Most calls do not
reach the SDK: `common_calls` answers them, both ways. An ASGI middleware looks at every call before the SDK does: if it
asks for no progress and no log messages, and its tool sends no requests to the client, the SDK is told to answer with
JSON, because its stream doubles the server's cost of a quick call.
`jsonrpc.PostReader` is the middleware before this one, and `session_resumption` the one after it.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol, cast

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types import LOG_LEVEL_META_KEY
from pydantic_core import to_json
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.errors import GoalportError
from goalport.server.doors.mcp.cancellations import DisconnectMiddleware, is_modern_request
from goalport.server.doors.mcp.elicitation import take_from_elsewhere
from goalport.server.doors.mcp.scope_check import guarded
from goalport.server.doors.mcp.server import GoalServer
from goalport.server.doors.mcp.session_tickets import SessionTickets
from goalport.server.doors.mcp.state import McpState
from goalport.server.doors.mcp.transports.common_calls import CommonCalls
from goalport.server.doors.mcp.transports.jsonrpc import AnswersAsJson, PostReader, answers_as_json, header, message_of
from goalport.server.doors.mcp.transports.replies import Reply
from goalport.server.doors.mcp.transports.session_calls import SessionCalls
from goalport.server.doors.mcp.transports.session_resumption import SessionResumption
from goalport.server.publish.chat_tools import ChatTool
from goalport.server.publish.companions import Companion
from goalport.server.publish.exported_tools import FunctionTool
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.raw import RawTool

_REST: Final = 10.0
"""Seconds without a request after which a session is closed that its ticket opens again."""
_MESSAGE_KEYS: Final = frozenset({"progressToken", LOG_LEVEL_META_KEY})
"""Keys of `_meta` by which a client asks for messages before the answer."""


class AsksBack(Protocol):
    """Whether a tool may send requests to its client before its answer; `elicits`: whether the client can be asked."""

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
            json_response=cast("bool", AnswersAsJson()),
            stateless=settings.stateless,
            session_idle_timeout=settings.session_idle_seconds,
            max_sessions=settings.max_sessions,
            max_request_body_size=settings.max_body_bytes,
        )
        app: ASGIApp = DisconnectMiddleware(StreamableHTTPASGIApp(self._sessions))
        # The SDK's middleware makes the span of a call.
        calls, answers = SessionCalls(), common_calls and not server.is_traced
        if not settings.stateless:
            tickets = SessionTickets(state.keys, settings.name, settings.state_ttl_seconds)
            answer = partial(take_from_elsewhere, state)
            rest = min(settings.session_idle_seconds, _REST)
            cancel = state.cancellations.cancel
            app = self._resumption = SessionResumption(
                app, self._sessions, tickets, settings.max_sessions, cancel, answer, calls, rest
            )
        common = CommonCalls(server, state, self._resumption, calls) if answers else None
        self._app = _Replies(app, common, self._resumption, self._asks_back, settings.heartbeat_seconds)
        self._running = False
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
        match published:
            case RawTool():
                return True
            case GoalTool() | ChatTool():
                return elicits and published.policy.may_give_handle
            case FunctionTool():
                return elicits and bool(published.exported.server)
            case _:
                return elicits and isinstance(published, Companion)


class _Replies:
    """Decides for each call who answers it, and whether as JSON or as an event stream.

    Common calls are answered by `common`, where there is one; everything else goes to `app`. `sessions` knows the
    sessions of a server that has them. `ping_seconds` is the interval of the pings of a stream.
    """

    def __init__(
        self,
        app: ASGIApp,
        common: CommonCalls | None,
        sessions: SessionResumption | None,
        asks_back: AsksBack,
        ping_seconds: float,
    ) -> None:
        self._app = app
        self._common = common
        self._sessions = sessions
        self._asks_back = asks_back
        self._ping_seconds = ping_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = message_of(scope)
        tool = _called_tool(scope, message)
        has_session = tool is not None and self._sessions is not None and not is_modern_request(scope)
        session = self._sessions.session_of(scope) if self._sessions is not None and has_session else None
        elicits = session is not None and session.elicits
        if tool is None or (has_session and session is None) or self._asks_back(tool, elicits=elicits):
            await self._pass_on(scope, receive, send)
            return
        call = self._common.read(scope, session) if self._common is not None else None
        logs = session is not None and session.log_level is not None
        is_brief = not (logs or _wants_messages(message))
        if call is None and not is_brief:
            await self._pass_on(scope, receive, send)
            return
        ticket, streams = b"" if session is None else session.ticket, not (is_brief or is_modern_request(scope))
        reply = Reply(scope, receive, send, self._ping_seconds, ticket=ticket, streams=streams)
        try:
            if call is not None and self._common is not None:
                await self._common.answer(call, reply)
            else:
                with answers_as_json():
                    await self._app(scope, receive, _Answered(reply.send, message).send)
        finally:
            reply.end()

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A server starts a pipelined request within the context of the one before it.
        with answers_as_json(wanted=False):
            await self._app(scope, receive, send)


class _Answered:
    """Sends the SDK's answer to a call, with the id of the call where its session ended first.

    The SDK gives no id then, with the status 500, and clients cannot tell which of their calls has ended.
    """

    def __init__(self, send: Send, call: object) -> None:
        self._send = send
        self._id = to_json(cast("dict[str, object]", call).get("id"))
        self._start: Message | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == HTTPStatus.INTERNAL_SERVER_ERROR:
            self._start = message
            return
        if self._start is not None:
            body = message["body"].replace(b'"id":null', b'"id":%b' % self._id, 1)
            headers = [each for each in self._start["headers"] if each[0] != b"content-length"]
            await self._send({**self._start, "status": HTTPStatus.OK, "headers": headers})
            message, self._start = {**message, "body": body}, None
        await self._send(message)


def _wants_messages(message: object) -> bool:
    """Whether a call asks for messages before its answer."""
    meta = _method_and_params(message)[1].get("_meta")
    return isinstance(meta, dict) and not _MESSAGE_KEYS.isdisjoint(cast("dict[str, object]", meta))


def _called_tool(scope: Scope, message: object) -> str | None:
    """The tool that a message calls; None if it is no call, or its client does not take both kinds of answers."""
    method, params = _method_and_params(message)
    accepted, tool = header(scope, b"accept"), params.get("name")
    takes_both = b"text/event-stream" in accepted and b"application/json" in accepted
    return tool if method == "tools/call" and takes_both and isinstance(tool, str) else None


def _method_and_params(message: object) -> tuple[object, dict[str, object]]:
    """The method and the parameters of a message; None and an empty dict if it has none."""
    fields = cast("dict[str, object]", message) if isinstance(message, dict) else {}
    params = fields.get("params")
    return fields.get("method"), cast("dict[str, object]", params) if isinstance(params, dict) else {}
