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

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.server.auth.guard import route_path
from goalport.server.doors.mcp.transports.jsonrpc import replayed
from goalport.server.site.lingering import LingeringClose, is_brief, length_of
from goalport.server.web.problems import problem

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
