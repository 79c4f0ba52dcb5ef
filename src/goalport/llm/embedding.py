"""The seam for vectors: what the rooms above ask of an embedding model, whoever provides it."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

__all__ = ["EmbeddingService"]


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
        """A vector for each text, in order. Raises `ModelError`, by its kind."""
        ...
