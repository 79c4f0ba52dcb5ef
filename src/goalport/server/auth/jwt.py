"""Verifies access tokens that are JWTs with the public keys of their issuers, without a request for each token.

RFC 9068 defines such tokens, and RFC 8725 how to verify them safely. Below `authentication`; other access tokens are in
`tokens`.
"""

import asyncio
import base64
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

from jwt import PyJWK, PyJWTError

from goalport.base.hosts import is_secure
from goalport.base.strict_json import read_object
from goalport.base.words import first_line
from goalport.server.auth.tokens import GrantCache, ProviderClient, ProviderError, TokenRules, default_audience
from goalport.server.auth.verifiers import Grant, InvalidToken, VerifierUnavailable, not_slowed
from goalport.workspace.settings import IssuerSettings, Settings

_log = logging.getLogger(__name__)
_UNKNOWN_KEY_SECONDS: Final = 30.0
"""Seconds between two requests for keys, however many tokens name keys that are not known."""
_RETRY_SECONDS: Final = 5.0
"""Seconds between two requests for keys while none is known, because the issuer has not answered yet."""
_REFRESH_SECONDS: Final = 600.0
"""Seconds after which the keys are fetched again; until they arrive, tokens are verified with the known ones."""
_EXPIRY_SECONDS: Final = 24 * 3_600.0
"""Seconds without an answer of the issuer after which its keys are no longer trusted."""
_MOST_KEYS: Final = 100
_ALGORITHMS: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""The algorithms by the type (`kty`) and the curve (`crv`) of a key."""


def metadata_urls(issuer: str) -> Iterator[str]:
    """The URLs at which an issuer may have its metadata, by RFC 8414 and OpenID Connect Discovery."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    for each in (
        f"/.well-known/oauth-authorization-server{path}",
        f"{path}/.well-known/openid-configuration",
        *([f"/.well-known/openid-configuration{path}"] if path else []),
    ):
        yield urlunsplit((parts.scheme, parts.netloc, each, "", ""))


class IssuerKeys:
    """The keys of one issuer. `clock` returns monotonic seconds."""

    def __init__(self, issuer: IssuerSettings, client: ProviderClient, clock: Callable[[], float]) -> None:
        self.issuer = issuer
        self._client = client
        self._clock = clock
        self._keys: Sequence[PyJWK] = ()
        """The keys, each with an algorithm that it may be used with."""
        self._fetched_at = self._asked_at = float("-inf")
        self._failed = False
        self._fetching: asyncio.Task[None] | None = None

    def fetch_soon(self, pause: float = _RETRY_SECONDS) -> None:
        """Begin to fetch the keys, unless the issuer was asked within the pause. A failure is logged."""
        if self._fetching is None and self._clock() - self._asked_at >= pause:
            self._asked_at = self._clock()
            self._fetching = self._client.start(self._replace())

    async def suiting(self, kid: str | None, algorithm: str) -> Sequence[PyJWK]:
        """The keys with the `kid`, if there is one, and the algorithm of a token. Raises `VerifierUnavailable`."""
        found, age = self._found(kid, algorithm), self._clock() - self._fetched_at
        if not found or age > _REFRESH_SECONDS:
            self.fetch_soon(_UNKNOWN_KEY_SECONDS if age <= _EXPIRY_SECONDS else _RETRY_SECONDS)
            if self._fetching is not None and (not found or age > _EXPIRY_SECONDS):
                await asyncio.shield(self._fetching)  # other requests wait for it too
                found = self._found(kid, algorithm)
        if self._clock() - self._fetched_at > _EXPIRY_SECONDS:
            raise VerifierUnavailable(f"The keys of {self.issuer.issuer} cannot be fetched.", round(_RETRY_SECONDS))
        if not found and self._failed:
            raise VerifierUnavailable(f"{self.issuer.issuer} cannot be asked for a key.", round(_UNKNOWN_KEY_SECONDS))
        return found

    def _found(self, kid: str | None, algorithm: str) -> Sequence[PyJWK]:
        return [each for each in self._keys if each.algorithm_name == algorithm and kid in (None, each.key_id)]

    async def _replace(self) -> None:
        """Fetch the keys that the issuer has now; if that fails, log why, and keep the known keys."""
        try:
            self._keys = await self._client.in_time(self.issuer.issuer, self._read())
            self._fetched_at, self._failed = self._clock(), False
        except ProviderError as error:
            self._failed = True
            _log.warning("The keys of %s cannot be fetched: %s", self.issuer.issuer, error)
        finally:
            self._fetching = None

    async def _read(self) -> Sequence[PyJWK]:
        """The usable keys of the issuer's JWK set. Raises `ProviderError`."""
        uri = self.issuer.jwks_uri or await self._discovered()
        entries = (await self._client.ask("GET", uri)).get("keys")
        if not isinstance(entries, list):
            raise ProviderError(f"{uri} has no list of keys.")
        known = [cast("dict[str, Any]", each) for each in cast("list[object]", entries) if isinstance(each, dict)]
        found = [key for each in known[:_MOST_KEYS] for key in _usable(each, self.issuer.algorithms)]
        if not found:
            raise ProviderError(f"{uri} has no key that can be used here.")
        return found

    async def _discovered(self) -> str:
        """The URL of the issuer's JWK set, from its metadata. Raises `ProviderError`."""
        issuer = self.issuer.issuer
        problems: list[str] = []
        for url in metadata_urls(issuer):
            try:
                metadata = await self._client.ask("GET", url)
            except ProviderError as error:
                problems.append(str(error))
                continue
            uri = metadata.get("jwks_uri")
            if metadata.get("issuer") != issuer:
                problems.append(f"{url} is the metadata of {first_line(repr(metadata.get('issuer')))}.")
                continue
            with suppress(ValueError):  # it is no URL
                # The keys are fetched with https, unless the issuer itself has another scheme.
                plain_too = not issuer.startswith("https://")
                if isinstance(uri, str) and (uri.startswith("https://") or (plain_too and is_secure(uri))):
                    return uri
            problems.append(f"{url} names no jwks_uri with https.")
        raise ProviderError(" ".join(problems))


