"""The models of providers: made when they are first asked, and asked again after failures that may pass.

A provider's library takes seconds to import, so a worker thread does it: on the event loop the import would keep the
server from answering others. The provider's settings say how often a request is made again (after a rate limit, a
time-out, a server's failure) and after which waits; a provider that asks for a longer wait (retry-after) gets it. The
libraries below never retry. Above: `catalogue`; below: `adapter` raises `TransientFailure`.
"""

import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Generic, TypeVar

import anyio
from anyio import CapacityLimiter
from anyio.lowlevel import current_token
from anyio.to_thread import run_sync

from goalport.base.errors import ModelUnavailable
from goalport.models.llm.dialects import Endpoint
from goalport.models.llm.model import (
    EmbeddingService,
    LanguageModel,
    ModelCall,
    ModelCard,
    ModelReply,
    Retry,
    TextDelta,
    ThinkingDelta,
    TransientFailure,
)

_log = logging.getLogger(__name__)
_UNREACHABLE_ATTEMPTS = 3
_UNREACHABLE_SECONDS = 1.0
"""Without any connection, waiting seldom helps: the error comes after seconds, and not after all attempts."""
_import_lock = threading.Lock()
"""Locked during imports: two threads that import modules of one circle may find them half initialised."""


T = TypeVar("T")
R = TypeVar("R")
Opened = tuple[T, Callable[[], Awaitable[None]]]
"""A model that asks a provider, and the function that closes its connections."""


class _LoopBound(Generic[T]):
    """A model that asks a provider. It is made once for each event loop, to which its connections belong."""

    def __init__(self, make: Callable[[], Opened[T]], endpoint: Endpoint, name: str) -> None:
        """`name` is the name of the model in the log."""
        self._make, self._settings, self._asked = make, endpoint.settings, name
        self._made: tuple[object, Opened[T]] | None = None
        """The event loop, and the model made for it. A second `invoke_sync`, or the next test, has another loop."""

    async def made(self) -> T:
        """The model for this event loop. A task that is cancelled does not wait until the model is made."""
        loop, made = current_token(), self._made

        def make_once() -> tuple[object, Opened[T]]:
            with _import_lock:
                # Within the lock: another first request may wait for it, and would open a client that nobody closes.
                if self._made is None or self._made[0] != loop:
                    self._made = loop, self._make()
                return self._made

        if made is None or made[0] != loop:
            # A limiter of its own: steps that fill the threads must not keep a model from being asked.
            made = await run_sync(make_once, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        return made[1][0]

    async def first_success(self, attempt: Callable[[], Awaitable[R]], on_retry: Callable[[Retry], None] | None) -> R:
        """The result of the first attempt that succeeds. Raises `ModelUnavailable` when none does."""
        number = 1
        while True:
            try:
                return await attempt()
            except TransientFailure as failure:
                await self.wait(failure, number, on_retry)
            number += 1

    async def wait(self, failure: TransientFailure, attempt: int, on_retry: Callable[[Retry], None] | None) -> None:
        """Wait before the next attempt. Raises `ModelUnavailable` when no further attempt is allowed."""
        settings = self._settings
        longest, most = settings.backoff_max_interval / 1_000, settings.max_attempts
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
        delay = min(settings.backoff_millis / 1_000 * settings.backoff_multiplier ** (attempt - 1), longest)
        delay = delay if asked is None else asked
        _log.warning("%s: attempt %d of %d failed, the next in %.1f s: %s", self._asked, attempt, most, delay, failure)
        if on_retry is not None:
            on_retry(Retry(attempt=attempt, attempts=most, delay_seconds=delay, error=str(failure)))
        await anyio.sleep(delay)

    async def aclose(self) -> None:
        """Close the connections of this event loop; those of another ended with it. The next request opens new ones."""
        made, self._made = self._made, None
        if made is not None and made[0] == current_token():
            await made[1][1]()


class ProviderModel(_LoopBound[LanguageModel]):
    """A language model of a provider; `model` is the provider's name for it."""

    def __init__(self, card: ModelCard, model: str, endpoint: Endpoint) -> None:
        def make() -> Opened[LanguageModel]:
            from goalport.models.llm.adapter import language_model

            return language_model(card, model, endpoint)

        super().__init__(make, endpoint, f"{card.provider}:{card.name}")
        self.card = card

    async def reply(self, call: ModelCall, /) -> ModelReply:
        model = await self.made()
        return await self.first_success(lambda: model.reply(call), call.on_retry)

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """Retries only while nothing has come: pieces that were passed on cannot be taken back."""
        model, attempt, begun = await self.made(), 1, False
        while True:
            try:
                async with aclosing(model.stream(call)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                return
            except TransientFailure as failure:
                if begun:
                    raise ModelUnavailable(f"{failure} It had begun to answer.") from failure
                await self.wait(failure, attempt, call.on_retry)
            attempt += 1


class ProviderEmbeddings(_LoopBound[EmbeddingService]):
    """An embedding service of a provider; `model` is the provider's name for it."""

    def __init__(self, card: ModelCard, name: str, model: str, endpoint: Endpoint) -> None:
        def make() -> Opened[EmbeddingService]:
            from goalport.models.llm.adapter import embedding_service

            return embedding_service(card, name, model, endpoint)

        super().__init__(make, endpoint, name)
        self.name = name
        self.dimensions: int | None = None

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        service = await self.made()
        vectors = await self.first_success(lambda: service.embed(texts), None)
        self.dimensions = service.dimensions
        return vectors
