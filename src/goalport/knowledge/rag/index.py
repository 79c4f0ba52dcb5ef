"""An index of documents in a database: all that the stores of goalport have in common, whichever database it is.

A chunk is found by its words, by its vector, by both, or by a pattern; always those alone that may be found. What
differs between databases is the statements that find it: the `IndexDatabase` has them.
"""

import math
import re
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, cast
from unicodedata import normalize

import anyio
import anyio.to_thread

from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import BadInput
from goalport.base.words import first_line
from goalport.knowledge.documents import Chunk, ContentElement, ContentRoot, NavigableDocument
from goalport.knowledge.rag import elements
from goalport.knowledge.rag.database import (
    JOINED,
    Condition,
    Findable,
    IndexDatabase,
    Operation,
    Rows,
    Scored,
    Weighed,
    all_of,
    delete_document,
    insert_document,
    reader_of,
    selected,
)
from goalport.knowledge.rag.query import Group, Term, parse, telling
from goalport.knowledge.rag.search import (
    SEARCHABLE,
    ExpansionMethod,
    Filter,
    HybridSearch,
    IndexInfo,
    SectionOutline,
    SectionText,
    SimilarityResult,
    StoredDocument,
    TextSimilaritySearchRequest,
    VectorSearch,
)
from goalport.knowledge.rag.vectors import ChunkVectors
from goalport.models.llm import EmbeddingService

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T", bound=ContentElement)
R = TypeVar("R")
K = TypeVar("K", bound=Hashable)

_SYNTAX: Final = (
    'Words are found in any of their forms. +word must be there, -word must not; "several words" are found one after '
    "the other; begin* finds words that begin so, and wrod~ words with one wrong letter; AND, OR, NOT and parentheses "
    "work too. Plain questions are fine: what has more and rarer of the words comes first."
)
_CANDIDATES: Final = 400
"""How many chunks with the rarest words of a query are enough to look for the best among them."""
_DAMPING: Final = 10
"""How little the first ranks of two searches differ. Chosen by the questions of `benchmarks/questions.py`."""
_FUSED: Final = 50
"""How many results of each search are fused at least."""
_PATTERNS: Final = 2
"""How many threads match patterns at once: slow ones leave threads to all else."""
_PAGE: Final = 500
"""How many texts are read at once to be matched with a pattern."""


