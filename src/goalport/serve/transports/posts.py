"""Messages that come by HTTP POST: each is read once, whole, and refused when nobody could answer it.

What is no message, and a request whose id is in use, would leave its sender without an answer. This ASGI middleware
stands before the transports that take POSTs; they find the message in the scope of the request. What a message may look
like is in `jsonrpc`.
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
    """What a POST brought, read from JSON; None when it cannot be read."""
    return scope.get(_KEY)


class Posts:
    """Reads what is posted to `app`. A body larger than `max_bytes` is left for `app` to refuse."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._in_use: dict[bytes, set[str]] = {}
        """The ids of open requests by session, as the SDK tells them apart: by their text."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # No event is kept to be sent again, so a stream that is to be resumed begins anew, as the protocol allows.
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
        """Answer a request of a session, unless it bears the id of one that is being answered."""
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
    """How many bytes a request says that its body has; 0 when it does not say."""
    said = next((value for name, value in scope["headers"] if name == _LENGTH), b"")
    return int(said[:_DIGITS]) if said.isdigit() else 0


async def _whole(receive: Receive, most: int) -> Message:
    """A body in one message, or of one that is too large as much as was read; or that the client has gone."""
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
    """The messages of a request whose body has been read already."""
    before = [body]

    async def again() -> Message:
        return before.pop() if before else await receive()

    return again


async def _refuse(answer: JSONRPCError, scope: Scope, receive: Receive, send: Send) -> None:
    content = answer.model_dump_json(by_alias=True, exclude_unset=True)
    await Response(content, status_code=400, media_type="application/json")(scope, receive, send)
