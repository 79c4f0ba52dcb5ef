"""What can be searched, and how: filters, and a small protocol for each kind of search. User guide, section 3.12.5.

A store implements the protocols that suit it, and `ToolishRag` offers a model the tools for these only. A filter is
data, which each store translates for its database. Filters and read permissions are applied before results are cut to
`top_k`: what they exclude is not found, listed or read. The metadata of a chunk include those of its document; if both
have a key, the value of the chunk counts. A chunk without the key fits no comparison.

For sections and documents, the filter is applied to their chunks. A section with a text fits if it has chunks and all
of them fit, since it is read as a whole. A section with subsections fits if one of these fits. A document fits if one
of its chunks fits, and is read with the sections that fit.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import ModelUnavailable
from goalport.knowledge.documents import Chunk, ContentElement, ContentRoot, LeafSection, NavigableDocument

Value: TypeAlias = str | int | float | bool
"""A value that metadata are compared with."""


@dataclass(frozen=True, slots=True)
class _OfKey:
    key: str

    def __post_init__(self) -> None:
        if not self.key or '"' in self.key or not self.key.isprintable():
            raise ValueError(f"Expected a key of metadata without quotation marks, but came {self.key!r}.")


@dataclass(frozen=True, slots=True)
class Equal(_OfKey):
    """The value of a key is this one."""

    value: Value


@dataclass(frozen=True, slots=True)
class OneOf(_OfKey):
    """The value of a key is one of these."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class AtLeast(_OfKey):
    """The value of a key is this one or more. Texts are compared by their characters, as ISO dates can be."""

    value: str | int | float


@dataclass(frozen=True, slots=True)
class AtMost(_OfKey):
    """The value of a key is this one or less."""

    value: str | int | float


@dataclass(frozen=True, slots=True)
class Containing(_OfKey):
    """The value of a key is a text that contains this text, or a list with this text as an item."""

    value: str


@dataclass(frozen=True, slots=True)
class UriPrefix:
    """The document's URI begins with `prefix`: one document, a folder, or a site."""

    prefix: str


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of these filters fit."""

    filters: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these filters fits."""

    filters: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """This filter does not fit."""

    filter: "Filter"


Filter: TypeAlias = Equal | OneOf | AtLeast | AtMost | Containing | UriPrefix | AllOf | AnyOf | Not


_log = logging.getLogger(__name__)
MOST_RESULTS = 1_000
"""How many results a search can give at most."""

