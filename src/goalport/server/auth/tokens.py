"""Access tokens of providers: what their claims have to be, the grants that they make, and how a provider is asked.

Nothing here verifies a signature. Above: `jwt` and `introspection`, which know that the claims are the provider's.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from goalport.base.caller import EVERY_SCOPE
from goalport.base.errors import GoalportError
from goalport.base.strict_json import read_object
from goalport.base.words import listed, one_line
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


_MOST: Final = 10_000
"""Grants that are kept, and as many refusals."""
T = TypeVar("T")


class GrantCache:
    """The grants of tokens, each for `seconds` at most; of too many, those that were kept first are forgotten.

    `clock` gives the seconds since 1970. Tokens that are not valid are kept apart, with the reason in place of a grant,
    so that however many they are no grant is forgotten for them.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._grants: dict[bytes, tuple[Grant, float]] = {}
        """With the time until which it counts; then it still says that the token was valid."""
        self._refusals: dict[bytes, tuple[str, float]] = {}

    def get(self, token: str) -> Grant | str | None:
        """The grant of a token, or the reason why it is not valid; None if nothing is known of it."""
        digest, now = _digest_of(token), self._clock()
        for kept in (self._grants, self._refusals):
            found, until = kept.get(digest, (None, 0.0))
            if now < until:
                return found
        return None

    def was_valid(self, token: str) -> bool:
        """Whether a token has had a grant, be it valid now or not."""
        return _digest_of(token) in self._grants

    def keep(self, token: str, found: Grant | str, seconds: float | None = None) -> None:
        """Keep what was found, never beyond the end of the token; `seconds` instead of the usual ones."""
        until = self._clock() + (self._seconds if seconds is None else seconds)
        if isinstance(found, Grant) and found.expires_at is not None:
            until = min(until, found.expires_at)
        digest = _digest_of(token)
        if isinstance(found, Grant):
            _put(self._grants, digest, (found, until))
            return
        _put(self._refusals, digest, (found, until))
        if digest in self._grants:
            self._grants[digest] = self._grants[digest][0], 0.0


def _put(kept: dict[bytes, T], digest: bytes, entry: T) -> None:
    kept.pop(digest, None)
    kept[digest] = entry
    if len(kept) > _MOST:
        del kept[next(iter(kept))]


def _digest_of(token: str) -> bytes:
    return sha256(token.encode()).digest()


if TYPE_CHECKING:
    import httpx2

_SECONDS: Final = 10.0


class ProviderError(GoalportError):
    """A provider did not answer as it should; the message says how."""

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.code = code
        """The error that a response with status 400 names (RFC 6749, section 5.2); empty: none."""


class ProviderClient:
    """One client for all providers of a server. It opens nothing before the first request.

    What a caller waits for takes `seconds` at most.
    """

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._http: httpx2.AsyncClient | None = None
        self._tasks = set[asyncio.Task[None]]()

    async def get(self, url: str) -> Mapping[str, Any]:
        """The JSON object at a URL. Raises `ProviderError`."""
        return await self._bounded("GET", url)

    async def post(self, url: str, form: Mapping[str, str], user: str, password: str) -> Mapping[str, Any]:
        """The JSON object that answers a form, sent with HTTP Basic authentication. Raises `ProviderError`."""
        return await self._bounded("POST", url, data=dict(form), auth=(user, password))

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do work on a provider in a task of its own, which ends with this client at the latest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def aclose(self) -> None:
        """Cancel the tasks and close the connections."""
        tasks = list(self._tasks)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def in_time(self, who: str, work: Awaitable[T]) -> T:
        """The result of work that may ask more than once. Raises `ProviderError` if it takes too long."""
        try:
            async with asyncio.timeout(self._seconds):
                return await work
        except TimeoutError:
            raise ProviderError(f"{who} did not answer within {self._seconds:g} s.") from None

    async def _bounded(self, method: str, url: str, **options: Any) -> Mapping[str, Any]:
        import httpx2

        try:
            return await self.in_time(url, self._ask(method, url, **options))
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ValueError) as error:
            raise ProviderError(f"{url} cannot be read: {error or type(error).__name__}") from None

    async def _ask(self, method: str, url: str, **options: Any) -> Mapping[str, Any]:
        """What a provider answers. Raises `ProviderError`, and `ValueError` if it is no JSON object."""
        import httpx2

        from goalport.base.bounded_answers import bounded_client

        if self._http is None:
            # Who asks bounds how many ask at once, so that requests to one provider never wait for those to another.
            many = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
            headers = {"Accept": "application/json"}
            self._http = bounded_client(self._seconds, headers=headers, limits=many, follow_redirects=False)
        response = await self._http.request(method, url, **options)
        if response.status_code == HTTPStatus.OK:
            return read_object(response.content)
        code = ""
        if response.status_code == HTTPStatus.BAD_REQUEST:
            with suppress(ValueError):
                code = one_line(str(read_object(response.content).get("error", "")))
        raise ProviderError(f"{url} cannot be read: expected status 200, but got {response.status_code} {code}", code)
