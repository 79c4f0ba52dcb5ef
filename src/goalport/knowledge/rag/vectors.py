"""The vectors of an index: which model made them, whether the configured model is the same, and making missing ones.

Vectors of two models cannot be compared. So an index has vectors of one model, and stores its name and their length.
Any `EmbeddingService` makes them; `TableEmbeddings("my-table", function)` makes a service from a function.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal

from goalport.base.errors import GoalportError, ModelNotReady, ModelRefused, ModelUnavailable, StoreError
from goalport.base.observe.spans import embeddings_span
from goalport.base.words import error_summary
from goalport.knowledge.rag.database import JOINED, Condition, IndexDatabase, Operation, Rows, selected
from goalport.knowledge.rag.search import IndexInfo
from goalport.models.llm import EmbeddingService, Vectors, check_vector_count
from goalport.tools import CALL_SITE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)
_REQUESTED: Final = 64
"""How many texts are sent in one request."""
_BATCH: Final = 256
"""How many chunks get their vectors in one transaction."""
_PAUSE: Final = 30.0
"""Seconds in which a service that failed gets no requests for documents: each request may take that long."""
_REMEMBERED: Final = "insert into facts values (?, ?) on conflict (name) do update set value = excluded.value"
_ADDED: Final = (
    "insert into vectors select id, document, {place} from chunks where id = ? on conflict (chunk) do nothing"
)


def require_numpy() -> None:
    """Raise `ModelNotReady` unless numpy is installed."""
    if find_spec("numpy") is None:
        raise ModelNotReady('Search by meaning needs a library that is not installed. Run pip install "goalport[rag]".')


@dataclass(frozen=True, slots=True)
class TableEmbeddings:
    """An embedding service that calls a function in a thread, for example to look words up in a local table."""

    name: str
    """Another function needs another name: vectors of different functions cannot be compared."""
    function: Callable[[Sequence[str]], Sequence[Sequence[float]]]
    dimensions: int | None = None

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        vectors = await asyncio.to_thread(self.function, texts)
        return [[float(each) for each in vector] for vector in vectors]


async def embedded(service: EmbeddingService, texts: Sequence[str]) -> "NDArray[np.float32]":
    """One vector of norm 1 for each text, as the rows of a matrix.

    Raises a `ModelError`, also if there are too few vectors, or they have different lengths or invalid numbers.
    """
    require_numpy()
    import numpy as np

    parts: list[NDArray[np.float32]] = []
    for start in range(0, len(texts), _REQUESTED):
        batch = texts[start : start + _REQUESTED]
        site = CALL_SITE.get()
        if site is not None:
            site.before_request()
        began = time.monotonic()
        with embeddings_span(service.name):
            try:
                vectors = await service.embed(batch)
            except GoalportError:
                raise
            except Exception as error:
                reason = error_summary(error).rstrip(".")
                raise ModelUnavailable(f"The embedding service {service.name!r} failed: {reason}.") from error
        if site is not None and isinstance(vectors, Vectors):
            site.spend(service.name, vectors.usage.tokens, vectors.usage.cost, time.monotonic() - began)
        check_vector_count(service.name, batch, vectors)
        lengths = {each.shape[1] for each in parts}
        parts.append(await asyncio.to_thread(_matrix, service.name, vectors, lengths))
    return np.concatenate(parts) if parts else np.empty((0, service.dimensions or 0), np.float32)


def _matrix(service: str, vectors: Sequence[Sequence[float]], lengths: set[int]) -> "NDArray[np.float32]":
    """Vectors as rows of norm 1. `lengths` are the dimensions of the vectors of earlier requests."""
    import numpy as np

    no_numbers = f"The embedding service {service!r} gave vectors with values that are no numbers."
    try:
        lengths |= {len(each) for each in vectors}
        if len(lengths) != 1 or not min(lengths):
            found = " and ".join(map(str, sorted(lengths)))
            raise ModelUnavailable(
                f"The embedding service {service!r} gave vectors of {found} numbers; expected one length."
            )
        with np.errstate(over="ignore"):  # numbers that are too large become infinite, and are refused
            matrix = np.asarray(vectors, np.float32)
    except (TypeError, ValueError) as error:
        raise ModelUnavailable(no_numbers) from error
    if matrix.ndim != 2 or not np.isfinite(matrix).all():  # noqa: PLR2004 - texts and numbers
        raise ModelUnavailable(no_numbers)
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.where(norms == 0, 1, norms)).astype(np.float32, copy=False)


class ChunkVectors:
    """The vectors of the chunks of an index, and the embedding service that makes them, or none."""

    def __init__(
        self, database: IndexDatabase, service: EmbeddingService | None, on_other_model: Literal["refuse", "text"]
    ) -> None:
        self._database, self._service, self._on_other_model = database, service, on_other_model
        self._warned = False
        self._paused_until = 0.0

    @property
    def in_use(self) -> bool:
        """Whether there is a service, and nothing has shown yet that it cannot be used."""
        return self._service is not None and not self._warned

    async def of_chunks(self, uri: str, texts: Sequence[str]) -> "Sequence[NDArray[np.float32]] | None":
        """The vectors of a document's texts; None: there is no service for them, or it does not answer.

        Texts that the document had before keep their vectors, so that a small change costs little.
        """
        service = await self._usable()
        if service is None or not texts:
            return None
        import numpy as np

        def read() -> Operation[Rows]:
            columns = f"coalesce(chunks.shown, chunks.body), {self._database.vector_column}"
            before = Condition("vectors.chunk = chunks.id and documents.uri = ?", (uri,))
            return (yield selected(columns, f"vectors, {JOINED}", before))

        stored = await self._database.read(read)
        known: dict[str, NDArray[np.float32]] = {
            text: np.frombuffer(vector, np.float32) if isinstance(vector, bytes) else np.asarray(vector, np.float32)
            for text, vector in stored
        }
        missing = [each for each in dict.fromkeys(texts) if each not in known]
        if missing:
            made = await self._vectors_if_ready(service, missing)
            if made is None:
                return None
            known |= zip(missing, made, strict=True)
        return [known[each] for each in texts]

    async def of_query(self, text: str, *, required: bool) -> "NDArray[np.float32] | None":
        """The vector of a query; None: there is no service to make it. Raises `StoreError` then if it is required."""
        service = await self._usable()
        if service is None:
            if required:
                without = ("It has no vectors to search.", "Give it an embedding service, or search by text.")
                raise self._database.error(*(await self._database.why_no_vectors() or without))
            return None
        (vector,) = await embedded(service, [text])
        dimensions = (await self._database.read(_facts)).get("dimensions")
        if dimensions is not None and int(dimensions) != len(vector):
            raise self._other_model(f"vectors of {dimensions} numbers", f"gives {len(vector)}")
        with suppress(StoreError):  # a read-only index is searched as it is
            await self.catch_up()
        return vector

    def add(
        self, chunks: Sequence[int], vectors: "Sequence[NDArray[np.float32]] | NDArray[np.float32] | None"
    ) -> Operation[None]:
        """Store vectors of chunks; None: some are missing. Raises `StoreError` if another model made them."""
        if vectors is None:
            yield _REMEMBERED, [("without_vectors", "1")]
            return
        assert self._service is not None
        facts = yield from _facts()
        for dimensions in {len(each) for each in vectors}:
            made_by = (self._service.name, str(dimensions))
            if (facts.setdefault("model", made_by[0]), facts.setdefault("dimensions", made_by[1])) != made_by:
                raise self._other_model(f"vectors of {facts['dimensions']} numbers", f"gives {dimensions}")
        yield _REMEMBERED, [(name, facts[name]) for name in ("model", "dimensions")]
        yield _ADDED.format(place=self._database.vector_place), list(zip(vectors, chunks, strict=True))

    async def catch_up(self) -> int:
        """Make vectors for some chunks without one. Returns how many; 0: none is missing, or none can be made now."""
        service = await self._usable()
        if service is None or "without_vectors" not in await self._database.read(_facts):
            return 0
        rows = await self._database.write(_missing)
        vectors = await self._vectors_if_ready(service, [text for _, text in rows]) if rows else None
        if vectors is None:
            return 0
        await self._database.write(lambda: self.add([chunk for chunk, _ in rows], vectors))
        return len(rows)

    async def reembed(self, *, only_missing: bool = False) -> int:
        """Make the vectors of all chunks with the configured embedding service. Returns how many.

        Until then, chunks without a vector are found by words. `only_missing`: make only the missing vectors.
        """
        if lack := await self._database.why_no_vectors():
            raise self._database.error(*lack)
        service = self._service
        if service is None:
            raise self._database.error("It has no embedding service to use.", "Give it one: embeddings=….")
        if only_missing:
            await self._usable()
        made, anew, self._warned = 0, not only_missing, False
        while rows := await self._database.write(_first if anew else _missing):
            vectors = await embedded(service, [text for _, text in rows])

            def write(
                rows: Rows = rows, vectors: "NDArray[np.float32]" = vectors, *, anew: bool = anew
            ) -> Operation[None]:
                if anew:  # old vectors are deleted only when the new model has answered
                    yield "delete from vectors", ()
                    yield "delete from facts where name in ('model', 'dimensions')", ()
                    yield _REMEMBERED, [("without_vectors", "1")]
                yield from self.add([chunk for chunk, _ in rows], vectors)

            await self._database.write(write)
            made, anew = made + len(rows), False
        return made

    async def info(self) -> IndexInfo:
        """How much is stored, and which model made the vectors."""
        lacking = await self._database.why_no_vectors() is not None

        def read() -> Operation[IndexInfo]:
            facts = yield from _facts()
            ((documents, chunks),) = yield "select count(*), coalesce(sum(chunks), 0) from documents", ()
            ((vectors,),) = ((0,),) if lacking else (yield "select count(*) from vectors", ())
            model, dimensions = facts.get("model", ""), int(facts.get("dimensions", 0))
            return IndexInfo(
                documents=documents, chunks=int(chunks), vectors=vectors, model=model, dimensions=dimensions
            )

        return await self._database.read(read)

    async def _vectors_if_ready(self, service: EmbeddingService, texts: Sequence[str]) -> "NDArray[np.float32] | None":
        """The vectors of texts; None: the service does not answer, and gets no requests for a while."""
        if time.monotonic() < self._paused_until:
            return None
        try:
            return await embedded(service, texts)
        except (ModelUnavailable, ModelRefused) as error:
            self._paused_until = time.monotonic() + _PAUSE
            _log.warning("Documents are without vectors, and found by words alone until they have them. %s", error)
            return None

    async def _usable(self) -> EmbeddingService | None:
        """The service; None: there is none, or only text can be searched. Raises `StoreError` for another model."""
        if self._service is None:
            return None
        if lack := await self._database.why_no_vectors():
            error = self._database.error(*lack)
        else:
            facts = await self._database.read(_facts)
            model, dimensions = facts.get("model"), int(facts.get("dimensions", 0))
            if model is None or (model == self._service.name and self._service.dimensions in {None, dimensions}):
                self._warned = False
                return self._service
            error = self._other_model(f"vectors of {model!r} ({dimensions} numbers)", "is the embedding service now")
            if self._on_other_model == "refuse":
                raise error
        if not self._warned:
            _log.warning("%s Until then it searches text alone.", error)
            self._warned = True
        return None

    def _other_model(self, found: str, given: str) -> StoreError:
        name = self._service.name if self._service else ""
        return self._database.error(
            f"It has {found}, and {name!r} {given}: they cannot be compared.",
            "Use the service that made them, or make them anew: `goalport rag reembed`, or `await store.reembed()`.",
        )


def _facts() -> Operation[dict[str, Any]]:
    rows = yield "select name, value from facts", ()
    return {row[0]: row[1] for row in rows}


def _first(condition: str = "true") -> Operation[Rows]:
    """The first batch of chunks that fit a condition, each with its text."""
    columns = "chunks.id, coalesce(chunks.shown, chunks.body)"
    return (yield selected(columns, "chunks", Condition(condition), f"order by chunks.id limit {_BATCH}"))


def _missing() -> Operation[Rows]:
    """A batch of chunks without a vector, each with its text. If there are none, the database records that."""
    rows = yield from _first("not exists (select 1 from vectors where vectors.chunk = chunks.id)")
    if not rows:
        yield "delete from facts where name = 'without_vectors'", ()
    return rows
