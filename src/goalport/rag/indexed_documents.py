"""A store of documents in a database: all that stores of goalport have in common, whichever database it is.

What differs is handed in: the database runs operations, and the finder writes and searches what finds chunks. Below:
`elements` and `rows`, which are operations. Above: the stores in SQLite and in PostgreSQL.
"""

from collections.abc import Collection, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeVar, cast

import anyio.to_thread

from goalport.caller import ANONYMOUS, Caller
from goalport.documents import Chunk, ContentElement, ContentRoot, NavigableDocument
from goalport.llm import EmbeddingService
from goalport.rag import elements
from goalport.rag.conditions import Condition, Findable, reader_of
from goalport.rag.document_store import IndexInfo, StoredDocument
from goalport.rag.embedding_state import EmbeddingState, IndexDatabase
from goalport.rag.filters import Filter
from goalport.rag.operations import Operation, Statement
from goalport.rag.rows import DocumentRows, confirm_document, delete_document, insert_document
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

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ChunkFinder", "ClosableDatabase", "IndexedDocuments"]

T = TypeVar("T", bound=ContentElement)

_SYNTAX: Final = (
    'Words are found in any of their forms. +word must be there, -word must not; "several words" are found as they '
    "stand; begin* finds words that begin so, and wrod~ words that are spelled nearly so; AND, OR, NOT and parentheses "
    "work too. Plain questions are fine: what has more and rarer of the words comes first."
)
Found = Sequence[SimilarityResult[Chunk]]


class ClosableDatabase(IndexDatabase, Protocol):
    """A database that a store opens and closes."""

    @property
    def is_there(self) -> bool:
        """Whether something may be stored; if not, reading would make the database."""
        ...

    async def tidy(self) -> None:
        """Leave nothing of what was deleted in its files."""
        ...

    async def close(self) -> None:
        """End what is under way, and let go of the file or the connections. Closing twice does nothing."""
        ...


class ChunkFinder(Protocol):
    """What finds chunks in a database: by their words, their vectors, and by patterns."""

    def fits(self, wanted: Filter, /) -> Condition:
        """Whether a row of `chunks`, beside its row of `documents`, fits a filter. It is never null."""
        ...

    async def entries(self, document: DocumentRows, /) -> Any:
        """What finds the chunks of a document by their words, as `add` takes it."""
        ...

    def add(self, document: int, entries: Any, vectors: "NDArray[np.float32] | None", /) -> Operation[None]:
        """Write what finds the chunks of a document that has been inserted."""
        ...

    def remove(self, document: int, /) -> Operation[None]:
        """Delete what finds the chunks of a document that is to be deleted."""
        ...

    async def by_text(self, request: TextSimilaritySearchRequest, /) -> Found:
        """What has the words of the query, the best first."""
        ...

    async def by_vector(self, vector: "NDArray[np.float32]", request: TextSimilaritySearchRequest, /) -> Found:
        """What lies nearest to a vector, the nearest first."""
        ...

    async def by_both(self, vector: "NDArray[np.float32] | None", request: TextSimilaritySearchRequest, /) -> Found:
        """What both searches find, by reciprocal ranks; without a vector, what is found by words."""
        ...

    async def by_pattern(self, regex: str, most: int, findable: Findable, /) -> Found:
        """The first matches in the order of the documents. Raises `BadInput` for a bad pattern or a slow one."""
        ...


