"""An index of documents in a database: all that the stores of goalport have in common.

Chunks are found by words, by vectors, by both, or by a pattern, and only if caller and filter allow it. The SQL
statements that differ between databases are those of the `IndexDatabase`.
"""

import json
import math
import re
import time
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final, Literal, Self, TypeVar, assert_never
from unicodedata import normalize

import anyio
from anyio import to_thread

from goalport.base.caller import Caller
from goalport.base.errors import BadInput
from goalport.base.words import first_line
from goalport.knowledge.documents import (
    Chunk,
    ContainerSection,
    ContentElement,
    ContentRoot,
    LeafSection,
    NavigableDocument,
    Section,
)
from goalport.knowledge.rag.database import (
    JOINED,
    Condition,
    IndexDatabase,
    Operation,
    Rows,
    Scored,
    all_of,
    plain,
    selected,
)
from goalport.knowledge.rag.query import Group, Term, indexed, parse, significant_terms
from goalport.knowledge.rag.search import (
    PUBLIC,
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Containing,
    Equal,
    ExpansionMethod,
    Filter,
    HybridSearch,
    Not,
    OneOf,
    SearchLimits,
    SectionOutline,
    SectionText,
    SimilarityResult,
    StoredDocument,
    TextSimilaritySearchRequest,
    UriPrefix,
    VectorSearch,
)
from goalport.knowledge.rag.vectors import ChunkVectors
from goalport.models.llm import EmbeddingService
from goalport.store.operations import reads, writes

T = TypeVar("T", bound=ContentElement)
K = TypeVar("K", bound=Hashable)

_CHUNK: Final = (
    "chunks.element, chunks.metadata, coalesce(chunks.shown, chunks.body), "
    "coalesce(chunks.urtext, chunks.shown, chunks.body), chunks.parent, documents.element, documents.uri, chunks.path, "
    "chunks.number, chunks.first, chunks.past"
)
_DOCUMENT: Final = (
    "documents.element, documents.metadata, documents.uri, documents.title, documents.content_hash, "
    "documents.stored_at, documents.chunks"
)
_CANDIDATES: Final = 400
"""If so many chunks have the rarest words of a query, only these chunks are scored."""
_DAMPING: Final = 10
"""The constant of reciprocal rank fusion: with more, first ranks count less. Chosen by `benchmarks/questions.py`."""
_FUSED: Final = 50
"""The least number of results of each search that are fused."""
_MOST_NEIGHBOURS: Final = 100
_PATTERNS: Final = 2
"""How many threads match patterns at once, so that slow patterns leave threads for other work."""
_PAGE: Final = 500
"""How many texts are read at once to be matched with a pattern."""
_LONGEST: Final = 1_000
_MOST_REPEATED: Final = 100_000
"""The largest product of repetition counts in a pattern: the library copies what is repeated."""


