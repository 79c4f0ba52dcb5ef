"""Access tokens for upstream servers with OAuth, and the sign-ins of people to get them.

The flows are the SDK's. This module chooses a flow by the configuration, stores what is needed after a restart, and
requests assertions from an identity provider. People sign in at a terminal, or because a waiting process asks them a
question with a URL. Their browser is redirected to the web server of this program if it has one, else to a port on
127.0.0.1. Then the tokens are stored, and the call is repeated. Above: `servers`, which imports this module, and the
SDK with it, when the first server needs it.
"""

import asyncio
import json
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, suppress
from errno import EADDRINUSE
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, urlsplit

import anyio
import httpx2
from anyio import to_thread
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from pydantic import BaseModel

from goalport.base.bounded_answers import bounded_client
from goalport.base.errors import GoalportError, SettingsError, ToolError
from goalport.base.files import replace_file
from goalport.base.sealing import ProcessSeal, ProcessSeals
from goalport.base.secrecy import register_secrets
from goalport.tools.upstream.active_calls import Ask, SignInAddress
from goalport.tools.upstream.config import IdentityProvider, OAuthConfig, ServerConfig
from goalport.tools.upstream.connection import MODERN, SignIn, SignInNeeded

_SECONDS: Final = 30.0
"""The most seconds for a response of an authorization server or an identity provider."""
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - the name of a kind of token
_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of a grant
_SECRET: Final = ("access_token", "refresh_token", "id_token", "client_secret", "registration_access_token")
_WORDS: Final = "Sign in, so that it can be called for you."
_PATH: Final = "/callback"
_FIRST_PORT, _PORTS = 20_000, 12_000
"""The range of ports on 127.0.0.1 for redirects. Outgoing connections use others: from 32768 on Linux, else 49152."""
_REQUEST: Final = 10.0
"""Seconds in which a browser must send its request: browsers also open connections that they do not use."""
_REQUEST_BYTES: Final = 65_536
_ANSWER: Final = (
    b"HTTP/1.1 %s\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"<!doctype html><title>goalport</title><p>%s</p>"
)


class TokenRecord(BaseModel):
    """The content of a token file."""

    url: str
    """The server that the tokens are for."""
    tokens: OAuthToken | None = None
    expires_at: float | None = None
    """When the access token expires, in seconds since 1970; None: not known."""
    client: OAuthClientInformationFull | None = None
    """The client that was registered."""
    metadata: OAuthMetadata | None = None
    """The authorization server's metadata, so that a token can be refreshed after a restart."""
    resource: ProtectedResourceMetadata | None = None
    """The server's own metadata, as a protected resource."""

    def secrets(self) -> Iterator[str]:
        """The values in the record that are secret."""
        found = (getattr(each, name, None) for each in (self.tokens, self.client) for name in _SECRET)
        return (each for each in found if isinstance(each, str))


class TokenFile:
    """The stored tokens for one server at one URL, or of one caller for it; they are registered as secrets."""

    def __init__(self, path: Path, url: str, seal: ProcessSeal) -> None:
        self._path, self._url, self._seal = path, url, seal

    async def get_tokens(self) -> OAuthToken | None:
        """The stored tokens; the access token may have expired."""
        found = await self.found()
        if found.tokens is None or found.expires_at is None:
            return found.tokens
        return found.tokens.model_copy(update={"expires_in": int(found.expires_at - time())})

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self.keep(tokens=tokens, expires_at=None if tokens.expires_in is None else time() + tokens.expires_in)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return (await self.found()).client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self.keep(client=client_info)

    async def found(self) -> TokenRecord:
        """The content of the file."""
        found = await to_thread.run_sync(self._read)
        register_secrets(self, found.secrets())
        return found

    async def keep(self, **parts: object) -> None:
        """Update these fields of the record in the file."""

        def write() -> TokenRecord:
            kept = self._read().model_copy(update=parts)
            sealed = self._seal.seal(kept.model_dump_json(exclude_none=True).encode())
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(self._path, json.dumps({"sealed": sealed}))
            return kept

        register_secrets(self, (await to_thread.run_sync(write)).secrets())

    def _read(self) -> TokenRecord:
        # If the tokens cannot be read any more, the person is asked to sign in again.
        with suppress(FileNotFoundError, LookupError, TypeError, ValueError, SettingsError):
            sealed = json.loads(self._path.read_text("utf-8"))["sealed"]
            kept = TokenRecord.model_validate_json(self._seal.unseal(sealed))
            if kept.url == self._url:
                return kept
        return TokenRecord(url=self._url)


