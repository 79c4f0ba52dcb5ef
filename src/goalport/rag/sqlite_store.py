"""The store of documents in a SQLite file or in memory: searched by words, by meaning and by pattern.

Words are found by SQLite's FTS5, vectors by numpy and exactly. All that blocks runs in threads. Below:
`sqlite_database`, which has the file, and `sqlite_search`, which searches it. Above: ingestion, and `ToolishRag`.
"""

from pathlib import Path
from typing import Literal

from goalport.llm import EmbeddingService
from goalport.rag.indexed_documents import IndexedDocuments
from goalport.rag.sqlite_database import SqliteIndex
from goalport.rag.sqlite_search import SqliteFinder

__all__ = ["SqliteDocumentStore"]


class SqliteDocumentStore(IndexedDocuments):
    """Documents in a SQLite file, which other programs of this machine may read and write too, or in memory.

    With `embeddings`, the chunks of each document get vectors when it is stored, and are found by meaning as well. A
    store remembers who made its vectors. With another model, `on_other_model` decides: `refuse`, and an error says so;
    or `text`, and a warning says that only words are searched and stored. `reembed` makes all vectors anew. A regular
    expression is given up after `regex_seconds`, or when a hundred chunks take it a second; a file that another program
    has locked is waited for, `busy_seconds` at most. The file is opened when it is first needed; `close`, or `async
    with`, ends what is under way.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        embeddings: EmbeddingService | None = None,
        on_other_model: Literal["refuse", "text"] = "refuse",
        regex_seconds: float = 5.0,
        busy_seconds: float = 5.0,
    ) -> None:
        database = SqliteIndex(path, busy_seconds)
        super().__init__(database, SqliteFinder(database, regex_seconds), embeddings, on_other_model)
