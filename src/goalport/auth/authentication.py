"""How one server authenticates: its verifiers and its challenges, made from its settings.

Above: the guard. A new kind of credential is one more verifier here.
"""

import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from goalport.auth.challenges import Challenges
from goalport.auth.credentials import AmbiguousCredential
from goalport.auth.keys import ApiKeys
from goalport.auth.metadata import ProtectedResource
from goalport.auth.provider_client import ProviderClient
from goalport.auth.proxy import TrustedProxies
from goalport.auth.verifiers import Grant, InvalidToken, Verifier, VerifierUnavailable, grant_of
from goalport.settings import Settings

__all__ = ["Authentication"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Authentication:
    """What verifies the callers of one server."""

    verifiers: Sequence[Verifier]
    challenges: Challenges
    resource: ProtectedResource | None = None
    """What clients are told about the providers of tokens; None without any."""
    client: ProviderClient | None = None
    """What asks the providers; None without any."""
    proxies: TrustedProxies | None = None
    """The proxies that name the user in a header; None without any."""

    @classmethod
    def of(cls, settings: Settings) -> "Authentication | None":
        """The authentication that settings ask for; None if they ask for none.

        Raises `SettingsError` for what cannot be used: a server does not start without what it was told to check.
        """
        client = ProviderClient()
        keys = [ApiKeys(settings)] if settings.asks_for_keys else []
        verifiers: list[Verifier] = [*keys, *_verifiers_of_providers(settings, client)]
        proxies = TrustedProxies.of(settings.auth)
        if not verifiers and proxies is None:
            return None
        resource = ProtectedResource.of(settings)
        return cls(verifiers, Challenges(settings.auth.read_scope, resource), resource, client, proxies)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """A context in which tokens can be verified; at its end the connections to providers are closed."""
        try:
            yield
        finally:
            if self.client is not None:
                await self.client.aclose()

    async def grant_of(self, token: str) -> Grant:
        """What a token grants. Raises `InvalidToken`, and `VerifierUnavailable` also for a bug in a verifier."""
        try:
            return await grant_of(self.verifiers, token)
        except (InvalidToken, VerifierUnavailable):
            raise
        except Exception:
            _log.exception("A verifier failed, so nobody passes whose tokens it takes.")
            raise VerifierUnavailable("a verifier failed; the error is in this log") from None

    def grant_by_proxy(self, scope: Mapping[str, Any], token: str | None) -> Grant | None:
        """What a trusted proxy grants to a request; None if none names its user.

        Raises `AmbiguousCredential` for what is not believed, and for a request that has a token besides.
        """
        found = None if self.proxies is None else self.proxies.grant_of(scope)
        if found is not None and token is not None:
            raise AmbiguousCredential("The request has a token, and a user whom a proxy names. Send one of them.")
        return found


def _verifiers_of_providers(settings: Settings, client: ProviderClient) -> Iterator[Verifier]:
    """The verifiers of the tokens of identity providers. Their libraries are loaded only if there are any."""
    auth = settings.auth
    if auth.issuers:
        from goalport.auth.jwt import JwtVerifier

        yield JwtVerifier(settings, client, takes_all=not auth.introspection)
    if auth.introspection:
        from goalport.auth.introspection import IntrospectionVerifier

        yield from (IntrospectionVerifier(settings, each, client) for each in auth.introspection)