def _usable(entry: Mapping[str, Any], allowed: Sequence[str]) -> Iterator[PyJWK]:
    """The key of an entry of a JWK set, once for each allowed algorithm; nothing for a key that cannot be used here."""
    if entry.get("use", "sig") != "sig" or "verify" not in str(entry.get("key_ops", "verify")) or "d" in entry:
        return
    for algorithm in _ALGORITHMS.get((str(entry.get("kty")), str(entry.get("crv", ""))), ()):
        if algorithm in allowed and entry.get("alg", algorithm) == algorithm:
            try:
                key = PyJWK(dict(entry), algorithm)
            except PyJWTError:
                return
            if key.Algorithm.check_key_length(key.key) is None:
                yield key


_FORM: Final = re.compile(r"(e[wy][\w-]+)\.([\w-]+)\.([\w-]+)", re.ASCII)
_KEPT_SECONDS: Final = 60.0
_LONGEST_KID: Final = 512
_TYPES: Final = frozenset({"at+jwt", "application/at+jwt", "jwt"})
"""The `typ` in the header of access tokens, in lower case: the first two by RFC 9068, the last of many providers."""
_REFUSED: Final = frozenset({"jku", "jwk", "x5u", "x5c", "crit", "b64", "zip", "enc", "cty"})
"""Refused header parameters: a token could choose its own key, be no plain text, or contain another token by them."""
_REQUIRED: Final = frozenset({"exp", "iss", "aud"})


class JwtVerifier:
    """Verifies the JWTs of all issuers that the settings name.

    With `recognizes_all` it recognizes every JWT, otherwise those of its issuers: another verifier may know the others.
    `clock` returns the seconds since 1970, `stopwatch` monotonic seconds.
    """

    def __init__(
        self,
        settings: Settings,
        client: ProviderClient,
        *,
        recognizes_all: bool = True,
        clock: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recognizes_all = recognizes_all
        self._clock = clock
        self._cache = GrantCache(_KEPT_SECONDS, clock)
        usual, auth = default_audience(settings.address), settings.auth
        self._issuers = {
            each.issuer: (
                TokenRules(each, auth, frozenset(each.audience) or usual, _REQUIRED),
                IssuerKeys(each, client, stopwatch),
            )
            for each in auth.issuers
        }

    def fetch_keys(self) -> None:
        """Begin to fetch the keys of all issuers, before a token asks for them."""
        for _, keys in self._issuers.values():
            keys.fetch_soon()

    def recognizes(self, token: str) -> bool:
        """Whether a token is a JWT and, without `recognizes_all`, from one of the issuers."""
        form = _FORM.fullmatch(token)
        try:
            return form is not None and (
                self._recognizes_all or read_object(_decoded(form[2])).get("iss") in self._issuers
            )
        except (ValueError, TypeError):
            return False

    async def verify(self, token: str, is_slowed: Callable[[], bool] = not_slowed) -> Grant:
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
        algorithm, kid, claims = _read(token)
        named = claims.get("iss")
        rules, keys = self._issuers.get(named, (None, None)) if isinstance(named, str) else (None, None)
        if rules is None or keys is None:
            raise InvalidToken("The token is of an issuer that this server does not trust.")
        if algorithm not in keys.issuer.algorithms:
            raise InvalidToken("The token is signed with an algorithm that is not accepted here.")
        # The claims are checked before the signature, so that an expired token never causes a request for keys.
        grant = rules.grant_of(claims, self._clock())
        if not _is_signed(token, await keys.suiting(kid, algorithm)):
            raise InvalidToken("The token is not signed with a key of its issuer.")
        return grant


def _read(token: str) -> tuple[str, str | None, Mapping[str, Any]]:
    """The algorithm, the id of the key (`kid`) and the claims of a token, all unverified. Raises `InvalidToken`."""
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
    return algorithm, kid, claims


def _decoded(part: str) -> bytes:
    """Decode a part of a token, which is in base64url. Raises `ValueError`."""
    found = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if base64.urlsafe_b64encode(found).decode().rstrip("=") != part:
        raise ValueError("its last character has bits that mean nothing")
    return found


def _is_signed(token: str, keys: Iterable[PyJWK]) -> bool:
    """Whether one of these keys verifies the signature of a token, whose header names their algorithm.

    PyJWT need not parse the token again: its header is checked already, and the lengths of keys when they are fetched.
    """
    signed, _, signature = token.rpartition(".")
    try:
        decoded = _decoded(signature)
    except ValueError:
        return False
    return any(each.Algorithm.verify(signed.encode(), each.key, decoded) for each in keys)