class IndexedDocuments:
    """Documents in a database, with what finds their chunks."""

    def __init__(
        self,
        database: ClosableDatabase,
        finder: ChunkFinder,
        embeddings: EmbeddingService | None,
        on_other_model: Literal["refuse", "text"],
    ) -> None:
        self._database, self._finder = database, finder
        self._embedding = EmbeddingState(database, embeddings, on_other_model)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End what is under way, and let go of the file or the connections. Closing twice does nothing."""
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
        rows = await anyio.to_thread.run_sync(
            lambda: DocumentRows.of(document, chunks, content_hash=content_hash, readers=readers)
        )
        entries = await self._finder.entries(rows)

        def write() -> Operation[None]:
            if chunks:
                yield from self._embedding.note(None if vectors is None else vectors.shape[1])
            yield from self._delete(document.uri)
            number = yield from insert_document(rows)
            yield from self._finder.add(number, entries, vectors)

        await self._database.write(write)

    async def confirm(self, uri: str, /) -> None:
        await self._database.write(lambda: confirm_document(uri))

    async def remove(self, uri: str, /) -> bool:
        return await self._database.write(lambda: self._delete(uri))

    async def document(self, uri: str, /) -> StoredDocument | None:
        return await self._database.read(lambda: elements.document(uri))

    async def documents(self, *, limit: int = 1_000, after: str = "") -> Sequence[StoredDocument]:
        return await self._database.read(lambda: elements.documents(limit, after))

    async def grants_of(self, caller: Caller, *, revoke: bool) -> int:
        """How many documents name a caller among their readers; with `revoke`, they do so no more."""

        def found() -> Operation[int]:
            text = (
                "delete from readers where reader = ? returning 1"
                if revoke
                else "select 1 from readers where reader = ?"
            )
            return len((yield Statement(text, (reader_of(caller),))))

        if not self._database.is_there:
            return 0
        if not revoke:
            return await self._database.read(found)
        revoked = await self._database.write(found)
        await self._database.tidy()
        return revoked

    async def info(self) -> IndexInfo:
        """How much is stored, and who made the vectors."""
        return await self._embedding.info()

    async def reembed(self, *, only_missing: bool = False) -> int:
        """Make the vectors of all chunks by the present embedding service, and then use them. Returns how many.

        Searches go on with the old ones meanwhile. `only_missing`: those of chunks that have none.
        """
        return await self._embedding.reembed(only_missing=only_missing)

    async def catch_up(self) -> int:
        """Make vectors of some chunks that were stored without, if that can be done now. Returns of how many."""
        return await self._embedding.catch_up()

    async def text_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)
        return cast("Sequence[SimilarityResult[T]]", await self._finder.by_text(request))

    async def vector_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)
        vector = await self._embedding.of_query(request.query)
        if vector is None:
            raise await self._embedding.no_vectors()
        return cast("Sequence[SimilarityResult[T]]", await self._finder.by_vector(vector, request))

    async def hybrid_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)
        vector = await self._embedding.of_query(request.query)
        return cast("Sequence[SimilarityResult[T]]", await self._finder.by_both(vector, request))

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
        found = await self._finder.by_pattern(regex, top_k, self._findable(filter, caller))
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
        findable = self._findable(filter, caller)
        if method is ExpansionMethod.SEQUENCE:
            return await self._database.read(lambda: elements.neighbours(element, elements_to_add, findable))
        return await self._database.read(lambda: elements.around(element, findable))

    async def find_by_id(
        self, element: str, kind: type[T], /, *, filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> T | None:
        findable = self._findable(filter, caller)
        return cast("T | None", await self._database.read(lambda: elements.found(element, kind, findable)))

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
        findable = self._findable(filter, caller)
        return cast("Sequence[T]", await self._database.read(lambda: elements.chunks(limit, after, findable)))

    async def list_documents(
        self, *, limit: int = 100, after: str = "", filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> Sequence[ContentRoot]:
        findable = self._findable(filter, caller)
        found = await self._database.read(lambda: elements.documents(limit, after, findable))
        return [each.root for each in found]

    async def list_sections(
        self, document: str, /, *, filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> Sequence[SectionOutline]:
        findable = self._findable(filter, caller)
        return await self._database.read(lambda: elements.outline(document, findable))

    async def read_section(
        self, element: str, /, *, filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> SectionText | None:
        findable = self._findable(filter, caller)
        return await self._database.read(lambda: elements.text(element, findable))

    def _findable(self, wanted: Filter | None, caller: Caller) -> Findable:
        return Findable(None if wanted is None else self._finder.fits(wanted), caller)

    def _delete(self, uri: str) -> Operation[bool]:
        rows = yield Statement("select id from documents where uri = ?", (uri,))
        for (number,) in rows:
            yield from self._finder.remove(number)
            yield from delete_document(number)
        return bool(rows)


def _check_searchable(kind: type) -> None:
    if not any(issubclass(each, kind) for each in SEARCHABLE):
        known = ", ".join(each.__name__ for each in SEARCHABLE)
        raise TypeError(f"Expected a type that is searched ({known}), but came {kind.__name__}.")