class DocumentIndex:
    """A `DocumentStore` with every kind of search, and with all methods that the commands and a platform need.

    `info()` says how much is stored. `catch_up()` makes vectors for some chunks without one, if it can now, and returns
    for how many; `reembed(only_missing=…)` makes the vectors of all chunks again. `close()` may be called twice.
    """

    lucene_syntax_notes = (
        'Words are found in any of their forms. +word must be there, -word must not; "several words" are found one '
        "after the other; begin* finds words that begin so, and wrod~ words with one wrong letter; AND, OR, NOT and "
        "parentheses work too. Plain questions are fine: what has more and rarer of the words comes first."
    )

    def __init__(
        self,
        database: IndexDatabase,
        embeddings: EmbeddingService | None,
        on_other_model: Literal["refuse", "text"],
        regex_seconds: float,
    ) -> None:
        self.database, self._regex_seconds = database, regex_seconds
        self._patterns = anyio.CapacityLimiter(_PATTERNS)
        self._vectors = ChunkVectors(database, embeddings, on_other_model)
        self.info, self.reembed, self.catch_up = self._vectors.info, self._vectors.reembed, self._vectors.catch_up
        self.close = database.close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def can(self, operations: type, /) -> bool:
        return operations not in {VectorSearch, HybridSearch} or self._vectors.in_use

    # Storing.

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
            yield from self._remove(document.uri)
            number = yield from _insert_document(document, chunks, content_hash, readers)
            yield from self.database.add(number)
            if chunks:
                rows = yield "select id from chunks where document = ? order by number", (number,)
                yield from self._vectors.add([row[0] for row in rows], vectors)

        await self.database.write(write)

    @writes
    def confirm(self, uri: str, /) -> Operation[None]:
        yield "update documents set stored_at = ? where uri = ?", (datetime.now(UTC).isoformat(), uri)

    def _remove(self, uri: str, /) -> Operation[bool]:
        rows = yield "select id from documents where uri = ?", (uri,)
        for (number,) in rows:
            yield from self.database.remove(number)
            for table in ("chunks", "sections", "readers"):
                yield f"delete from {table} where document = ?", (number,)  # noqa: S608 - one of these names
            yield "delete from documents where id = ?", (number,)
        return bool(rows)

    remove = writes(_remove)

    @reads
    def document(self, uri: str, /) -> Operation[StoredDocument | None]:
        rows = yield selected(_DOCUMENT, "documents", Condition("documents.uri = ?", (uri,)))
        return _document_of(rows[0]) if rows else None

    @reads
    def documents(self, *, limit: int = 1_000, after: str = "") -> Operation[Sequence[StoredDocument]]:
        return (yield from _documents(limit, after))

    async def grants_of(self, caller: Caller, *, revoke: bool) -> int:
        """How many documents name a caller as a reader. `revoke`: remove the caller from them."""

        def found() -> Operation[int]:
            rows = yield "select count(*) from readers where reader = ?", (_reader_of(caller),)
            if revoke:
                yield "delete from readers where reader = ?", (_reader_of(caller),)
            return rows[0][0]

        if not self.database.is_there:
            return 0
        if not revoke:
            return await self.database.read(found)
        revoked = await self.database.write(found)
        await self.database.trim()
        return revoked

    # Searching.

    async def text_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        return await self._search(request, kind, meaning=False)

    async def vector_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        return await self._search(request, kind, words=False)

    async def hybrid_search(
        self, request: TextSimilaritySearchRequest, kind: type[T], /
    ) -> Sequence[SimilarityResult[T]]:
        return await self._search(request, kind)

    async def _search(
        self, request: TextSimilaritySearchRequest, kind: type, *, words: bool = True, meaning: bool = True
    ) -> Sequence[SimilarityResult[Any]]:
        _check_searchable(kind)
        vector = await self._vectors.of_query(request.query, required=not words) if meaning else None
        both = words and meaning
        most = max(_FUSED, 2 * request.top_k) if both else request.top_k

        def found() -> Operation[Sequence[SimilarityResult[Chunk]]]:
            conditions = yield from _Findable.of(request, self.database).restrictions()
            orders: list[list[Scored]] = []
            if words:
                orders.append((yield from self._by_words(request.query, conditions, most)))
            if vector is not None:
                near = yield from self.database.nearest(vector, conditions, most)
                orders.append([(chunk, min(max(cosine, 0.0), 1.0)) for chunk, cosine in near if cosine > 0 or not both])
            scored = fused([chunk for chunk, _ in order] for order in orders)[: request.top_k] if both else orders[0]
            return (yield from _results([each for each in scored if each[1] >= request.similarity_threshold]))

        return await self.database.read(found)

    def _by_words(self, query: str, conditions: Sequence[Condition], most: int) -> Operation[list[Scored]]:
        """The chunks with words of a query, best first. A score is the weight divided by the highest possible one."""
        tree = parse(query)
        ((every,),) = yield "select coalesce(sum(chunks), 0) from documents", ()
        counts: dict[Term, int] = {}
        for term in significant_terms(tree):
            ((counts[term],),) = yield self.database.count_statement(term)
        # As in BM25, rare words count much, and common ones little.
        rarities = {
            term: max(math.log((every - found + 0.5) / (found + 0.5)) if found < every else 0, 1e-6)
            for term, found in ((term, float(count)) for term, count in counts.items())
        }
        known = {term: rarity for term, rarity in rarities.items() if counts[term]}
        if not known:
            return []
        rarest, enough = list[Term](), 0
        for term in sorted(known, key=counts.__getitem__):
            if enough < _CANDIDATES:
                rarest.append(term)
                enough += counts[term]
        fewer = Group(optional=tuple(rarest)) if len(rarest) < len(known) else None
        within = tree if tree.is_strict else fewer
        rows = yield self.database.score_statement(known, within, conditions, most)
        if len(rows) < most and within is not None and within is fewer:
            rows = yield self.database.score_statement(known, None, conditions, most)
        heaviest = sum(rarities.values()) * 2.2  # with the parameter 1.2 of BM25
        return [(chunk, min(weight / max(heaviest, 1e-6), 1.0)) for chunk, weight in rows]

    async def regex_search(
        self, regex: str, top_k: int, kind: type[T], limits: SearchLimits = PUBLIC, /
    ) -> Sequence[SimilarityResult[T]]:
        _check_searchable(kind)
        pattern = await to_thread.run_sync(_compiled, regex, limiter=self._patterns)
        findable, end = _Findable.of(limits, self.database), time.monotonic() + self._regex_seconds
        place, found = (0, -1), list[int]()

        def next_page() -> Operation[Rows]:
            later = Condition("(chunks.document, chunks.number) > (?, ?)", place)
            conditions = all_of([later, *(yield from findable.restrictions())])
            columns = "chunks.id, chunks.document, chunks.number, coalesce(chunks.shown, chunks.body)"
            return (
                yield selected(columns, JOINED, conditions, f"order by chunks.document, chunks.number limit {_PAGE}")
            )

        def matching(page: Rows) -> list[int]:
            """The ids of the chunks whose texts match, in whichever Unicode form they are stored."""
            kept: list[int] = []
            for chunk, _, _, text in page:
                if (left := end - time.monotonic()) <= 0:
                    raise TimeoutError
                if pattern.search(normalize("NFC", text), timeout=left, concurrent=True):
                    kept.append(chunk)
            return kept

        try:
            while len(found) < top_k and (page := await self.database.read(next_page)):
                place = page[-1][1], page[-1][2]
                found += await to_thread.run_sync(matching, page, limiter=self._patterns)
        except TimeoutError as error:
            raise _too_slow(regex) from error
        results: Sequence[Any] = await self.database.read(lambda: _results([(each, 1.0) for each in found[:top_k]]))
        return results

    # Reading.

    @reads
    def expand_result(
        self,
        element: str,
        method: ExpansionMethod,
        elements_to_add: int,
        limits: SearchLimits = PUBLIC,
        /,
    ) -> Operation[Sequence[ContentElement]]:
        findable = _Findable.of(limits, self.database)
        if method is ExpansionMethod.ZOOM_OUT:
            for inner in (yield from _elements(element, findable)):
                if isinstance(inner, Chunk | Section):
                    return (yield from _elements(inner.parent_id, findable))[:1]
            return []
        near = Condition(
            "chunks.document = (select document from chunks where element = ?) and abs(chunks.number - "
            "(select number from chunks where element = ?)) <= ?",
            (element, element, min(max(elements_to_add, 0), _MOST_NEIGHBOURS)),
        )
        rows = yield selected(_CHUNK, JOINED, all_of([near, findable.chunk]), "order by chunks.number")
        read = [_chunk_of(row) for row in rows]
        return read if any(each.id == element for each in read) else []

    @reads
    def find_by_id(self, element: str, kind: type[T], limits: SearchLimits = PUBLIC, /) -> Operation[T | None]:
        found = yield from _elements(element, _Findable.of(limits, self.database))
        return next((each for each in found if isinstance(each, kind)), None)

    @reads
    def list_documents(
        self, limits: SearchLimits = PUBLIC, /, *, limit: int = 100, after: str = ""
    ) -> Operation[Sequence[ContentRoot]]:
        found = yield from _documents(limit, after, _Findable.of(limits, self.database))
        return [each.root for each in found]

    @reads
    def list_sections(self, document: str, limits: SearchLimits = PUBLIC, /) -> Operation[Sequence[SectionOutline]]:
        findable = _Findable.of(limits, self.database)
        named = Condition("documents.element = ? or documents.uri = ?", (document, document))
        rows = yield selected("documents.id, documents.uri", "documents", all_of([named, findable.document]))
        listed: list[SectionOutline] = []
        for number, uri in rows:
            for each in (yield from _sections_of(number, findable)).values():
                length = len(each.text) if isinstance(each, LeafSection) else 0
                listed.append(SectionOutline(id=each.id, path=each.path, uri=uri, characters=length))
        return listed

    @reads
    def read_section(self, element: str, limits: SearchLimits = PUBLIC, /) -> Operation[SectionText | None]:
        for each in (yield from _elements(element, _Findable.of(limits, self.database))):
            if isinstance(each, NavigableDocument):
                return SectionText(uri=each.uri, leaves=tuple(each.leaves()))
            if isinstance(each, Section):
                of_section = Condition("id = (select document from sections where element = ?)", (element,))
                ((uri,),) = yield selected("uri", "documents", of_section)
                return SectionText(uri=uri, leaves=tuple(each.leaves()))
        return None


