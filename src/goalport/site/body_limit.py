"""The limit of request bodies: no door gets a body that is larger than `max_body_bytes`.

A body whose length is said is refused by its header, before anything is read; another one is read first, up to the
limit. So a door may read all that it is given. The guard is before it, so pages can read the refusal; the doors follow.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.auth.guard import route_path
from goalport.serve.transports.jsonrpc import replayed
from goalport.site.lingering import LingeringClose, is_brief, length_of
from goalport.web.problems import problem

__all__ = ["BodyLimit", "Refusal"]

_log = logging.getLogger(__name__)

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
        self._lingering = LingeringClose(self._limited, closing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = length_of(scope["headers"])
        if length is not None and length <= self._max_bytes and is_brief(length, scope):
            await self._app(scope, receive, send)
        else:
            await self._lingering(scope, receive, send)

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose body may be too large, or still be on its way when `app` answers."""
        length = length_of(scope["headers"])
        if length is not None:
            await (self._app if length <= self._max_bytes else self._refusal(scope))(scope, receive, send)
            return
        body = await self._read(receive)
        if len(body.get("body", b"")) > self._max_bytes:
            await self._refusal(scope)(scope, receive, send)
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
