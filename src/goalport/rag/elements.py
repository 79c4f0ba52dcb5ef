"""Reading documents, sections and chunks of an index by where they are, as far as they may be found.

These are operations, which any database can run. What may not be found is not there. Above: `indexed_documents`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from goalport.documents import Chunk, ContentElement, ContentRoot, NavigableDocument, Section
from goalport.rag.conditions import Condition, Findable, all_of
from goalport.rag.document_store import StoredDocument
from goalport.rag.operations import Operation, Rows, selected
from goalport.rag.rows import (
    CHUNK_COLUMNS,
    DOCUMENT_COLUMNS,
    SECTION_COLUMNS,
    chunk_of,
    document_of,
    leaves_of,
    tree_of,
)
from goalport.rag.search import SectionOutline, SectionText, SimilarityResult

__all__ = [
    "JOINED",
    "Scored",
    "around",
    "chunks",
    "document",
    "documents",
    "found",
    "neighbours",
    "outline",
    "restrictions",
    "results",
    "text",
]

JOINED: Final = "chunks join documents on documents.id = chunks.document"
_SECTIONS: Final = "sections join documents on documents.id = sections.document"
_MOST_NEIGHBOURS: Final = 100

Scored = tuple[int, float]
"""The id of a row of `chunks`, and its score."""


def restrictions(findable: Findable) -> Operation[list[Condition]]:
    """What has to hold of `chunks` and `documents`; nothing where everything may be found."""
    rows = yield selected("1", "documents", Condition("documents.restricted"), "limit 1")
    if rows:
        return [findable.chunk]
    return [findable.left_in] if findable.left_in is not None else []


def results(scored: Sequence[Scored], threshold: float = 0.0) -> Operation[Sequence[SimilarityResult[Chunk]]]:
    """The chunks of these rows, without those whose score is below the threshold."""
    kept = [each for each in scored if each[1] >= threshold]
    if not kept:
        return []
    places = ", ".join("?" * len(kept))
    condition = Condition(f"chunks.id in ({places})", tuple(chunk for chunk, _ in kept))
    read = yield selected(f"chunks.id, {CHUNK_COLUMNS}", JOINED, condition)
    rows = {row[0]: chunk_of(row[1:]) for row in read}
    return [SimilarityResult(rows[chunk], score) for chunk, score in kept if chunk in rows]


def document(uri: str) -> Operation[StoredDocument | None]:
    """What is known of a document, whoever may read it."""
    rows = yield selected(DOCUMENT_COLUMNS, "documents", Condition("documents.uri = ?", (uri,)))
    return document_of(rows[0]) if rows else None


def documents(limit: int, after: str, findable: Findable | None = None) -> Operation[list[StoredDocument]]:
    """Documents in the order of their URIs; None: all of them."""
    conditions = [Condition("documents.uri > ?", (after,)), *([findable.document] if findable is not None else ())]
    ending = f"order by documents.uri limit {int(limit)}"
    rows = yield selected(DOCUMENT_COLUMNS, "documents", all_of(conditions), ending)
    return [document_of(row) for row in rows]


def found(element: str, kind: type, findable: Findable) -> Operation[ContentElement | None]:
    """The element with this id, if it is of this type."""
    for each in (yield from _elements(element, kind, findable)):
        if isinstance(each, kind):
            return each
    return None


def chunks(limit: int, after: str, findable: Findable) -> Operation[list[Chunk]]:
    """Chunks in the order in which they were stored."""
    conditions = yield from restrictions(findable)
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
    listed: list[SectionOutline] = []
    known = yield selected("documents.id, documents.uri", "documents", all_of([named, findable.document]))
    for number, uri in known:
        columns = "sections.element, sections.path, length(sections.body)"
        listed += [
            SectionOutline(id=section, path=tuple(json.loads(path)), uri=uri, characters=length or 0)
            for section, path, length in (yield from _section_rows(columns, number, findable))
        ]
    return listed


def text(element: str, findable: Findable) -> Operation[SectionText | None]:
    """The text of a section, or of a document."""
    for each in (yield from _elements(element, NavigableDocument, findable)):
        match each:
            case NavigableDocument(uri=uri):
                return SectionText(uri=uri, leaves=tuple(each.leaves()))
            case Section():
                rows = yield selected("documents.uri", _SECTIONS, Condition("sections.element = ?", (element,)))
                return SectionText(uri=rows[0][0], leaves=tuple(leaves_of(each)))
            case _:
                pass
    return None


def _elements(element: str, kind: type, findable: Findable) -> Operation[Sequence[ContentElement]]:
    """The chunk, the section and the document with this id. A document has its sections if `kind` asks for them."""
    by_id = all_of([Condition("chunks.element = ?", (element,)), findable.chunk])
    rows = yield selected(CHUNK_COLUMNS, JOINED, by_id)
    found: list[ContentElement] = [chunk_of(row) for row in rows]
    by_id = all_of([Condition("sections.element = ?", (element,)), findable.document])
    for (number,) in (yield selected("documents.id", _SECTIONS, by_id)):
        sections = yield from _sections(number, findable)
        found.extend([sections[element]] if element in sections else ())
    by_id = all_of([Condition("documents.element = ?", (element,)), findable.document])
    for number, *row in (yield selected(f"documents.id, {DOCUMENT_COLUMNS}", "documents", by_id)):
        root = document_of(row).root
        if issubclass(kind, NavigableDocument):
            root = _with_sections(root, (yield from _sections(number, findable)))
        found.append(root)
    return found


def _sections(document: int, findable: Findable) -> Operation[Mapping[str, Section]]:
    return tree_of((yield from _section_rows(SECTION_COLUMNS, document, findable)))


def _with_sections(root: ContentRoot, sections: Mapping[str, Section]) -> NavigableDocument:
    top = tuple(each for each in sections.values() if each.parent_id not in sections)
    return NavigableDocument(id=root.id, metadata=root.metadata, uri=root.uri, title=root.title, children=top)


def _section_rows(columns: str, document: int, findable: Findable) -> Operation[Rows]:
    """The sections of a document that are left in, in its order."""
    condition = all_of([Condition("sections.document = ?", (document,)), findable.section_of(document)])
    return (yield selected(columns, "sections", condition, "order by sections.number"))
