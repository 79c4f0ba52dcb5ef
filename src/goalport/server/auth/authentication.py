"""How one server authenticates: its verifiers, its challenges and the proxies that it trusts, made from its settings.

Above: the guard. A new kind of credential is one more verifier here.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

from goalport.base.caller import EVERY_SCOPE, OPERATOR, user_of_machine
from goalport.base.errors import SettingsError
from goalport.base.observe import RareLog
from goalport.server.auth.challenges import Challenges, ProtectedResource
from goalport.server.auth.keys import KEY_VARIABLE, ApiKeys
from goalport.server.auth.tokens import ProviderClient
from goalport.server.auth.verifiers import (
    AmbiguousCredential,
    Grant,
    InvalidToken,
    Verifier,
    VerifierUnavailable,
    caller_of,
    grant_of,
    never,
)
from goalport.workspace.settings import AuthSettings, Settings

_log = logging.getLogger(__name__)
PEER: Final = "goalport.peer"
"""The key of a request's scope with the address that the connection comes from. `scope["client"]` is another thing:
servers put there what a header says."""
_ISSUER: Final = "goalport:proxy"
_LONGEST: Final = 256


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The proxies that authenticate callers, and the headers by which they name them."""

    settings: AuthSettings
    networks: tuple[IPv4Network | IPv6Network, ...]
    user: bytes
    groups: bytes
    rare_log: RareLog = field(default_factory=RareLog)

    @classmethod
    def of(cls, settings: AuthSettings) -> "TrustedProxies | None":
        """The proxies that settings trust; None if they trust none."""
        if not settings.trusted_proxies:
            return None
        networks = tuple(map(ip_network, settings.trusted_proxies))
        user, groups = (each.lower().encode() for each in (settings.proxy_user_header, settings.proxy_groups_header))
        return cls(settings, networks, user, groups)

    def grant_of(self, scope: Mapping[str, Any]) -> Grant | None:
        """What a request is granted by its proxy; None if it names no user.

        Raises `AmbiguousCredential` for a header of a proxy that is not trusted, and for one that is there twice.
        """
        named = {self.user: list[bytes](), self.groups: list[bytes]()}
        for name, value in scope["headers"]:
            if name and name in named:
                named[name].append(value)
        users, groups = named[self.user], named[self.groups]
        if not users and not groups:
            return None
        self._check_peer(scope.get(PEER))
        if len(users) > 1 or len(groups) > 1:
            raise AmbiguousCredential("The request names its user or its groups more than once.")
        if not users:
            return None
        user = _text(users[0])
        if not user or len(user) > _LONGEST:
            raise AmbiguousCredential("The request names no proper user.")
        scopes = {*self.settings.proxy_scopes, *_words(groups)}
        return Grant(caller_of(self.settings, user, _ISSUER, scopes), user)

    def _check_peer(self, peer: str | None) -> None:
        if peer is None or not self._trusts(peer):
            text = "Refused the header %s from %s, which is none of auth.trusted_proxies."
            whose = peer or "an address that this server does not know: serve with `goalport serve`"
            self.rare_log.log(_log.warning, whose, text, self.settings.proxy_user_header, whose)
            raise AmbiguousCredential("The request has a header that a trusted proxy alone may send.")

    def _trusts(self, peer: str) -> bool:
        try:
            address = ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in each for each in self.networks)


def _words(values: Iterable[bytes]) -> list[str]:
    """The groups in the header, separated by commas or spaces; a group is never the name of every scope."""
    return [each for value in values for each in _text(value).replace(",", " ").split() if each != EVERY_SCOPE]


def _text(value: bytes) -> str:
    try:
        text = value.decode("utf-8").strip()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable():
        return text
    raise AmbiguousCredential("The request names its user or its groups with characters that no name has.")


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


async def stdio_grant(authentication: Authentication | None, key: str) -> Grant:
    """What the client on stdin and stdout is granted; `key` is the one that the environment has, or empty.

    Without authentication it is the same caller as everybody else of this machine. Without a key it is the user of the
    operating system, who could read the store anyway, so nothing is kept from them.
    Raises `SettingsError` for a key that is not valid, or that cannot be verified now.
    """
    if authentication is None:
        return Grant(OPERATOR, OPERATOR.id)
    if not key:
        user = user_of_machine()
        return Grant(user, user.id)
    try:
        return await authentication.grant_of(key)
    except (InvalidToken, VerifierUnavailable) as error:
        raise SettingsError(
            f"{KEY_VARIABLE} is set, and cannot be used: {error} Set it to a key that is valid, or unset it to call as"
            " the user of this machine."
        ) from error
