"""Incoming JSON-RPC messages and the HTTP requests that carry them: which are valid, and whether clients disconnect.

The SDK does not answer invalid messages: it treats a request with an invalid id as a notification. So messages are
checked before their methods and parameters are read, and refused with an error.
`stdio` reads its own lines; HTTP transports find the parsed message in the ASGI scope of the request.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
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
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.words import first_line
from goalport.runtime.platform.runs import Disconnect

SESSION_ID: Final = b"mcp-session-id"
DISCONNECT: Final = "goalport.disconnect"
"""The key of an ASGI scope under which the request's `Disconnect` is, if its connection is watched."""
_VERSION: Final = MCP_PROTOCOL_VERSION_HEADER.encode()
_MESSAGE: Final = "goalport.message"
_RESUME: Final = b"last-event-id"
_MOST_SHOWN: Final = 80
_NOTHING: Final[Mapping[str, Any]] = {}


def read_message(data: bytes) -> tuple[Mapping[str, Any], JSONRPCError | None]:
    """The message, and the error response that refuses it; None if the message is valid."""
    try:
        value = from_json(data)
    except ValueError as error:
        return _NOTHING, refusal(None, f"A message should be JSON: {first_line(str(error))}.", PARSE_ERROR)
    if not isinstance(value, dict):
        reason = f"A message should be a JSON object; came {_shown(value)}. Send each message by itself."
        return _NOTHING, refusal(None, reason)
    message = cast("dict[str, Any]", value)
    identity, reason = message.get("id"), ""
    is_id = isinstance(identity, str | int) and not isinstance(identity, bool)
    if message.get("jsonrpc") != "2.0":
        reason = f'"jsonrpc" should be "2.0"; came {_shown(message.get("jsonrpc"))}.'
    elif "method" not in message:
        if not isinstance(message.get("result", message.get("error")), dict):
            reason = 'A message should have a "method", or the "result" or "error" of an answer, which is an object.'
        elif not (is_id or (identity is None and "error" in message)):
            reason = f'"id" should be that of the request; came {_shown(identity)}.'
    elif not isinstance(message["method"], str):
        reason = f'"method" should be a text; came {_shown(message["method"])}.'
    elif "id" in message and not is_id:
        reason = f'"id" should be a text or an integer; came {_shown(identity)}. A notification has none.'
    elif not isinstance(message.get("params"), dict | None):
        reason = f'"params" should be an object; came {_shown(message["params"])}.'
    return message, refusal(identity if is_id else None, reason) if reason else None


def refusal(identity: str | int | None, reason: str, code: int = INVALID_REQUEST) -> JSONRPCError:
    """The error response that refuses a message; `identity` is the id of the request, or None."""
    return JSONRPCError(jsonrpc="2.0", id=identity, error=ErrorData(code=code, message=reason))


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return first_line(json.dumps(value, ensure_ascii=False), _MOST_SHOWN)


def message_of(scope: Scope) -> Mapping[str, Any]:
    """The message of a POST, parsed from JSON; empty if there is no valid one."""
    return scope.get(_MESSAGE, _NOTHING)


def header(fields: Mapping[str, Any], wanted: bytes) -> bytes:
    """The value of a header of an ASGI scope, or of a response start; empty if it is missing."""
    return next((value for name, value in fields["headers"] if name == wanted), b"")


def is_modern_request(scope: Scope) -> bool:
    """Whether the protocol version has no sessions. For these, the SDK cancels a request whose connection closes."""
    return header(scope, _VERSION).decode("latin-1") in MODERN_PROTOCOL_VERSIONS


def handshake_version(scope: Scope) -> str | None:
    """The handshake-era revision that a request names, or the latest of them if it names none; None for others."""
    named = next((value.decode("latin-1") for name, value in scope["headers"] if name == _VERSION), None)
    return named or LATEST_HANDSHAKE_VERSION if named is None or named in HANDSHAKE_PROTOCOL_VERSIONS else None


