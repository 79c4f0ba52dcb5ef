"""Common calls: `tools/call` requests that are answered without the SDK's transport, which costs more than the call.

A call is a common one if the SDK would find nothing wrong with the request, by the SDK's own rules, and if the tool is
a function or a goal that asks nobody; the handlers are those of every call. `streamable_http` sends everything else to
the SDK unchanged, which so decides what is answered to a request that is wrong. Progress and log messages that a call
asks for are events of its reply. `tests/rooms/serve/test_common_calls.py` compares the answers of the two.
A `Reply` is one JSON body or an event stream: that if there is a notification to send, or if the answer takes longer
than a second, so that no proxy times out and the disconnect of a client is noticed.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import (
    INTERNAL_ERROR,
    LOG_LEVEL_META_KEY,
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
    JSONRPCError,
    LoggingLevel,
    ProgressToken,
    RequestId,
)
from mcp_types.methods import CLIENT_REQUESTS, serialize_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.types import Message, Receive, Scope, Send

from goalport.server.doors.mcp.calls import call_tool
from goalport.server.doors.mcp.cancellations import is_modern_request, new_disconnect
from goalport.server.doors.mcp.server import GoalServer
from goalport.server.doors.mcp.state import CallContext, McpState
from goalport.server.doors.mcp.transports.jsonrpc import SESSION_ID, agreed_version, message_of, takes_json
from goalport.server.doors.mcp.transports.sessions import OpenCall, Session
from goalport.server.publish.exported_tools import FunctionTool
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.output import Wire, WrittenResult

_PATIENCE: Final = 1.0
_STREAM: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)
_LOGGER: Final = "goalport"


class Reply:
    """The reply to one call: one JSON body, or an event stream.

    With `streams` it is a stream in any case. `ping_seconds` is the interval of the pings of a stream whose answer
    takes longer than `_PATIENCE`. `ticket` is the id of the session of the call; empty: it has none.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        ping_seconds: float,
        *,
        ticket: bytes = b"",
        streams: bool = False,
    ) -> None:
        self.disconnect = new_disconnect(scope)
        """Whether the client has disconnected; that is looked at once the answer takes longer than `_PATIENCE`."""
        self._ping_seconds = ping_seconds
        self._ticket = ticket
        self._receive = receive
        self._send = send
        self.streams = streams
        """Whether it is a stream in any case."""
        self._answered = False
        self._begun = False
        """Whether the headers of a stream were sent."""
        self._sending = asyncio.Lock()
        """Held while something is sent, so that what waits for a slow reader is not overtaken."""
        self._unsent: list[bytes] = []
        """Events that wait for `flush`, or for the answer."""
        self._parts: list[bytes] = []
        """The body of the answer of a stream, as far as it has come."""
        self._tasks: list[asyncio.Task[None]] = []
        """The tasks that keep the stream open and watch the connection, once the answer takes long."""
        self._timer = asyncio.get_running_loop().call_later(_PATIENCE, self._be_patient)

    def end(self) -> None:
        """Stop the timer and the tasks, as nothing more will be sent."""
        self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Add a notification to the stream; it is sent by `flush`, or before the answer. After that it is dropped."""
        if not self._answered:
            self._unsent.append(_event(to_json({"jsonrpc": "2.0", "method": method, "params": params})))

    async def flush(self) -> None:
        """Send the notifications that wait; those that wait when the call is answered are sent with the answer."""
        async with self._sending:
            if self._unsent and not self._answered:
                await self._begin()
                await self._send({"type": "http.response.body", "body": self._taken(), "more_body": True})

    async def send(self, message: Message) -> None:
        """Send the answer, given as the messages of a JSON response: as these, or as the last event of a stream.

        An answer without a body ends a stream without an event.
        """
        self._answered = True
        if not (self._begun or self.streams or self._unsent):
            # The tasks that begin a stream may have been created already without having run.
            self.end()
            await self._send(message)
            return
        self._parts.append(message.get("body", b""))
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.end()
            if body := b"".join(self._parts):
                self._unsent.append(_event(body))
            async with self._sending:
                await self._begin()
                await self._send({"type": "http.response.body", "body": self._taken()})

    async def _begin(self) -> None:
        if not self._begun:
            session = [(SESSION_ID, self._ticket)] if self._ticket else []
            await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *session]})
            self._begun = True

    def _taken(self) -> bytes:
        """The events that wait, which then wait no more."""
        events = b"".join(self._unsent)
        self._unsent.clear()
        return events

    def _be_patient(self) -> None:
        if not self._answered:
            self._tasks = [asyncio.create_task(self._keep_open()), asyncio.create_task(self._watch_connection())]

    async def _keep_open(self) -> None:
        while True:
            async with self._sending:
                await self._begin()
                await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            await asyncio.sleep(self._ping_seconds)

    async def _watch_connection(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._answered:
            self.disconnect.note()


def _event(message: bytes) -> bytes:
    """An event of a message, which is JSON in one line."""
    return b"event: message\r\ndata: %b\r\n\r\n" % message


class StreamNotifier:
    """The way to the client of a call by the event stream of its reply (a `Notifier`)."""

    def __init__(self, reply: Reply, token: ProgressToken | None, log_level: LoggingLevel | None) -> None:
        self._reply = reply
        self._token = token
        self.progress_wanted = token is not None
        self.log_level: LoggingLevel | None = log_level

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell progress."""
        params: dict[str, Any] = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._reply.notify("notifications/progress", params)

    async def log(self, level: LoggingLevel, text: str) -> None:
        """Tell one log message."""
        self._reply.notify("notifications/message", {"level": level, "logger": _LOGGER, "data": text})

    async def flush(self) -> None:
        """Send what still waits."""
        await self._reply.flush()


