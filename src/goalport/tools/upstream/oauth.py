"""Access tokens for upstream servers with OAuth: how the requests of a server's entry are signed.

The flows are the SDK's. This module chooses one by the configuration, keeps what has to be known after a restart, and
asks an identity provider where there is one. Above: `servers`, which hands the result to the HTTP transport.
"""

import json
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any, Final, Protocol

import httpx2
from anyio import to_thread
from mcp.client.auth import OAuthClientProvider
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
from pydantic import BaseModel

from goalport.base.bounded_answers import bounded_client
from goalport.base.errors import GoalportError, SettingsError
from goalport.base.files import replace_file
from goalport.base.secrecy import register_secrets
from goalport.tools.upstream.config import IdentityProvider, OAuthConfig, ServerConfig
from goalport.tools.upstream.connection import SignInNeeded

_SECONDS = 30.0
"""Seconds that an answer of an identity provider may take."""
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - the name of a kind of token
_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of a grant


_SECRET: Final = ("access_token", "refresh_token", "id_token", "client_secret", "registration_access_token")


class Seal(Protocol):
    """Encrypts what is kept. `unseal` raises `SettingsError` where the key of old is not there any more."""

    def seal(self, secret: bytes, /) -> str: ...
    def unseal(self, sealed: str, /) -> bytes: ...


class TokenRecord(BaseModel):
    """What the file holds."""

    url: str
    """The server that the tokens are for."""
    tokens: OAuthToken | None = None
    expires_at: float | None = None
    """When the access token ends, in seconds since 1970; None: it does not say."""
    client: OAuthClientInformationFull | None = None
    """The client that was registered."""
    metadata: OAuthMetadata | None = None
    """The authorization server's, so that a token can be renewed after a restart."""
    resource: ProtectedResourceMetadata | None = None
    """The server's own metadata, as a protected resource."""

    def secrets(self) -> Iterator[str]:
        """What a credential is made of."""
        found = (getattr(each, name, None) for each in (self.tokens, self.client) for name in _SECRET)
        return (each for each in found if isinstance(each, str))


class TokenFile:
    """The tokens of one server, or of one caller at it. Another address of the server finds nothing in the file.

    What it reads and writes is hidden in what others are shown.
    """

    def __init__(self, path: Path, url: str, seal: Seal) -> None:
        self._path = path
        self._url = url
        self._seal = seal

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, of which the access token may have ended."""
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
        """What is in the file."""
        found = await to_thread.run_sync(self._read)
        register_secrets(self, found.secrets())
        return found

    async def keep(self, **parts: object) -> None:
        """Put these fields of the record into the file, and leave the others."""
        kept = await to_thread.run_sync(self._write, parts)
        register_secrets(self, kept.secrets())

    def _read(self) -> TokenRecord:
        # Whoever cannot be read any more is asked to sign in again.
        with suppress(FileNotFoundError, ValueError, SettingsError):
            written = self._path.read_text("utf-8")
            members = json.loads(written)
            # Files of earlier versions are not sealed; they are with the next token.
            plain = self._seal.unseal(members["sealed"]) if "sealed" in members else written
            kept = TokenRecord.model_validate_json(plain)
            if kept.url == self._url:
                return kept
        return TokenRecord(url=self._url)

    def _write(self, parts: dict[str, object]) -> TokenRecord:
        kept = self._read().model_copy(update=parts)
        sealed = self._seal.seal(kept.model_dump_json(exclude_none=True).encode())
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(self._path, json.dumps({"sealed": sealed}))
        return kept


class ExchangeFailed(GoalportError):
    """The identity provider gave no grant for an ID token."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"the identity provider gave nothing for the server {server!r}: {reason}")


Visit = Callable[[str], Awaitable[AuthorizationCodeResult]]
"""Shows a person the page where they sign in, and waits until their browser has come back."""


