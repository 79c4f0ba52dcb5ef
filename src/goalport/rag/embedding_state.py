"""Which model made the vectors of an index, and whether the present one goes with it; making them anew.

Vectors of two models cannot be compared, so an index has those of one, and remembers its name and their length. Below:
`database` and `embeddings`. Above: `sqlite_store`.
"""

import logging
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from goalport.errors import StoreError
from goalport.llm import EmbeddingService
from goalport.rag.conditions import Condition
from goalport.rag.database import IndexDatabase
from goalport.rag.document_store import IndexInfo
from goalport.rag.embeddings import embedded, require_numpy
from goalport.rag.rows import selected

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["EmbeddingState"]

_log = logging.getLogger(__name__)
_BATCH: Final = 256
"""How many chunks get their vectors in one transaction."""


class EmbeddingState:
    """The embedding service of an index, or none, and how it goes with the vectors that are there."""

    def __init__(
        self, database: IndexDatabase, service: EmbeddingService | None, on_other_model: Literal["refuse", "text"]
    ) -> None:
        self._database, self._service, self._on_other_model = database, service, on_other_model
        self._warned = False

    @property
    def in_use(self) -> bool:
        """Whether there is a service, and it is not known to be another one than made the vectors."""
        return self._service is not None and not self._warned

    async def of_chunks(self, uri: str, texts: Sequence[str]) -> "NDArray[np.float32] | None":
        """The vectors of a document's texts, as rows; None: none are made. Raises the kind of `ModelError` that fits.

        Texts that the document had before keep their vectors, so that a small change costs little.
        """
        service = await self._fitting()
        if service is None or not texts:
            return None
        known = await self._database.read(lambda connection: _known(connection, uri))
        missing = [each for each in dict.fromkeys(texts) if each not in known]
        if missing:
            known |= dict(zip(missing, await embedded(service, missing), strict=True))
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
        if dimensions is not None and dimensions != vectors.shape[1]:
            raise self._other(f"vectors of {dimensions} numbers", f"gives {vectors.shape[1]}")
        return vectors[0]

    def note(self, connection: sqlite3.Connection, dimensions: int) -> None:
        """Remember in a transaction who makes the vectors that are written. Raises `StoreError` if others have."""
        assert self._service is not None
        facts = _facts(connection)
        if "model" not in facts:
            _remember(connection, self._service.name, dimensions)
        elif (facts["model"], facts["dimensions"]) != (self._service.name, dimensions):
            raise self._other(f"vectors of {facts['dimensions']} numbers", f"gives {dimensions}")

    def info(self, connection: sqlite3.Connection) -> IndexInfo:
        facts = _facts(connection)
        (documents,) = connection.execute("select count(*) from documents").fetchone()
        (vectors,) = connection.execute("select count(*) from vectors").fetchone()
        return IndexInfo(
            documents=documents,
            chunks=facts["chunks"],
            vectors=vectors,
            model=facts.get("model", ""),
            dimensions=facts.get("dimensions", 0),
        )

    async def reembed(self, *, only_missing: bool) -> int:
        """Make vectors beside the old ones, and put them in their place in one transaction. Returns how many."""
        service = self._service if not only_missing else await self._fitting()
        if service is None:
            raise self._database.error("It has no embedding service to use.", "Give it one: embeddings=….")
        if not only_missing:
            await self._database.write(lambda connection: connection.execute("delete from new_vectors") and None)
        target: Literal["vectors", "new_vectors"] = "vectors" if only_missing else "new_vectors"
        made = 0
        while True:
            rows = await self._database.read(lambda connection: _missing(connection, target))
            if rows:
                made += await self._add(service, target, rows)
            elif only_missing or await self._database.write(lambda connection: _replaced(connection, service.name)):
                self._warned = False
                return made

    async def _add(self, service: EmbeddingService, target: Literal["vectors", "new_vectors"], rows: list[Any]) -> int:
        vectors = await embedded(service, [text for _, _, text in rows])

        def write(connection: sqlite3.Connection) -> None:
            if target == "vectors":
                self.note(connection, vectors.shape[1])
                _count_change(connection)
            connection.executemany(
                f"insert or replace into {target} select id, document, ? from chunks where id = ?",  # noqa: S608 - one of two names
                [(vector.tobytes(), row[0]) for row, vector in zip(rows, vectors, strict=True)],
            )

        await self._database.write(write)
        return len(rows)

    async def _fitting(self) -> EmbeddingService | None:
        """The service, unless others made the vectors and only text is to be searched then; or `StoreError`."""
        if self._service is None:
            return None
        facts = await self._database.read(_facts)
        model, dimensions = facts.get("model"), facts.get("dimensions")
        same = model == self._service.name and self._service.dimensions in {None, dimensions}
        if model is None or same:
            self._warned = False
            return self._service
        error = self._other(f"vectors of {model!r} ({dimensions} numbers)", "is the embedding service now")
        if self._on_other_model == "refuse":
            raise error
        if not self._warned:
            _log.warning("%s Until then it searches text alone.", error)
            self._warned = True
        return None

    def _other(self, found: str, given: str) -> StoreError:
        name = self._service.name if self._service else ""
        return self._database.error(
            f"It has {found}, and {name!r} {given}: they cannot be compared.",
            "Use the service that made them, or make them anew: `await store.reembed()`.",
        )


def _facts(connection: sqlite3.Connection) -> dict[str, Any]:
    return dict(connection.execute("select name, value from facts").fetchall())


def _remember(connection: sqlite3.Connection, model: str, dimensions: int) -> None:
    connection.executemany("insert or replace into facts values (?, ?)", [("model", model), ("dimensions", dimensions)])


def _count_change(connection: sqlite3.Connection) -> None:
    connection.execute("update facts set value = value + 1 where name = 'embeddings'")


def _missing(connection: sqlite3.Connection, target: str) -> list[Any]:
    """Chunks without a vector there."""
    without = Condition(f"not exists (select 1 from {target} where {target}.chunk = chunks.id)")  # noqa: S608 - ours
    columns = "chunks.id, chunks.document, coalesce(chunks.shown, chunks.body)"
    statement = selected(columns, "chunks", without, f"order by chunks.id limit {_BATCH}")
    return connection.execute(statement.sql).fetchall()


def _known(connection: sqlite3.Connection, uri: str) -> "dict[str, NDArray[np.float32]]":
    """The vectors of the texts that a document has."""
    rows = connection.execute(
        "select coalesce(chunks.shown, chunks.body), vectors.vector from documents "
        "join chunks on chunks.document = documents.id join vectors on vectors.chunk = chunks.id "
        "where documents.uri = ?",
        (uri,),
    ).fetchall()
    if not rows:
        return {}
    require_numpy()
    import numpy as np

    return {text: np.frombuffer(vector, np.float32) for text, vector in rows}


def _replaced(connection: sqlite3.Connection, model: str) -> bool:
    """Put the new vectors in the place of the old ones, unless chunks came meanwhile that have none."""
    if _missing(connection, "new_vectors"):
        return False
    row = connection.execute("select length(vector) / 4 from new_vectors limit 1").fetchone()
    connection.execute("delete from vectors")
    connection.execute("insert into vectors select * from new_vectors")
    connection.execute("delete from new_vectors")
    if row is None:
        connection.execute("delete from facts where name in ('model', 'dimensions')")
    else:
        _remember(connection, model, row[0])
    _count_change(connection)
    return True
