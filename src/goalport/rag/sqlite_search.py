"""Finding chunks in an index: by words, by vectors, and by both; always of those alone that may be found.

The functions run on a connection, in a thread. Above: `sqlite_store`, which is asynchronous and knows about embeddings.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from goalport.documents import Chunk
from goalport.rag.conditions import Condition, Findable, all_of, fits
from goalport.rag.full_text import FullTextQuery
from goalport.rag.fusion import fused
from goalport.rag.query import parse
from goalport.rag.rows import CHUNK_COLUMNS, chunk_of, selected
from goalport.rag.search import SimilarityResult, TextSimilaritySearchRequest
from goalport.rag.vectors import Allowed, VectorTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["JOINED", "by_both", "by_text", "by_vector", "restrictions", "results"]

JOINED: Final = "chunks join documents on documents.id = chunks.document"
_WINDOW: Final = 50
"""How many results of each search are fused at least."""

Scored = tuple[int, float]
"""The id of a row of `chunks`, and its score."""


def restrictions(connection: sqlite3.Connection, findable: Findable) -> list[Condition]:
    """What has to hold of `chunks` and `documents`; nothing where everything may be found."""
    (restricted,) = connection.execute("select exists (select 1 from documents where restricted)").fetchone()
    if restricted:
        return [findable.chunk]
    return [fits(findable.filter)] if findable.filter is not None else []


def by_text(connection: sqlite3.Connection, request: TextSimilaritySearchRequest, most: int = 0) -> list[Scored]:
    """What has the words of the query, the best first; `most` is used in place of the request's limit."""
    (chunks,) = connection.execute("select value from facts where name = 'chunks'").fetchone()
    query = FullTextQuery.of(parse(request.query), connection, chunks)
    if query is None or not query.terms:
        return []
    conditions = restrictions(connection, Findable(request.filter, request.caller))
    if query.strict is not None:
        conditions.append(query.strict)
    wanted = most or request.top_k
    found: list[Scored] = []
    if query.rare:
        found = _weighed(connection, query.weighed(only=query.rare), conditions, wanted)
    if len(found) < wanted or found[-1][1] < query.enough:
        found = _weighed(connection, query.weighed(), conditions, wanted)
    return [(chunk, min(weight / query.most, 1.0)) for chunk, weight in found]


def by_vector(
    connection: sqlite3.Connection,
    table: VectorTable,
    vector: "NDArray[np.float32]",
    request: TextSimilaritySearchRequest,
    most: int = 0,
) -> list[Scored]:
    """What lies nearest to a vector, the nearest first; `most` is used in place of the request's limit."""
    conditions = restrictions(connection, Findable(request.filter, request.caller))
    allowed: Allowed | None = None
    if conditions:
        by_chunk = request.filter is not None
        tables = JOINED if by_chunk else "documents"
        statement = selected("chunks.id" if by_chunk else "documents.id", tables, all_of(conditions))
        ids = [each for (each,) in connection.execute(statement.sql, statement.values)]
        allowed = Allowed("chunk" if by_chunk else "document", ids)
    near = table.nearest(connection, vector, most or request.top_k, allowed)
    return [(chunk, min(max(cosine, 0.0), 1.0)) for chunk, cosine in near]


def by_both(
    connection: sqlite3.Connection,
    table: VectorTable,
    vector: "NDArray[np.float32] | None",
    request: TextSimilaritySearchRequest,
) -> list[Scored]:
    """What both searches find, by reciprocal ranks; without a vector, what is found by words."""
    window = max(_WINDOW, 2 * request.top_k)
    orders = [by_text(connection, request, window)]
    if vector is not None:
        orders.append([each for each in by_vector(connection, table, vector, request, window) if each[1] > 0])
    return fused([chunk for chunk, _ in order] for order in orders)[: request.top_k]


def results(
    connection: sqlite3.Connection, found: Iterable[Scored], threshold: float = 0.0
) -> Sequence[SimilarityResult[Chunk]]:
    """The chunks of these rows, without those whose score is below the threshold."""
    kept = [each for each in found if each[1] >= threshold]
    statement = selected(
        f"chunks.id, {CHUNK_COLUMNS}",
        JOINED,
        Condition("chunks.id in (select value from json_each(?))", (json.dumps([chunk for chunk, _ in kept]),)),
    )
    rows = {row[0]: chunk_of(row[1:]) for row in connection.execute(statement.sql, statement.values)}
    return [SimilarityResult(rows[chunk], score) for chunk, score in kept if chunk in rows]


def _weighed(
    connection: sqlite3.Connection, hits: Condition, conditions: Sequence[Condition], most: int
) -> list[Scored]:
    """The heaviest hits for which all conditions hold."""
    tables, condition = f"({hits.sql}) as hits", all_of(conditions)
    if conditions:
        tables += " join chunks on chunks.id = hits.id join documents on documents.id = chunks.document"
    statement = selected("hits.id, hits.weight", tables, condition, "order by hits.weight desc, hits.id limit ?")
    return connection.execute(statement.sql, (*hits.values, *statement.values, most)).fetchall()
