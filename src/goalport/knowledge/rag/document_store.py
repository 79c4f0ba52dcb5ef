"""What keeps documents so that they can be searched: the protocols of whoever takes documents in, and of an index.

A document is stored whole or not at all, under its URI. Its hash tells whether it has changed since. Above: ingestion,
and the stores of goalport, which are indexes.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from goalport.base.caller import Caller
from goalport.knowledge.documents import Chunk, ContentRoot, NavigableDocument
from goalport.knowledge.rag.search import (
    CoreSearchOperations,
    FinderOperations,
    HybridSearch,
    RegexSearchOperations,
    ResultExpander,
    SectionReader,
    SelectiveOperations,
    TypeRetrievalOperations,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """What a store knows of a document."""

    root: ContentRoot
    content_hash: str
    """The hash of what it was made of, as whoever stored it gave it."""
    stored_at: datetime
    """When it was stored, or read again without a change."""
    chunks: int
    """The number of its chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexInfo:
    """How much an index has, and who made its vectors."""

    documents: int
    chunks: int
    vectors: int
    """How many chunks have a vector."""
    model: str
    """The name of the embedding service; empty where there are no vectors."""
    dimensions: int
    """The length of the vectors; 0 where there are none."""


@runtime_checkable
class DocumentStore(Protocol):
    """Keeps documents with their sections and chunks."""

    async def put(
        self,
        document: NavigableDocument,
        chunks: Sequence[Chunk],
        *,
        content_hash: str = "",
        readers: Collection[Caller | str] | None = None,
    ) -> None:
        """Store a document in place of the one with its URI, if there is one.

        `readers` are the callers who may read it, and the scopes that let others read it; None: everyone may. While
        the embedding service does not answer, it is stored without vectors. Raises `StoreError`, and `ModelError` when
        the service cannot be used at all.
        """
        ...

    async def confirm(self, uri: str, /) -> None:
        """Note that a document was read again and is as it was: its `stored_at` is now."""
        ...

    async def remove(self, uri: str, /) -> bool:
        """Remove a document with all that belongs to it. Returns whether it was there."""
        ...

    async def document(self, uri: str, /) -> StoredDocument | None:
        """What is known of a document, whoever may read it; None: it is not stored."""
        ...

    async def documents(self, *, limit: int = 1_000, after: str = "") -> Sequence[StoredDocument]:
        """All documents in the order of their URIs, whoever may read them, from the one after the URI `after` on."""
        ...


@runtime_checkable
class DocumentIndex(
    DocumentStore,
    CoreSearchOperations,
    HybridSearch,
    RegexSearchOperations,
    ResultExpander,
    FinderOperations,
    TypeRetrievalOperations,
    SectionReader,
    SelectiveOperations,
    Protocol,
):
    """A store that can do all that goalport can: what the commands and a platform work with, wherever it is kept."""

    async def info(self) -> IndexInfo:
        """How much is stored, and who made the vectors."""
        ...

    async def reembed(self, *, only_missing: bool = False) -> int:
        """Make the vectors of all chunks by the present embedding service. Returns how many.

        Meanwhile, chunks that have none yet are found by words. `only_missing`: those of chunks that have none.
        """
        ...

    async def catch_up(self) -> int:
        """Make vectors of some chunks that were stored without, if that can be done now. Returns of how many."""
        ...

    async def close(self) -> None:
        """End what is under way, and let go of the file or the connections. Closing twice does nothing."""
        ...