def _fitting(wanted: Filter, database: IndexDatabase) -> Condition:
    """The condition that a row of `chunks`, joined with its row of `documents`, fits a filter. It is never null."""
    match wanted:
        case Equal() | AtLeast() | AtMost() | Containing():
            return database.comparison(wanted)
        case OneOf(key, values):
            return all_of([database.comparison(Equal(key, value)) for value in values], "or")
        case UriPrefix(prefix):
            return Condition("substr(documents.uri, 1, ?) = ?", (len(prefix), prefix))
        case AllOf(filters) | AnyOf(filters):
            inner = [_fitting(each, database) for each in filters]
            return all_of(inner, "and" if isinstance(wanted, AllOf) else "or")
        case Not(negated):
            condition = _fitting(negated, database)
            return Condition(f"not ({condition.sql})", condition.values)
        case _:
            assert_never(wanted)


@dataclass(frozen=True, slots=True)
class _Findable:
    """The conditions for what may be found: the caller may read the document, and the filter fits."""

    left_in: Condition | None
    """The condition that a chunk fits the filter; None: there is no filter."""
    chunk: Condition
    """The condition that a row of `chunks`, joined with its row of `documents`, may be found."""
    document: Condition
    """The condition that a row of `documents` may be found. If there is a filter, one of its chunks has to fit."""

    @classmethod
    def of(cls, limits: SearchLimits, database: IndexDatabase) -> Self:
        known = (_reader_of(limits.caller), *map(_reader_of, sorted(limits.caller.scopes)))
        one_of_them = f"readers.reader in ({', '.join('?' * len(known))})"
        named = f"exists (select 1 from readers where readers.document = documents.id and {one_of_them})"  # noqa: S608 - ours
        readable = Condition(f"not documents.restricted or {named}", known)
        if limits.filter is None:
            return cls(None, readable, readable)
        left = _fitting(limits.filter, database)
        some = f"exists (select 1 from chunks where chunks.document = documents.id and ({left.sql}))"  # noqa: S608 - ours
        return cls(left, all_of([readable, left]), all_of([readable, Condition(some, left.values)]))

    def restrictions(self) -> Operation[list[Condition]]:
        """The conditions on `chunks` and `documents`; none if everything may be found."""
        if (yield selected("1", "documents", Condition("documents.restricted"), "limit 1")):
            return [self.chunk]
        return [self.left_in] if self.left_in is not None else []


