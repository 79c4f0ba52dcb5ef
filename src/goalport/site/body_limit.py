"""The limit of request bodies: no door gets a body that is larger than `max_body_bytes`.

A body whose length is said is refused by its header, before anything is read; another one is read first, up to the
limit. So a door may read all that it is given. The guard is before it, so pages can read the refusal; the doors follow.

A connection that is closed while its client still sends is reset, and most clients then never see the answer. So what
still comes after a refusal is read and dropped for a while, as other web servers do ("lingering close").
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import anyio
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.auth.guard import route_path
from goalport.rest.problems import problem
from goalport.serve.transports.jsonrpc import replayed

__all__ = ["BodyLimit", "Refusal"]

_log = logging.getLogger(__name__)
_DIGITS: Final = 20
_WITH_CONNECTIONS: Final = ("1.0", "1.1")
"""The versions of HTTP that have the header `connection`."""
_EXPECTS: Final = (b"expect", b"100-continue")
_LINGER_SECONDS: Final = 30.0
"""The most seconds for which the rest of a refused body is read."""
_LINGER_BYTES: Final = 256 * 1024 * 1024
"""The most bytes of the rest of a refused body that are read."""

Refusal = Callable[[HTTPStatus, str, str], Response]
"""Makes a refusal of a status, the end of the type of a problem, and the words."""


class BodyLimit:
    """ASGI middleware that answers 413 in place of `app` to a request whose body is larger than `max_bytes`.

    `refusals` make the answers at paths whose protocol has errors of its own; elsewhere they are problem details.
    `closing` is set when the server shuts down.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, refusals: Mapping[str, Refusal], closing: asyncio.Event) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._refusals = refusals
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = _length_of(scope["headers"])
        if length is not None:
            if len(length) <= _DIGITS and int(length) <= self._max_bytes:
                await self._app(scope, receive, send)
            else:
                # A client that waits for leave to send its body sends none when it is refused.
                await self._refuse(scope, _nothing if _EXPECTS in scope["headers"] else receive, send)
            return
        body = await self._read(receive)
        if len(body.get("body", b"")) > self._max_bytes:
            await self._refuse(scope, receive if body["more_body"] else _nothing, send)
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

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 413 and close the connection, once the client has sent its body or nobody waits for it any longer."""
        _log.warning("Refused a request whose body is larger than %d bytes (max_body_bytes).", self._max_bytes)
        text = f"A request may have {self._max_bytes:,} bytes. Send less, or have the server's max_body_bytes raised."
        refusal = self._refusals.get(route_path(scope), problem)
        response = refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", text)
        if scope.get("http_version", "1.1") in _WITH_CONNECTIONS:
            response.headers["connection"] = "close"

        async def send_and_linger(message: Message) -> None:
            if message["type"] == "http.response.body":
                await send({**message, "more_body": True})
                await self._linger(receive)
                message = {"type": "http.response.body"}
            await send(message)

        await response(scope, receive, send_and_linger)

    async def _linger(self, receive: Receive) -> None:
        """Read the rest of a body, until the server shuts down or that takes too long."""
        with anyio.move_on_after(_LINGER_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_drop, receive, tasks.cancel_scope)
                await self._closing.wait()
                tasks.cancel_scope.cancel()


async def _drop(receive: Receive, reading: anyio.CancelScope) -> None:
    """Read the rest of a body, as long as it is not too much, and cancel the scope then."""
    left, more = _LINGER_BYTES, True
    while more and left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        more = message.get("more_body", False)
    reading.cancel()


async def _nothing() -> Message:
    """What there is to read of a body that has been read to its end."""
    return {"type": "http.request", "body": b"", "more_body": False}


def _length_of(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """The length of the body as its header says it; None if it says none, or if the body comes in chunks."""
    said = None
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            said = value
        elif name == b"transfer-encoding":
            return None
    return said
