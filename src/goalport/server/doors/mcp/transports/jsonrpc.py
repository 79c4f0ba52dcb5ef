"""Incoming JSON-RPC messages: which are valid, and the middleware that reads one from the body of each HTTP POST.

The SDK gives no answer to an invalid message: it takes a request with an invalid id for a notification. So messages are
checked before their methods and parameters are read, and refused with an error.
`stdio` reads its own lines; the transports that take POSTs find the parsed message in the scope of the request.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, cast

from mcp.server.streamable_http import check_accept_headers
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    InboundModernRoute,
    classify_inbound_request,
    decode_header_value,
    find_duplicated_routing_header,
)
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    HEADER_MISMATCH,
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.words import first_line
from goalport.server.doors.mcp.cancellations import is_modern_request

SESSION_ID: Final = b"mcp-session-id"
_KEY: Final = "goalport.message"
_RESUME: Final = b"last-event-id"
_MOST_SHOWN: Final = 80


def read_message(data: bytes) -> tuple[object, JSONRPCError | None]:
    """The JSON value of a message, and the error response if it is not a valid message, else None."""
    try:
        message = from_json(data)
    except ValueError as error:
        return None, refusal(None, f"A message should be JSON: {first_line(str(error))}.", PARSE_ERROR)
    reason = _problem_in(message)
    return message, None if reason is None else refusal(_id_of(message), reason)


def _problem_in(message: object) -> str | None:
    """Why a JSON value is not a valid message; None if it is."""
    if not isinstance(message, dict):
        return f"A message should be a JSON object; came {_shown(message)}. Send each message by itself."
    fields = cast("Mapping[str, object]", message)
    if fields.get("jsonrpc") != "2.0":
        return f'"jsonrpc" should be "2.0"; came {_shown(fields.get("jsonrpc"))}.'
    if "method" not in fields:
        return _problem_in_answer(fields)
    if not isinstance(fields["method"], str):
        return f'"method" should be a text; came {_shown(fields["method"])}.'
    if "id" in fields and not _is_id(fields["id"]):
        return f'"id" should be a text or an integer; came {_shown(fields["id"])}. A notification has none.'
    if not isinstance(fields.get("params"), dict | None):
        return f'"params" should be an object; came {_shown(fields["params"])}.'
    return None


def _problem_in_answer(fields: Mapping[str, object]) -> str | None:
    if not isinstance(fields.get("result", fields.get("error")), dict):
        return 'A message should have a "method", or the "result" or "error" of an answer, which is an object.'
    if _is_id(fields.get("id")) or (fields.get("id") is None and "error" in fields):
        return None
    return f'"id" should be that of the request; came {_shown(fields.get("id"))}.'


def _id_of(message: object) -> str | int | None:
    """The id of a message; None if it has no valid one."""
    found = cast("Mapping[str, object]", message).get("id") if isinstance(message, dict) else None
    return cast("str | int", found) if _is_id(found) else None


def refusal(identity: str | int | None, reason: str, code: int = INVALID_REQUEST) -> JSONRPCError:
    """The error response that refuses a message; `identity` is the id of the request, or None."""
    return JSONRPCError(jsonrpc="2.0", id=identity, error=ErrorData(code=code, message=reason))


def _is_id(found: object) -> bool:
    return isinstance(found, str | int) and not isinstance(found, bool)


def _shown(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return first_line(json.dumps(value, ensure_ascii=False), _MOST_SHOWN)


def message_of(scope: Scope) -> object:
    """The message of a POST, parsed from JSON; None if there is no valid one."""
    return scope.get(_KEY)


def header(fields: Mapping[str, Any], wanted: bytes) -> bytes:
    """The value of a header of a scope, or of the first message of a response; empty if it has none."""
    for name, value in fields["headers"]:
        if name == wanted:
            return value
    return b""


class PostReader:
    """ASGI middleware that reads the body of each POST to `app`, whose size the site has limited."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # No events are stored for resumption, so a client that resumes a stream gets a new one, as MCP allows.
            scope["headers"] = [each for each in scope["headers"] if each[0] != _RESUME]
            await self._app(scope, receive, send)
            return
        body = await _read_body(receive)
        if body["type"] == "http.request":
            await self._check(scope, replayed(body, receive), send, body["body"])

    async def _check(self, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        """Refuse an invalid message, and pass on a valid one."""
        message, refused = read_message(body)
        if refused is not None:
            await refuse(refused, scope, receive, send)
            return
        scope[_KEY] = message
        if not is_modern_request(scope) and (reason := contradiction(scope["headers"], message)):
            await refuse(refusal(_id_of(message), reason, HEADER_MISMATCH), scope, receive, send)
            return
        await self._app(scope, receive, send)


async def _read_body(receive: Receive) -> Message:
    """The whole body as one message, or the disconnect message."""
    message = await receive()
    if message["type"] != "http.request" or not message.get("more_body"):
        return {"more_body": False, "body": b"", **message}
    body = bytearray()
    while message["type"] == "http.request":
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if not more:
            return {"type": "http.request", "body": bytes(body), "more_body": False}
        message = await receive()
    return message


def replayed(body: Message, receive: Receive) -> Receive:
    """A `receive` that gives the body, which has been read already, and then what `receive` gives."""
    before = [body]

    async def replay() -> Message:
        return before.pop() if before else await receive()

    return replay


async def refuse(
    answer: JSONRPCError, scope: Scope, receive: Receive, send: Send, status: int = HTTPStatus.BAD_REQUEST
) -> None:
    """Send an error response with an HTTP status."""
    await error_response(answer, status)(scope, receive, send)


def error_response(answer: JSONRPCError, status: int, session: bytes = b"") -> Response:
    """The HTTP response that carries an error response, in a session if it has an id."""
    content = answer.model_dump_json(by_alias=True, exclude_unset=True)
    headers = {SESSION_ID.decode(): session.decode()} if session else None
    return Response(content, status_code=status, headers=headers, media_type="application/json")


def takes_json(scope: Scope) -> bool:
    """Whether a request is made in JSON, and its client takes JSON and event streams."""
    return _takes_both(header(scope, b"accept")) and _media_type(header(scope, b"content-type")) == "application/json"


@lru_cache(maxsize=64)
def _takes_both(accept: bytes) -> bool:
    return check_accept_headers(Request({"type": "http", "headers": [(b"accept", accept)]})) == (True, True)


@lru_cache(maxsize=64)
def _media_type(content_type: bytes) -> str:
    return content_type.decode("latin-1").partition(";")[0].strip()


_ROUTING: Final = frozenset({MCP_METHOD_HEADER.encode(), MCP_NAME_HEADER.encode()})
_REQUIRED: Final = _ROUTING | {MCP_PROTOCOL_VERSION_HEADER.encode()}
"""The headers that each request has since revision 2026-07-28."""
_ENCODED: Final = "=?"
"""How a name in a header begins that is encoded."""


def contradiction(headers: Iterable[tuple[bytes, bytes]], message: object) -> str | None:
    """What is wrong about the routing headers of a message; None if they say the same, or nothing."""
    found = _decoded(headers, _ROUTING)
    if not found:
        return None
    if doubled := find_duplicated_routing_header(found):
        return f"The header {doubled} is there more than once."
    said = dict(found)
    fields = cast("Mapping[str, Any]", message)
    method = fields.get("method")
    if said.get(MCP_METHOD_HEADER, method) != method:
        return f"The header {MCP_METHOD_HEADER} does not match the method of the message."
    key = NAME_BEARING_METHODS.get(str(method))
    params: Mapping[Any, object] = fields.get("params") or {}
    named = params.get(key)
    if MCP_NAME_HEADER in said and key is not None and decode_header_value(said[MCP_NAME_HEADER]) != named:
        return f"The header {MCP_NAME_HEADER} does not match the {key} in the message."
    return None


def agreed_version(headers: Iterable[tuple[bytes, bytes]], message: Mapping[str, Any]) -> str | None:
    """The revision, since 2026-07-28, of a request whose headers and message agree; None for one that is refused."""
    found = _decoded(headers, _REQUIRED)
    said = dict(found)
    if len(said) < len(found):
        return None
    if _repeats(said, message):
        return said[MCP_PROTOCOL_VERSION_HEADER]
    route = classify_inbound_request(message, headers=said)
    return route.protocol_version if isinstance(route, InboundModernRoute) else None


def _repeats(said: Mapping[str, str], message: Mapping[str, Any]) -> bool:
    """Whether headers repeat a message word for word, as most do.

    The SDK's check, of which this is the beginning, also knows encoded names, and costs several times as much.
    """
    params, method = message["params"], message["method"]
    meta, name = params.get("_meta"), params.get(NAME_BEARING_METHODS.get(method))
    if not isinstance(meta, dict) or CLIENT_CAPABILITIES_META_KEY not in meta or not isinstance(name, str):
        return False
    version = cast("dict[str, object]", meta).get(PROTOCOL_VERSION_META_KEY)
    told = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method, MCP_NAME_HEADER: name}
    return said == told and version in MODERN_PROTOCOL_VERSIONS and not name.startswith(_ENCODED)


def _decoded(headers: Iterable[tuple[bytes, bytes]], wanted: Collection[bytes]) -> list[tuple[str, str]]:
    return [(name.decode(), value.decode("latin-1")) for name, value in headers if name in wanted]
