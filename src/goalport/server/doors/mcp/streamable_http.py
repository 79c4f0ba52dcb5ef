"""Streamable HTTP: `/mcp`, for every revision of the protocol.

A call is answered as one JSON body if no message can precede its answer, else as an event stream. Most calls are
answered without the SDK, whose transport costs more than the call. These common calls are valid by the SDK's own rules,
and their tools are functions, or goals that ask nobody; they run through the same handlers as all calls. Every other
request goes to the SDK unchanged, so the SDK decides how an invalid request is answered.
`tests/rooms/serve/test_common_calls.py` compares the answers with and without the SDK.
If another call asks for no progress and no log messages, and its tool sends no requests to the client, the SDK answers
it with JSON, because its event stream doubles the server's cost of a quick call. `jsonrpc.PostReader` has checked each
message before, and `sessions` serves the requests of sessions.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast

import mcp_types as types
from mcp.server.streamable_http import GET_STREAM_KEY
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types.methods import CLIENT_REQUESTS, serialize_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.errors import GoalportError
from goalport.runtime.platform.runs import Disconnect
from goalport.server.doors.mcp.calls import call_tool
from goalport.server.doors.mcp.jsonrpc import (
    DISCONNECT,
    SESSION_ID,
    PostReader,
    agreed_version,
    error_response,
    handshake_version,
    is_modern_request,
    message_of,
    refusal,
    takes_json,
    watching_disconnect,
)
from goalport.server.doors.mcp.requests import CallContext, Progress
from goalport.server.doors.mcp.server import GoalServer
from goalport.server.doors.mcp.sessions import OpenCall, Session, Sessions
from goalport.server.doors.mcp.state import McpState, guarded
from goalport.server.publish.exported_tools import FunctionTool, RawTool
from goalport.server.publish.goal_tools import ChatTool, GoalTool
from goalport.server.publish.handle import Companion
from goalport.server.publish.output import Wire, WrittenResult

_log = logging.getLogger(__name__)
_PATIENCE: Final = 1.0
"""Seconds after which a reply without an answer becomes an event stream."""
_GATHER: Final = 0.05
"""Seconds for which a notification waits, to be sent together with later ones."""
_STREAM: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)
_MESSAGE_KEYS: Final = frozenset({"progressToken", types.LOG_LEVEL_META_KEY})
"""Keys of `_meta` by which a client asks for messages before the answer."""
_REQUEST: Final = {"jsonrpc", "id", "method", "params"}
_PARAMS: Final = {
    version: cast("type[BaseModel]", CLIENT_REQUESTS["tools/call", version].model_fields["params"].annotation)
    for version in (LATEST_HANDSHAKE_VERSION, *MODERN_PROTOCOL_VERSIONS)
}
"""The SDK's models of the parameters of a call, by revision; the rest of the message has been checked."""
_CONTINUING: Final = frozenset({"inputResponses", "requestState", "task"})
"""Parameters with which a call continues an earlier one, or asks for a task."""


