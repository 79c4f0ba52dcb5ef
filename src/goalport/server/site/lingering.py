"""Answers that begin before their request has ended, such as refusals of a body or of a credential.

A connection that is closed while its client still sends is reset, and most clients then never see the answer. So what
still comes after the answer is read and dropped for a while, as other web servers do ("lingering close"). `guard` and
`body_limit` are above.
"""

import asyncio
from typing import Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_WITH_CONNECTIONS: Final = ("1.0", "1.1")
"""The versions of HTTP that have the header `connection`."""
_EXPECTS: Final = (b"expect", b"100-continue")
_CLOSE: Final = (b"connection", b"close")
_BRIEF: Final = 64 * 1024
"""The most bytes of a body that the server may read to its end where nobody asks for them, to keep the connection."""
_DIGITS: Final = 20
_SECONDS: Final = 30.0
"""The most seconds for which the rest of a body is read."""
_BYTES: Final = 256 * 1024 * 1024
"""The most bytes of the rest of a body that are read."""


class LingeringClose:
    """ASGI middleware that closes the connection of a request to which `app` answers before it has read its body.

    What still comes of the body is read first, until that is too much, takes too long, or `closing` is set because the
    server shuts down. After a brief body the connection stays open, unless the client wants it closed.
    """

    def __init__(self, app: ASGIApp, closing: asyncio.Event) -> None:
        self._app = app
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"]
        length = length_of(headers)
        has_body = bool(length) or any(name == b"transfer-encoding" for name, _ in headers)
        if not has_body or is_brief(length, scope):
            await self._app(scope, receive, send)
            return
        body = _Body(receive, waits=_EXPECTS in headers)

        async def send_and_linger(message: Message) -> None:
            if message["type"] == "http.response.start":
                if body.is_unread and scope.get("http_version", "1.1") in _WITH_CONNECTIONS:
                    others = [each for each in message.get("headers", ()) if each[0].lower() != _CLOSE[0]]
                    message = {**message, "headers": [*others, _CLOSE]}
            elif body.is_unread and not message.get("more_body"):
                await send({**message, "more_body": True})
                await self._linger(body)
                message = {"type": "http.response.body"}
            await send(message)

        await self._app(scope, body.receive, send_and_linger)

    async def _linger(self, body: "_Body") -> None:
        with anyio.move_on_after(_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(body.drop, tasks.cancel_scope)
                await self._closing.wait()
                tasks.cancel_scope.cancel()


class _Body:
    """The body of a request; `waits`: whether the client sends none before it has leave to."""

    def __init__(self, receive: Receive, *, waits: bool) -> None:
        self._receive = receive
        self._waits = waits
        self.is_unread = True
        """Whether there may be more of it than was received."""

    async def receive(self) -> Message:
        """Receive the next message."""
        self._waits = False
        message = await self._receive()
        self.is_unread = message["type"] == "http.request" and message.get("more_body", False)
        return message

    async def drop(self, reading: anyio.CancelScope) -> None:
        """Read the rest, as long as it is not too much, and cancel the scope then."""
        left = _BYTES
        # A client that waits for leave to send its body sends none when it is refused.
        while self.is_unread and left > 0 and not self._waits:
            message = await self.receive()
            left -= len(message.get("body", b""))
        reading.cancel()


def length_of(headers: list[tuple[bytes, bytes]]) -> int | None:
    """The length of a body as the headers say it; None if they do not say it, as of a body that comes in chunks."""
    said = None
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            said = int(value.lstrip(b"0")[:_DIGITS] or b"0")  # of more digits, so many are a large number too
        elif name == b"transfer-encoding":
            return None
    return said


def is_brief(length: int | None, scope: Scope) -> bool:
    """Whether a body of this length is so short that the server reads it, and the connection of its request stays."""
    if length is None or length > _BRIEF or scope.get("http_version") == "1.0":
        return False
    for name, value in scope["headers"]:
        if name == b"expect" or (name == _CLOSE[0] and _CLOSE[1] in value.lower()):
            return False
    return True
