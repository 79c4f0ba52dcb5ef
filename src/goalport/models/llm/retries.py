"""Retries: a request that fails in a way that may pass (a rate limit, a time-out, a server's failure) is made again.

The provider's settings say how often and after which waits; a provider that asks for a longer wait (retry-after) gets
it. The libraries below never retry. Above: `provider_clients` wraps each model in `RetryingModel`; below: `adapter`
raises `TransientFailure`.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

import anyio

from goalport.base.errors import ModelUnavailable
from goalport.models.llm.endpoints import ProviderSettings
from goalport.models.llm.model import (
    ClosableEmbeddings,
    ClosableModel,
    ModelCall,
    ModelCard,
    ModelReply,
    Retry,
    TextDelta,
    ThinkingDelta,
)

T = TypeVar("T")
_log = logging.getLogger(__name__)
_UNREACHABLE_ATTEMPTS = 3
_UNREACHABLE_SECONDS = 1.0
"""Without any connection, somebody has to mend something: the error comes after seconds, not after all attempts."""


class TransientFailure(ModelUnavailable):
    """One attempt failed, and another may succeed."""

    def __init__(self, message: str, retry_after: float | None = None, *, unreachable: bool = False) -> None:
        self.retry_after = retry_after
        """Seconds that the provider asks to wait; None: it did not say."""
        self.unreachable = unreachable
        """Whether there was no connection at all: most often a wrong address, or a server that does not run."""
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class _Backoff:
    """How many attempts are made, and how long each wait is."""

    settings: ProviderSettings
    name: str
    """What is asked, for the log."""

    async def run(self, attempt: Callable[[], Awaitable[T]], on_retry: Callable[[Retry], None] | None) -> T:
        """The result of the first attempt that succeeds. Raises `ModelUnavailable` when none does."""
        number = 1
        while True:
            try:
                return await attempt()
            except TransientFailure as failure:
                await self.wait(failure, number, on_retry)
            number += 1

    async def wait(self, failure: TransientFailure, attempt: int, on_retry: Callable[[Retry], None] | None) -> None:
        """Wait before the next attempt. Raises `ModelUnavailable` when there is to be none."""
        longest = self.settings.backoff_max_interval / 1_000
        most = self.settings.max_attempts
        if failure.unreachable:
            longest, most = min(longest, _UNREACHABLE_SECONDS), min(most, _UNREACHABLE_ATTEMPTS)
        asked = failure.retry_after
        if attempt >= most:
            tried = "" if attempt == 1 else f" It was asked {attempt} times."
            raise ModelUnavailable(f"{failure}{tried} Try again later, or choose another model.") from failure
        if asked is not None and asked > longest:
            raise ModelUnavailable(
                f"{failure} It wants {asked:g} s to pass; backoff_max_interval allows {longest:g}. Try again later."
            ) from failure
        delay = min(self.settings.backoff_millis / 1_000 * self.settings.backoff_multiplier ** (attempt - 1), longest)
        delay = delay if asked is None else asked
        _log.warning("%s: attempt %d of %d failed, the next in %.1f s: %s", self.name, attempt, most, delay, failure)
        if on_retry is not None:
            on_retry(Retry(attempt=attempt, attempts=most, delay_seconds=delay, error=str(failure)))
        await anyio.sleep(delay)


class RetryingModel:
    """A model whose requests are retried as its provider's settings say."""

    def __init__(self, model: ClosableModel, settings: ProviderSettings) -> None:
        self._model = model
        self._backoff = _Backoff(settings, f"{model.card.provider}:{model.card.name}")

    @property
    def card(self) -> ModelCard:
        return self._model.card

    async def reply(self, call: ModelCall, /) -> ModelReply:
        return await self._backoff.run(lambda: self._model.reply(call), call.on_retry)

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """Retries only while nothing has come: pieces that were passed on cannot be taken back."""
        attempt, begun = 1, False
        while True:
            try:
                async with aclosing(self._model.stream(call)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                return
            except TransientFailure as failure:
                if begun:
                    raise ModelUnavailable(f"{failure} It had begun to answer.") from failure
                await self._backoff.wait(failure, attempt, call.on_retry)
            attempt += 1

    async def aclose(self) -> None:
        await self._model.aclose()


class RetryingEmbeddings:
    """An embedding service whose requests are retried as its provider's settings say."""

    def __init__(self, service: ClosableEmbeddings, settings: ProviderSettings) -> None:
        self._service = service
        self._backoff = _Backoff(settings, service.name)

    @property
    def name(self) -> str:
        return self._service.name

    @property
    def dimensions(self) -> int | None:
        return self._service.dimensions

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        return await self._backoff.run(lambda: self._service.embed(texts), None)

    async def aclose(self) -> None:
        await self._service.aclose()