class IndexedDocuments:
    """Documents in a database, with what finds their chunks."""

    def __init__(
        self,
        database: IndexDatabase,
        embeddings: EmbeddingService | None,
        on_other_model: Literal["refuse", "text"],
        regex_seconds: float,
    ) -> None:
        self._database, self._regex_seconds = database, regex_seconds
        self._patterns = anyio.CapacityLimiter(_PATTERNS)
        self._vectors = ChunkVectors(database, embeddings, on_other_model)

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
        return operations not in {VectorSearch, HybridSearch} or self._vectors.in_use

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
        vectors = await self._vectors.of_chunks(document.uri, [each.text for each in chunks])

        def write() -> Operation[None]:
            yield from self._delete(document.uri)
            number = yield from insert_document(document, chunks, content_hash, readers)
            yield from self._database.add(number)
            if chunks:
                rows = yield "select id from chunks where document = ? order by number", (number,)
                yield from self._vectors.add([row[0] for row in rows], vectors)

        await self._database.write(write)

    async def confirm(self, uri: str, /) -> None:
        await self._database.write(lambda: elements.confirm(uri))

    async def remove(self, uri: str, /) -> bool:
        return await self._database.write(lambda: self._delete(uri))

    async def document(self, uri: str, /) -> StoredDocument | None:
        return await self._database.read(lambda: elements.document(uri))

    async def documents(self, *, limit: int = 1_000, after: str = "") -> Sequence[StoredDocument]:
        return await self._database.read(lambda: elements.documents(limit, after))

    async def grants_of(self, caller: Caller, *, revoke: bool) -> int:
        """How many documents name a caller among their readers; with `revoke`, they do so no more."""

        def found() -> Operation[int]:
            rows = yield "select count(*) from readers where reader = ?", (reader_of(caller),)
            if revoke:
                yield "delete from readers where reader = ?", (reader_of(caller),)
            return rows[0][0]

        if not self._database.is_there:
            return 0
        if not revoke:
            return await self._database.read(found)
        revoked = await self._database.write(found)
        await self._database.tidy()
        return revoked

    async def info(self) -> IndexInfo:
        """How much is stored, and who made the vectors."""
        return await self._vectors.info()

    async def reembed(self, *, only_missing: bool = False) -> int:
        """Make the vectors of all chunks by the present embedding service. Returns how many.

        Meanwhile, chunks that have none yet are found by words. `only_missing`: those of chunks that have none.
        """
        return await self._vectors.reembed(only_missing=only_missing)

    async def catch_up(self) -> int:
        """Make vectors of some chunks that were stored without, if that can be done now. Returns of how many."""
        return await self._vectors.catch_up()

    async def text_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        return await self._searched(kind, request, lambda: self._by_words(request, request.top_k))

    async def vector_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)
        vector = await self._vectors.of_query(request.query)
        if vector is None:
            raise await self._vectors.no_vectors()
        return await self._searched(kind, request, lambda: self._by_vector(vector, request, request.top_k))

    async def hybrid_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)
        vector = await self._vectors.of_query(request.query)

        def both() -> Operation[list[Scored]]:
            most = max(_FUSED, 2 * request.top_k)
            orders = [(yield from self._by_words(request, most))]
            if vector is not None:
                orders.append([each for each in (yield from self._by_vector(vector, request, most)) if each[1] > 0])
            return fused([chunk for chunk, _ in order] for order in orders)[: request.top_k]

        return await self._searched(kind, request, both)

    async def regex_search(
        self, regex: str, top_k: int, kind: type[T], /, *, filter: Filter | None = None, caller: Caller = ANONYMOUS
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)
        matches = await anyio.to_thread.run_sync(matcher, regex, limiter=self._patterns)
        findable, end = self._findable(filter, caller), time.monotonic() + self._regex_seconds
        found: list[int] = []
        place = (0, -1)
        while len(found) < top_k and (page := await self._database.read(partial(_page, place, findable))):
            place = page[-1][1], page[-1][2]

            def matched(page: Rows = page) -> list[int]:
                kept: list[int] = []
                for chunk, _, _, text in page:
                    if (left := end - time.monotonic()) <= 0:
                        raise too_slow(regex)
                    kept += [chunk] if matches(text, left) else []
                return kept

            found += await anyio.to_thread.run_sync(matched, limiter=self._patterns)
        results = await self._database.read(lambda: elements.results([(each, 1.0) for each in found[:top_k]]))
        return cast("Sequence[SimilarityResult[T]]", results)

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
        return Findable(None if wanted is None else self._database.fits(wanted), caller)

    def _delete(self, uri: str) -> Operation[bool]:
        rows = yield "select id from documents where uri = ?", (uri,)
        for (number,) in rows:
            yield from self._database.remove(number)
            yield from delete_document(number)
        return bool(rows)

    async def _searched(
        self, kind: type[T], request: TextSimilaritySearchRequest, find: Callable[[], Operation[list[Scored]]]
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)

        def found() -> Operation[Sequence[SimilarityResult[Chunk]]]:
            scored = yield from find()
            return (yield from elements.results(scored, request.similarity_threshold))

        return cast("Sequence[SimilarityResult[T]]", await self._database.read(found))

    def _by_words(self, request: TextSimilaritySearchRequest, most: int) -> Operation[list[Scored]]:
        """What has the words of the query, the best first, with the share of the most that a chunk could weigh."""
        tree = parse(request.query)
        ((every,),) = yield "select coalesce(sum(chunks), 0) from documents", ()
        terms: list[tuple[int, Term]] = []
        for term in telling(tree):
            ((count,),) = yield self._database.counted(term)
            terms.append((count, term))
        weighed = [Weighed(term, rarity(count, int(every))) for count, term in terms]
        known = [each for each, (count, _) in zip(weighed, terms, strict=True) if count]
        if not known:
            return []
        within = tree if tree.is_strict else _rarest(terms)
        conditions = yield from self._findable(request.filter, request.caller).restrictions()
        rows = yield self._database.weighed(known, within, conditions, most)
        if len(rows) < most and within is not None and within is not tree:
            rows = yield self._database.weighed(known, None, conditions, most)
        heaviest = sum(each.rarity for each in weighed) * 2.2  # with the parameter 1.2 of BM25
        return [(chunk, min(weight / max(heaviest, 1e-6), 1.0)) for chunk, weight in rows]

    def _by_vector(
        self, vector: "NDArray[np.float32]", request: TextSimilaritySearchRequest, most: int
    ) -> Operation[list[Scored]]:
        conditions = yield from self._findable(request.filter, request.caller).restrictions()
        near = yield from self._database.nearest(vector, conditions, most)
        return [(chunk, min(max(cosine, 0.0), 1.0)) for chunk, cosine in near]


