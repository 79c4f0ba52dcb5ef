"""Messages that come by HTTP POST: each body is read once, whole, and refused if the SDK would not answer it.

The SDK gives no answer to an invalid message and to a request whose id is in use. This ASGI middleware refuses both,
before the transports that take POSTs. They find the parsed message in the scope of the request. `jsonrpc` says which
messages are valid.
"""

from typing import Final

from mcp.server.streamable_http import GET_STREAM_KEY
from mcp_types import JSONRPCError
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.serve.disconnects import is_modern_request
from goalport.serve.jsonrpc import id_of, is_request, read_message, refusal

__all__ = ["Posts", "message_of"]

_KEY: Final = "goalport.message"
_SESSION: Final = b"mcp-session-id"
_LENGTH: Final = b"content-length"
_RESUME: Final = b"last-event-id"
_DIGITS: Final = 20


def message_of(scope: Scope) -> object:
    """The message of a POST, parsed from JSON; None if there is no valid one."""
    return scope.get(_KEY)


class Posts:
    """ASGI middleware that reads the body of each POST to `app`; `app` refuses a body larger than `max_bytes`."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._in_use: dict[bytes, set[str]] = {}
        """The ids of open requests by session, as texts, since the SDK compares the texts of ids."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # No events are stored for resumption, so a client that resumes a stream gets a new one, as MCP allows.
            scope["headers"] = [each for each in scope["headers"] if each[0] != _RESUME]
            await self._app(scope, receive, send)
        elif _length(scope) > self._max_bytes:
            await self._app(scope, receive, send)
        else:
            body = await _whole(receive, self._max_bytes)
            if body["type"] == "http.request":
                await self._take(scope, _again(body, receive), send, body)

    async def _take(self, scope: Scope, receive: Receive, send: Send, body: Message) -> None:
        if body["more_body"]:
            await self._app(scope, receive, send)
            return
        message, refused = read_message(body["body"])
        if refused is not None:
            await _refuse(refused, scope, receive, send)
            return
        scope[_KEY] = message
        session = next((value for name, value in scope["headers"] if name == _SESSION), b"")
        if session and is_request(message) and not is_modern_request(scope):
            await self._once(session, id_of(message), scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _once(
        self, session: bytes, identity: str | int | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of a session, or refuse it if an open request of the session has the same id."""
        text = str(identity)
        in_use = self._in_use.setdefault(session, set())
        if text in in_use or text == GET_STREAM_KEY:
            reason = f"The id {identity!r} is in use. Give each request of a session an id of its own."
            await _refuse(refusal(identity, reason), scope, receive, send)
            return
        in_use.add(text)
        try:
            await self._app(scope, receive, send)
        finally:
            in_use.discard(text)
            if not in_use:
                self._in_use.pop(session, None)


def _length(scope: Scope) -> int:
    """The Content-Length of a request in bytes; 0 if it has none."""
    said = next((value for name, value in scope["headers"] if name == _LENGTH), b"")
    return int(said[:_DIGITS]) if said.isdigit() else 0


async def _whole(receive: Receive, most: int) -> Message:
    """The whole body as one message; the part that was read if it exceeds `most` bytes; or the disconnect message."""
    message = await receive()
    if message["type"] != "http.request" or not message.get("more_body"):
        return {"more_body": False, "body": b"", **message}
    body = bytearray()
    while message["type"] == "http.request":
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if not more or len(body) > most:
            return {"type": "http.request", "body": bytes(body), "more_body": more}
        message = await receive()
    return message


def _again(body: Message, receive: Receive) -> Receive:
    """A `receive` that gives the body, which has been read already, and then what `receive` gives."""
    before = [body]

    async def again() -> Message:
        return before.pop() if before else await receive()

    return again


async def _refuse(answer: JSONRPCError, scope: Scope, receive: Receive, send: Send) -> None:
    content = answer.model_dump_json(by_alias=True, exclude_unset=True)
    await Response(content, status_code=400, media_type="application/json")(scope, receive, send)
