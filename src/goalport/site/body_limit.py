"""The limit of request bodies: no door gets a body that is larger than `max_body_bytes`.

A body whose length is said is refused by its header, before anything is read; another one is read first, up to the
limit. So a door may read all that it is given. The guard is before it, so pages can read the refusal; the doors follow.
"""

import logging
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.rest.problems import problem
from goalport.serve.transports.jsonrpc import replayed

__all__ = ["BodyLimit"]

_log = logging.getLogger(__name__)
_DIGITS: Final = 20


class BodyLimit:
    """ASGI middleware that answers 413 in place of `app` to a request whose body is larger than `max_bytes`."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = _length_of(scope["headers"])
        if length is not None:
            is_small = len(length) <= _DIGITS and int(length) <= self._max_bytes
            await (self._app if is_small else self._refuse)(scope, receive, send)
            return
        body = await self._read(receive)
        if body is None:
            await self._refuse(scope, receive, send)
        elif body["type"] == "http.request":
            await self._app(scope, replayed(body, receive), send)

    async def _read(self, receive: Receive) -> Message | None:
        """The whole body as one message; None if it is too large; or the disconnect message."""
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
        return {"type": "http.request", "body": body} if len(body) <= self._max_bytes else None

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        _log.warning("Refused a request whose body is larger than %d bytes (max_body_bytes).", self._max_bytes)
        text = f"A request may have {self._max_bytes:,} bytes. Send less, or have the server's max_body_bytes raised."
        await problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", text)(scope, receive, send)


def _length_of(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """The length of the body as its header says it; None if it says none, or if the body comes in chunks."""
    said = None
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            said = value
        elif name == b"transfer-encoding":
            return None
    return said