@dataclass(frozen=True, slots=True)
class PostReader:
    """ASGI middleware that parses the body of each POST, whose size the site has limited, and refuses invalid ones."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # No events are stored for resumption, so a client that resumes a stream gets a new one, as MCP allows.
            scope["headers"] = [each for each in scope["headers"] if each[0] != _RESUME]
            await self.app(scope, receive, send)
            return
        parts: list[bytes] = []
        more = True
        while more:
            part = await receive()
            if part["type"] != "http.request":
                return  # the client has disconnected
            parts.append(part.get("body", b""))
            more = part.get("more_body", False)
        body = b"".join(parts)
        message, refused = read_message(body)
        if refused is None:
            scope[_MESSAGE] = message
            if not is_modern_request(scope) and (reason := _contradiction(scope["headers"], message)):
                refused = refusal(message.get("id"), reason, HEADER_MISMATCH)
        app = self.app if refused is None else error_response(refused)
        await app(scope, replayed({"type": "http.request", "body": body, "more_body": False}, receive), send)


def replayed(body: Message, receive: Receive) -> Receive:
    """A `receive` that returns the body, which has been read already, and then the messages of `receive`."""
    before = [body]

    async def replay() -> Message:
        return before.pop() if before else await receive()

    return replay


def error_response(answer: JSONRPCError, status: int = HTTPStatus.BAD_REQUEST, session: bytes = b"") -> Response:
    """The HTTP response with a JSON-RPC error; `session` is the id of its session, or empty."""
    content = answer.model_dump_json(by_alias=True, exclude_unset=True)
    headers = {SESSION_ID.decode(): session.decode()} if session else None
    return Response(content, status_code=status, headers=headers, media_type="application/json")


def takes_json(scope: Scope) -> bool:
    """Whether a request has a JSON body, and accepts both JSON and event streams."""
    return _takes_json(header(scope, b"accept"), header(scope, b"content-type"))


@lru_cache(maxsize=64)
def _takes_json(accept: bytes, content_type: bytes) -> bool:
    both = check_accept_headers(Request({"type": "http", "headers": [(b"accept", accept)]})) == (True, True)
    return both and content_type.decode("latin-1").partition(";")[0].strip() == "application/json"


_ROUTING: Final = frozenset({MCP_METHOD_HEADER.encode(), MCP_NAME_HEADER.encode()})
_REQUIRED: Final = _ROUTING | {_VERSION}
"""The headers that each request has since revision 2026-07-28."""
_ENCODED: Final = "=?"
"""The prefix of an encoded name in a header."""


def _contradiction(headers: Iterable[tuple[bytes, bytes]], message: Mapping[str, Any]) -> str | None:
    """What is wrong with the routing headers of a message; None if they match it, or are missing."""
    found = _decoded(headers, _ROUTING)
    if not found:
        return None
    if doubled := find_duplicated_routing_header(found):
        return f"The header {doubled} is there more than once."
    sent, method, params = dict(found), message.get("method"), message.get("params") or _NOTHING
    if sent.get(MCP_METHOD_HEADER, method) != method:
        return f"The header {MCP_METHOD_HEADER} does not match the method of the message."
    key = NAME_BEARING_METHODS.get(str(method))
    if MCP_NAME_HEADER in sent and key is not None and decode_header_value(sent[MCP_NAME_HEADER]) != params.get(key):
        return f"The header {MCP_NAME_HEADER} does not match the {key} in the message."
    return None


def agreed_version(headers: Iterable[tuple[bytes, bytes]], message: Mapping[str, Any]) -> str | None:
    """The revision (2026-07-28 or later) of a request whose headers match its message; None for other requests."""
    found = _decoded(headers, _REQUIRED)
    sent = dict(found)
    if len(sent) < len(found):
        return None
    # Most headers repeat their message word for word, which this quick check finds. The SDK's check also decodes
    # names, and costs several times as much.
    params, method = message["params"], message["method"]
    meta, name = params.get("_meta"), params.get(NAME_BEARING_METHODS.get(method))
    if isinstance(meta, dict) and CLIENT_CAPABILITIES_META_KEY in meta and isinstance(name, str):
        version = cast("dict[str, object]", meta).get(PROTOCOL_VERSION_META_KEY)
        expected = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method, MCP_NAME_HEADER: name}
        if sent == expected and version in MODERN_PROTOCOL_VERSIONS and not name.startswith(_ENCODED):
            return sent[MCP_PROTOCOL_VERSION_HEADER]
    route = classify_inbound_request(message, headers=sent)
    return route.protocol_version if isinstance(route, InboundModernRoute) else None


def _decoded(headers: Iterable[tuple[bytes, bytes]], wanted: Collection[bytes]) -> list[tuple[str, str]]:
    return [(name.decode(), value.decode("latin-1")) for name, value in headers if name in wanted]


async def watching_disconnect(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Call the app. A handshake-era POST gets a `Disconnect` in its scope, unless it has one already."""
    if scope["method"] != "POST" or DISCONNECT in scope or is_modern_request(scope):
        await app(scope, receive, send)
        return
    disconnect = scope[DISCONNECT] = Disconnect()
    answered = False

    async def watched_send(message: Message) -> None:
        nonlocal answered
        answered = answered or (message["type"] == "http.response.body" and not message.get("more_body", False))
        await send(message)

    async def watched_receive() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect" and not answered:
            disconnect.note()
        return message

    await app(scope, watched_receive, watched_send)
