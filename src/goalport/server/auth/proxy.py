"""The user whom an authenticating proxy names in a header, believed of the proxies alone that the settings trust.

A header of this kind from anybody else is refused and not ignored: it is an attempt, or a proxy that nobody entered.
Below `guard`; `site.listener` notes from which address a connection comes.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

from goalport.base.caller import EVERY_SCOPE
from goalport.base.observe import RareLog
from goalport.server.auth.credentials import AmbiguousCredential
from goalport.server.auth.verifiers import Grant, caller_of
from goalport.workspace.settings import AuthSettings

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
