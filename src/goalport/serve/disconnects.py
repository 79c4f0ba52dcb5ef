"""Disconnects: what is done when a client drops the HTTP connection of its call.

The SDK turns every other end of a request into a cancellation. A client of the handshake era that drops its connection
would leave the handler running for nobody. This ASGI middleware tells the handler, which finds its `Disconnect` in the
scope of the request. `runs`, `progress` and the transports are above it.
"""

from collections.abc import Callable
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Disconnect", "DisconnectMiddleware", "disconnect_of", "is_modern_request", "new_disconnect"]

_KEY: Final = "goalport.disconnect"
_VERSION: Final = b"mcp-protocol-version"


class Disconnect:
    """Whether the client of one HTTP request has gone, and what to do about it."""

    def __init__(self) -> None:
        self.gone = False
        self._then: list[Callable[[], None]] = []

    def then(self, do: Callable[[], None]) -> None:
        """Do this when the client goes; at once when it has."""
        if self.gone:
            do()
        else:
            self._then.append(do)

    def note(self) -> None:
        """The client has gone."""
        if not self.gone:
            self.gone = True
            for do in self._then:
                do()


def disconnect_of(context: ServerRequestContext[Any, Any]) -> Disconnect | None:
    """The disconnect of the request that is being answered; None where transports cancel by themselves."""
    request = context.request
    return request.scope.get(_KEY) if isinstance(request, Request) else None


def new_disconnect(scope: Scope) -> Disconnect:
    """The disconnect of a request, which its handler finds from now on. Whoever makes it watches the connection."""
    disconnect = scope[_KEY] = Disconnect()
    return disconnect


class DisconnectMiddleware:
    """Watches the connection of each handshake-era POST, unless somebody else does."""

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
    """Whether the SDK itself watches the connection: in the era without sessions, closing it is how one cancels."""
    version = next((value for name, value in scope["headers"] if name == _VERSION), b"")
    return version.decode("latin-1") in MODERN_PROTOCOL_VERSIONS
