"""Access tokens that are JWTs: verified here with the public keys of their issuers, which are not asked about a token.

RFC 9068 says what such a token is, and RFC 8725 what to beware of. Below `authentication`; beside `introspection`.
"""

import base64
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jwt import PyJWK

from goalport.base.strict_json import read_object
from goalport.server.auth.claims import TokenRules, default_audience
from goalport.server.auth.grant_cache import GrantCache
from goalport.server.auth.issuer_keys import IssuerKeys
from goalport.server.auth.provider_client import ProviderClient
from goalport.server.auth.verifiers import Grant, InvalidToken, never
from goalport.workspace.settings import Settings

_FORM: Final = re.compile(r"(e[wy][\w-]+)\.([\w-]+)\.([\w-]+)", re.ASCII)
_KEPT_SECONDS: Final = 60.0
_LONGEST_KID: Final = 512
_TYPES: Final = frozenset({"at+jwt", "application/at+jwt", "jwt"})
"""What the header says of an access token, in lower case; RFC 9068 has the first two, many providers the last."""
_REFUSED: Final = frozenset({"jku", "jwk", "x5u", "x5c", "crit", "b64", "zip", "enc", "cty"})
"""Parameters of the header by which a token would choose its own key, be no plain text, or hold another token."""
_REQUIRED: Final = frozenset({"exp", "iss", "aud"})


@dataclass(frozen=True, slots=True)
class _Issuer:
    rules: TokenRules
    keys: IssuerKeys
    algorithms: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Unverified:
    """What a token says, before its signature is verified."""

    algorithm: str
    kid: str | None
    claims: Mapping[str, Any]

    @classmethod
    def of(cls, token: str) -> "_Unverified":
        """The header and the claims of a token. Raises `InvalidToken`."""
        form = _FORM.fullmatch(token)
        if form is None:
            raise InvalidToken("The token is no signed JWT.")
        try:
            header, claims = read_object(_decoded(form[1])), read_object(_decoded(form[2]))
        except ValueError:
            raise InvalidToken("The token is no signed JWT with JSON in it.") from None
        if refused := sorted(_REFUSED.intersection(header)):
            raise InvalidToken(f"The header of the token has {refused[0]}, which is not accepted here.")
        if str(header.get("typ", "jwt")).lower() not in _TYPES:
            raise InvalidToken("The token is no access token (typ).")
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not isinstance(kid, str | None) or len(kid or "") > _LONGEST_KID:
            raise InvalidToken("The header of the token does not say properly how it is signed (alg, kid).")
        return cls(algorithm, kid, claims)


class JwtVerifier:
    """Verifies the JWTs of all issuers that the settings name.

    `takes_all`: whether it takes every JWT, or those of its issuers alone, since another verifier may know the others.
    `clock` gives the seconds since 1970, `stopwatch` seconds that only grow.
    """

    def __init__(
        self,
        settings: Settings,
        client: ProviderClient,
        *,
        takes_all: bool = True,
        clock: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._takes_all = takes_all
        self._clock = clock
        self._cache = GrantCache(_KEPT_SECONDS, clock)
        usual = default_audience(settings.address)
        self._issuers = {
            each.issuer: _Issuer(
                TokenRules(each, settings.auth, frozenset(each.audience) or usual, _REQUIRED),
                IssuerKeys(each, client, stopwatch),
                each.algorithms,
            )
            for each in settings.auth.issuers
        }

    def fetch_keys(self) -> None:
        """Begin to fetch the keys of all issuers, before a token asks for them."""
        for each in self._issuers.values():
            each.keys.fetch_soon()

    def takes(self, token: str) -> bool:
        """Whether a token is a JWT, and of one of the issuers unless all JWTs are taken."""
        form = _FORM.fullmatch(token)
        return form is not None and (self._takes_all or self._is_known(form[2]))

    async def verify(self, token: str, is_slowed: Callable[[], bool] = never) -> Grant:
        """What a token grants. Raises `InvalidToken`, and `VerifierUnavailable` if no key of its issuer is known."""
        kept = self._cache.get(token)
        if isinstance(kept, Grant):
            return kept
        try:
            grant = await self._grant_of(token)
        except InvalidToken as error:
            raise InvalidToken(str(error), was_valid=self._cache.was_valid(token)) from None
        self._cache.keep(token, grant)
        return grant

    async def _grant_of(self, token: str) -> Grant:
        said = _Unverified.of(token)
        named = said.claims.get("iss")
        issuer = self._issuers.get(named) if isinstance(named, str) else None
        if issuer is None:
            raise InvalidToken("The token is of an issuer that this server does not trust.")
        if said.algorithm not in issuer.algorithms:
            raise InvalidToken("The token is signed with an algorithm that is not accepted here.")
        # What a token says is checked before its signature, so that an expired one never makes keys be fetched.
        grant = issuer.rules.grant_of(said.claims, self._clock())
        if not _is_signed(token, await issuer.keys.suiting(said.kid, said.algorithm)):
            raise InvalidToken("The token is not signed with a key of its issuer.")
        return grant

    def _is_known(self, payload: str) -> bool:
        try:
            return read_object(_decoded(payload)).get("iss") in self._issuers
        except (ValueError, TypeError):
            return False


def _decoded(part: str) -> bytes:
    """The bytes of a part of a token, whose characters are those of base64url. Raises `ValueError`."""
    found = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if base64.urlsafe_b64encode(found).decode().rstrip("=") != part:
        raise ValueError("its last character has bits that mean nothing")
    return found


def _is_signed(token: str, keys: Iterable[PyJWK]) -> bool:
    """Whether one of these keys verifies the signature of a token, whose header names their algorithm.

    The header was checked before, and the length of a key when it was fetched, so PyJWT need not read the token again.
    """
    signed, _, signature = token.rpartition(".")
    try:
        decoded = _decoded(signature)
    except ValueError:
        return False
    return any(each.Algorithm.verify(signed.encode(), each.key, decoded) for each in keys)