_log = logging.getLogger(__name__)
_REQUEST: Final = {"jsonrpc", "id", "method", "params"}
_VERSION: Final = b"mcp-protocol-version"
_HANDSHAKE: Final = frozenset(each.encode() for each in HANDSHAKE_PROTOCOL_VERSIONS)
_PARAMS: Final = {
    version: cast("type[BaseModel]", CLIENT_REQUESTS["tools/call", version].model_fields["params"].annotation)
    for version in (LATEST_HANDSHAKE_VERSION, *MODERN_PROTOCOL_VERSIONS)
}
"""What a revision asks of the parameters of a call; the rest of the message has been checked."""
_MORE: Final = frozenset({"inputResponses", "requestState", "task"})
"""Parameters by which a call goes on with an earlier one, or asks for a task."""


@dataclass(frozen=True, slots=True)
class CommonCall:
    """A request to call a tool, in which nothing is wrong."""

    id: RequestId
    version: str
    params: CallToolRequestParams
    session: Session | None
    token: ProgressToken | None
    """By which the client is told progress; None: it is told none."""
    log_level: LoggingLevel | None
    """The least severe level of the log messages that the client gets; None: it gets none."""

    @property
    def is_modern(self) -> bool:
        return self.version in MODERN_PROTOCOL_VERSIONS


