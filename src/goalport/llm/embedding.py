"""The seam for vectors: what the rooms above ask of an embedding model, whoever provides it."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from goalport.errors import ModelUnavailable
from goalport.llm.model import TokenUsage

__all__ = ["EmbeddingService", "Vectors", "check_number"]


class Vectors(list[list[float]]):
    """Vectors, and what it took to make them; a plain list counts as a request that cost nothing."""

    def __init__(self, vectors: Iterable[list[float]] = (), usage: TokenUsage | None = None) -> None:
        super().__init__(vectors)
        self.usage = usage or TokenUsage()


def check_number(service: str, texts: Sequence[str], vectors: Sequence[object]) -> None:
    """Raises `ModelUnavailable` when there is not a vector for each text: nobody could tell which belongs to which."""
    if len(vectors) != len(texts):
        raise ModelUnavailable(
            f"The embedding service {service!r} was given {len(texts)} texts, and {len(vectors)} vectors came."
        )


@runtime_checkable
class EmbeddingService(Protocol):
    """A model that turns texts into vectors. User guide, section 3.23.2."""

    @property
    def name(self) -> str:
        """The name by which it is chosen."""
        ...

    @property
    def dimensions(self) -> int | None:
        """How long its vectors are; None: not known before the first one."""
        ...

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        """A vector for each text, in order; as `Vectors`, what it cost counts too. Raises `ModelError`, by its kind."""
        ...