Visit = Callable[[str], Awaitable[AuthorizationCodeResult]]
"""Shows a person the page where they sign in, and waits for the redirect of their browser."""


def http_auth(
    config: ServerConfig, oauth: OAuthConfig, storage: TokenFile, redirect_uri: str, visit: Visit | None
) -> httpx2.Auth:
    """The `httpx2.Auth` for a server. Without `visit`, it raises `SignInNeeded` if a person has to sign in."""
    client, scope, issuer = oauth.client_id, oauth.scope or None, oauth.issuer or None
    match oauth.grant:
        case "authorization_code":
            return _RememberingProvider(config, oauth, storage, redirect_uri, visit)
        case "client_credentials":
            with warnings.catch_warnings():
                # Without an issuer the SDK warns; our own report of that says more.
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                if not oauth.private_key:
                    secret, secret_in = oauth.client_secret, oauth.secret_in
                    return ClientCredentialsOAuthProvider(config.url, storage, client, secret, secret_in, scope, issuer)
                key, algorithm = oauth.private_key, oauth.signing_algorithm
                signed = SignedJWTParameters(
                    issuer=client, subject=client, signing_key=key, signing_algorithm=algorithm
                )
                proof = signed.create_assertion_provider()
                return PrivateKeyJWTOAuthProvider(config.url, storage, client, proof, scope, issuer)
        case "jwt_bearer":
            assert oauth.identity_provider is not None
            exchanged = partial(_exchanged, config.name, oauth.identity_provider)
            secret, secret_in = oauth.client_secret, oauth.secret_in
            return IdentityAssertionOAuthProvider(
                config.url, storage, client, secret, oauth.issuer, exchanged, scope, secret_in
            )


class _RememberingProvider(OAuthClientProvider):
    """The SDK's flow for people; it also stores when a token expires, and where to refresh it after a restart."""

    def __init__(
        self, config: ServerConfig, oauth: OAuthConfig, storage: TokenFile, redirect_uri: str, visit: Visit | None
    ) -> None:
        shown = ""

        async def redirect(url: str) -> None:
            nonlocal shown
            if visit is None:
                raise SignInNeeded(config.name)
            shown = url

        async def wait_for_redirect() -> AuthorizationCodeResult:
            assert visit is not None
            return await visit(shown)

        client: dict[str, Any] = {
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": oauth.secret_in if oauth.client_secret else "none",
        }
        wanted = {"client_name": "goalport", "response_types": ["code"], "scope": oauth.scope or None}
        metadata = OAuthClientMetadata.model_validate(client | wanted)
        super().__init__(config.url, metadata, storage, redirect, wait_for_redirect, oauth.client_metadata_url or None)
        self._tokens, self._attended = storage, visit is not None
        known = {"client_secret": oauth.client_secret or None, "issuer": oauth.issuer or None}
        # Without a configured client id, a client is registered when it is needed.
        is_known, client = bool(oauth.client_id), client | known | {"client_id": oauth.client_id}
        self._registered = OAuthClientInformationFull.model_validate(client) if is_known else None

    async def _initialize(self) -> None:
        await super()._initialize()
        context, record = self.context, await self._tokens.found()
        if record.tokens is not None:
            context.token_expiry_time = record.expires_at
            context.oauth_metadata, context.protected_resource_metadata = record.metadata, record.resource
        context.client_info = self._registered or record.client
        known, wanted = context.client_info, context.client_metadata.redirect_uris or []
        if self._attended and known is not None and not set(wanted) <= set(known.redirect_uris or wanted):
            # The client was registered for other redirect URIs, such as those of a terminal and not of the web server.
            context.client_info = None
            context.clear_tokens()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        await self._tokens.keep(metadata=self.context.oauth_metadata, resource=self.context.protected_resource_metadata)


class _TokenExchangeResponse(BaseModel):
    """An identity provider's response to a token exchange (RFC 8693)."""

    access_token: str
    issued_token_type: str


