"""The public keys of an issuer: found by its metadata, kept, and fetched again when they are old or one is missing.

How many tokens come does not change how often the issuer is asked: a token that names an unknown key makes the keys be
fetched at most twice a minute, and known keys bridge a time in which the issuer does not answer. Above: `jwt`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

from jwt import PyJWK, PyJWTError

from goalport.base.hosts import is_secure
from goalport.base.words import first_line
from goalport.server.auth.provider_client import ProviderClient, ProviderError
from goalport.server.auth.verifiers import VerifierUnavailable
from goalport.workspace.settings import IssuerSettings

_log = logging.getLogger(__name__)
_PAUSE: Final = 30.0
"""Seconds between two requests for keys, however many tokens name keys that are not known."""
_RETRY: Final = 5.0
"""The same while no key is known at all, because the issuer has not answered yet."""
_OLD: Final = 600.0
"""Seconds after which the keys are fetched again while those that are known are used."""
_TOO_OLD: Final = 24 * 3_600.0
"""Seconds without an answer of the issuer after which its keys are no longer trusted."""
_MOST_KEYS: Final = 100
_ALGORITHMS: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""The algorithms of a kind of key and its curve."""


def metadata_urls(issuer: str) -> Iterator[str]:
    """Where the metadata of an issuer may be: by RFC 8414 and OpenID Connect Discovery, after and before its path."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    for each in (
        f"/.well-known/oauth-authorization-server{path}",
        f"{path}/.well-known/openid-configuration",
        *([f"/.well-known/openid-configuration{path}"] if path else []),
    ):
        yield urlunsplit((parts.scheme, parts.netloc, each, "", ""))


class IssuerKeys:
    """The keys of one issuer. `clock` gives seconds that only grow."""

    def __init__(self, issuer: IssuerSettings, client: ProviderClient, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._client = client
        self._clock = clock
        self._keys: Sequence[PyJWK] = ()
        """The keys, each with an algorithm that it may be used with."""
        self._fetched_at = self._asked_at = float("-inf")
        self._failed = False
        self._fetching: asyncio.Task[None] | None = None

    def fetch_soon(self, pause: float = _RETRY) -> None:
        """Begin to fetch the keys, unless the issuer was asked within the pause. A failure is logged."""
        if self._fetching is None and self._clock() - self._asked_at >= pause:
            self._asked_at = self._clock()
            self._fetching = self._client.start(self._replace())

    async def suiting(self, kid: str | None, algorithm: str) -> Sequence[PyJWK]:
        """The keys that a token may be signed with, as its header says. Raises `VerifierUnavailable`."""
        found, age = self._found(kid, algorithm), self._age
        if not found or age > _OLD:
            self.fetch_soon(_PAUSE if age <= _TOO_OLD else _RETRY)
            if self._fetching is not None and (not found or age > _TOO_OLD):
                await asyncio.shield(self._fetching)  # together with all who wait for it
                found = self._found(kid, algorithm)
        if self._age > _TOO_OLD:
            raise VerifierUnavailable(f"The keys of {self._issuer.issuer} cannot be fetched.", round(_RETRY))
        if not found and self._failed:
            raise VerifierUnavailable(f"{self._issuer.issuer} cannot be asked for a key.", round(_PAUSE))
        return found

    @property
    def _age(self) -> float:
        return self._clock() - self._fetched_at

    def _found(self, kid: str | None, algorithm: str) -> Sequence[PyJWK]:
        return [each for each in self._keys if each.algorithm_name == algorithm and kid in (None, each.key_id)]

    async def _replace(self) -> None:
        """Put the keys that the issuer has now in place of those that are known."""
        try:
            self._keys = await self._client.in_time(self._issuer.issuer, self._read())
            self._fetched_at, self._failed = self._clock(), False
        except ProviderError as error:
            self._failed = True
            _log.warning("The keys of %s cannot be fetched: %s", self._issuer.issuer, error)
        finally:
            self._fetching = None

    async def _read(self) -> Sequence[PyJWK]:
        """The keys that the issuer has now. Raises `ProviderError`."""
        uri = self._issuer.jwks_uri or await self._discovered()
        entries = (await self._client.get(uri)).get("keys")
        if not isinstance(entries, list):
            raise ProviderError(f"{uri} has no list of keys.")
        known = [cast("dict[str, Any]", each) for each in cast("list[object]", entries) if isinstance(each, dict)]
        found = [key for each in known[:_MOST_KEYS] for key in _usable(each, self._issuer.algorithms)]
        if not found:
            raise ProviderError(f"{uri} has no key that can be used here.")
        return found

    async def _discovered(self) -> str:
        """The address of the keys, as the metadata of the issuer has it. Raises `ProviderError`."""
        problems: list[str] = []
        for url in metadata_urls(self._issuer.issuer):
            try:
                metadata = await self._client.get(url)
            except ProviderError as error:
                problems.append(str(error))
                continue
            uri = metadata.get("jwks_uri")
            if metadata.get("issuer") != self._issuer.issuer:
                problems.append(f"{url} is the metadata of {first_line(repr(metadata.get('issuer')))}.")
            elif not isinstance(uri, str) or not _as_secure(uri, self._issuer.issuer):
                problems.append(f"{url} names no jwks_uri with https.")
            else:
                return uri
        raise ProviderError(" ".join(problems))


def _as_secure(uri: str, issuer: str) -> bool:
    """Whether an address that an issuer names may be asked: as securely as the issuer itself, or with https."""
    try:
        return uri.startswith("https://") or (is_secure(uri) and not issuer.startswith("https://"))
    except ValueError:  # it is no URL
        return False


def _usable(entry: Mapping[str, Any], allowed: Sequence[str]) -> Iterator[PyJWK]:
    """The key of an entry with each algorithm that it may be used with; nothing for one of a kind not known here."""
    if entry.get("use", "sig") != "sig" or "verify" not in str(entry.get("key_ops", "verify")) or "d" in entry:
        return
    suiting = _ALGORITHMS.get((str(entry.get("kty")), str(entry.get("crv", ""))), ())
    for algorithm in suiting:
        if algorithm in allowed and entry.get("alg", algorithm) == algorithm:
            try:
                key = PyJWK(dict(entry), algorithm)
            except PyJWTError:
                return
            if key.Algorithm.check_key_length(key.key) is None:
                yield key