class Reply:
    """The reply to one call: one JSON body, or an event stream.

    It becomes a stream when there is a notification to send, or when the answer takes longer than `_PATIENCE`, so that
    no proxy times out and a disconnect of the client is noticed. With `streams` it is always a stream. `ping_seconds`
    are the seconds between two pings. `ticket` is the id of the session of the call; empty if it has none.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, ping_seconds: float, *, ticket: bytes, streams: bool
    ) -> None:
        self.disconnect = scope[DISCONNECT] = Disconnect()
        """Whether the client has disconnected; this is watched only once the answer takes longer than `_PATIENCE`."""
        self.streams = streams
        """Whether the reply is always a stream."""
        self._receive, self._send, self._ping_seconds, self._ticket = receive, send, ping_seconds, ticket
        self._answered = False
        self._begun = False
        """Whether the headers of a stream were sent."""
        self._sending = asyncio.Lock()
        """Locked while something is sent, so that messages to a slow reader keep their order."""
        self._unsent: list[bytes] = []
        """Events that wait to be sent together with later ones, or with the answer."""
        self._parts: list[bytes] = []
        """The pieces so far of the answer's body, in a stream."""
        self._tasks: list[asyncio.Task[None]] = []
        """The tasks that send notifications, keep the stream open and watch the connection."""
        self._loop = asyncio.get_running_loop()
        self._flushing: asyncio.TimerHandle | None = None
        self._timer = self._loop.call_later(_PATIENCE, self._spawn, self._keep_open, self._watch_connection)

    def end(self) -> None:
        """Stop the timers and the tasks, as nothing more will be sent."""
        self._timer.cancel()
        if self._flushing is not None:
            self._flushing.cancel()
        for task in self._tasks:
            task.cancel()

    async def notify(self, method: str, **params: object) -> None:
        """Send a notification soon, and before the answer. After the answer it is dropped."""
        if not self._answered:
            told = {name: each for name, each in params.items() if each is not None}
            self._unsent.append(_event(to_json({"jsonrpc": "2.0", "method": method, "params": told})))
            if self._flushing is None:
                self._flushing = self._loop.call_later(_GATHER, self._spawn, self._send_events)

    async def send(self, message: Message) -> None:
        """Send one ASGI message of the JSON response with the answer; in a stream, its body becomes the last event.

        An empty body ends a stream without an event.
        """
        self._answered = True
        if not (self._begun or self.streams or self._unsent):
            # Tasks that would begin a stream may have been created already, and must not run.
            self.end()
            await self._send(message)
            return
        self._parts.append(message.get("body", b""))
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.end()
            if body := b"".join(self._parts):
                self._unsent.append(_event(body))
            await self._send_events(more=False)

    async def _send_events(self, more_events: bytes = b"", *, more: bool = True) -> None:
        """Send the waiting events, and before the first ones the headers of the stream."""
        async with self._sending:
            if not self._begun:
                session = [(SESSION_ID, self._ticket)] if self._ticket else []
                self._begun = True
                await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *session]})
            events, self._flushing = b"".join(self._unsent) + more_events, None
            self._unsent.clear()
            if events or not more:
                await self._send({"type": "http.response.body", "body": events, "more_body": more})

    def _spawn(self, *begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._answered:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._tasks += [self._loop.create_task(each()) for each in begin]

    async def _keep_open(self) -> None:
        while True:
            await self._send_events(b": ping\r\n\r\n")
            await asyncio.sleep(self._ping_seconds)

    async def _watch_connection(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._answered:
            self.disconnect.note()


def _event(message: bytes) -> bytes:
    """The server-sent event of a message, which is JSON in one line."""
    return b"event: message\r\ndata: %b\r\n\r\n" % message


@dataclass(frozen=True, slots=True)
class _CommonCall:
    """A valid request to call a tool, which is answered without the SDK."""

    state: McpState
    id: types.RequestId
    version: str
    params: types.CallToolRequestParams
    session: Session | None
    token: types.ProgressToken | None
    """The client's progress token; None if it asked for no progress."""
    stamp: Wire
    """What is added to the `_meta` of the result since revision 2026-07-28; empty for older revisions."""

    @classmethod
    def read(cls, scope: Scope, session: Session | None, state: McpState, stamp: Wire) -> "_CommonCall | None":
        """The call of a request; None if the SDK has to answer it, as it answers every invalid one."""
        message = message_of(scope)
        given = message["params"]
        if {*message} != _REQUEST or not _CONTINUING.isdisjoint(given):
            return None
        modern = is_modern_request(scope)
        # All revisions that begin with a handshake have the same calls.
        version = handshake_version(scope) and LATEST_HANDSHAKE_VERSION
        if modern:
            version = agreed_version(scope["headers"], message)
        if version is None:
            return None
        try:
            _PARAMS[version].model_validate(given, by_name=False)
            params = types.CallToolRequestParams.model_validate(given, by_name=False)
        except ValidationError:
            return None
        token = progress_token_from_params(given)
        return cls(state, message["id"], version, params, session, token, stamp if modern else {})

    async def answer(self, reply: Reply) -> None:
        """Call the tool, and send its answer with `reply`."""
        session, progress, level = self.session, None, self.session.state.log_level if self.session else None
        if self.stamp:
            level = cast("types.LoggingLevel | None", (self.params.meta or {}).get(types.LOG_LEVEL_META_KEY))
        if self.token is not None or level is not None:

            async def report(progress: float, total: float | None, message: str | None) -> None:
                told = {"progressToken": self.token, "progress": progress, "total": total, "message": message}
                await reply.notify("notifications/progress", **told)

            async def log(level: types.LoggingLevel, text: str) -> None:
                await reply.notify("notifications/message", level=level, logger="goalport", data=text)

            heartbeat = self.state.settings.heartbeat_seconds
            progress = Progress(None if self.token is None else report, log, level, heartbeat)
        ticket = None if session is None else session.ticket
        context = CallContext(self.state, reply.disconnect, ticket, self.id, progress)
        status, body = HTTPStatus.OK, b""
        if session is None:
            status, body = await self._response(context)
        else:
            request = OpenCall(self.id)
            with session.opened(self.id, request), request.scope:
                status, body = await self._response(context)
            if (ended := request.refusal) is not None:
                # The SDK ends the stream of a terminated session without an answer.
                status, body = HTTPStatus.OK, b"" if request.terminated and reply.streams else _serialized(ended)
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        if ticket is not None:
            headers.append((SESSION_ID, ticket))
        await reply.send({"type": "http.response.start", "status": status, "headers": headers})
        await reply.send({"type": "http.response.body", "body": body})

    async def _response(self, context: CallContext) -> tuple[int, bytes]:
        """The status and the body of the response."""
        try:
            result = self._json(await call_tool(context, self.params))
        except MCPError as refused:
            status = ERROR_CODE_HTTP_STATUS.get(refused.error.code, HTTPStatus.OK) if self.stamp else HTTPStatus.OK
            return status, _serialized(types.JSONRPCError(jsonrpc="2.0", id=self.id, error=refused.error))
        return HTTPStatus.OK, b"".join((b'{"jsonrpc":"2.0","id":', to_json(self.id), b',"result":', *result, b"}"))

    def _json(self, answer: object) -> Sequence[bytes]:
        """The JSON of an answer, in pieces. Raises `MCPError` for content that the revision of the call lacks."""
        name = self.params.name
        published = self.state.publisher.publication.tools.get(name)
        is_typed = isinstance(published, GoalTool) and published.policy.output.schema is not None
        if isinstance(answer, WrittenResult) and is_typed:
            # Its content is a text, which is the same in every revision.
            return answer.pieces(self.stamp, typed=bool(self.stamp))
        wire = answer.wire if isinstance(answer, WrittenResult) else cast("Wire", answer)
        try:
            wire = serialize_server_result("tools/call", self.version, wire)
        except ValidationError as error:
            _log.exception("%s gave content that revision %s does not have", name, self.version)
            raise MCPError(types.INTERNAL_ERROR, "Handler returned an invalid result") from error
        meta = {**wire.get("_meta", {}), **self.stamp}
        return (to_json({**wire, "_meta": meta} if meta else wire, inf_nan_mode="null"),)


def _serialized(error: types.JSONRPCError) -> bytes:
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode()


class StreamableHttp:
    """The transport of current clients: each message is a POST, answered as one JSON body or as an event stream."""

    title = "Streamable HTTP (Claude, Cursor, VS Code, Codex, Inspector)"

    def __init__(self, server: GoalServer, state: McpState, *, common_calls: bool = True) -> None:
        """Without `common_calls`, the SDK answers every call."""
        self._state = state
        most = state.settings.max_body_bytes
        self._managers = {
            as_json: StreamableHTTPSessionManager(
                server, json_response=as_json, stateless=True, max_request_body_size=most
            )
            for as_json in (False, True)
        }
        """The SDK's managers of requests without a session, by whether they answer as JSON or as event streams."""
        self.sessions = None if state.settings.stateless else Sessions(server, state)
        # The SDK's middleware makes the span of a call.
        self._answers_common_calls = common_calls and not server.is_traced
        self._stamp: Wire = {types.SERVER_INFO_META_KEY: server.server_info_stamp}
        self._running = False
        self.routes: Sequence[Route] = [Route("/mcp", PostReader(guarded(self._answer, state)))]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """A context in which requests can be answered; at its end all streams are closed."""
        async with AsyncExitStack() as stack:
            for each in self._managers.values():
                await stack.enter_async_context(each.run())
            self._running = True
            yield

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; decide for each call who answers it, and whether as JSON or as an event stream."""
        if not self._running:
            raise GoalportError(
                "The app of this server was called outside of its lifespan. An app that mounts it has to enter that in"
                " its own: `async with app.router.lifespan_context(app)`."
            )
        message, session = message_of(scope), None
        if self.sessions is not None and handshake_version(scope):  # the SDK refuses unknown revisions
            session = self.sessions.of(scope)
            if session is None:
                await self.sessions.begin(scope, receive, send)
                return
            request_id = message.get("id") if "method" in message else None
            if request_id is not None and (str(request_id) in session.requests or request_id == GET_STREAM_KEY):
                reason = f"The id {request_id!r} is in use. Give each request of a session an id of its own."
                await error_response(refusal(request_id, reason))(scope, receive, send)
                return
        params: Mapping[str, Any] = message.get("params") or {}
        if message.get("method") != "tools/call" or not isinstance(params.get("name"), str) or not takes_json(scope):
            await self._by_sdk(session, scope, receive, send)
            return
        asks_back, is_common = self._kind_of(params, elicits=session is not None and session.elicits)
        call = _CommonCall.read(scope, session, self._state, self._stamp) if is_common and not asks_back else None
        meta: object = params.get("_meta")
        is_brief = (session is None or session.state.log_level is None) and (
            not isinstance(meta, dict) or _MESSAGE_KEYS.isdisjoint(cast("dict[str, object]", meta))
        )
        if asks_back or (call is None and not is_brief):
            await self._by_sdk(session, scope, receive, send)
            return
        ticket, streams = b"" if session is None else session.ticket, not (is_brief or is_modern_request(scope))
        reply = Reply(scope, receive, send, self._state.settings.heartbeat_seconds, ticket=ticket, streams=streams)
        try:
            if call is not None:
                await call.answer(reply)
            else:
                await self._by_sdk(session, scope, receive, reply.send, as_json=True)
        finally:
            reply.end()

    async def _by_sdk(
        self, session: Session | None, scope: Scope, receive: Receive, send: Send, *, as_json: bool = False
    ) -> None:
        app: ASGIApp = StreamableHTTPASGIApp(self._managers[as_json])
        if session is not None and self.sessions is not None:
            app = partial(self.sessions.answer, session, as_json=as_json)
        await watching_disconnect(app, scope, receive, send)

    def _kind_of(self, params: Mapping[str, Any], *, elicits: bool) -> tuple[bool, bool]:
        """Whether a tool may send requests to its client before its answer, and whether its calls are common ones.

        `elicits`: the session's client can be asked. Since revision 2026-07-28 the client says so in each call.
        """
        publication, name = self._state.publisher.publication, params["name"]
        asks_back, is_common = False, False
        match publication.tools.get(name):
            case RawTool():
                asks_back = True
            case GoalTool(policy=policy):
                asks_back, is_common = elicits and policy.may_give_handle, not policy.may_give_handle
            case ChatTool(policy=policy):
                asks_back = elicits and policy.may_give_handle
            case FunctionTool(exported=exported):
                asks_back, is_common = elicits and bool(exported.server), not exported.server
                match params:
                    case {"_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": _}}}:
                        pass
                    case _:
                        is_common = True
            case Companion():
                asks_back = elicits
            case None:
                pass
        return asks_back, is_common and self._answers_common_calls and name not in publication.mirrored
