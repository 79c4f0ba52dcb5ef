"""How one server authenticates: its verifiers, its challenges and the proxies that it trusts, made from its settings.

Above: the guard. A new kind of credential is one more verifier here.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, Final

from goalport.base.caller import EVERY_SCOPE, OPERATOR, user_of_machine
from goalport.base.errors import SettingsError
from goalport.base.observe import RateLimitedLog
from goalport.server.auth.challenges import Challenges, ProtectedResource
from goalport.server.auth.keys import KEY_VARIABLE, ApiKeys
from goalport.server.auth.tokens import IntrospectionVerifier, ProviderClient
from goalport.server.auth.verifiers import (
    AmbiguousCredential,
    Grant,
    InvalidToken,
    Verifier,
    VerifierUnavailable,
    caller_of,
    not_slowed,
)
from goalport.workspace.settings import AuthSettings, Settings

_log = logging.getLogger(__name__)
PEER: Final = "goalport.peer"
"""The key in a request's ASGI scope for the address of the connection's peer. `scope["client"]` may differ: servers
take it from a header."""
_ISSUER: Final = "goalport:proxy"
_LONGEST_USER: Final = 256


class TrustedProxies:
    """The proxies that authenticate callers, and the headers in which they name a caller and its groups."""

    def __init__(self, settings: AuthSettings) -> None:
        self._settings = settings
        self._networks = [*map(ip_network, settings.trusted_proxies)]
        headers = (settings.proxy_user_header, settings.proxy_groups_header)
        self._headers = [each.lower().encode() for each in headers]
        self._rate_limited_log = RateLimitedLog()

    def grant_of(self, scope: Mapping[str, Any]) -> Grant | None:
        """What a request is granted by its proxy; None if it names no user.

        Raises `AmbiguousCredential` if such a header is not from a trusted proxy, is malformed, or is there twice.
        """
        users, groups = (
            [value for name, value in scope["headers"] if name and name == header] for header in self._headers
        )
        if not users and not groups:
            return None
        peer = scope.get(PEER)
        if not self._trusts(peer):
            whose = peer or "an address that this server does not know: serve with `goalport serve`"
            text = "Refused the header %s from %s, which is none of auth.trusted_proxies."
            self._rate_limited_log.log(_log.warning, whose, text, self._settings.proxy_user_header, whose)
            raise AmbiguousCredential("The request has a header that a trusted proxy alone may send.")
        if len(users) > 1 or len(groups) > 1:
            raise AmbiguousCredential("The request names its user or its groups more than once.")
        if not users:
            return None
        try:
            texts = [value.decode("utf-8").strip() for value in (*users, *groups)]
        except UnicodeDecodeError:
            texts = ["\0"]
        if not all(each.isprintable() for each in texts):
            raise AmbiguousCredential("The request names its user or its groups with characters that no name has.")
        user, *named = texts
        if not user or len(user) > _LONGEST_USER:
            raise AmbiguousCredential("The request names no proper user.")
        # Groups are separated by commas or spaces; a group never grants every scope.
        words = {each for text in named for each in text.replace(",", " ").split()} - {EVERY_SCOPE}
        return Grant(caller_of(self._settings, user, _ISSUER, {*self._settings.proxy_scopes, *words}), user)

    def _trusts(self, peer: str | None) -> bool:
        try:
            address = ip_address((peer or "").partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in each for each in self._networks)


@dataclass(frozen=True, slots=True)
class Authentication:
    """What verifies the callers of one server."""

    verifiers: Sequence[Verifier]
    challenges: Challenges
    resource: ProtectedResource | None = None
    """The metadata for clients about the providers of tokens; None: there are no providers."""
    client: ProviderClient | None = None
    """The HTTP client for requests to the providers; None: there are none."""
    proxies: TrustedProxies | None = None
    """The proxies that name the user in a header; None without any."""
    fetch_keys: Callable[[], None] | None = None
    """Starts to fetch the keys of issuers, so that a wrong issuer is logged at once; None: there are no issuers."""
    _rate_limited_log: RateLimitedLog = field(default_factory=RateLimitedLog, init=False)

    @classmethod
    def of(cls, settings: Settings) -> "Authentication | None":
        """The authentication that settings ask for; None if they ask for none.

        Raises `SettingsError` if a part of it cannot be used: a server must not start without a check that is set.
        """
        auth, client = settings.auth, ProviderClient()
        verifiers: list[Verifier] = [ApiKeys(settings)] if settings.uses_keys else []
        fetch_keys = None
        if auth.issuers:
            from goalport.server.auth.jwt import JwtVerifier  # its library is loaded only if there are any

            jwt = JwtVerifier(settings, client, recognizes_all=not auth.introspection)
            verifiers.append(jwt)
            fetch_keys = jwt.fetch_keys
        verifiers += [IntrospectionVerifier(settings, each, client) for each in auth.introspection]
        proxies = TrustedProxies(auth) if auth.trusted_proxies else None
        if not verifiers and proxies is None:
            return None
        resource = ProtectedResource.of(settings)
        return cls(verifiers, Challenges(auth.scope("read"), resource), resource, client, proxies, fetch_keys)

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

    async def grant_of(self, token: str, is_slowed: Callable[[], bool] = not_slowed) -> Grant:
        """What a token grants, by the first verifier that recognizes it.

        Raises `InvalidToken`, and `VerifierUnavailable` also for a bug in a verifier.
        """
        verifier = next((each for each in self.verifiers if each.recognizes(token)), None)
        if verifier is None:
            raise InvalidToken("The token is of no kind that this server knows.")
        try:
            return await verifier.verify(token, is_slowed)
        except (InvalidToken, VerifierUnavailable):
            raise
        except Exception:
            self._rate_limited_log.log(
                _log.exception, "bug", "A verifier failed, so nobody passes whose tokens it takes."
            )
            raise VerifierUnavailable("a verifier failed; the error is in this log") from None


async def stdio_grant(authentication: Authentication | None, key: str) -> Grant:
    """What the client on stdin and stdout is granted; `key` is that of the environment, or empty.

    Without authentication, the caller is `OPERATOR`, as for commands on this machine. With authentication but without a
    key, the caller is the user of the operating system: they could read the store anyway.
    Raises `SettingsError` for a key that is not valid, or that cannot be verified now.
    """
    if authentication is None or not key:
        caller = OPERATOR if authentication is None else user_of_machine()
        return Grant(caller, caller.id)
    try:
        return await authentication.grant_of(key)
    except (InvalidToken, VerifierUnavailable) as error:
        raise SettingsError(
            f"{KEY_VARIABLE} is set, and cannot be used: {error} Set it to a key that is valid, or unset it to call as"
            " the user of this machine."
        ) from error
