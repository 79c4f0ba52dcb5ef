"""Signing in to a server with OAuth: by client credentials, or once by a person whose browser comes back to loopback.

The flows are the SDK's. This module keeps their tokens in files, and waits on loopback for the browser. Above:
`servers`, which hands the result to the HTTP transport.
"""

import asyncio
import os
import warnings
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from errno import EADDRINUSE
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from anyio import to_thread
from pydantic import BaseModel, ValidationError

from goalport.errors import GoalportError
from goalport.upstream.config import OAuthConfig, ServerConfig
from goalport.upstream.connection import SignIn

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

__all__ = ["PortTaken", "SignInNeeded", "TokenFile", "sign_in"]

_PATH = "/callback"
_FIRST_PORT, _PORTS = 20_000, 12_000
"""Where the ports of loopback lie that no system gives to outgoing connections: Linux from 32768, others from 49152."""
_POLL = 0.02
"""Seconds that ending the server for the browser may take."""
_DONE = b"<!doctype html><title>goalport</title><p>You are signed in. This page can be closed.</p>"


class SignInNeeded(GoalportError):
    """A person has to sign in, and there is none."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"the server {server!r} wants a person to sign in: run `goalport mcp check` in a terminal, "
            "or give it a client_id and a client_secret under `oauth`"
        )


class PortTaken(GoalportError):
    """Another program listens on the port to which a person's browser is sent back."""

    def __init__(self, server: str, port: int) -> None:
        super().__init__(
            f"port {port} of 127.0.0.1 is taken, to which the browser comes back after signing in to {server!r}: "
            "end the program that listens there, or set `redirectPort` under `oauth`"
        )


class _TokenRecord(BaseModel):
    """What the file holds, as the SDK writes it."""

    url: str
    tokens: dict[str, object] | None = None
    client: dict[str, object] | None = None


class TokenFile:
    """The tokens of one server, in a file that its owner alone may read. Another address finds nothing in it."""

    def __init__(self, folder: Path, server: str, url: str) -> None:
        # A hash as well: two names may differ in what a file's name cannot have.
        safe = "".join(each if each.isalnum() or each in "-_" else "_" for each in server)[:60]
        self._path = folder / f"{safe}-{sha256(server.encode()).hexdigest()[:8]}.json"
        self._url = url

    async def get_tokens(self) -> "OAuthToken | None":
        from mcp.shared.auth import OAuthToken

        found = (await to_thread.run_sync(self._read)).tokens
        return OAuthToken.model_validate(found) if found else None

    async def set_tokens(self, tokens: "OAuthToken") -> None:
        await to_thread.run_sync(self._write, "tokens", tokens)

    async def get_client_info(self) -> "OAuthClientInformationFull | None":
        from mcp.shared.auth import OAuthClientInformationFull

        found = (await to_thread.run_sync(self._read)).client
        return OAuthClientInformationFull.model_validate(found) if found else None

    async def set_client_info(self, client_info: "OAuthClientInformationFull") -> None:
        await to_thread.run_sync(self._write, "client", client_info)

    def _read(self) -> _TokenRecord:
        with suppress(FileNotFoundError, ValidationError):
            kept = _TokenRecord.model_validate_json(self._path.read_text("utf-8"))
            if kept.url == self._url:
                return kept
        return _TokenRecord(url=self._url)

    def _write(self, part: str, value: BaseModel) -> None:
        kept = self._read().model_copy(update={part: value.model_dump(mode="json", exclude_none=True)})
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = self._path.with_suffix(".new")
        new.unlink(missing_ok=True)
        # Made with its mode: a file that is closed to others afterwards was open to them before.
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(kept.model_dump_json())
        new.replace(self._path)


def sign_in(config: ServerConfig, oauth: OAuthConfig, folder: Path, show: SignIn | None) -> "httpx2.Auth":
    """How requests to a server are signed. `show` opens the page for a person; None: there is nobody."""
    storage = TokenFile(folder, config.name, config.url)
    if oauth.client_secret:
        return _client_credentials(config, oauth, storage)
    return _authorization_code(config, oauth, storage, show)


def _client_credentials(config: ServerConfig, oauth: OAuthConfig, storage: TokenFile) -> "httpx2.Auth":
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
    from mcp.shared.exceptions import MCPDeprecationWarning

    with warnings.catch_warnings():
        # Without an issuer the SDK warns whoever wrote the configuration; our own report of it says more.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        return ClientCredentialsOAuthProvider(
            server_url=config.url,
            storage=storage,
            client_id=oauth.client_id,
            client_secret=oauth.client_secret,
            scope=oauth.scope or None,
            issuer=oauth.issuer or None,
        )


def _authorization_code(
    config: ServerConfig, oauth: OAuthConfig, storage: TokenFile, show: SignIn | None
) -> "httpx2.Auth":
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    # Always the same one for a server: authorization servers remember where they may send people.
    port = oauth.redirect_port or _FIRST_PORT + int.from_bytes(sha256(config.name.encode()).digest()[:4]) % _PORTS
    page = _SignInPage(config.name, port, show)

    async def redirect(url: str) -> None:
        if show is None:
            raise SignInNeeded(config.name)
        page.url = url

    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "goalport",
            "redirect_uris": [f"http://127.0.0.1:{port}{_PATH}"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": oauth.scope or None,
        }
    )
    return OAuthClientProvider(config.url, metadata, storage, redirect, page.visit)


class _SignInPage:
    """The page where a person signs in. Their browser brings the code back to an address of loopback."""

    def __init__(self, server: str, port: int, show: SignIn | None) -> None:
        self.url = ""
        self._server = server
        self._port = port
        self._show = show

    async def visit(self) -> "AuthorizationCodeResult":
        """Show the page, and wait until the browser has come back. Raises `PortTaken`."""
        from mcp.shared.auth import AuthorizationCodeResult

        assert self._show is not None
        received: Future[dict[str, list[str]]] = Future()
        with self._callback_server(received) as server:
            Thread(target=server.serve_forever, args=(_POLL,), daemon=True).start()
            try:
                # Whoever shows it may wait for the browser.
                await self._show(self.url)
                query = await asyncio.wrap_future(received)
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
