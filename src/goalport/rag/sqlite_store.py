"""The store of documents in a SQLite file or in memory: searched by words, by meaning and by pattern.

Words are found by SQLite's FTS5, vectors by numpy and exactly. All that blocks runs in threads. Below: `database`,
which has the file, `sqlite_search` and `elements`, which read it. Above: ingestion, and `ToolishRag` for models.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar, cast

from goalport.caller import ANONYMOUS, Caller
from goalport.documents import Chunk, ContentElement, ContentRoot, NavigableDocument
from goalport.llm import EmbeddingService
from goalport.rag import elements
from goalport.rag.conditions import Findable
from goalport.rag.database import IndexDatabase
from goalport.rag.document_store import IndexInfo, StoredDocument
from goalport.rag.embedding_state import EmbeddingState
from goalport.rag.filters import Filter
from goalport.rag.patterns import matches
from goalport.rag.rows import confirm_document, delete_document, insert_document
from goalport.rag.search import (
    SEARCHABLE,
    ExpansionMethod,
    HybridSearch,
    SectionOutline,
    SectionText,
    SimilarityResult,
    TextSimilaritySearchRequest,
    VectorSearch,
)
from goalport.rag.sqlite_search import by_both, by_text, by_vector, results
from goalport.rag.vectors import VectorTable

__all__ = ["SqliteDocumentStore"]

T = TypeVar("T", bound=ContentElement)


_SYNTAX: Final = (
    'Words are found in any of their forms. +word must be there, -word must not; "several words" are found as they '
    "stand; begin* finds words that begin so, and wrod~ words that are spelled nearly so; AND, OR, NOT and parentheses "
    "work too. Plain questions are fine: what has more and rarer of the words comes first."
)


class SqliteDocumentStore:
    """Documents in a SQLite file, which other programs of this machine may read and write too, or in memory.

    With `embeddings`, the chunks of each document get vectors when it is stored, and are found by meaning as well. A
    store remembers who made its vectors. With another model, `on_other_model` decides: `refuse`, and an error says so;
    or `text`, and a warning says that only words are searched and stored. `reembed` makes all vectors anew. A regular
    expression is given up after `regex_seconds`; a file that another program has locked is waited for, `busy_seconds`
    at most. The file is opened when it is first needed; `close`, or `async with`, ends what is under way.
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
        self._database = IndexDatabase(path, busy_seconds)
        self._embedding = EmbeddingState(self._database, embeddings, on_other_model)
        self._vectors = VectorTable()
        self._regex_seconds = regex_seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End what is under way, and close the file."""
        await self._database.close()

    def can(self, operations: type, /) -> bool:
        return operations not in {VectorSearch, HybridSearch} or self._embedding.in_use

    @property
    def lucene_syntax_notes(self) -> str:
        return _SYNTAX

    async def put(
        self,
        document: NavigableDocument,
        chunks: Sequence[Chunk],
        *,
        content_hash: str = "",
        readers: Collection[Caller | str] | None = None,
    ) -> None:
        vectors = await self._embedding.of_chunks(document.uri, [each.text for each in chunks])

        def write(connection: Any) -> None:
            if vectors is not None:
                self._embedding.note(connection, vectors.shape[1])
            delete_document(connection, document.uri)
            insert_document(connection, document, chunks, content_hash=content_hash, readers=readers, vectors=vectors)

        await self._database.write(write)

    async def confirm(self, uri: str, /) -> None:
        await self._database.write(lambda connection: confirm_document(connection, uri))

    async def remove(self, uri: str, /) -> bool:
        return await self._database.write(lambda connection: delete_document(connection, uri))

    async def document(self, uri: str, /) -> StoredDocument | None:
        return await self._database.read(lambda connection: elements.document(connection, uri))

    async def documents(self, *, limit: int = 1_000, after: str = "") -> Sequence[StoredDocument]:
        return await self._database.read(lambda connection: elements.documents(connection, limit, after))

    async def info(self) -> IndexInfo:
        """How much is stored, and who made the vectors."""
        return await self._database.read(self._embedding.info)

    async def reembed(self, *, only_missing: bool = False) -> int:
        """Make the vectors of all chunks by the present embedding service, and then use them. Returns how many.

        Searches go on with the old ones meanwhile. `only_missing`: those of chunks that have none.
        """
        return await self._embedding.reembed(only_missing=only_missing)

    async def text_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)
        found = await self._database.read(
            lambda connection: results(connection, by_text(connection, request), request.similarity_threshold)
        )
        return cast("Sequence[SimilarityResult[T]]", found)

    async def vector_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)
        vector = await self._embedding.of_query(request.query)
        if vector is None:
            raise self._database.error(
                "It has no vectors to search.", "Give it an embedding service, or search by text."
            )
        found = await self._database.read(
            lambda connection: results(
                connection, by_vector(connection, self._vectors, vector, request), request.similarity_threshold
            )
        )
        return cast("Sequence[SimilarityResult[T]]", found)

    async def hybrid_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)
        vector = await self._embedding.of_query(request.query)
        found = await self._database.read(
            lambda connection: results(
                connection, by_both(connection, self._vectors, vector, request), request.similarity_threshold
            )
        )
        return cast("Sequence[SimilarityResult[T]]", found)

    async def regex_search(
        self,
        regex: str,
        top_k: int,
        kind: type[T],
        /,
        *,
        filter: Filter | None = None,
        caller: Caller = ANONYMOUS,
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)
        findable = Findable(filter, caller)
        sent: list[int] = []

        async def texts() -> AsyncIterator[list[str]]:
            place = (0, -1)
            while page := await self._database.read(partial(elements.page, after=place, findable=findable)):
                place = page[-1][1:3]
                sent.extend(chunk for chunk, _, _, _ in page)
                yield [text for _, _, _, text in page]

        matched = await matches(regex, texts(), top_k, self._regex_seconds)
        rows = [(sent[each.number], 1.0) for each in matched]
        found = await self._database.read(lambda connection: results(connection, rows))
        return cast("Sequence[SimilarityResult[T]]", found)

    async def expand_result(
        self,
        element: str,
        method: ExpansionMethod,
        elements_to_add: int,
        /,
        *,
        filter: Filter | None = None,
        caller: Caller = ANONYMOUS,
    ) -> Sequence[ContentElement]:
        findable = Findable(filter, caller)
        if method is ExpansionMethod.SEQUENCE:
            return await self._database.read(
                lambda connection: elements.neighbours(connection, element, elements_to_add, findable)
            )
        return await self._database.read(lambda connection: elements.around(connection, element, findable))

    async def find_by_id(
        self, element: str, kind: type[T], /, *, filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> T | None:
        findable = Findable(filter, caller)
        return cast(
            "T | None",
            await self._database.read(lambda connection: elements.found(connection, element, kind, findable)),
        )

    def supports_type(self, kind: type, /) -> bool:
        return any(issubclass(each, kind) for each in SEARCHABLE)

    async def find_by_type(
        self,
        kind: type[T],
        /,
        *,
        limit: int = 100,
        after: str = "",
        filter: Filter | None = None,
        caller: Caller = ANONYMOUS,
    ) -> Sequence[T]:
        _check_searchable(kind)
        findable = Findable(filter, caller)
        found = await self._database.read(lambda connection: elements.chunks(connection, limit, after, findable))
        return cast("Sequence[T]", found)

    async def list_documents(
        self, *, limit: int = 100, after: str = "", filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> Sequence[ContentRoot]:
        findable = Findable(filter, caller)
        found = await self._database.read(lambda connection: elements.documents(connection, limit, after, findable))
        return [each.root for each in found]

    async def list_sections(
        self, document: str, /, *, filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> Sequence[SectionOutline]:
        findable = Findable(filter, caller)
        return await self._database.read(lambda connection: elements.outline(connection, document, findable))

    async def read_section(
        self, element: str, /, *, filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> SectionText | None:
        findable = Findable(filter, caller)
        return await self._database.read(lambda connection: elements.text(connection, element, findable))


def _check_searchable(kind: type) -> None:
    if not any(issubclass(each, kind) for each in SEARCHABLE):
        known = ", ".join(each.__name__ for each in SEARCHABLE)
        raise TypeError(f"Expected a type that is searched ({known}), but came {kind.__name__}.")
