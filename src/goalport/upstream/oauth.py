"""Access tokens for upstream servers with OAuth: how the requests of a server's entry are signed.

The flows are the SDK's. This module chooses one by the configuration, keeps what has to be known after a restart, and
asks an identity provider where there is one. Above: `servers`, which hands the result to the HTTP transport.
"""

import warnings
from collections.abc import Awaitable, Callable
from typing import Protocol

import httpx2
from anyio import to_thread
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata
from mcp.shared.auth_utils import calculate_token_expiry
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import BaseModel, ValidationError

from goalport.bounded_answers import bounded_client
from goalport.errors import GoalportError
from goalport.upstream.config import IdentityProvider, OAuthConfig, ServerConfig
from goalport.upstream.connection import SignInNeeded
from goalport.upstream.token_file import TokenFile

__all__ = ["SignInPage", "signed_requests"]

_SECONDS = 30.0
"""Seconds that an answer of an identity provider may take."""
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - the name of a kind of token
_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of a grant


class ExchangeFailed(GoalportError):
    """The identity provider gave no grant for an ID token."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"the identity provider gave nothing for the server {server!r}: {reason}")


class SignInPage(Protocol):
    """Shows a person where they sign in, and knows where their browser comes back to."""

    @property
    def redirect_uri(self) -> str: ...
    async def visit(self, url: str, /) -> AuthorizationCodeResult:
        """Show the page, and wait until the browser has come back."""
        ...


def signed_requests(
    config: ServerConfig, oauth: OAuthConfig, storage: TokenFile, page: SignInPage, *, attended: bool
) -> httpx2.Auth:
    """What signs the requests to a server. Where nobody attends, who has to sign in is told by `SignInNeeded`."""
    match oauth.grant:
        case "authorization_code":
            return _authorization_code(config, oauth, storage, page, attended=attended)
        case "client_credentials":
            return _client_credentials(config, oauth, storage)
        case "jwt_bearer":
            return _identity_assertion(config, oauth, storage)


def _client_credentials(config: ServerConfig, oauth: OAuthConfig, storage: TokenFile) -> httpx2.Auth:
    scope, issuer = oauth.scope or None, oauth.issuer or None
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


def _authorization_code(
    config: ServerConfig, oauth: OAuthConfig, storage: TokenFile, page: SignInPage, *, attended: bool
) -> httpx2.Auth:
    given = ""

    async def redirect(url: str) -> None:
        nonlocal given
        if not attended:
            raise SignInNeeded(config.name)
        given = url

    client = {
        "redirect_uris": [page.redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": oauth.secret_in if oauth.client_secret else "none",
    }
    wanted = {"client_name": "goalport", "response_types": ["code"], "scope": oauth.scope or None}
    known = {"client_id": oauth.client_id, "client_secret": oauth.client_secret or None, "issuer": oauth.issuer or None}
    return _RememberingProvider(
        config.url,
        OAuthClientMetadata.model_validate(client | wanted),
        storage,
        OAuthClientInformationFull.model_validate(client | known) if oauth.client_id else None,
        oauth.client_metadata_url or None,
        redirect,
        lambda: page.visit(given),
        attended=attended,
    )


class _RememberingProvider(OAuthClientProvider):
    """The SDK's flow, which after a restart still knows when a token ends, and where it is renewed.

    `registered` is the client that a person has registered; None: one is registered when it is needed.
    """

    def __init__(
        self,
        url: str,
        metadata: OAuthClientMetadata,
        storage: TokenFile,
        registered: OAuthClientInformationFull | None,
        document: str | None,
        redirect: Callable[[str], Awaitable[None]],
        come_back: Callable[[], Awaitable[AuthorizationCodeResult]],
        *,
        attended: bool,
    ) -> None:
        super().__init__(url, metadata, storage, redirect, come_back, document)
        self._attended = attended
        self._storage = storage
        self._registered = registered

    async def _initialize(self) -> None:
        await super()._initialize()
        context = self.context
        if context.current_tokens is not None:
            context.token_expiry_time = calculate_token_expiry(context.current_tokens.expires_in)
            context.oauth_metadata, context.protected_resource_metadata = await self._storage.metadata()
        context.client_info = self._registered or context.client_info
        known, wanted = context.client_info, context.client_metadata.redirect_uris or []
        if self._attended and known is not None and not set(wanted) <= set(known.redirect_uris or wanted):
            # It was registered for another place to come back to, as for a terminal in place of the web server.
            context.client_info = None
            context.clear_tokens()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        await self._storage.set_metadata(self.context.oauth_metadata, self.context.protected_resource_metadata)


def _identity_assertion(config: ServerConfig, oauth: OAuthConfig, storage: TokenFile) -> httpx2.Auth:
    provider = oauth.identity_provider
    assert provider is not None

    async def grant(audience: str, resource: str) -> str:
        return await _exchanged(config.name, provider, audience, resource)

    return IdentityAssertionOAuthProvider(
        config.url,
        storage,
        oauth.client_id,
        oauth.client_secret,
        oauth.issuer,
        grant,
        oauth.scope or None,
        oauth.secret_in,
    )


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
    except httpx2.StreamError as error:
        raise ExchangeFailed(server, str(error)) from None
    except httpx2.HTTPError as error:
        raise ExchangeFailed(server, type(error).__name__) from None
    except ValidationError:
        raise ExchangeFailed(server, "what it answered is no token") from None
    if answer.issued_token_type != _ID_JAG:
        raise ExchangeFailed(server, f"it answered with a {answer.issued_token_type}, and {_ID_JAG} was asked for")
    return answer.access_token
