"""Embeddings of texts: any `EmbeddingService` makes them, and here they are asked for in batches and checked.

A table of one's own needs a function alone: `TableEmbeddings("my-table", function)`. Below: `llm`, which has the
services of providers. Above: the stores.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from goalport.base.errors import GoalportError, ModelError, ModelNotReady, ModelUnavailable
from goalport.base.observe.spans import embeddings_span
from goalport.base.words import error_summary
from goalport.models.llm import EmbeddingService, Vectors, check_vector_count
from goalport.tools import current_call_site

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_BATCH: Final = 64
"""How many texts are sent in one request."""


def require_numpy() -> None:
    """Raise `ModelNotReady` unless numpy is installed."""
    if find_spec("numpy") is None:
        raise ModelNotReady('Search by meaning needs a library that is not installed. Run pip install "goalport[rag]".')


@dataclass(frozen=True, slots=True)
class TableEmbeddings:
    """An embedding service made of a function, which is called in a thread, as for a table of words on this machine."""

    name: str
    """Another function needs another name: vectors of different functions cannot be compared."""
    function: Callable[[Sequence[str]], Sequence[Sequence[float]]]
    dimensions: int | None = None

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        vectors = await asyncio.to_thread(self.function, texts)
        return [[float(each) for each in vector] for vector in vectors]


async def embedded(service: EmbeddingService, texts: Sequence[str]) -> "NDArray[np.float32]":
    """One vector of length 1 for each text, as the rows of a matrix.

    Raises the kind of `ModelError` that fits, also for vectors that are too few, of different lengths, or no numbers.
    """
    require_numpy()
    import numpy as np

    parts: list[NDArray[np.float32]] = []
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        vectors = await _requested(service, batch)
        check_vector_count(service.name, batch, vectors)
        parts.append(await asyncio.to_thread(_matrix, service.name, vectors))
        if parts[-1].shape[1] != parts[0].shape[1]:
            raise _uneven(service.name, {parts[0].shape[1], parts[-1].shape[1]})
    return np.concatenate(parts) if parts else np.empty((0, service.dimensions or 0), np.float32)


async def _requested(service: EmbeddingService, texts: Sequence[str]) -> list[list[float]]:
    """The vectors, whose cost is counted where this runs, as in an action, which may refuse to go on."""
    site = current_call_site()
    if site is not None:
        site.before_request()
    began = time.monotonic()
    with embeddings_span(service.name):
        try:
            vectors = await service.embed(texts)
        except GoalportError:
            raise
        except Exception as error:
            reason = error_summary(error).rstrip(".")
            raise ModelUnavailable(f"The embedding service {service.name!r} failed: {reason}.") from error
    if site is not None and isinstance(vectors, Vectors):
        site.spend(service.name, vectors.usage.tokens, vectors.usage.cost, time.monotonic() - began)
    return vectors


def _matrix(service: str, vectors: Sequence[Sequence[float]]) -> "NDArray[np.float32]":
    import numpy as np

    try:
        lengths = {len(each) for each in vectors}
        if len(lengths) != 1 or not min(lengths):
            raise _uneven(service, lengths)
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            matrix = np.asarray(vectors, np.float32)
    except (TypeError, ValueError) as error:
        raise _no_numbers(service) from error
    if matrix.ndim != 2 or not np.isfinite(matrix).all():  # noqa: PLR2004 - texts and numbers
        raise _no_numbers(service)
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.where(norms == 0, 1, norms)).astype(np.float32, copy=False)


def _no_numbers(service: str) -> ModelError:
    return ModelUnavailable(f"The embedding service {service!r} gave vectors with values that are no numbers.")


def _uneven(service: str, lengths: set[int]) -> ModelError:
    found = " and ".join(map(str, sorted(lengths)))
    return ModelUnavailable(f"The embedding service {service!r} gave vectors of {found} numbers; expected one length.")
