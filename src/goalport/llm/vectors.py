"""An embedding model of pydantic-ai as ours."""

from collections.abc import Sequence

import anyio
from pydantic_ai.embeddings.base import EmbeddingModel

from goalport.llm.connection import Connection
from goalport.llm.embedding import Vectors, check_number
from goalport.llm.failures import translated
from goalport.llm.model import Prices, TokenUsage
from goalport.llm.pricing import Pricing
from goalport.llm.providers import Endpoint

__all__ = ["AdaptedEmbeddings"]

_AT_ONCE = 1_000
"""Texts in one request; providers take about twice as many."""
_SECONDS = 60.0
"""How long one request may take, where the provider's settings do not say."""


class AdaptedEmbeddings:
    """An embedding service of a provider, asked once for each thousand texts."""

    def __init__(
        self, name: str, connection: Connection[EmbeddingModel], endpoint: Endpoint, model: str, prices: Prices | None
    ) -> None:
        self._name = name
        self._connection = connection
        self._endpoint = endpoint
        self._model = model
        self._pricing = Pricing(model, prices)
        self._dimensions: int | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimensions(self) -> int | None:
        return self._dimensions

    async def embed(self, texts: Sequence[str], /) -> Vectors:
        vectors = Vectors()
        for start in range(0, len(texts), _AT_ONCE):
            some = await self._embed(texts[start : start + _AT_ONCE])
            vectors += some
            vectors.usage += some.usage
        if vectors:
            self._dimensions = len(vectors[0])
        return vectors

    async def aclose(self) -> None:
        await self._connection.aclose()

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        seconds = self._endpoint.settings.timeout or _SECONDS
        with translated(self._endpoint, self._model), anyio.fail_after(seconds):
            result = await self._connection.user().embed(list(texts), input_type="document")
        check_number(self._name, texts, result.embeddings)
        usage = TokenUsage(
            input_tokens=result.usage.input_tokens,
            output_tokens=result.usage.output_tokens,
            cost=self._pricing.cost_of_vectors(result),
        )
        return Vectors(map(list, result.embeddings), usage)
