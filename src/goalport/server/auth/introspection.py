"""Access tokens that only their provider can read: it is asked about each (RFC 7662), and its answer kept for a while.

A token that is revoked is refused after `_KEPT_SECONDS` at the latest. Below `authentication`; beside `jwt`.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote_plus

from goalport.server.auth.tokens import GrantCache, ProviderClient, ProviderError, TokenRules, default_audience
from goalport.server.auth.verifiers import Grant, InvalidToken, VerifierUnavailable, never
from goalport.workspace.settings import IntrospectionSettings, Settings

_KEPT_SECONDS: Final = 30.0
_REFUSED_SECONDS: Final = 10.0
"""For how long it is known that a token is not valid: shortly, since a provider may learn of a token late."""
_MOST_AT_ONCE: Final = 16
"""Requests to the provider at once about tokens that were valid before, as many about others, and as many about others
from addresses that sent too many that are not valid: none of the three waits for another."""
_OTHER_KIND: Final = "unsupported_token_type"
"""The error by which providers refuse tokens that they introspect never, such as JWTs; its name is from RFC 7009."""


class IntrospectionVerifier:
    """Asks one provider about tokens, many at once, but not twice about one. `clock` gives the seconds since 1970."""

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

    def takes(self, token: str) -> bool:
        """Whether a token begins as the provider's do; how it goes on is the provider's own affair."""
        return token.startswith(self._provider.token_prefix)

    async def verify(self, token: str, is_slowed: Callable[[], bool] = never) -> Grant:
        """What a token grants, as its provider says. Raises `InvalidToken` and `VerifierUnavailable`."""
        found = self._cache.get(token)
        if found is None:
            if token not in self._asking:
                self._asking[token] = task = self._client.start(self._ask(token, is_slowed))
                task.add_done_callback(partial(self._asked, token))
            await asyncio.shield(self._asking[token])
            found = self._cache.get(token)
        if isinstance(found, Grant):
            return found
        if found is None:
            raise VerifierUnavailable(f"{self._provider.endpoint} cannot be asked about tokens.")
        raise InvalidToken(found, was_valid=self._cache.was_valid(token))

    def _asked(self, token: str, task: asyncio.Task[None]) -> None:
        self._asking.pop(token, None)
        if not task.cancelled():
            task.exception()  # Seen, even if all who waited have left.

    async def _ask(self, token: str, is_slowed: Callable[[], bool]) -> None:
        """Ask about a token, and keep the answer. The time in which it waits for its turn counts."""
        try:
            claims = await self._client.in_time(self._provider.endpoint, self._claims_of(token, is_slowed))
        except ProviderError as error:
            if error.code != _OTHER_KIND:
                raise VerifierUnavailable(str(error)) from None
            self._cache.keep(token, "The provider does not introspect tokens of this kind.", _REFUSED_SECONDS)
            return
        try:
            if claims.get("active") is not True:
                raise InvalidToken("The token is not valid, or no longer.")  # noqa: TRY301 - as what the rules raise
            self._cache.keep(token, self._rules.grant_of(claims, self._clock()))
        except InvalidToken as error:
            self._cache.keep(token, str(error), _REFUSED_SECONDS)

    async def _claims_of(self, token: str, is_slowed: Callable[[], bool]) -> Mapping[str, Any]:
        """What the provider says of a token, when it is its turn. Raises `ProviderError`."""
        if self._cache.was_valid(token):
            async with self._repeated:
                return await self._answer_to(token)
        async with self._new:
            if not is_slowed():  # asked only now: many tokens may have failed while this one waited
                return await self._answer_to(token)
        async with self._slowed:
            return await self._answer_to(token)

    async def _answer_to(self, token: str) -> Mapping[str, Any]:
        # The parts of HTTP Basic authentication are form-encoded first (RFC 6749, section 2.3.1).
        user, secret = quote_plus(self._provider.client_id), quote_plus(self._provider.client_secret.get_secret_value())
        form = {"token": token, "token_type_hint": "access_token"}
        return await self._client.post(self._provider.endpoint, form, user, secret)
