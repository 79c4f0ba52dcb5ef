"""The store of documents in PostgreSQL: many programs on many machines fill it and search it.

Words are found by `tsvector`, vectors by pgvector, and patterns by PostgreSQL's own regular expressions. Below:
`postgres_database`, which has the tables, and `postgres_search`, which searches them. Above: ingestion, and
`ToolishRag`.
"""

from typing import Literal

from goalport.llm import EmbeddingService
from goalport.rag.indexed_documents import IndexedDocuments
from goalport.rag.postgres_database import PostgresIndex
from goalport.rag.postgres_search import PostgresFinder

__all__ = ["PostgresDocumentStore"]


class PostgresDocumentStore(IndexedDocuments):
    """Documents in a PostgreSQL database, which programs on other machines may read and write too.

    Parameters: `url` as `postgresql://user:password@host:port/database`, with the options that asyncpg reads; at most
    `connections` are opened. `pooler`: they are those of a program such as PgBouncer that may give each transaction
    another one. A search or a write that has not happened after `seconds` fails, and a regular expression after
    `regex_seconds`; half of the connections match such ones at most. The tables are made in `schema`, so that the
    database may have others.

    With `embeddings`, the chunks of each document get vectors when it is stored, if the database has pgvector or may
    make that extension; otherwise a warning says that only words are searched and stored. `on_other_model` says what
    happens when another model made the vectors: `refuse`, or `text` with a warning; `reembed` makes all of them anew.
    Nothing is connected before it is needed; `close`, or `async with`, ends what is under way.
    """

    def __init__(
        self,
        url: str,
        *,
        embeddings: EmbeddingService | None = None,
        on_other_model: Literal["refuse", "text"] = "refuse",
        regex_seconds: float = 2.0,
        connections: int = 5,
        pooler: bool = False,
        seconds: float = 60.0,
        schema: str = "goalport_documents",
    ) -> None:
        """Raises `ValueError` if `url` is none, and `StoreError` if asyncpg is not installed."""
        database = PostgresIndex(url, schema=schema, seconds=seconds, connections=connections, pooler=pooler)
        finder = PostgresFinder(database, regex_seconds, max(connections // 2, 1))
        super().__init__(database, finder, embeddings, on_other_model)
