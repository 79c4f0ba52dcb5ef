"""What the claims of an access token have to be, and the grant that they make: for JWTs and for introspected tokens.

Nothing here verifies a signature. Above: `jwt` and `introspection`, which know that the claims are the provider's.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from goalport.base.caller import EVERY_SCOPE
from goalport.base.words import listed
from goalport.server.auth.verifiers import Grant, InvalidToken, caller_of
from goalport.workspace.settings import AuthSettings, TokenSettings

_SKEW: Final = 30.0
"""The seconds by which the clock of a provider may be ahead of ours."""
_LATEST: Final = 1e12
_LONGEST_ID: Final = 1_000
_ID_TOKEN_CLAIMS: Final = frozenset({"nonce", "at_hash", "c_hash", "s_hash", "events"})
"""Claims of id tokens (OpenID Connect Core), and of the events that providers send (RFC 8417)."""
_ACCESS_KINDS: Final = {"typ": {"bearer"}, "token_use": {"access"}, "token_type": {"bearer"}}
"""Claims by which providers say of what kind a token is, and what they say of an access token, in lower case:
Keycloak, Amazon Cognito, and the answers of introspection."""
_CLIENT_CLAIMS: Final = ("client_id", "azp", "appid", "cid")
"""The client's id: by RFC 9068; as OpenID Connect, version 1 of Entra ID, and Okta have it."""
_CLIENT, _USER = "client:", "user:"
_MARKED: Final = re.compile(f"{_CLIENT}|{_USER}")


def default_audience(address: str) -> frozenset[str]:
    """For whom a token may be where the settings do not say: this server, and its doors for MCP."""
    return frozenset(f"{address}{path}" for path in ("", "/", "/mcp", "/mcp/", "/sse", "/sse/"))


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What the tokens of one provider have to be."""

    provider: TokenSettings
    settings: AuthSettings
    audience: frozenset[str]
    required: frozenset[str]
    """The claims without which a token is refused."""

    def grant_of(self, claims: Mapping[str, Any], now: float) -> Grant:
        """What a token with these claims grants; `now` is in seconds since 1970. Raises `InvalidToken`."""
        if missing := sorted(each for each in self.required if claims.get(each) is None):
            raise InvalidToken(f"The token lacks {listed(missing)}.")
        _check_kind(claims)
        expires_at = _check_times(claims, now)
        if claims.get("iss", self.provider.issuer) != self.provider.issuer:
            raise InvalidToken("The token is of another issuer.")
        self._check_audience(claims)
        client = next((each for name in _CLIENT_CLAIMS if (each := _id_in(claims, name))), "")
        caller = caller_of(
            self.settings, self._subject(claims, client), self.provider.issuer, self._scopes(claims), claims
        )
        return Grant(caller, client or caller.id, expires_at)

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        named = claims.get("aud")
        if named is None:
            return
        if not self.audience.intersection(_texts("aud", [named] if isinstance(named, str) else named)):
            raise InvalidToken("The token is for another server (aud). Ask for one with this server as the resource.")

    def _subject(self, claims: Mapping[str, Any], client: str) -> str:
        """Who the caller is. The id of a client that calls for itself is marked, so that it is no person's."""
        subject = _id_in(claims, self.provider.subject_claim)
        if client and subject in {"", client}:
            return f"{_CLIENT}{client}"
        if not subject:
            raise InvalidToken(f"The token says neither by {self.provider.subject_claim!r} nor by a client who calls.")
        return f"{_USER}{subject}" if _MARKED.match(subject) else subject

    def _scopes(self, claims: Mapping[str, Any]) -> Iterator[str]:
        """What the token grants; a scope that is written as ours for every scope means nothing in another's token."""
        for name in self.provider.scope_claims:
            granted = claims.get(name)
            if granted is not None:
                found = granted.split(" ") if isinstance(granted, str) else _texts(name, granted)
                yield from (each for each in found if each and each != EVERY_SCOPE)


def _check_kind(claims: Mapping[str, Any]) -> None:
    if not _ID_TOKEN_CLAIMS.isdisjoint(claims):
        raise InvalidToken("The token is no access token but an id token, or tells of an event.")
    for name, access in _ACCESS_KINDS.items():
        if name in claims and str(claims[name]).lower() not in access:
            raise InvalidToken(f"The token is no access token for the header Authorization: Bearer ({name}).")
    if "cnf" in claims:
        raise InvalidToken("The token is bound to a key of its client (cnf), which this server does not check.")


def _check_times(claims: Mapping[str, Any], now: float) -> float | None:
    """When the token expires, if it does."""
    for name in ("iat", "nbf"):
        if (begins := _time_in(claims, name)) is not None and begins > now + _SKEW:
            raise InvalidToken(f"The token is not valid yet ({name}).")
    expires_at = _time_in(claims, "exp")
    if expires_at is not None and expires_at <= now:
        raise InvalidToken("The token has expired.")
    return expires_at


def _time_in(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LATEST:
        raise InvalidToken(f"The token's {name} is no time.")
    return float(value)


def _id_in(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not value or len(value) > _LONGEST_ID or not value.isprintable():
        raise InvalidToken(f"The token's {name} is no identifier.")
    return value


def _texts(name: str, value: object) -> list[str]:
    found = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(each, str) for each in found):
        raise InvalidToken(f"The token's {name} is neither a text nor a list of texts.")
    return cast("list[str]", found)
