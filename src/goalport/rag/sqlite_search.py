"""Finding chunks in SQLite: by words, by vectors, by both, and by a pattern; always of those alone that may be found.

What blocks runs on a connection, in a thread. Below: `sqlite_database`. Above: `sqlite_store`.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from goalport.documents import Chunk
from goalport.rag import elements
from goalport.rag.conditions import Condition, Findable, all_of
from goalport.rag.elements import JOINED, Scored
from goalport.rag.filters import Filter
from goalport.rag.fusion import fused, window
from goalport.rag.operations import Batch, Operation, Statement, selected
from goalport.rag.patterns import matches
from goalport.rag.query import parse
from goalport.rag.rows import DocumentRows
from goalport.rag.search import SimilarityResult, TextSimilaritySearchRequest
from goalport.rag.sqlite_conditions import fits
from goalport.rag.sqlite_database import SqliteIndex, performed
from goalport.rag.sqlite_full_text import FullTextQuery
from goalport.rag.vectors import Allowed, VectorTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SqliteFinder"]

_PAGE: Final = 100
"""How many texts are read at once to be matched with a pattern."""
Found = Sequence[SimilarityResult[Chunk]]


class SqliteFinder:
    """Finds chunks by FTS5 and by numpy."""

    def __init__(self, database: SqliteIndex, regex_seconds: float) -> None:
        self._database, self._regex_seconds = database, regex_seconds
        self._vectors = VectorTable()

    def fits(self, wanted: Filter, /) -> Condition:
        return fits(wanted)

    async def entries(self, document: DocumentRows, /) -> None:
        """Nothing: FTS5 makes its entries of the rows of chunks."""

    def add(self, document: int, _entries: None, vectors: "NDArray[np.float32] | None", /) -> Operation[None]:
        for index in ("chunk_stems", "chunk_words"):
            yield Statement(
                f"insert into {index} (rowid, title, body) "  # noqa: S608 - one of two names
                "select id, title, body from chunks where document = ? order by id",
                (document,),
            )
        ids = yield Statement("select id from chunks where document = ? order by id", (document,))
        yield Statement("update facts set value = value + ? where name = 'chunks'", (len(ids),))
        if vectors is not None:
            rows = [(chunk, document, vector.tobytes()) for (chunk,), vector in zip(ids, vectors, strict=True)]
            yield Batch("insert into vectors values (?, ?, ?)", rows)

    def remove(self, document: int, /) -> Operation[None]:
        for index in ("chunk_stems", "chunk_words"):
            yield Statement(
                f"insert into {index} ({index}, rowid, title, body) "  # noqa: S608 - one of two names
                "select 'delete', id, title, body from chunks where document = ?",
                (document,),
            )
        for table in ("vectors", "new_vectors"):
            yield Statement(
                f"delete from {table} where chunk in (select id from chunks where document = ?)",  # noqa: S608 - as above
                (document,),
            )
        yield Statement(
            "update facts set value = value - (select chunks from documents where id = ?) where name = 'chunks'",
            (document,),
        )

    async def by_text(self, request: TextSimilaritySearchRequest, /) -> Found:
        return await self._found(lambda connection: _by_text(connection, request, request.top_k), request)

    async def by_vector(self, vector: "NDArray[np.float32]", request: TextSimilaritySearchRequest, /) -> Found:
        return await self._found(
            lambda connection: _by_vector(connection, self._vectors, vector, request, request.top_k), request
        )

    async def by_both(self, vector: "NDArray[np.float32] | None", request: TextSimilaritySearchRequest, /) -> Found:
        def both(connection: sqlite3.Connection) -> list[Scored]:
            most = window(request.top_k)
            orders = [_by_text(connection, request, most)]
            if vector is not None:
                near = _by_vector(connection, self._vectors, vector, request, most)
                orders.append([each for each in near if each[1] > 0])
            return fused([chunk for chunk, _ in order] for order in orders)[: request.top_k]

        return await self._found(both, request)

    async def by_pattern(self, regex: str, most: int, findable: Findable, /) -> Found:
        sent: list[int] = []

        async def texts() -> AsyncIterator[list[str]]:
            place = (0, -1)
            while page := await self._database.read(partial(_page, place, findable)):
                place = page[-1][1:3]
                sent.extend(chunk for chunk, _, _, _ in page)
                yield [text for _, _, _, text in page]

        matched = await matches(regex, texts(), most, self._regex_seconds)
        return await self._database.read(lambda: elements.results([(sent[each], 1.0) for each in matched]))

    async def _found(
        self, search: Callable[[sqlite3.Connection], Iterable[Scored]], request: TextSimilaritySearchRequest
    ) -> Found:
        def found(connection: sqlite3.Connection) -> Found:
            return performed(connection, elements.results([*search(connection)], request.similarity_threshold))

        return await self._database.using(found)


def _by_text(connection: sqlite3.Connection, request: TextSimilaritySearchRequest, most: int) -> list[Scored]:
    """What has the words of the query, the best first."""
    (chunks,) = connection.execute("select value from facts where name = 'chunks'").fetchone()
    query = FullTextQuery.of(parse(request.query), connection, chunks)
    if query is None or not query.terms:
        return []
    conditions = _restrictions(connection, request)
    if query.strict is not None:
        conditions.append(query.strict)
    found: list[Scored] = []
    if query.rare:
        found = _weighed(connection, query.weighed(only=query.rare), conditions, most)
    if len(found) < most or found[-1][1] < query.enough:
        found = _weighed(connection, query.weighed(), conditions, most)
    return [(chunk, min(weight / query.most, 1.0)) for chunk, weight in found]


def _by_vector(
    connection: sqlite3.Connection,
    table: VectorTable,
    vector: "NDArray[np.float32]",
    request: TextSimilaritySearchRequest,
    most: int,
) -> list[Scored]:
    """What lies nearest to a vector, the nearest first."""
    conditions = _restrictions(connection, request)
    allowed: Allowed | None = None
    if conditions:
        by_chunk = request.filter is not None
        tables = JOINED if by_chunk else "documents"
        statement = selected("chunks.id" if by_chunk else "documents.id", tables, all_of(conditions))
        ids = [each for (each,) in connection.execute(statement.sql, statement.values)]
        allowed = Allowed("chunk" if by_chunk else "document", ids)
    near = table.nearest(connection, vector, most, allowed)
    return [(chunk, min(max(cosine, 0.0), 1.0)) for chunk, cosine in near]


def _restrictions(connection: sqlite3.Connection, request: TextSimilaritySearchRequest) -> list[Condition]:
    left_in = fits(request.filter) if request.filter is not None else None
    return performed(connection, elements.restrictions(Findable(left_in, request.caller)))


def _page(after: tuple[int, int], findable: Findable) -> Operation[list[tuple[int, int, int, str]]]:
    """The next chunks in the order of the documents, each as its row, document, number and text."""
    place = Condition("(chunks.document, chunks.number) > (?, ?)", after)
    conditions = all_of([place, *(yield from elements.restrictions(findable))])
    columns = "chunks.id, chunks.document, chunks.number, coalesce(chunks.shown, chunks.body)"
    ending = f"order by chunks.document, chunks.number limit {_PAGE}"
    rows = yield selected(columns, JOINED, conditions, ending)
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def _weighed(
    connection: sqlite3.Connection, hits: Statement, conditions: Sequence[Condition], most: int
) -> list[Scored]:
    """The heaviest hits for which all conditions hold."""
    tables, condition = f"({hits.sql}) as hits", all_of(conditions)
    if conditions:
        tables += " join chunks on chunks.id = hits.id join documents on documents.id = chunks.document"
    statement = selected("hits.id, hits.weight", tables, condition, "order by hits.weight desc, hits.id limit ?")
    return connection.execute(statement.sql, (*hits.values, *statement.values, most)).fetchall()