async def _exchanged(server: str, provider: IdentityProvider, audience: str, resource: str) -> str:
    """An identity assertion for this authorization server and resource. Raises `GoalportError`."""

    def failure(reason: str) -> GoalportError:
        return GoalportError(f"the identity provider gave nothing for the server {server!r}: {reason}")

    token = provider.id_token
    if provider.id_token_file is not None:
        try:
            token = (await to_thread.run_sync(provider.id_token_file.read_text, "utf-8")).strip()
        except (OSError, UnicodeDecodeError):
            raise failure("its `idTokenFile` cannot be read") from None
    asked = {
        "grant_type": _TOKEN_EXCHANGE,
        "requested_token_type": _ID_JAG,
        "subject_token": token,
        "subject_token_type": _ID_TOKEN,
        "audience": audience,
        "resource": resource,
        "client_id": provider.client_id,
    }
    secret = {"client_secret": provider.client_secret} if provider.client_secret else {}
    try:
        async with bounded_client(_SECONDS) as client:
            response = await client.post(provider.token_endpoint, data=asked | secret)
        response.raise_for_status()
        answer = _TokenExchangeResponse.model_validate_json(response.content)
    except httpx2.HTTPStatusError as error:
        raise failure(f"HTTP {error.response.status_code}") from None
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise failure(str(error) or type(error).__name__) from None
    except ValueError:
        raise failure("what it answered is no token") from None
    if answer.issued_token_type != _ID_JAG:
        raise failure(f"it answered with a {answer.issued_token_type}, and {_ID_JAG} was asked for")
    return answer.access_token


