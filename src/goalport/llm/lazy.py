"""Models and embedding services that import their provider's library at the first request, in a worker thread.

The libraries take seconds to import; imported on the event loop, they would keep the server from answering others.
Above: `catalogue` makes these; below: `provider_clients` makes the models that they stand for.
"""

import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Generic, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from goalport.llm.model import (
    Closable,
    ClosableEmbeddings,
    ClosableModel,
    ModelCall,
    ModelCard,
    ModelReply,
    TextDelta,
    ThinkingDelta,
)
from goalport.llm.providers import Endpoint

__all__ = ["LazyEmbeddings", "LazyModel"]

T = TypeVar("T", bound=Closable)
_import_lock = threading.Lock()
"""Two threads that import modules which import one another would find them half initialised."""


class _Lazy(Generic[T]):
    """A value that is made once, in a worker thread. A task that is cancelled does not wait for it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: T | None = None

    async def get(self) -> T:
        if self._made is None:
            # A limiter of its own: steps that fill the threads must not keep a model from being asked.
            self._made = await run_sync(self._make_once, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        return self._made

    async def aclose(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            await made.aclose()

    def _make_once(self) -> T:
        with _import_lock:
            return self._made or self._make()


class LazyModel:
    """A language model of a provider; `model` is the name that the provider gives it."""

    def __init__(self, card: ModelCard, model: str, endpoint: Endpoint) -> None:
        def make() -> ClosableModel:
            from goalport.llm.provider_clients import language_model

            return language_model(card, model, endpoint)

        self._card = card
        self._model = _Lazy(make)

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


class LazyEmbeddings:
    """An embedding service of a provider; `model` is the name that the provider gives it."""

    def __init__(self, card: ModelCard, name: str, model: str, endpoint: Endpoint) -> None:
        def make() -> ClosableEmbeddings:
            from goalport.llm.provider_clients import embedding_service

            return embedding_service(card, name, model, endpoint)

        self._name = name
        self._dimensions: int | None = None
        self._service = _Lazy(make)

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