def _reader_of(allowed: Caller | str) -> str:
    """The text for a caller, or for a scope (a `str`), in the table `readers`."""
    return f"scope {allowed}" if isinstance(allowed, str) else f"caller {json.dumps([allowed.issuer, allowed.id])}"


def _chunk_of(row: Sequence[Any]) -> Chunk:
    """The chunk of a row of `_CHUNK`."""
    element, metadata, text, urtext, parent, root, uri, path, number, first, past = row
    return Chunk(
        id=element,
        metadata=json.loads(metadata),
        text=text,
        urtext=urtext,
        parent_id=parent,
        root_id=root,
        uri=uri,
        path=tuple(json.loads(path)),
        number=number,
        start=first,
        end=past,
    )


def _document_of(row: Sequence[Any]) -> StoredDocument:
    """The document of a row of `_DOCUMENT`."""
    element, metadata, uri, title, content_hash, stored_at, chunks = row
    root = ContentRoot(id=element, metadata=json.loads(metadata), uri=uri, title=title)
    stored = datetime.fromisoformat(stored_at)
    return StoredDocument(root=root, content_hash=content_hash, stored_at=stored, chunks=chunks)


def _sections_of(document: int, findable: _Findable) -> Operation[dict[str, Section]]:
    """The sections of a document that fit the filter, by id and in its order, each with its subsections.

    The docstring of `search` says when a section fits.
    """
    kept: set[str] | None = None
    of_document = Condition("chunks.document = ?", (document,))
    if findable.left_in is not None:
        counted = "group by chunks.parent"
        every = yield selected("chunks.parent, count(*)", "chunks", of_document, counted)
        left = yield selected("chunks.parent, count(*)", JOINED, all_of([of_document, findable.left_in]), counted)
        kept = {parent for parent, _ in set(map(tuple, every)) & set(map(tuple, left))}
    columns = "element, metadata, title, parent, path, body, start"
    rows = yield selected(columns, "sections", Condition("document = ?", (document,)), "order by number desc")
    children: dict[str, list[Section]] = {}
    made: dict[str, Section] = {}
    for element, metadata, title, parent, path, body, start in rows:
        if kept is not None and (element not in children if body is None else element not in kept):
            continue
        known: dict[str, Any] = {"id": element, "metadata": json.loads(metadata), "title": title, "parent_id": parent}
        known["path"] = tuple(json.loads(path))
        made[element] = (
            ContainerSection(**known, children=tuple(reversed(children.pop(element, []))))
            if body is None
            else LeafSection(**known, text=body, start=start)
        )
        children.setdefault(parent, []).append(made[element])
    return dict(reversed(made.items()))


