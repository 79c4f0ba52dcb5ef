"""Disconnects: what happens when a client closes the HTTP connection of its call.

The SDK cancels the handler at every other end of a request, but not when a handshake-era client closes its connection:
the handler would run on for nobody. This ASGI middleware notifies the handler, which finds its `Disconnect` in the
scope of the request. `call_context`, `admission`, `calls` and the transports are above.
"""

from typing import Any, Final

import anyio
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.runtime.platform.runs import Disconnect

_KEY: Final = "goalport.disconnect"
_VERSION: Final = b"mcp-protocol-version"


def disconnect_of(context: ServerRequestContext[Any, Any]) -> Disconnect | None:
    """The `Disconnect` of the current request; None where the SDK or the transport cancels the handler."""
    request = context.request
    return disconnect_in(request.scope) if isinstance(request, Request) else None


def disconnect_in(scope: Scope) -> Disconnect | None:
    """The `Disconnect` that was made for a request; None if there is none."""
    return scope.get(_KEY)


def new_disconnect(scope: Scope) -> Disconnect:
    """Make the `Disconnect` of a request and store it in its scope; the caller must watch the connection."""
    disconnect = scope[_KEY] = Disconnect()
    return disconnect


def ended_by(disconnect: Disconnect | None) -> anyio.CancelScope:
    """A cancel scope for a handler; it is cancelled when the client of its request disconnects."""
    scope = anyio.CancelScope()
    if disconnect is not None:
        disconnect.then(scope.cancel)
    return scope


class DisconnectMiddleware:
    """Watches the connection of each handshake-era POST whose scope has no `Disconnect` yet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or _KEY in scope or is_modern_request(scope):
            await self._app(scope, receive, send)
            return
        disconnect = new_disconnect(scope)
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

        await self._app(scope, watched_receive, watched_send)


def is_modern_request(scope: Scope) -> bool:
    """Whether the protocol version has no sessions: there, closing the connection cancels, and the SDK watches it."""
    version = next((value for name, value in scope["headers"] if name == _VERSION), b"")
    return version.decode("latin-1") in MODERN_PROTOCOL_VERSIONS
