"""What every request body must be: no larger than `max_body_bytes`, and the one whose digest its client has sent.

A proxy that mixes up bodies would otherwise have a caller's request run for another one (`Content-Digest`, RFC 9530).
A body whose length is said is refused by its header, before anything is read; another one is read first, up to the
limit. So a door may read all that it is given. The guard is before it, so pages can read the refusal; the doors follow.
"""

import asyncio
import base64
import binascii
import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

import anyio
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.server.auth.guard import route_path
from goalport.server.doors.mcp.jsonrpc import replayed
from goalport.server.web.problems import problem

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


_log = logging.getLogger(__name__)
_DIGEST: Final = re.compile(rb"sha-(256|512)=:([A-Za-z0-9+/=]*):")
_NONE: Final[Sequence[tuple[str, bytes]]] = ()

Refusal = Callable[[HTTPStatus, str, str], Response]
"""Makes a refusal of a status, the end of the type of a problem, and the words."""


class BodyLimit:
    """ASGI middleware that answers 413 in place of `app` to a request whose body is larger than `max_bytes`.

    The answer to one whose body is not that of its `Content-Digest` is 400.
    `refusals` make the answers at paths whose protocol has errors of its own; elsewhere they are problem details.
    `closing` is set when the server shuts down.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, refusals: Mapping[str, Refusal], closing: asyncio.Event) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._refusals = refusals
        self._lingering = LingeringClose(self._limited, closing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = length_of(scope["headers"])
        if length is not None and length <= self._max_bytes and is_brief(length, scope) and not _digests(scope):
            await self._app(scope, receive, send)
        else:
            await self._lingering(scope, receive, send)

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose body may be too large, or still be on its way when `app` answers."""
        length = length_of(scope["headers"])
        digests = _digests(scope)
        if length is not None and not (digests and length <= self._max_bytes):
            await (self._app if length <= self._max_bytes else self._refusal(scope))(scope, receive, send)
            return
        body = await self._read(receive)
        if len(body.get("body", b"")) > self._max_bytes:
            await self._refusal(scope)(scope, receive, send)
        elif body["type"] == "http.request" and not _fit(digests, body["body"]):
            text = "This is not the body whose Content-Digest was sent with it. Send both again."
            refusal = self._refusals.get(route_path(scope), problem)
            await refusal(HTTPStatus.BAD_REQUEST, "digest-mismatch", text)(scope, receive, send)
        elif body["type"] == "http.request":
            await self._app(scope, replayed(body, receive), send)

    async def _read(self, receive: Receive) -> Message:
        """The whole body as one message, or its beginning if it is too large; or the disconnect message."""
        message = await receive()
        body = message.get("body", b"")
        if message["type"] == "http.request" and message.get("more_body"):
            parts = bytearray(body)
            while message.get("more_body") and len(parts) <= self._max_bytes:
                message = await receive()
                parts += message.get("body", b"")
            body = bytes(parts)
        if message["type"] != "http.request":
            return message
        return {"type": "http.request", "body": body, "more_body": message.get("more_body", False)}

    def _refusal(self, scope: Scope) -> Response:
        _log.warning("Refused a request whose body is larger than %d bytes (max_body_bytes).", self._max_bytes)
        text = f"A request may have {self._max_bytes:,} bytes. Send less, or have the server's max_body_bytes raised."
        refusal = self._refusals.get(route_path(scope), problem)
        return refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", text)


def _digests(scope: Scope) -> Sequence[tuple[str, bytes]]:
    """The digests of the body that a client has sent, by algorithm; others than SHA-2 are not looked at."""
    given = [value for name, value in scope["headers"] if name == b"content-digest"]
    return [(f"sha{bits.decode()}", said) for each in given for bits, said in _DIGEST.findall(each)] or _NONE


def _fit(digests: Sequence[tuple[str, bytes]], body: bytes) -> bool:
    try:
        return all(hashlib.new(name, body).digest() == base64.b64decode(said) for name, said in digests)
    except binascii.Error:
        return False
