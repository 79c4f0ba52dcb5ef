"""Common calls: `tools/call` requests that are answered without the SDK's transport, which costs more than the call.

A call is a common one if the SDK would find nothing wrong with the request, by the SDK's own rules, and if the tool is
a function or a goal that asks nobody; the handlers are those of every call. `streamable_http` sends everything else to
the SDK unchanged, which so decides what is answered to a request that is wrong. Progress and log messages that a call
asks for are events of its reply. `tests/rooms/serve/test_common_calls.py` compares the answers of the two.
"""

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
from starlette.types import Scope

from goalport.server.doors.mcp.call_context import CallContext
from goalport.server.doors.mcp.calls import call_tool
from goalport.server.doors.mcp.cancellations import is_modern_request
from goalport.server.doors.mcp.server import GoalServer
from goalport.server.doors.mcp.state import McpState
from goalport.server.doors.mcp.transports.jsonrpc import SESSION_ID, agreed_version, message_of, takes_json
from goalport.server.doors.mcp.transports.replies import Reply, StreamNotifier
from goalport.server.doors.mcp.transports.sessions import OpenCall, Session
from goalport.server.publish.exported_tools import FunctionTool
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.output import Wire, WrittenResult

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
        token = progress_token_from_params(message["params"])
        return CommonCall(message["id"], version, params, session, token, _log_level(version, params, session))

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
        if isinstance(answer, WrittenResult) and self._has_texts_only(call.params.name):
            return answer.pieces(stamp, typed=call.is_modern)
        wire = answer.wire if isinstance(answer, WrittenResult) else cast("Wire", answer)
        try:
            wire = serialize_server_result("tools/call", call.version, wire)
        except ValidationError as error:
            _log.exception("%s gave content that revision %s does not have", call.params.name, call.version)
            raise MCPError(INTERNAL_ERROR, "Handler returned an invalid result") from error
        meta = {**wire.get("_meta", {}), **stamp}
        return (to_json({**wire, "_meta": meta} if meta else wire, inf_nan_mode="null"),)

    def _has_texts_only(self, tool: str) -> bool:
        """Whether the content of a tool's results is the same in every revision."""
        published = self._state.publisher.publication.tools.get(tool)
        return isinstance(published, GoalTool) and published.policy.output.schema is not None


def _log_level(version: str, params: CallToolRequestParams, session: Session | None) -> LoggingLevel | None:
    if version in MODERN_PROTOCOL_VERSIONS:
        meta: Mapping[str, Any] = params.meta or {}
        return meta.get(LOG_LEVEL_META_KEY)
    return session.state.log_level if session else None


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
