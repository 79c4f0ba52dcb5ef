"""Common calls: quick `tools/call` requests, answered without the SDK's transport, which costs more than the call.

It is the ASGI app behind `streamable_http` for calls whose answer no message can precede. It answers a call itself if
the SDK would find nothing wrong with the request, by the SDK's own rules, and if the tool is a function or a goal that
asks nobody; the handlers are those of every call. Everything else goes to the SDK unchanged, which so decides what is
answered to a request that is wrong. `tests/rooms/serve/test_common_calls.py` compares the answers of the two.
"""

import logging
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, cast

from mcp.server.streamable_http import check_accept_headers
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import INTERNAL_ERROR, SERVER_INFO_META_KEY, CallToolRequestParams
from mcp_types.methods import serialize_server_result, validate_client_request
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from goalport.publish.exported_tools import FunctionTool
from goalport.publish.goal_tools import GoalTool
from goalport.publish.output import Wire, WrittenResult
from goalport.serve.call_context import CallContext
from goalport.serve.calls import call_tool
from goalport.serve.disconnects import disconnect_in, is_modern_request
from goalport.serve.server import GoalServer
from goalport.serve.state import McpState
from goalport.serve.transports.jsonrpc import header, message_of
from goalport.serve.transports.routing_headers import agreed_version

__all__ = ["CommonCalls"]

_log = logging.getLogger(__name__)
_REQUEST: Final = {"jsonrpc", "id", "method", "params"}
_MORE: Final = frozenset({"inputResponses", "requestState", "task"})
"""Parameters by which a call goes on with an earlier one, or asks for a task."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A request to call a tool, in which nothing is wrong."""

    id: str | int
    version: str
    params: CallToolRequestParams


class CommonCalls:
    """Answers common calls, and passes everything else on to `app`."""

    def __init__(self, app: ASGIApp, server: GoalServer, state: McpState) -> None:
        self._app = app
        self._state = state
        self._stamp = {SERVER_INFO_META_KEY: server.server_info_stamp}
        """What the `_meta` of each result says besides its own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = self._read(scope)
        if call is None:
            await self._app(scope, receive, send)
            return
        status, body = await self._answer(call, scope)
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _read(self, scope: Scope) -> _Call | None:
        """The call that a request makes; None if it is not a common one, or if anything is wrong with it."""
        message = cast("dict[str, Any]", message_of(scope))
        params = message["params"]
        if message.keys() != _REQUEST or not self._is_common(params) or not _takes_json(scope):
            return None
        if not is_modern_request(scope):
            return None
        version = agreed_version(scope["headers"], message)
        if version is None:
            return None
        try:
            validate_client_request("tools/call", version, params)
            return _Call(message["id"], version, CallToolRequestParams.model_validate(params, by_name=False))
        except ValidationError:
            return None

    def _is_common(self, params: dict[str, Any]) -> bool:
        """Whether a call with these parameters has no answer but a result or an error."""
        publication, name = self._state.publisher.publication, params["name"]
        published = publication.tools.get(name)
        is_quick = isinstance(published, FunctionTool) or (
            isinstance(published, GoalTool) and not published.policy.may_give_handle
        )
        return is_quick and name not in publication.mirrored and _MORE.isdisjoint(params)

    async def _answer(self, call: _Call, scope: Scope) -> tuple[int, bytes]:
        """The status and the body of the response to a call."""
        try:
            answer = await call_tool(CallContext(self._state, disconnect_in(scope)), call.params)
            return HTTPStatus.OK, b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (
                to_json(call.id),
                self._json(call, answer),
            )
        except MCPError as refusal:
            error = refusal.error.model_dump(mode="json", exclude_none=True)
            status = ERROR_CODE_HTTP_STATUS.get(refusal.error.code, HTTPStatus.OK)
            return status, to_json({"jsonrpc": "2.0", "id": call.id, "error": error})

    def _json(self, call: _Call, answer: object) -> bytes:
        """An answer in the revision of a call. Raises `MCPError` for content that the revision does not have."""
        if isinstance(answer, WrittenResult) and self._has_texts_only(call.params.name):
            return answer.json_with(self._stamp)
        wire = answer.wire if isinstance(answer, WrittenResult) else cast("Wire", answer)
        try:
            wire = serialize_server_result("tools/call", call.version, wire)
        except ValidationError as error:
            _log.exception("%s gave content that revision %s does not have", call.params.name, call.version)
            raise MCPError(INTERNAL_ERROR, "Handler returned an invalid result") from error
        return to_json({**wire, "_meta": {**wire.get("_meta", {}), **self._stamp}}, inf_nan_mode="null")

    def _has_texts_only(self, tool: str) -> bool:
        """Whether the content of a tool's results is the same in every revision."""
        published = self._state.publisher.publication.tools.get(tool)
        return isinstance(published, GoalTool) and published.policy.output.schema is not None


def _takes_json(scope: Scope) -> bool:
    """Whether a request is made in JSON, and its client takes JSON and event streams."""
    return _takes_both(header(scope, b"accept")) and _media_type(header(scope, b"content-type")) == "application/json"


@lru_cache(maxsize=64)
def _takes_both(accept: bytes) -> bool:
    return check_accept_headers(Request({"type": "http", "headers": [(b"accept", accept)]})) == (True, True)


@lru_cache(maxsize=64)
def _media_type(content_type: bytes) -> str:
    return content_type.decode("latin-1").partition(";")[0].strip()
