"""Access tokens of identity providers: the rules for their claims, the cache of their grants, and introspection.

A token that only its provider can read is introspected here: the provider is asked about it (RFC 7662), and its answer
is cached. Signatures are verified in `jwt`, above.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import quote_plus

from goalport.base.caller import EVERY_SCOPE
from goalport.base.errors import GoalportError
from goalport.base.strict_json import read_object
from goalport.base.words import listed, one_line
from goalport.server.auth.verifiers import Grant, InvalidToken, VerifierUnavailable, caller_of, not_slowed
from goalport.workspace.settings import AuthSettings, IntrospectionSettings, Settings, TokenSettings

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
_CLOCK_SKEW_SECONDS: Final = 30.0
"""The seconds by which the clock of a provider may be ahead of ours."""
_LATEST: Final = 1e12
_LONGEST_ID: Final = 1_000
_ID_TOKEN_CLAIMS: Final = frozenset({"nonce", "at_hash", "c_hash", "s_hash", "events"})
"""Claims of id tokens (OpenID Connect Core), and of the events that providers send (RFC 8417)."""
_ACCESS_KINDS: Final = {"typ": {"bearer"}, "token_use": {"access"}, "token_type": {"bearer"}}
"""The claims that name the kind of a token, with their values for an access token, in lower case: `typ` of Keycloak,
`token_use` of Amazon Cognito, and `token_type` of introspection."""
_CLIENT_CLAIMS: Final = ("client_id", "azp", "appid", "cid")
"""The claims with the client's id: of RFC 9068, of OpenID Connect, of version 1 of Entra ID, and of Okta."""
_MARKED: Final = re.compile("client:|user:")


def default_audience(address: str) -> frozenset[str]:
    """The audiences (`aud`) that are accepted if the settings name none: this server's URL, and its MCP endpoints."""
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
        provider = self.provider
        if missing := sorted(each for each in self.required if claims.get(each) is None):
            raise InvalidToken(f"The token lacks {listed(missing)}.")
        _check_kind(claims)
        for name in ("iat", "nbf"):
            if (begins := _time_in(claims, name)) is not None and begins > now + _CLOCK_SKEW_SECONDS:
                raise InvalidToken(f"The token is not valid yet ({name}).")
        expires_at = _time_in(claims, "exp")
        if expires_at is not None and expires_at <= now:
            raise InvalidToken("The token has expired.")
        if claims.get("iss", provider.issuer) != provider.issuer:
            raise InvalidToken("The token is of another issuer.")
        if "aud" in claims and claims["aud"] is not None:
            named = [claims["aud"]] if isinstance(claims["aud"], str) else _texts("aud", claims["aud"])
            if self.audience.isdisjoint(named):
                reason = "The token is for another server (aud). Ask for one with this server as the resource."
                raise InvalidToken(reason)
        client = next((each for name in _CLIENT_CLAIMS if (each := _id_in(claims, name))), "")
        scopes: set[str] = set()
        for name in provider.scope_claims:
            given = claims.get(name)
            if given is not None:
                scopes.update(given.split(" ") if isinstance(given, str) else _texts(name, given))
        # `EVERY_SCOPE` has a meaning in goalport alone: in a token of a provider it grants nothing.
        caller = caller_of(
            self.settings, self._subject(claims, client), provider.issuer, scopes - {"", EVERY_SCOPE}, claims
        )
        return Grant(caller, client or caller.id, expires_at)

    def _subject(self, claims: Mapping[str, Any], client: str) -> str:
        """The id of the caller; that of a client without a user begins with `client:`, so it equals no user's id."""
        subject = _id_in(claims, self.provider.subject_claim)
        if client and subject in {"", client}:
            return f"client:{client}"
        if not subject:
            raise InvalidToken(f"The token says neither by {self.provider.subject_claim!r} nor by a client who calls.")
        return f"user:{subject}" if _MARKED.match(subject) else subject


def _check_kind(claims: Mapping[str, Any]) -> None:
    if not _ID_TOKEN_CLAIMS.isdisjoint(claims):
        raise InvalidToken("The token is no access token but an id token, or tells of an event.")
    for name, access in _ACCESS_KINDS.items():
        if name in claims and str(claims[name]).lower() not in access:
            raise InvalidToken(f"The token is no access token for the header Authorization: Bearer ({name}).")
    if "cnf" in claims:
        raise InvalidToken("The token is bound to a key of its client (cnf), which this server does not check.")


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


