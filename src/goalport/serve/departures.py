"""Noticing that a client has gone: the one way of leaving that the SDK does not turn into a cancellation.

A handshake-era client may simply drop the HTTP connection of its call; the SDK then lets the handler run on for nobody.
This ASGI layer tells the handler, which finds its `Departure` in the request's scope. `watching` is above it.
"""

from collections.abc import Callable
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Departure", "NoticeDepartures", "departing", "departure_of", "is_modern"]

_KEY: Final = "goalport.departure"
_VERSION: Final = b"mcp-protocol-version"


class Departure:
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


def departure_of(context: ServerRequestContext[Any, Any]) -> Departure | None:
    """The departure of the request that is being answered; None where transports cancel by themselves."""
    request = context.request
    return request.scope.get(_KEY) if isinstance(request, Request) else None


def departing(scope: Scope) -> Departure:
    """The departure of a request, which its handler finds from now on. Whoever makes it watches the connection."""
    departure = scope[_KEY] = Departure()
    return departure


class NoticeDepartures:
    """Watches the connection of each handshake-era POST, unless somebody else does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or _KEY in scope or is_modern(scope):
            await self._app(scope, receive, send)
            return
        departure = departing(scope)
        answered = False

        async def watched_send(message: Message) -> None:
            nonlocal answered
            answered = answered or (message["type"] == "http.response.body" and not message.get("more_body", False))
            await send(message)

        async def watched_receive() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect" and not answered:
                departure.note()
            return message

        await self._app(scope, watched_receive, watched_send)


def is_modern(scope: Scope) -> bool:
    """Whether the SDK itself watches the connection: in the era without sessions, closing it is how one cancels."""
    version = next((value for name, value in scope["headers"] if name == _VERSION), b"")
    return version.decode("latin-1") in MODERN_PROTOCOL_VERSIONS
