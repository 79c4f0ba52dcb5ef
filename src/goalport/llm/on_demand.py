"""Models and embedding services whose provider's library is imported when they are first asked, off the event loop.

The libraries take seconds to import; in a worker thread, the server answers others meanwhile. Above: `catalogue` makes
these; below: `wiring` makes what they stand for.
"""

import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from goalport.llm.embedding import EmbeddingService
from goalport.llm.model import LanguageModel, ModelCall, ModelCard, ModelReply, TextDelta, ThinkingDelta
from goalport.llm.providers import Endpoint

__all__ = ["EmbeddingsOnDemand", "ModelOnDemand"]


class _Closable(Protocol):
    async def aclose(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class _Model(LanguageModel, _Closable, Protocol):
    """A model that holds connections."""


class _Embeddings(EmbeddingService, _Closable, Protocol):
    """An embedding service that holds connections."""


_importing = threading.Lock()
"""Two threads that import modules which import one another in a circle would find them half made."""


class _OnDemand(Generic[T]):
    """What is made once, in a worker thread; whoever is cancelled meanwhile does not wait for it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: T | None = None

    async def get(self) -> T:
        if self._made is None:
            # A limiter of its own: steps that fill the threads must not keep a model from being asked.
            self._made = await run_sync(self._in_turn, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        return self._made

    async def aclose(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            await made.aclose()

    def _in_turn(self) -> T:
        with _importing:
            return self._made or self._make()


class ModelOnDemand:
    """A model of a provider; `model` is what the provider calls it."""

    def __init__(self, card: ModelCard, model: str, endpoint: Endpoint) -> None:
        def make() -> _Model:
            from goalport.llm.wiring import language_model

            return language_model(card, model, endpoint)

        self._card = card
        self._model = _OnDemand(make)

    @property
    def card(self) -> ModelCard:
        return self._card

    async def reply(self, call: ModelCall, /) -> ModelReply:
        model = await self._model.get()
        return await model.reply(call)

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        model = await self._model.get()
        async with aclosing(model.stream(call)) as pieces:
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        await self._model.aclose()


class EmbeddingsOnDemand:
    """An embedding service of a provider; `model` is what the provider calls it."""

    def __init__(self, card: ModelCard, name: str, model: str, endpoint: Endpoint) -> None:
        def make() -> _Embeddings:
            from goalport.llm.wiring import embedding_service

            return embedding_service(card, name, model, endpoint)

        self._name = name
        self._dimensions: int | None = None
        self._service = _OnDemand(make)

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimensions(self) -> int | None:
        return self._dimensions

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        service = await self._service.get()
        vectors = await service.embed(texts)
        self._dimensions = service.dimensions
        return vectors

    async def aclose(self) -> None:
        await self._service.aclose()