_MAX_ENTRIES: Final = 10_000
"""The most grants in a cache, and the most refusals."""


class GrantCache:
    """A cache of grants by token, each for `seconds` at most. When it is full, the oldest entry is removed.

    `clock` returns the seconds since 1970. Invalid tokens are stored apart, each with the reason, so that a flood of
    them removes no grant.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._grants: dict[bytes, tuple[Grant, float]] = {}
        """By the hash of a token: its grant, and until when to use it. An older one shows that it was valid once."""
        self._refusals: dict[bytes, tuple[str, float]] = {}

    def get(self, token: str) -> Grant | str | None:
        """The grant of a token, or the reason why it is not valid; None if nothing is known of it."""
        digest, now = sha256(token.encode()).digest(), self._clock()
        for kept in (self._grants, self._refusals):
            found, until = kept.get(digest, (None, 0.0))
            if now < until:
                return found
        return None

    def was_valid(self, token: str) -> bool:
        """Whether a token had a grant before, even if that has expired."""
        return sha256(token.encode()).digest() in self._grants

    def keep(self, token: str, grant: Grant) -> None:
        """Store a grant, at most until the token expires."""
        until = min(self._clock() + self._seconds, grant.expires_at or _LATEST)
        _put(self._grants, token, (grant, until))

    def refuse(self, token: str, reason: str, seconds: float) -> None:
        """Store for `seconds` that a token is not valid, and why."""
        digest = _put(self._refusals, token, (reason, self._clock() + seconds))
        if digest in self._grants:
            self._grants[digest] = self._grants[digest][0], 0.0


def _put(kept: dict[bytes, T], token: str, entry: T) -> bytes:
    digest = sha256(token.encode()).digest()
    kept.pop(digest, None)
    kept[digest] = entry
    if len(kept) > _MAX_ENTRIES:
        del kept[next(iter(kept))]
    return digest


_TIMEOUT_SECONDS: Final = 10.0


class ProviderError(GoalportError):
    """A provider did not answer as it should; the message says how."""

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.code = code
        """The error that a response with status 400 names (RFC 6749, section 5.2); empty: none."""


class ProviderClient:
    """The HTTP client for all identity providers of a server. It opens no connection before the first request.

    `seconds` is the time limit of a request, and of work that is passed to `in_time`.
    """

    def __init__(self, seconds: float = _TIMEOUT_SECONDS) -> None:
        self._seconds = seconds
        self._http: httpx2.AsyncClient | None = None
        self._tasks = set[asyncio.Task[None]]()

    async def ask(self, method: str, url: str, **options: Any) -> Mapping[str, Any]:
        """Send a request and return the JSON object of its response; `options` are httpx's. Raises `ProviderError`."""
        import httpx2

        from goalport.base.bounded_answers import bounded_client

        if self._http is None:
            # The callers limit their requests themselves, so that those to one provider never wait for another one.
            many = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
            headers = {"Accept": "application/json"}
            self._http = bounded_client(self._seconds, headers=headers, limits=many, follow_redirects=False)
        code = ""
        try:
            response = await self.in_time(url, self._http.request(method, url, **options))
            if response.status_code == HTTPStatus.OK:
                return read_object(response.content)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ValueError) as error:
            raise ProviderError(f"{url} cannot be read: {error or type(error).__name__}") from None
        if response.status_code == HTTPStatus.BAD_REQUEST:
            with suppress(ValueError):
                code = one_line(str(read_object(response.content).get("error", "")))
        raise ProviderError(f"{url} cannot be read: expected status 200, but got {response.status_code} {code}", code)

    async def in_time(self, who: str, work: Awaitable[T]) -> T:
        """The result of work that may send several requests. Raises `ProviderError` if all of it takes too long."""
        try:
            async with asyncio.timeout(self._seconds):
                return await work
        except TimeoutError:
            raise ProviderError(f"{who} did not answer within {self._seconds:g} s.") from None

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that sends requests to a provider; `aclose` cancels it."""
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


_KEPT_SECONDS: Final = 30.0
"""Seconds for which a grant is cached: a revoked token is accepted for that long at most."""
_REFUSED_SECONDS: Final = 10.0
"""Seconds for which a refusal is cached. They are few, since a provider may learn of a new token late."""
_MOST_AT_ONCE: Final = 16
"""The most requests to a provider at once, in each of three queues that never wait for each other: for tokens that were
valid before, for other tokens, and for other tokens from addresses that sent too many invalid ones."""
_OTHER_KIND: Final = "unsupported_token_type"
"""The error code of providers for tokens that they never introspect, such as JWTs; its name is from RFC 7009."""


class IntrospectionVerifier:
    """Asks one provider about many tokens at once, each in one request. `clock` returns the seconds since 1970."""

    def __init__(
        self,
        settings: Settings,
        provider: IntrospectionSettings,
        client: ProviderClient,
        clock: Callable[[], float] = time.time,
    ) -> None:
        audience = frozenset(provider.audience) or default_audience(settings.address)
        required = frozenset({"aud"} if provider.require_audience else ())
        self._rules = TokenRules(provider, settings.auth, audience, required)
        self._provider = provider
        self._client = client
        self._clock = clock
        self._cache = GrantCache(_KEPT_SECONDS, clock)
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._repeated, self._new, self._slowed = (asyncio.Semaphore(_MOST_AT_ONCE) for _ in range(3))

    def recognizes(self, token: str) -> bool:
        """Whether a token begins with the prefix of the provider's tokens; nothing else is known of their form."""
        return token.startswith(self._provider.token_prefix)

    async def verify(self, token: str, is_slowed: Callable[[], bool] = not_slowed) -> Grant:
        """What a token grants, as its provider says. Raises `InvalidToken` and `VerifierUnavailable`."""
        found = self._cache.get(token)
        if found is None:
            if token not in self._asking:

                def asked(task: asyncio.Task[None]) -> None:
                    self._asking.pop(token, None)
                    if not task.cancelled():
                        task.exception()  # read, so that asyncio does not log it if no request waits any more

                self._asking[token] = self._client.start(self._ask(token, is_slowed))
                self._asking[token].add_done_callback(asked)
            await asyncio.shield(self._asking[token])
            found = self._cache.get(token)
        if isinstance(found, Grant):
            return found
        if found is None:
            raise VerifierUnavailable(f"{self._provider.endpoint} cannot be asked about tokens.")
        raise InvalidToken(found, was_valid=self._cache.was_valid(token))

    async def _ask(self, token: str, is_slowed: Callable[[], bool]) -> None:
        """Ask about a token, and cache the answer. The time limit includes the wait in the queue."""
        try:
            claims = await self._client.in_time(self._provider.endpoint, self._claims_of(token, is_slowed))
            if claims.get("active") is not True:
                raise InvalidToken("The token is not valid, or no longer.")  # noqa: TRY301 - as what the rules raise
            self._cache.keep(token, self._rules.grant_of(claims, self._clock()))
        except ProviderError as error:
            if error.code != _OTHER_KIND:
                raise VerifierUnavailable(str(error)) from None
            self._cache.refuse(token, "The provider does not introspect tokens of this kind.", _REFUSED_SECONDS)
        except InvalidToken as error:
            self._cache.refuse(token, str(error), _REFUSED_SECONDS)

    async def _claims_of(self, token: str, is_slowed: Callable[[], bool]) -> Mapping[str, Any]:
        """The claims that the provider returns for a token, after a wait in a queue. Raises `ProviderError`."""
        provider = self._provider
        # The parts of HTTP Basic authentication are form-encoded first (RFC 6749, section 2.3.1).
        user, secret = quote_plus(provider.client_id), quote_plus(provider.client_secret.get_secret_value())
        form = {"token": token, "token_type_hint": "access_token"}
        ask = partial(self._client.ask, "POST", provider.endpoint, data=form, auth=(user, secret))
        turn = self._repeated if self._cache.was_valid(token) else self._new
        async with turn:
            if turn is self._repeated or not is_slowed():  # asked only now: many may have failed while this one waited
                return await ask()
        async with self._slowed:
            return await ask()
