"""How one server authenticates: its verifiers and its challenges, made from its settings.

Above: the guard. A new kind of credential is one more verifier here.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from goalport.base.observe import RareLog
from goalport.server.auth.challenges import Challenges
from goalport.server.auth.credentials import AmbiguousCredential
from goalport.server.auth.keys import ApiKeys
from goalport.server.auth.metadata import ProtectedResource
from goalport.server.auth.provider_client import ProviderClient
from goalport.server.auth.proxy import TrustedProxies
from goalport.server.auth.verifiers import Grant, InvalidToken, Verifier, VerifierUnavailable, grant_of, never
from goalport.workspace.settings import Settings

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
    fetch_keys: Callable[[], None] | None = None
    """Begins to fetch the keys of issuers, so that the log tells of a wrong one at once; None without any."""
    _rare_log: RareLog = field(default_factory=RareLog, init=False)

    @classmethod
    def of(cls, settings: Settings) -> "Authentication | None":
        """The authentication that settings ask for; None if they ask for none.

        Raises `SettingsError` for what cannot be used: a server does not start without what it was told to check.
        """
        auth, client = settings.auth, ProviderClient()
        verifiers: list[Verifier] = [ApiKeys(settings)] if settings.asks_for_keys else []
        fetch_keys = None
        # The libraries for the tokens of providers are loaded only if there are any.
        if auth.issuers:
            from goalport.server.auth.jwt import JwtVerifier

            jwt = JwtVerifier(settings, client, takes_all=not auth.introspection)
            verifiers.append(jwt)
            fetch_keys = jwt.fetch_keys
        if auth.introspection:
            from goalport.server.auth.introspection import IntrospectionVerifier

            verifiers += [IntrospectionVerifier(settings, each, client) for each in auth.introspection]
        proxies = TrustedProxies.of(auth)
        if not verifiers and proxies is None:
            return None
        resource = ProtectedResource.of(settings)
        return cls(verifiers, Challenges(auth.read_scope, resource), resource, client, proxies, fetch_keys)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """A context in which tokens can be verified; at its end the connections to providers are closed."""
        if self.fetch_keys is not None:
            self.fetch_keys()
        try:
            yield
        finally:
            if self.client is not None:
                await self.client.aclose()

    async def grant_of(self, token: str, is_slowed: Callable[[], bool] = never) -> Grant:
        """What a token grants. Raises `InvalidToken`, and `VerifierUnavailable` also for a bug in a verifier."""
        try:
            return await grant_of(self.verifiers, token, is_slowed)
        except (InvalidToken, VerifierUnavailable):
            raise
        except Exception:
            self._rare_log.log(_log.exception, "bug", "A verifier failed, so nobody passes whose tokens it takes.")
            raise VerifierUnavailable("a verifier failed; the error is in this log") from None

    def grant_by_proxy(self, scope: Mapping[str, Any], token: str | None) -> Grant | None:
        """What a trusted proxy grants to a request; None if none names its user.

        Raises `AmbiguousCredential` for what is not believed, and for a request that has a token besides.
        """
        found = None if self.proxies is None else self.proxies.grant_of(scope)
        if found is not None and token is not None:
            raise AmbiguousCredential("The request has a token, and a user whom a proxy names. Send one of them.")
        return found