def _insert(table: str, columns: str) -> str:
    return f"insert into {table} ({columns}) values ({', '.join('?' * (columns.count(',') + 1))})"  # noqa: S608 - ours


def _insert_document(
    document: NavigableDocument, chunks: Sequence[Chunk], content_hash: str, readers: Collection[Caller | str] | None
) -> Operation[int]:
    """Insert a document with its sections and chunks, but not into the indexes of words. Returns its row id."""
    metadata = json.dumps(plain(document.metadata))
    head = "element, uri, restricted, title, content_hash, stored_at, chunks, metadata"
    ((number,),) = yield (
        f"{_insert('documents', head)} returning id",
        (
            *(document.id, document.uri, readers is not None, plain(document.title), content_hash),
            *(datetime.now(UTC).isoformat(), len(chunks), metadata),
        ),
    )
    yield "insert into readers values (?, ?)", [(number, each) for each in sorted({*map(_reader_of, readers or ())})]
    sections: list[tuple[object, ...]] = []
    for place, each in enumerate(document.sections()):
        start, body = (each.start, plain(each.text)) if isinstance(each, LeafSection) else (0, None)
        where = (number, each.id, each.parent_id, place, plain(each.title), json.dumps(each.path))
        sections.append((*where, start, body, json.dumps(plain(each.metadata))))
    yield _insert("sections", "document, element, parent, number, title, path, start, body, metadata"), sections
    rows: list[tuple[object, ...]] = []
    for each in chunks:
        text, urtext, titles = plain(each.text), plain(each.urtext), " ".join(dict.fromkeys(each.path))
        own, body = json.dumps(plain({**document.metadata, **each.metadata})), indexed(text)
        rows.append(
            (
                *(number, each.number, each.id, each.parent_id, each.start, each.end, own),
                *(json.dumps(each.path), indexed(plain(titles)), body),
                *(None if text == body else text, None if urtext == text else urtext),
            )
        )
    columns = "document, number, element, parent, first, past, metadata, path, title, body, shown, urtext"
    yield _insert("chunks", columns), rows
    return number