T = TypeVar("T", bound=ContentElement)
T_co = TypeVar("T_co", bound=ContentElement, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """What may be found, listed and read at all."""

    filter: Filter | None = None
    """What a result has to fit; None: there is no filter."""
    caller: Caller = ANONYMOUS
    """Who searches: documents that this caller may not read are not found."""


PUBLIC: Final = SearchLimits()
"""What everybody may find."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSimilaritySearchRequest(SearchLimits):
    """A query, and limits for its results. Raises `ValueError` for limits that make no sense."""

    query: str
    top_k: int = 10
    """How many results there are at most."""
    similarity_threshold: float = 0.0
    """The least score of a result, from 0 to 1."""

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= MOST_RESULTS:
            raise ValueError(f"Expected top_k to be from 1 to {MOST_RESULTS}, but came {self.top_k!r}.")
        if not 0 <= self.similarity_threshold <= 1:
            raise ValueError(f"Expected a threshold from 0 to 1, but came {self.similarity_threshold!r}.")


@dataclass(frozen=True, slots=True)
class SimilarityResult(Generic[T_co]):
    """What was found, and how well it fits."""

    match: T_co
    score: float
    """From 0 to 1, on a scale that does not depend on what else was found."""


class ExpansionMethod(Enum):
    """How a result is shown with more of its document."""

    SEQUENCE = "sequence"
    """With the chunks before and after it."""
    ZOOM_OUT = "zoom_out"
    """As the section around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionOutline:
    """A section in the list of a document's sections."""

    id: str
    path: tuple[str, ...]
    """The titles from that of the document to that of this section."""
    uri: str
    characters: int
    """The length of its text; 0 for a section with subsections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionText:
    """The text of a section, or of a document."""

    uri: str
    """The URI of the document."""
    leaves: tuple[LeafSection, ...]
    """The section itself, or the sections with a text inside it, in order."""


@runtime_checkable
class SearchOperations(Protocol):
    """Anything that can be searched. The protocol has no methods; those below say what can be done."""


@runtime_checkable
class SelectiveOperations(Protocol):
    """Search operations that depend on how a store was opened: without embeddings it has no vectors to search."""

    def can(self, operations: type, /) -> bool:
        """Whether one of these protocols can be used now."""
        ...


def supports(operations: object, protocol: type) -> bool:
    """Whether an object implements one of these protocols, and it can be used now."""
    return isinstance(operations, protocol) and (
        not isinstance(operations, SelectiveOperations) or operations.can(protocol)
    )


@runtime_checkable
class VectorSearch(SearchOperations, Protocol):
    """Search by meaning."""

    async def vector_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        """The results most similar to the query, best first. A score is the cosine, or 0 if that is negative."""
        ...


@runtime_checkable
class TextSearch(SearchOperations, Protocol):
    """Search by words, in the query language of `goalport.knowledge.rag.query`."""

    @property
    def lucene_syntax_notes(self) -> str:
        """How this store reads a query, for the models that write one."""
        ...

    async def text_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        """The results with words of the query, best first. Any text is a valid query."""
        ...


@runtime_checkable
class CoreSearchOperations(VectorSearch, TextSearch, Protocol):
    """Search by meaning and by words."""


@runtime_checkable
class HybridSearch(SearchOperations, Protocol):
    """Search by words and by meaning at once."""

    async def hybrid_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        """The results of both searches, merged by reciprocal rank fusion: a result that is first in both scores 1."""
        ...


@runtime_checkable
class RegexSearchOperations(SearchOperations, Protocol):
    """Search by a regular expression."""

    async def regex_search(
        self, regex: str, top_k: int, kind: type[T], limits: SearchLimits = PUBLIC, /
    ) -> Sequence[SimilarityResult[T]]:
        """The first matches in the order of the documents. Raises `BadInput` for a bad pattern or a slow one."""
        ...


@runtime_checkable
class ResultExpander(SearchOperations, Protocol):
    """Shows more of the document around a result."""

    async def expand_result(
        self,
        element: str,
        method: ExpansionMethod,
        elements_to_add: int,
        limits: SearchLimits = PUBLIC,
        /,
    ) -> Sequence[ContentElement]:
        """The elements around one, in order; none if there is no such element, or nothing around it.

        `SEQUENCE` returns chunks: the element itself, and up to `elements_to_add` on either side that fit the filter.
        `ZOOM_OUT` returns the section around the element, or the document if there is no section.
        """
        ...


@runtime_checkable
class SectionReader(SearchOperations, Protocol):
    """Lists documents and their sections, and reads them."""

    async def list_documents(
        self, limits: SearchLimits = PUBLIC, /, *, limit: int = 100, after: str = ""
    ) -> Sequence[ContentRoot]:
        """The documents in the order of their URIs, beginning after the URI `after`."""
        ...

    async def list_sections(self, document: str, limits: SearchLimits = PUBLIC, /) -> Sequence[SectionOutline]:
        """The sections of a document (by id or URI), in its order; none if there is no such document."""
        ...

    async def read_section(self, element: str, limits: SearchLimits = PUBLIC, /) -> SectionText | None:
        """The text of the section or document with this id; None: there is none."""
        ...


async def find_chunks(
    operations: SearchOperations, request: TextSimilaritySearchRequest, /
) -> Sequence[SimilarityResult[Chunk]]:
    """Search by words and meaning if a store can do both, else by meaning, else by words; else nothing is found.

    While the embedding model does not answer, only words are searched, with a warning. Raises what those searches
    raise.
    """
    try:
        if supports(operations, HybridSearch) and isinstance(operations, HybridSearch):
            return await operations.hybrid_search(request, Chunk)
        if supports(operations, VectorSearch) and isinstance(operations, VectorSearch):
            return await operations.vector_search(request, Chunk)
    except ModelUnavailable as error:
        if not isinstance(operations, TextSearch):
            raise
        _log.warning("Documents are searched by words alone. %s", error)
    return await operations.text_search(request, Chunk) if isinstance(operations, TextSearch) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """What a store knows of a document."""

    root: ContentRoot
    content_hash: str
    """The hash of its source, as it was passed to `put`."""
    stored_at: datetime
    """When it was stored, or read again without a change."""
    chunks: int
    """The number of its chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexInfo:
    """How much an index has, and which model made its vectors."""

    documents: int
    chunks: int
    vectors: int
    """How many chunks have a vector."""
    model: str
    """The name of the embedding service; empty if there are no vectors."""
    dimensions: int
    """The length of the vectors; 0 if there are none."""


@runtime_checkable
class DocumentStore(Protocol):
    """Stores documents with their sections and chunks."""

    async def put(
        self,
        document: NavigableDocument,
        chunks: Sequence[Chunk],
        *,
        content_hash: str = "",
        readers: Collection[Caller | str] | None = None,
    ) -> None:
        """Store a document, and replace a stored document with the same URI.

        `readers` are the callers who may read it, and the scopes that let others read it; None: everyone may. While
        the embedding service does not answer, documents are stored without vectors. Raises `StoreError`, and
        `ModelError` if the service cannot be used at all.
        """
        ...

    async def confirm(self, uri: str, /) -> None:
        """Record that a document was read again and has not changed: set its `stored_at` to now."""
        ...

    async def remove(self, uri: str, /) -> bool:
        """Remove a document with all that belongs to it. Returns whether it was stored."""
        ...

    async def document(self, uri: str, /) -> StoredDocument | None:
        """A stored document, whoever may read it; None: it is not stored."""
        ...

    async def documents(self, *, limit: int = 1_000, after: str = "") -> Sequence[StoredDocument]:
        """All documents, whoever may read them, in the order of their URIs, beginning after the URI `after`."""
        ...