class CommonCalls:
    """Reads and answers common calls."""

    def __init__(self, server: GoalServer, state: McpState) -> None:
        self._state = state
        self._stamp = {SERVER_INFO_META_KEY: server.server_info_stamp}
        """What the `_meta` of each result says besides its own, since revision 2026-07-28."""

    def read(self, scope: Scope, session: Session | None) -> CommonCall | None:
        """The call that a request of a session makes; None if it is not a common one, or anything is wrong with it."""
        message = cast("dict[str, Any]", message_of(scope))
        if message.keys() != _REQUEST or not self._is_common(message["params"]) or not takes_json(scope):
            return None
        version = _revision_of(scope, message)
        if version is None:
            return None
        try:
            _PARAMS[version].model_validate(message["params"], by_name=False)
            params = CallToolRequestParams.model_validate(message["params"], by_name=False)
        except ValidationError:
            return None
        meta: Mapping[str, Any] = params.meta or {}
        level = session.state.log_level if session else None
        if version in MODERN_PROTOCOL_VERSIONS:
            level = meta.get(LOG_LEVEL_META_KEY)
        token = progress_token_from_params(message["params"])
        return CommonCall(message["id"], version, params, session, token, level)

    async def answer(self, call: CommonCall, reply: Reply) -> None:
        """Answer a call."""
        status, body = await self._response(call, reply)
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        if call.session is not None:
            headers.append((SESSION_ID, call.session.ticket))
        await reply.send({"type": "http.response.start", "status": status, "headers": headers})
        await reply.send({"type": "http.response.body", "body": body})

    def _is_common(self, params: dict[str, Any]) -> bool:
        """Whether a call with these parameters has no answer but a result or an error."""
        publication, name = self._state.publisher.publication, params["name"]
        published = publication.tools.get(name)
        match published:
            case FunctionTool():
                is_quick = not (published.exported.server and _elicits(params))
            case GoalTool():
                is_quick = not published.policy.may_give_handle
            case _:
                is_quick = False
        return is_quick and name not in publication.mirrored and _MORE.isdisjoint(params)

    async def _response(self, call: CommonCall, reply: Reply) -> tuple[int, bytes]:
        """The status and the body of the response to a call."""
        session, level = call.session, call.log_level
        asks = call.token is not None or level is not None
        notifier = StreamNotifier(reply, call.token, level) if asks else None
        if session is None:
            return await self._result(call, CallContext(self._state, reply.disconnect, notifier=notifier))
        response = HTTPStatus.OK, b""
        context = CallContext(self._state, reply.disconnect, session.ticket, call.id, notifier=notifier)
        request = OpenCall(call.id)
        with session.opened(call.id, request), request.scope:
            response = await self._result(call, context)
        if (ended := request.refusal) is not None:
            # The SDK ends the stream of a terminated session without an answer.
            return HTTPStatus.OK, b"" if request.terminated and reply.streams else _written(ended)
        return response

    async def _result(self, call: CommonCall, context: CallContext) -> tuple[int, bytes]:
        try:
            written = self._json(call, await call_tool(context, call.params))
            answer = b'{"jsonrpc":"2.0","id":', to_json(call.id), b',"result":', *written, b"}"
            return HTTPStatus.OK, b"".join(answer)
        except MCPError as refused:
            code = refused.error.code
            status = ERROR_CODE_HTTP_STATUS.get(code, HTTPStatus.OK) if call.is_modern else HTTPStatus.OK
            return status, _written(JSONRPCError(jsonrpc="2.0", id=call.id, error=refused.error))

    def _json(self, call: CommonCall, answer: object) -> Sequence[bytes]:
        """An answer in the revision of a call, in pieces. Raises `MCPError` for content that the revision lacks."""
        stamp: Wire = self._stamp if call.is_modern else {}
        published = self._state.publisher.publication.tools.get(call.params.name)
        is_typed = isinstance(published, GoalTool) and published.policy.output.schema is not None
        if isinstance(answer, WrittenResult) and is_typed:
            # Its content is a text, which is the same in every revision.
            return answer.pieces(stamp, typed=call.is_modern)
        wire = answer.wire if isinstance(answer, WrittenResult) else cast("Wire", answer)
        try:
            wire = serialize_server_result("tools/call", call.version, wire)
        except ValidationError as error:
            _log.exception("%s gave content that revision %s does not have", call.params.name, call.version)
            raise MCPError(INTERNAL_ERROR, "Handler returned an invalid result") from error
        meta = {**wire.get("_meta", {}), **stamp}
        return (to_json({**wire, "_meta": meta} if meta else wire, inf_nan_mode="null"),)


def _revision_of(scope: Scope, message: Mapping[str, Any]) -> str | None:
    """The revision by which a call is read; None if the SDK would refuse what its headers say.

    All revisions that begin with a handshake have the same calls, and a request may leave out which one it is of.
    """
    if is_modern_request(scope):
        return agreed_version(scope["headers"], message)
    said = next((value for name, value in scope["headers"] if name == _VERSION), None)
    return LATEST_HANDSHAKE_VERSION if said is None or said in _HANDSHAKE else None


def _elicits(params: dict[str, Any]) -> bool:
    """Whether the client says, as since revision 2026-07-28 in each call, that it can be asked."""
    match params:
        case {"_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": _}}}:
            return True
        case _:
            return False


def _written(error: JSONRPCError) -> bytes:
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode()
