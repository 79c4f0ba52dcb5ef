"""Reading documents, sections and chunks of an index by where they are, as far as they may be found.

These are operations, which any database can run. What may not be found is not there.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from goalport.knowledge.documents import Chunk, ContentElement, LeafSection, NavigableDocument, Section
from goalport.knowledge.rag.database import (
    CHUNK_COLUMNS,
    DOCUMENT_COLUMNS,
    JOINED,
    SECTION_COLUMNS,
    Condition,
    Findable,
    Operation,
    Scored,
    all_of,
    chunk_of,
    document_of,
    leaves_of,
    selected,
    tree_of,
)
from goalport.knowledge.rag.search import SectionOutline, SectionText, SimilarityResult, StoredDocument

_MOST_NEIGHBOURS: Final = 100


def results(scored: Sequence[Scored], threshold: float = 0.0) -> Operation[Sequence[SimilarityResult[Chunk]]]:
    """The chunks of these rows, without those whose score is below the threshold."""
    kept = [each for each in scored if each[1] >= threshold]
    if not kept:
        return []
    condition = Condition(f"chunks.id in ({', '.join('?' * len(kept))})", tuple(chunk for chunk, _ in kept))
    read = yield selected(f"chunks.id, {CHUNK_COLUMNS}", JOINED, condition)
    rows = {row[0]: chunk_of(row[1:]) for row in read}
    return [SimilarityResult(rows[chunk], score) for chunk, score in kept if chunk in rows]


def document(uri: str) -> Operation[StoredDocument | None]:
    """What is known of a document, whoever may read it."""
    rows = yield selected(DOCUMENT_COLUMNS, "documents", Condition("documents.uri = ?", (uri,)))
    return document_of(rows[0]) if rows else None


def confirm(uri: str) -> Operation[None]:
    """Write that a document is now as it was stored."""
    yield "update documents set stored_at = ? where uri = ?", (datetime.now(UTC).isoformat(), uri)


def documents(limit: int, after: str, findable: Findable | None = None) -> Operation[list[StoredDocument]]:
    """Documents in the order of their URIs; None: all of them."""
    conditions = [Condition("documents.uri > ?", (after,)), *([findable.document] if findable is not None else ())]
    ending = f"order by documents.uri limit {int(limit)}"
    rows = yield selected(DOCUMENT_COLUMNS, "documents", all_of(conditions), ending)
    return [document_of(row) for row in rows]


def found(element: str, kind: type, findable: Findable) -> Operation[ContentElement | None]:
    """The element with this id, if it is of this type."""
    every = yield from _elements(element, findable)
    return next((each for each in every if isinstance(each, kind)), None)


def chunks(limit: int, after: str, findable: Findable) -> Operation[list[Chunk]]:
    """Chunks in the order in which they were stored."""
    conditions = yield from findable.restrictions()
    if after:
        conditions.append(Condition("chunks.id > (select id from chunks where element = ?)", (after,)))
    rows = yield selected(CHUNK_COLUMNS, JOINED, all_of(conditions), f"order by chunks.id limit {int(limit)}")
    return [chunk_of(row) for row in rows]


def neighbours(element: str, count: int, findable: Findable) -> Operation[list[Chunk]]:
    """A chunk with those before and after it; none if it may not be found itself."""
    most = min(max(count, 0), _MOST_NEIGHBOURS)
    near = Condition(
        "chunks.document = (select document from chunks where element = ?) and abs(chunks.number - "
        "(select number from chunks where element = ?)) <= ?",
        (element, element, most),
    )
    rows = yield selected(CHUNK_COLUMNS, JOINED, all_of([near, findable.chunk]), "order by chunks.number")
    read = [chunk_of(row) for row in rows]
    return read if any(each.id == element for each in read) else []


def around(element: str, findable: Findable) -> Operation[list[ContentElement]]:
    """The section around a chunk or a section, or the document of one that no section holds."""
    inner = yield from found(element, ContentElement, findable)
    if not isinstance(inner, Chunk | Section):
        return []
    outer = yield from found(inner.parent_id, ContentElement, findable)
    return [outer] if outer is not None else []


def outline(document: str, findable: Findable) -> Operation[list[SectionOutline]]:
    """The sections of a document, given by id or URI."""
    named = Condition("documents.element = ? or documents.uri = ?", (document, document))
    rows = yield selected("documents.id, documents.uri", "documents", all_of([named, findable.document]))
    listed: list[SectionOutline] = []
    for number, uri in rows:
        for each in (yield from _sections(number, findable)).values():
            length = len(each.text) if isinstance(each, LeafSection) else 0
            listed.append(SectionOutline(id=each.id, path=each.path, uri=uri, characters=length))
    return listed


def text(element: str, findable: Findable) -> Operation[SectionText | None]:
    """The text of a section, or of a document."""
    for each in (yield from _elements(element, findable)):
        if isinstance(each, NavigableDocument):
            return SectionText(uri=each.uri, leaves=tuple(each.leaves()))
        if isinstance(each, Section):
            of_section = Condition("id = (select document from sections where element = ?)", (element,))
            rows = yield selected("uri", "documents", of_section)
            return SectionText(uri=rows[0][0], leaves=tuple(leaves_of(each)))
    return None


def _elements(element: str, findable: Findable) -> Operation[Sequence[ContentElement]]:
    """The chunk, the section and the document with this id."""
    by_id = Condition("chunks.element = ?", (element,))
    rows = yield selected(CHUNK_COLUMNS, JOINED, all_of([by_id, findable.chunk]))
    found: list[ContentElement] = [chunk_of(row) for row in rows]
    within = "documents.element = ? or documents.id = (select document from sections where element = ?)"
    by_id = Condition(within, (element, element))
    rows = yield selected(f"documents.id, {DOCUMENT_COLUMNS}", "documents", all_of([by_id, findable.document]))
    for number, *row in rows:
        sections = yield from _sections(number, findable)
        found += [sections[element]] if element in sections else []
        if (root := document_of(row).root).id == element:
            top = tuple(each for each in sections.values() if each.parent_id not in sections)
            found.append(
                NavigableDocument(id=root.id, metadata=root.metadata, uri=root.uri, title=root.title, children=top)
            )
    return found


def _sections(document: int, findable: Findable) -> Operation[Mapping[str, Section]]:
    """The sections of a document that are left in, in its order: `search` says which are."""
    kept: set[str] | None = None
    of_document = Condition("chunks.document = ?", (document,))
    if findable.left_in is not None:
        counted = "group by chunks.parent"
        every = yield selected("chunks.parent, count(*)", "chunks", of_document, counted)
        left = yield selected("chunks.parent, count(*)", JOINED, all_of([of_document, findable.left_in]), counted)
        kept = {parent for parent, _ in set(map(tuple, every)) & set(map(tuple, left))}
    rows = yield selected(SECTION_COLUMNS, "sections", Condition("document = ?", (document,)), "order by number")
    return tree_of(rows, kept)