class SignIns:
    """The tokens of servers, and the sign-ins that are under way.

    Tokens are stored in `folder`. `redirect_uri` returns the redirect URI of this program's web server; empty: it has
    no web server.
    """

    def __init__(self, folder: Path, seals: ProcessSeals, redirect_uri: Callable[[], str]) -> None:
        self._folder, self._seals, self._redirect_uri = folder, seals, redirect_uri
        self._awaited: dict[str, asyncio.Future[Mapping[str, str]]] = {}
        """The query of each awaited redirect, by its `state`."""
        self._running: dict[tuple[str, str], _SignIn] = {}
        """The sign-ins that are under way, by server and owner."""

    def path(self, server: str, owner: str) -> Path:
        """The file with the tokens of an owner for a server; `owner` is empty for tokens that all callers share."""
        # With a hash, since two names may differ only in characters that are replaced.
        safe = "".join(each if each.isalnum() or each in "-_" else "_" for each in server)[:60]
        whose = f"{server}\0{owner}" if owner else server
        return self._folder / f"{safe}-{sha256(whose.encode()).hexdigest()[: 32 if owner else 8]}.json"

    def auth(
        self, config: ServerConfig, oauth: OAuthConfig, owner: str, show: SignIn | None, redirect_uri: str = ""
    ) -> httpx2.Auth:
        """The `httpx2.Auth` for an owner; `show` shows a person the page to sign in; None: nobody can be shown it.

        The browser is redirected to `redirect_uri`, or without one to a port on 127.0.0.1.
        """
        # Always the same port for a server, since authorization servers register redirect URIs.
        port = oauth.redirect_port or _FIRST_PORT + int.from_bytes(sha256(config.name.encode()).digest()[:4]) % _PORTS

        async def visit(url: str) -> AuthorizationCodeResult:
            assert show is not None
            if redirect_uri:
                return await self._visit(url, show)
            try:
                listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
            except OSError as error:
                if error.errno != EADDRINUSE:
                    raise
                raise ToolError(
                    f"port {port} of 127.0.0.1 is taken, to which the browser comes back after signing in to "
                    f"{config.name!r}: end the program that listens there, or set `redirectPort` under `oauth`"
                ) from error
            async with listener:
                serving = asyncio.ensure_future(listener.serve(self._answer))
                try:
                    return await self._visit(url, show)
                finally:
                    serving.cancel()
                    await asyncio.wait({serving})

        seal = self._seals.of(f"tokens of {config.name}\0{owner}")
        storage = TokenFile(self.path(config.name, owner), config.url, seal)
        back = redirect_uri or f"http://127.0.0.1:{port}{_PATH}"
        return http_auth(config, oauth, storage, back, None if show is None else visit)

    def accept_redirect(self, query: Mapping[str, str]) -> bool:
        """Accept the query of a redirect. Returns False if no sign-in here waits for it."""
        received = self._awaited.get(query.get("state", ""))
        if received is None or received.done():
            return False
        received.set_result(query)
        return True

    async def ask(
        self, key: tuple[str, str], ask: Ask, obtain: Callable[[SignIn], Coroutine[None, None, None]]
    ) -> None:
        """Ask a person to sign in, and wait until they or somebody else has done so. `key` is the server and the owner.

        `obtain` is called with a function that shows the page, once for all concurrent calls. Raises `ToolError`.
        """
        server = key[0]
        running = self._running.get(key) or self._running.setdefault(key, _SignIn(obtain))

        async def ask_and_wait() -> None:
            if await ask(_WORDS, SignInAddress(await asyncio.shield(running.url))) is None:
                raise ToolError(f"a person was asked to sign in to the server {server!r} and declined.")
            # After a person says that it is done, the redirect should follow soon.
            await asyncio.sleep(_SECONDS)
            raise ToolError(f"a person said that they had signed in to the server {server!r}, and had not.")

        running.joined += 1
        asking = asyncio.ensure_future(ask_and_wait())
        try:
            await asyncio.wait({asking, running.task}, return_when=asyncio.FIRST_COMPLETED)
            (running.task if running.task.done() else asking).result()
        finally:
            running.joined -= 1
            asking.cancel()
            if not running.joined:
                running.task.cancel()
                if self._running.get(key) is running:
                    del self._running[key]
            await asyncio.wait({asking})

    async def obtain_tokens(
        self,
        config: ServerConfig,
        oauth: OAuthConfig,
        owner: str,
        show: SignIn,
        refusal: Callable[[httpx2.Request], httpx2.Response],
    ) -> None:
        """Obtain tokens, as if a request to the server had been refused; none is sent. Raises `ToolError`.

        `refusal` returns the server's last response to a request without a sufficient token.
        """
        request = httpx2.Request("POST", config.url, headers={MCP_PROTOCOL_VERSION_HEADER: MODERN})
        flow = self.auth(config, oauth, owner, show, self._redirect_uri()).async_auth_flow(request)
        refused = False
        try:
            with suppress(StopAsyncIteration):
                async with bounded_client(_SECONDS) as client, aclosing(flow):
                    outgoing = await anext(flow)
                    while not (outgoing is request and refused):
                        response = refusal(request) if outgoing is request else await client.send(outgoing)
                        refused = True
                        outgoing = await flow.asend(response)
        except (OAuthFlowError, httpx2.HTTPError, httpx2.StreamError, ValueError) as error:
            # Without the message of the other server, since a model reads this.
            reason = type(error).__name__
            raise ToolError(f"nobody could be signed in to the server {config.name!r} ({reason}).") from error

    async def _visit(self, url: str, show: SignIn) -> AuthorizationCodeResult:
        """Show a person the page where they sign in, and wait for the redirect of their browser."""
        (state,) = parse_qs(urlsplit(url).query)["state"]
        received: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._awaited[state] = received
        shown = asyncio.ensure_future(show(url))
        try:
            await asyncio.wait({shown, received}, return_when=asyncio.FIRST_COMPLETED)
            if not received.done():
                shown.result()
            query = await received
        finally:
            del self._awaited[state]
            shown.cancel()
            await asyncio.wait({shown})
        return AuthorizationCodeResult(code=query.get("code", ""), state=state, iss=query.get("iss"))

    async def _answer(self, stream: SocketStream) -> None:
        """Accept the redirect of a browser, and answer with a page that says it can be closed; else with 404."""
        with suppress(anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError, ValueError):
            async with stream:
                with anyio.move_on_after(_REQUEST):
                    request = await BufferedByteReceiveStream(stream).receive_until(b"\r\n\r\n", _REQUEST_BYTES)
                    _, target, _ = request.decode("latin-1").split(" ", 2)
                    parts = urlsplit(target)
                    if parts.path == _PATH and self.accept_redirect(dict(parse_qsl(parts.query))):
                        await stream.send(_ANSWER % (b"200 OK", b"You are signed in. This page can be closed."))
                    else:
                        await stream.send(_ANSWER % (b"404 Not Found", b"Nobody waits for this."))


class _SignIn:
    """One sign-in to a server. Several calls may wait for it: each asks its own person, and the first who signs in is
    enough.
    """

    def __init__(self, obtain: Callable[[SignIn], Coroutine[None, None, None]]) -> None:
        self.joined = 0
        """How many calls wait for it."""
        self.url: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def show(url: str) -> None:
            self.url.set_result(url)
            await asyncio.Event().wait()

        self.task = asyncio.ensure_future(obtain(show))
