"""What can be searched, and how: a small protocol for each kind of search. User guide, section 3.12.5.

A store implements those that are natural to it, and `ToolishRag` offers a model the tools for these alone. Filters, and
who may read a document, are applied by the store before it cuts its results: what came after would be too little, or
too much. What a filter leaves out does not exist for whoever searches, lists or reads with it:
`goalport.knowledge.rag.filters` says what that means for sections and documents. Below: `documents`.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar, runtime_checkable

from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import ModelUnavailable
from goalport.knowledge.documents import Chunk, ContentElement, ContentRoot, LeafSection
from goalport.knowledge.rag.filters import Filter

_log = logging.getLogger(__name__)
MOST_RESULTS = 1_000
"""How many results a search can give at most."""

T = TypeVar("T", bound=ContentElement)
T_co = TypeVar("T_co", bound=ContentElement, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSimilaritySearchRequest:
    """What is searched for. Raises `ValueError` for limits that make no sense."""

    query: str
    top_k: int = 10
    """How many results there are at most."""
    similarity_threshold: float = 0.0
    """The least score of a result, from 0 to 1."""
    filter: Filter | None = None
    """What else has to hold of a result; None: nothing."""
    caller: Caller = ANONYMOUS
    """On whose behalf it is searched: documents that this caller may not read do not exist here."""

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
    """A section in the list of those of a document."""

    id: str
    path: tuple[str, ...]
    """The titles from the document's to its own."""
    uri: str
    characters: int
    """The length of its text; 0 for a section that only holds sections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionText:
    """The text of a section, or of a document."""

    uri: str
    """That of the document."""
    leaves: tuple[LeafSection, ...]
    """Itself, or the sections with a text that it holds, in order."""


@runtime_checkable
class SearchOperations(Protocol):
    """The tag of everything that can be searched."""


@runtime_checkable
class SelectiveOperations(Protocol):
    """Search operations that depend on how a store was opened: without embeddings it has no vectors to search."""

    def can(self, operations: type, /) -> bool:
        """Whether it can do what one of these protocols says."""
        ...


def supports(operations: object, protocol: type) -> bool:
    """Whether an object can do what one of these protocols says."""
    return isinstance(operations, protocol) and (
        not isinstance(operations, SelectiveOperations) or operations.can(protocol)
    )


@runtime_checkable
class VectorSearch(SearchOperations, Protocol):
    """Search by meaning."""

    async def vector_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        """What lies nearest to the query, the nearest first. The score is the cosine, and 0 where that is negative."""
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
        """What has the words of the query, the best first. No query is an error."""
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
        """What both searches find, by reciprocal ranks: 1 is what both find first."""
        ...


@runtime_checkable
class RegexSearchOperations(SearchOperations, Protocol):
    """Search by a regular expression."""

    async def regex_search(
        self, regex: str, top_k: int, kind: type[T], /, *, filter: Filter | None = None, caller: Caller = ANONYMOUS
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
        /,
        *,
        filter: Filter | None = None,
        caller: Caller = ANONYMOUS,
    ) -> Sequence[ContentElement]:
        """The elements around one, in order; none if there is no such element, or nothing around it.

        For `SEQUENCE` these are chunks, itself among them and as many as said on either side; nothing stands in for
        those that the filter leaves out. For `ZOOM_OUT` it is the section that holds it, or the document of a section
        that no other section holds.
        """
        ...


@runtime_checkable
class FinderOperations(SearchOperations, Protocol):
    """Finds elements by id."""

    async def find_by_id(
        self, element: str, kind: type[T], /, *, filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> T | None:
        """The element with this id; None if there is none of this type that may be found."""
        ...


@runtime_checkable
class TypeRetrievalOperations(SearchOperations, Protocol):
    """Goes through elements of one type."""

    def supports_type(self, kind: type, /) -> bool:
        """Whether elements of this type can be searched."""
        ...

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
        """The elements of this type in the order in which they were stored, from the one after the id `after` on."""
        ...


@runtime_checkable
class SectionReader(SearchOperations, Protocol):
    """Lists documents and their sections, and reads them."""

    async def list_documents(
        self, *, limit: int = 100, after: str = "", filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> Sequence[ContentRoot]:
        """The documents in the order of their URIs, from the one after the URI `after` on."""
        ...

    async def list_sections(
        self, document: str, /, *, filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> Sequence[SectionOutline]:
        """The sections of a document, given by id or URI, in its order; none if there is no such document."""
        ...

    async def read_section(
        self, element: str, /, *, filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> SectionText | None:
        """The text of a section, or for a document's id of the document; None: there is no such section."""
        ...


async def find_chunks(
    operations: SearchOperations, request: TextSimilaritySearchRequest, /
) -> Sequence[SimilarityResult[Chunk]]:
    """Search by words and meaning if a store can do both, else by meaning, else by words; else nothing is found.

    While the embedding model gives no answer, words alone are searched, with a warning. Raises what those searches
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


SEARCHABLE = (Chunk,)
"""The types that stores search."""
