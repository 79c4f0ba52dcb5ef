"""Asking again: what passes by itself (a rate limit, a time-out, a server's failure) is tried again, nothing else is.

The waits are the provider's settings, or longer when the provider says how long. The libraries below never try again.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol, TypeVar

import anyio

from goalport.errors import ModelUnavailable
from goalport.llm.embedding import EmbeddingService
from goalport.llm.model import ModelCall, ModelCard, ModelReply, Retry, TextDelta, ThinkingDelta
from goalport.llm.settings import ProviderSettings

__all__ = ["PassingFailure", "RetryingEmbeddings", "RetryingModel"]

T = TypeVar("T")
_log = logging.getLogger(__name__)
_UNREACHABLE_ATTEMPTS = 3
_UNREACHABLE_SECONDS = 1.0
"""Where nothing answers at all, somebody has to do something: it is told after seconds, and not after all attempts."""


class PassingFailure(ModelUnavailable):
    """One attempt failed, and another may succeed."""

    def __init__(self, message: str, retry_after: float | None = None, *, unreachable: bool = False) -> None:
        self.retry_after = retry_after
        """Seconds that the provider asked to wait; None: it did not say."""
        self.unreachable = unreachable
        """Whether there was no connection at all: most often a wrong address, or a server that does not run."""
        super().__init__(message)


class _Asked(Protocol):
    """A model of one attempt, which is closed when nobody asks it any more."""

    @property
    def card(self) -> ModelCard: ...

    async def reply(self, call: ModelCall, /) -> ModelReply: ...

    def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]: ...

    async def aclose(self) -> None: ...


class _AskedForVectors(EmbeddingService, Protocol):
    """An embedding service of one attempt, which is closed likewise."""

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Patience:
    """How often, and after which waits."""

    settings: ProviderSettings
    name: str

    async def wait(self, failure: PassingFailure, attempt: int, on_retry: Callable[[Retry], None] | None) -> None:
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

    async def again(self, ask: Callable[[], Awaitable[T]], on_retry: Callable[[Retry], None] | None) -> T:
        """What `ask` gives in the end."""
        attempt = 1
        while True:
            try:
                return await ask()
            except PassingFailure as failure:
                await self.wait(failure, attempt, on_retry)
            attempt += 1


class RetryingModel:
    """A model that is asked again, as its provider's settings say."""

    def __init__(self, model: _Asked, settings: ProviderSettings) -> None:
        self._model = model
        self._patience = _Patience(settings, f"{model.card.provider}:{model.card.name}")

    @property
    def card(self) -> ModelCard:
        return self._model.card

    async def reply(self, call: ModelCall, /) -> ModelReply:
        return await self._patience.again(lambda: self._model.reply(call), call.on_retry)

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """Asked again only as long as nothing has come: what was told cannot be taken back."""
        attempt, begun = 1, False
        while True:
            try:
                async with aclosing(self._model.stream(call)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                return
            except PassingFailure as failure:
                if begun:
                    raise ModelUnavailable(f"{failure} It had begun to answer.") from failure
                await self._patience.wait(failure, attempt, call.on_retry)
            attempt += 1

    async def aclose(self) -> None:
        await self._model.aclose()


class RetryingEmbeddings:
    """An embedding service that is asked again, as its provider's settings say."""

    def __init__(self, service: _AskedForVectors, settings: ProviderSettings) -> None:
        self._service = service
        self._patience = _Patience(settings, service.name)

    @property
    def name(self) -> str:
        return self._service.name

    @property
    def dimensions(self) -> int | None:
        return self._service.dimensions

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        return await self._patience.again(lambda: self._service.embed(texts), None)

    async def aclose(self) -> None:
        await self._service.aclose()
