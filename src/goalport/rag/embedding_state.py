"""Which model made the vectors of an index, and whether the present one goes with it; making them anew.

Vectors of two models cannot be compared, so an index has those of one, and remembers its name and their length. Below:
`operations` and `embeddings`. Above: `indexed_documents`.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

from goalport.errors import ModelRefused, ModelUnavailable, StoreError
from goalport.llm import EmbeddingService
from goalport.rag.conditions import Condition
from goalport.rag.document_store import IndexInfo
from goalport.rag.embeddings import embedded, require_numpy
from goalport.rag.operations import Batch, Operation, Rows, Statement, selected

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["EmbeddingState", "IndexDatabase", "VectorColumn"]

T = TypeVar("T")

_log = logging.getLogger(__name__)
_BATCH: Final = 256
"""How many chunks get their vectors in one transaction."""
_PAUSE: Final = 30.0
"""Seconds for which a service that failed is asked for no vectors of documents: each attempt may take that long."""
_Table = Literal["vectors", "new_vectors"]


@dataclass(frozen=True, slots=True)
class VectorColumn:
    """How a database keeps vectors."""

    place: str
    """The place of a vector in a statement."""
    selected: str
    """The column in `vectors`, as it is read."""
    dimensions: str
    """The length of the column `vector`, in SQL."""
    written: "Callable[[NDArray[np.float32]], object]"
    array: "Callable[[Any], NDArray[np.float32]]"
    changed: Statement | None
    """What is written when vectors of chunks change that were there before; None: nothing."""


class IndexDatabase(Protocol):
    """A database with the tables of an index."""

    vectors: VectorColumn

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        """What an operation reads from one state of the database. It may be begun again. Raises `StoreError`."""
        ...

    async def write(self, begin: Callable[[], Operation[T]], /) -> T:
        """Run an operation in a transaction; when it raises, nothing is written. Raises `StoreError`."""
        ...

    async def lack(self) -> tuple[str, str] | None:
        """Why it can keep no vectors, and what to do about it, as sentences; None: it can."""
        ...

    def error(self, problem: str, fix: str, /) -> StoreError: ...


class EmbeddingState:
    """The embedding service of an index, or none, and how it goes with the vectors that are there."""

    def __init__(
        self, database: IndexDatabase, service: EmbeddingService | None, on_other_model: Literal["refuse", "text"]
    ) -> None:
        self._database, self._service, self._on_other_model = database, service, on_other_model
        self._warned = False
        self._away_until = 0.0

    @property
    def in_use(self) -> bool:
        """Whether there is a service, and it is not known that it cannot be used."""
        return self._service is not None and not self._warned

    async def of_chunks(self, uri: str, texts: Sequence[str]) -> "NDArray[np.float32] | None":
        """The vectors of a document's texts, as rows; None: none are made, also while the service gives none.

        Texts that the document had before keep their vectors, so that a small change costs little.
        """
        service = await self._fitting()
        if service is None or not texts:
            return None
        known = await self._database.read(lambda: self._known(uri))
        missing = [each for each in dict.fromkeys(texts) if each not in known]
        if missing:
            made = await self._made(service, missing)
            if made is None:
                return None
            known |= dict(zip(missing, made, strict=True))
        import numpy as np

        lengths = {len(known[each]) for each in texts}
        if len(lengths) > 1:
            raise self._other(f"vectors of {min(lengths)} numbers", f"gives {max(lengths)}")
        return np.stack([known[each] for each in texts])

    async def of_query(self, text: str) -> "NDArray[np.float32] | None":
        """The vector of what is searched for; None: none is made."""
        service = await self._fitting()
        if service is None:
            return None
        vectors = await embedded(service, [text])
        dimensions = (await self._database.read(_facts)).get("dimensions")
        if dimensions is not None and int(dimensions) != vectors.shape[1]:
            raise self._other(f"vectors of {dimensions} numbers", f"gives {vectors.shape[1]}")
        with suppress(StoreError):  # who may only read an index searches it as it is
            await self.catch_up()
        return vectors[0]

    async def catch_up(self) -> int:
        """Make vectors of some chunks that were stored without. Returns of how many; 0: of none, or not now."""
        service = await self._fitting()
        if service is None or "without_vectors" not in await self._database.read(_facts):
            return 0
        rows = await self._database.write(_still_missing)
        vectors = await self._made(service, [text for _, text in rows]) if rows else None
        if vectors is None:
            return 0
        await self._add("vectors", rows, vectors)
        return len(rows)

    async def _made(self, service: EmbeddingService, texts: Sequence[str]) -> "NDArray[np.float32] | None":
        """The vectors of texts; None: the service gives none now, and is left alone for a while."""
        if time.monotonic() < self._away_until:
            return None
        try:
            return await embedded(service, texts)
        except (ModelUnavailable, ModelRefused) as error:
            self._away_until = time.monotonic() + _PAUSE
            _log.warning("Documents are without vectors, and found by words alone until they have them. %s", error)
            return None

    async def no_vectors(self) -> StoreError:
        """That there are no vectors to search, and why."""
        problem, fix = await self._database.lack() or (
            "It has no vectors to search.",
            "Give it an embedding service, or search by text.",
        )
        return self._database.error(problem, fix)

    def note(self, dimensions: int | None) -> Operation[None]:
        """Remember who makes the vectors that are written, or that there are none. Raises `StoreError`."""
        if dimensions is None:
            yield _remembered(without_vectors="1")
            return
        assert self._service is not None
        facts = yield from _facts()
        if "model" not in facts:
            yield _remembered(model=self._service.name, dimensions=str(dimensions))
        elif (facts["model"], int(facts["dimensions"])) != (self._service.name, dimensions):
            raise self._other(f"vectors of {facts['dimensions']} numbers", f"gives {dimensions}")

    async def info(self) -> IndexInfo:
        """How much is stored, and who made the vectors."""
        lacking = await self._database.lack() is not None

        def read() -> Operation[IndexInfo]:
            facts = yield from _facts()
            documents = yield Statement("select count(*) from documents")
            vectors = ((0,),) if lacking else (yield Statement("select count(*) from vectors"))
            return IndexInfo(
                documents=documents[0][0],
                chunks=int(facts["chunks"]),
                vectors=vectors[0][0],
                model=facts.get("model", ""),
                dimensions=int(facts.get("dimensions", 0)),
            )

        return await self._database.read(read)

    async def reembed(self, *, only_missing: bool) -> int:
        """Make vectors beside the old ones, and put them in their place in one transaction. Returns how many."""
        if lack := await self._database.lack():
            raise self._database.error(*lack)
        service = self._service if not only_missing else await self._fitting()
        if service is None:
            raise self._database.error("It has no embedding service to use.", "Give it one: embeddings=….")
        if not only_missing:
            await self._database.write(_discarded)
        target: _Table = "vectors" if only_missing else "new_vectors"
        made = 0
        while True:
            rows = await self._database.read(lambda: _missing(target))
            if rows:
                await self._add(target, rows, await embedded(service, [text for _, text in rows]))
                made += len(rows)
            elif only_missing or await self._database.write(lambda: self._replaced(service.name)):
                self._warned = False
                return made

    async def _add(self, target: _Table, rows: Rows, vectors: "NDArray[np.float32]") -> None:
        def write() -> Operation[None]:
            if target == "vectors":
                yield from self.note(vectors.shape[1])
                yield from self._changed()
            yield Batch(
                f"insert into {target} select id, document, {self._database.vectors.place} from chunks "  # noqa: S608 - ours
                "where id = ? on conflict (chunk) do update set vector = excluded.vector",
                [
                    (self._database.vectors.written(vector), chunk)
                    for (chunk, _), vector in zip(rows, vectors, strict=True)
                ],
            )

        await self._database.write(write)

    async def _fitting(self) -> EmbeddingService | None:
        """The service, unless it cannot be used and only text is to be searched then; or `StoreError`."""
        if self._service is None:
            return None
        if lack := await self._database.lack():
            self._warn(self._database.error(*lack))
            return None
        facts = await self._database.read(_facts)
        model, dimensions = facts.get("model"), int(facts.get("dimensions", 0))
        same = model == self._service.name and self._service.dimensions in {None, dimensions}
        if model is None or same:
            self._warned = False
            return self._service
        error = self._other(f"vectors of {model!r} ({dimensions} numbers)", "is the embedding service now")
        if self._on_other_model == "refuse":
            raise error
        self._warn(error)
        return None

    def _warn(self, error: StoreError) -> None:
        if not self._warned:
            _log.warning("%s Until then it searches text alone.", error)
            self._warned = True

    def _other(self, found: str, given: str) -> StoreError:
        name = self._service.name if self._service else ""
        return self._database.error(
            f"It has {found}, and {name!r} {given}: they cannot be compared.",
            "Use the service that made them, or make them anew: `goalport rag reembed`, or `await store.reembed()`.",
        )

    def _known(self, uri: str) -> "Operation[dict[str, NDArray[np.float32]]]":
        """The vectors of the texts that a document has."""
        rows = yield selected(
            f"coalesce(chunks.shown, chunks.body), {self._database.vectors.selected}",
            "documents join chunks on chunks.document = documents.id join vectors on vectors.chunk = chunks.id",
            Condition("documents.uri = ?", (uri,)),
        )
        if rows:
            require_numpy()
        return {text: self._database.vectors.array(vector) for text, vector in rows}

    def _replaced(self, model: str) -> Operation[bool]:
        """Put the new vectors in the place of the old ones, unless chunks came meanwhile that have none."""
        if (yield from _missing("new_vectors")):
            return False
        rows = yield Statement(f"select {self._database.vectors.dimensions} from new_vectors limit 1")  # noqa: S608 - ours
        yield Statement("delete from vectors")
        yield Statement("insert into vectors select * from new_vectors")
        yield Statement("delete from new_vectors")
        if rows:
            yield _remembered(model=model, dimensions=str(rows[0][0]))
        else:
            yield Statement("delete from facts where name in ('model', 'dimensions')")
        yield from self._changed()
        return True

    def _changed(self) -> Operation[None]:
        if self._database.vectors.changed is not None:
            yield self._database.vectors.changed


def _facts() -> Operation[dict[str, Any]]:
    rows = yield Statement("select name, value from facts")
    return {row[0]: row[1] for row in rows}


def _remembered(**facts: str) -> Batch:
    return Batch(
        "insert into facts values (?, ?) on conflict (name) do update set value = excluded.value",
        list(facts.items()),
    )


def _discarded() -> Operation[None]:
    yield Statement("delete from new_vectors")


def _still_missing() -> Operation[Rows]:
    """Chunks without a vector; when there are none, that is noted."""
    rows = yield from _missing("vectors")
    if not rows:
        yield Statement("delete from facts where name = 'without_vectors'")
    return rows


def _missing(target: _Table) -> Operation[Rows]:
    """Chunks without a vector there, each with its text."""
    without = Condition(f"not exists (select 1 from {target} where {target}.chunk = chunks.id)")  # noqa: S608 - ours
    columns = "chunks.id, coalesce(chunks.shown, chunks.body)"
    return (yield selected(columns, "chunks", without, f"order by chunks.id limit {_BATCH}"))