def _results(scored: Sequence[Scored]) -> Operation[Sequence[SimilarityResult[Chunk]]]:
    """The chunks with these row ids, in the same order."""
    if not scored:
        return []
    condition = Condition(f"chunks.id in ({', '.join('?' * len(scored))})", tuple(chunk for chunk, _ in scored))
    read = yield selected(f"chunks.id, {_CHUNK}", JOINED, condition)
    rows = {row[0]: _chunk_of(row[1:]) for row in read}
    return [SimilarityResult(rows[chunk], score) for chunk, score in scored if chunk in rows]


def _documents(limit: int, after: str, findable: _Findable | None = None) -> Operation[list[StoredDocument]]:
    """Documents in the order of their URIs. `findable`: only documents that may be found; None: all."""
    conditions = [Condition("documents.uri > ?", (after,)), *([findable.document] if findable is not None else ())]
    ending = f"order by documents.uri limit {int(limit)}"
    rows = yield selected(_DOCUMENT, "documents", all_of(conditions), ending)
    return [_document_of(row) for row in rows]


def _elements(element: str, findable: _Findable) -> Operation[Sequence[ContentElement]]:
    """The chunk, the section and the document with this id, if they may be found."""
    by_id = Condition("chunks.element = ?", (element,))
    rows = yield selected(_CHUNK, JOINED, all_of([by_id, findable.chunk]))
    found: list[ContentElement] = [_chunk_of(row) for row in rows]
    within = "documents.element = ? or documents.id = (select document from sections where element = ?)"
    by_id = Condition(within, (element, element))
    rows = yield selected(f"documents.id, {_DOCUMENT}", "documents", all_of([by_id, findable.document]))
    for number, *row in rows:
        sections = yield from _sections_of(number, findable)
        found += [sections[element]] if element in sections else []
        if (root := _document_of(row).root).id == element:
            top = tuple(each for each in sections.values() if each.parent_id not in sections)
            found.append(
                NavigableDocument(id=root.id, metadata=root.metadata, uri=root.uri, title=root.title, children=top)
            )
    return found


def fused(orders: Iterable[Sequence[K]]) -> list[tuple[K, float]]:
    """Merge rankings, each best first, by reciprocal rank fusion. An item that is first in all has the score 1."""
    given = [order for order in orders if order]
    scores: dict[K, float] = {}
    for order in given:
        for rank, each in enumerate(order, start=1):
            scores[each] = scores.get(each, 0.0) + (_DAMPING + 1) / (_DAMPING + rank) / len(given)
    return sorted(scores.items(), key=lambda item: -item[1])


def _check_searchable(kind: type) -> None:
    if not issubclass(Chunk, kind):
        raise TypeError(f"Expected a type that is searched (Chunk), but came {kind.__name__}.")


def _compiled(regex: str) -> Any:
    """Compile a pattern with the library `regex`. Raises `BadInput` if it is invalid, too long or too slow."""
    if len(regex) > _LONGEST:
        raise BadInput(f"Expected a pattern of at most {_LONGEST} characters, but it has {len(regex)}. Shorten it.")
    if math.prod(int(each) or 1 for each in re.findall(r"\{(?:\d*,)?(\d+)", regex)) > _MOST_REPEATED:
        raise _too_slow(regex)
    library: Any = import_module("regex")
    try:
        return library.compile(normalize("NFC", regex))
    except (library.error, OverflowError, RecursionError, ValueError) as error:
        raise BadInput(f"{first_line(regex, 80)!r} is no regular expression of Python: {error}.") from error


def _too_slow(regex: str) -> BadInput:
    return BadInput(
        f"The pattern {first_line(regex, 80)!r} takes too long. Repeat nothing that itself repeats, as in (a+)+, and "
        "look for a part that is always there."
    )