def signed_requests(
    config: ServerConfig, oauth: OAuthConfig, storage: TokenFile, redirect_uri: str, visit: Visit | None
) -> httpx2.Auth:
    """What signs the requests to a server. Where nobody can `visit`, who has to sign in is told by `SignInNeeded`."""
    scope, issuer = oauth.scope or None, oauth.issuer or None
    match oauth.grant:
        case "authorization_code":
            return _authorization_code(config, oauth, storage, redirect_uri, visit)
        case "client_credentials":
            with warnings.catch_warnings():
                # Without an issuer the SDK warns whoever wrote the configuration; our own report of it says more.
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                if oauth.private_key:
                    signed = SignedJWTParameters(
                        issuer=oauth.client_id,
                        subject=oauth.client_id,
                        signing_key=oauth.private_key,
                        signing_algorithm=oauth.signing_algorithm,
                    )
                    proof = signed.create_assertion_provider()
                    return PrivateKeyJWTOAuthProvider(config.url, storage, oauth.client_id, proof, scope, issuer)
                return ClientCredentialsOAuthProvider(
                    config.url, storage, oauth.client_id, oauth.client_secret, oauth.secret_in, scope, issuer
                )
        case "jwt_bearer":
            provider = oauth.identity_provider
            assert provider is not None
            return IdentityAssertionOAuthProvider(
                config.url,
                storage,
                oauth.client_id,
                oauth.client_secret,
                oauth.issuer,
                lambda audience, resource: _exchanged(config.name, provider, audience, resource),
                scope,
                oauth.secret_in,
            )


def _authorization_code(
    config: ServerConfig, oauth: OAuthConfig, storage: TokenFile, redirect_uri: str, visit: Visit | None
) -> httpx2.Auth:
    shown: list[str] = []

    async def redirect(url: str) -> None:
        if visit is None:
            raise SignInNeeded(config.name)
        shown[:] = [url]

    async def come_back() -> AuthorizationCodeResult:
        assert visit is not None
        return await visit(*shown)

    client: dict[str, Any] = {
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": oauth.secret_in if oauth.client_secret else "none",
    }
    wanted = {"client_name": "goalport", "response_types": ["code"], "scope": oauth.scope or None}
    known = {"client_id": oauth.client_id, "client_secret": oauth.client_secret or None, "issuer": oauth.issuer or None}
    found = _RememberingProvider(
        config.url,
        OAuthClientMetadata.model_validate(client | wanted),
        storage,
        redirect,
        come_back,
        oauth.client_metadata_url or None,
    )
    found.tokens, found.attended = storage, visit is not None
    if oauth.client_id:
        found.registered = OAuthClientInformationFull.model_validate(client | known)
    return found


class _RememberingProvider(OAuthClientProvider):
    """The SDK's flow, which after a restart still knows when a token ends, and where it is renewed."""

    tokens: TokenFile
    attended = False
    """Whether somebody can sign in."""
    registered: OAuthClientInformationFull | None = None
    """The client that a person has registered; None: one is registered when it is needed."""

    async def _initialize(self) -> None:
        await super()._initialize()
        context, record = self.context, await self.tokens.found()
        if record.tokens is not None:
            context.token_expiry_time = record.expires_at
            context.oauth_metadata, context.protected_resource_metadata = record.metadata, record.resource
        context.client_info = self.registered or record.client
        known, wanted = context.client_info, context.client_metadata.redirect_uris or []
        if self.attended and known is not None and not set(wanted) <= set(known.redirect_uris or wanted):
            # It was registered for another place to come back to, as for a terminal in place of the web server.
            context.client_info = None
            context.clear_tokens()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        await self.tokens.keep(metadata=self.context.oauth_metadata, resource=self.context.protected_resource_metadata)


class _Exchanged(BaseModel):
    """What an identity provider answers (RFC 8693)."""

    access_token: str
    issued_token_type: str


async def _exchanged(server: str, provider: IdentityProvider, audience: str, resource: str) -> str:
    """An identity assertion for this authorization server and resource. Raises `ExchangeFailed`."""
    token = provider.id_token
    if provider.id_token_file is not None:
        try:
            token = (await to_thread.run_sync(provider.id_token_file.read_text, "utf-8")).strip()
        except (OSError, UnicodeDecodeError):
            raise ExchangeFailed(server, "its `idTokenFile` cannot be read") from None
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
        answer = _Exchanged.model_validate_json(response.content)
    except httpx2.HTTPStatusError as error:
        raise ExchangeFailed(server, f"HTTP {error.response.status_code}") from None
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise ExchangeFailed(server, str(error) or type(error).__name__) from None
    except ValueError:
        raise ExchangeFailed(server, "what it answered is no token") from None
    if answer.issued_token_type != _ID_JAG:
        raise ExchangeFailed(server, f"it answered with a {answer.issued_token_type}, and {_ID_JAG} was asked for")
    return answer.access_token
