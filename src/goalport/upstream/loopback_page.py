"""The page where a person signs in to a server, whose browser brings the code back to an address of loopback.

For programs that have a person before the screen, and no web server. Above: `oauth`.
"""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from errno import EADDRINUSE
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from goalport.errors import GoalportError
from goalport.upstream.connection import SignIn

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult

__all__ = ["LoopbackPage", "PortTaken", "until_back"]

T = TypeVar("T")

_PATH = "/callback"
_FIRST_PORT, _PORTS = 20_000, 12_000
"""Where the ports of loopback lie that no system gives to outgoing connections: Linux from 32768, others from 49152."""
_POLL = 0.02
"""Seconds that ending the server for the browser may take."""
_DONE = b"<!doctype html><title>goalport</title><p>You are signed in. This page can be closed.</p>"


class PortTaken(GoalportError):
    """Another program listens on the port to which a person's browser is sent back."""

    def __init__(self, server: str, port: int) -> None:
        super().__init__(
            f"port {port} of 127.0.0.1 is taken, to which the browser comes back after signing in to {server!r}: "
            "end the program that listens there, or set `redirectPort` under `oauth`"
        )


class LoopbackPage:
    """Shows a person the page where they sign in. Their browser brings the code back to an address of loopback."""

    def __init__(self, server: str, port: int, show: SignIn | None) -> None:
        self._server = server
        # Always the same one for a server: authorization servers remember where they may send people.
        self._port = port or _FIRST_PORT + int.from_bytes(sha256(server.encode()).digest()[:4]) % _PORTS
        self._show = show

    @property
    def redirect_uri(self) -> str:
        return f"http://127.0.0.1:{self._port}{_PATH}"

    async def visit(self, url: str) -> "AuthorizationCodeResult":
        """Show the page, and wait until the browser has come back. Raises `PortTaken`."""
        from mcp.shared.auth import AuthorizationCodeResult

        assert self._show is not None
        received: Future[dict[str, list[str]]] = Future()
        with self._callback_server(received) as server:
            Thread(target=server.serve_forever, args=(_POLL,), daemon=True).start()
            try:
                query = await until_back(self._show(url), asyncio.wrap_future(received))
            finally:
                server.shutdown()
        code, state, iss = (query.get(name, [None])[0] for name in ("code", "state", "iss"))
        return AuthorizationCodeResult(code=code or "", state=state, iss=iss)

    def _callback_server(self, received: "Future[dict[str, list[str]]]") -> "_CallbackServer":
        try:
            return _CallbackServer(("127.0.0.1", self._port), partial(_Callback, received))
        except OSError as error:
            if error.errno != EADDRINUSE:
                raise
            raise PortTaken(self._server, self._port) from error


async def until_back(showing: Awaitable[None], received: "asyncio.Future[T]") -> T:
    """What a browser brings that comes back, while the page is shown. Raises what showing it raises before that."""
    shown = asyncio.ensure_future(showing)
    try:
        await asyncio.wait({shown, received}, return_when=asyncio.FIRST_COMPLETED)
        if not received.done():
            shown.result()
        return await received
    finally:
        shown.cancel()
        await asyncio.wait({shown})


class _CallbackServer(ThreadingTCPServer):
    # Not `http.server.HTTPServer`: that looks its own name up in the DNS first, which may take seconds.
    allow_reuse_address = True
    daemon_threads = True


class _Callback(BaseHTTPRequestHandler):
    """Tells the browser that it can be closed, and passes on what it brings. There is no other page."""

    timeout = 10.0
    """Seconds in which the request must have come: browsers also open connections on which they send nothing."""

    def __init__(self, received: Future[dict[str, list[str]]], *request: Any) -> None:
        self._received = received
        super().__init__(*request)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        if parts.path != _PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(_DONE)
        if "code" in query or "error" in query:
            with suppress(InvalidStateError):
                self._received.set_result(query)

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the library's name
        """Log nothing: the address holds the code."""