def fused(orders: Iterable[Sequence[K]]) -> list[tuple[K, float]]:
    """What is in any of the orders, each best first, by reciprocal ranks: 1 is what is the first of all of them."""
    given = [order for order in orders if order]
    scores: dict[K, float] = {}
    for order in given:
        for rank, each in enumerate(order, start=1):
            scores[each] = scores.get(each, 0.0) + (_DAMPING + 1) / (_DAMPING + rank) / len(given)
    return sorted(scores.items(), key=lambda item: -item[1])


def rarity(found: int, every: int) -> float:
    """How much it tells that a chunk has what so many of all chunks have."""
    return max(math.log((every - found + 0.5) / (found + 0.5)) if found < every else 0, 1e-6)


def _rarest(terms: Sequence[tuple[int, Term]]) -> Group | None:
    """The rarest of these terms, until they find enough chunks; None: all are needed."""
    kept, enough = list[Term](), 0
    for count, term in sorted(terms, key=lambda each: each[0]):
        if enough >= _CANDIDATES:
            return Group(optional=tuple(kept))
        kept += [term] if count else []
        enough += count
    return None


def _page(after: tuple[int, int], findable: Findable) -> Operation[Rows]:
    """The next chunks in the order of the documents, each as its row, document, number and text."""
    place = Condition("(chunks.document, chunks.number) > (?, ?)", after)
    conditions = all_of([place, *(yield from findable.restrictions())])
    columns = "chunks.id, chunks.document, chunks.number, coalesce(chunks.shown, chunks.body)"
    return (yield selected(columns, JOINED, conditions, f"order by chunks.document, chunks.number limit {_PAGE}"))


def _check_searchable(kind: type) -> None:
    if not any(issubclass(each, kind) for each in SEARCHABLE):
        known = ", ".join(each.__name__ for each in SEARCHABLE)
        raise TypeError(f"Expected a type that is searched ({known}), but came {kind.__name__}.")


_LONGEST: Final = 1_000
_MOST_REPEATED: Final = 100_000
"""The product of all numbers of repetitions: the library makes copies of what is repeated."""


def matcher(regex: str) -> Callable[[str, float], bool]:
    """What says whether a text matches, however its characters are composed, within so many seconds.

    Raises `BadInput` for a pattern that is none or too long, and so does what it returns for one that takes too long.
    """
    if len(regex) > _LONGEST:
        raise BadInput(f"Expected a pattern of at most {_LONGEST} characters, but it has {len(regex)}. Shorten it.")
    if math.prod(int(each) or 1 for each in re.findall(r"\{(?:\d*,)?(\d+)", regex)) > _MOST_REPEATED:
        raise too_slow(regex)
    library: Any = import_module("regex")
    try:
        pattern = library.compile(normalize("NFC", regex))
    except (library.error, OverflowError, RecursionError, ValueError) as error:
        raise BadInput(f"{first_line(regex, 80)!r} is no regular expression of Python: {error}.") from error

    def matches(text: str, seconds: float) -> bool:
        try:
            return pattern.search(normalize("NFC", text), timeout=seconds, concurrent=True) is not None
        except TimeoutError as error:
            raise too_slow(regex) from error

    return matches


def too_slow(regex: str) -> BadInput:
    """That a pattern was given up."""
    return BadInput(
        f"The pattern {first_line(regex, 80)!r} takes too long. Repeat nothing that itself repeats, as in (a+)+, and "
        "look for a part that is always there."
    )
