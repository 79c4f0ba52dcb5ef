"""Reading documents, sections and chunks of an index by where they are, as far as they may be found.

The functions run on a connection, in a thread. What may not be found is not there. Above: `sqlite_store`.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

from goalport.documents import Chunk, ContentElement, ContentRoot, NavigableDocument, Section
from goalport.rag.conditions import Condition, Findable, all_of
from goalport.rag.document_store import StoredDocument
from goalport.rag.rows import (
    CHUNK_COLUMNS,
    DOCUMENT_COLUMNS,
    SECTION_COLUMNS,
    chunk_of,
    document_of,
    leaves_of,
    selected,
    tree_of,
)
from goalport.rag.search import SectionOutline, SectionText
from goalport.rag.sqlite_search import JOINED, restrictions

__all__ = ["around", "chunks", "document", "documents", "found", "neighbours", "outline", "page", "text"]

_PAGE: Final = 100
_MOST_NEIGHBOURS: Final = 100
_SECTIONS: Final = "sections join documents on documents.id = sections.document"


def document(connection: sqlite3.Connection, uri: str) -> StoredDocument | None:
    """What is known of a document, whoever may read it."""
    rows = _rows(connection, DOCUMENT_COLUMNS, "documents", Condition("documents.uri = ?", (uri,)))
    return document_of(rows[0]) if rows else None


def documents(
    connection: sqlite3.Connection, limit: int, after: str, findable: Findable | None = None
) -> list[StoredDocument]:
    """Documents in the order of their URIs; None: all of them."""
    conditions = [Condition("documents.uri > ?", (after,)), *([findable.document] if findable is not None else ())]
    ending = f"order by documents.uri limit {int(limit)}"
    return [document_of(row) for row in _rows(connection, DOCUMENT_COLUMNS, "documents", all_of(conditions), ending)]


def found(connection: sqlite3.Connection, element: str, kind: type, findable: Findable) -> ContentElement | None:
    """The element with this id, if it is of this type."""
    for each in _elements(connection, element, kind, findable):
        if isinstance(each, kind):
            return each
    return None


def chunks(connection: sqlite3.Connection, limit: int, after: str, findable: Findable) -> list[Chunk]:
    """Chunks in the order in which they were stored."""
    conditions = restrictions(connection, findable)
    if after:
        conditions.append(Condition("chunks.id > (select id from chunks where element = ?)", (after,)))
    rows = _rows(connection, CHUNK_COLUMNS, JOINED, all_of(conditions), f"order by chunks.id limit {int(limit)}")
    return [chunk_of(row) for row in rows]


def neighbours(connection: sqlite3.Connection, element: str, count: int, findable: Findable) -> list[Chunk]:
    """A chunk with those before and after it; none if it may not be found itself."""
    most = min(max(count, 0), _MOST_NEIGHBOURS)
    near = Condition(
        "chunks.document = (select document from chunks where element = ?) and abs(chunks.number - "
        "(select number from chunks where element = ?)) <= ?",
        (element, element, most),
    )
    rows = _rows(connection, CHUNK_COLUMNS, JOINED, all_of([near, findable.chunk]), "order by chunks.number")
    read = [chunk_of(row) for row in rows]
    return read if any(each.id == element for each in read) else []


def around(connection: sqlite3.Connection, element: str, findable: Findable) -> list[ContentElement]:
    """The section around a chunk or a section, or the document of one that no section holds."""
    inner = found(connection, element, ContentElement, findable)
    if not isinstance(inner, Chunk | Section):
        return []
    outer = found(connection, inner.parent_id, ContentElement, findable)
    return [outer] if outer is not None else []


def outline(connection: sqlite3.Connection, document: str, findable: Findable) -> list[SectionOutline]:
    """The sections of a document, given by id or URI."""
    named = Condition("documents.element = ? or documents.uri = ?", (document, document))
    columns = "sections.element, sections.path, length(sections.body)"
    return [
        SectionOutline(id=section, path=tuple(json.loads(path)), uri=uri, characters=length or 0)
        for number, uri in _rows(
            connection, "documents.id, documents.uri", "documents", all_of([named, findable.document])
        )
        for section, path, length in _section_rows(connection, columns, number, findable)
    ]


def text(connection: sqlite3.Connection, element: str, findable: Findable) -> SectionText | None:
    """The text of a section, or of a document."""
    for each in _elements(connection, element, NavigableDocument, findable):
        match each:
            case NavigableDocument(uri=uri):
                return SectionText(uri=uri, leaves=tuple(each.leaves()))
            case Section():
                row = _rows(connection, "documents.uri", _SECTIONS, Condition("sections.element = ?", (element,)))[0]
                return SectionText(uri=row[0], leaves=tuple(leaves_of(each)))
            case _:
                pass
    return None


def page(connection: sqlite3.Connection, after: tuple[int, int], findable: Findable) -> list[tuple[int, int, int, str]]:
    """The next chunks in the order of the documents, each as its row, document, number and text."""
    place = Condition("(chunks.document, chunks.number) > (?, ?)", after)
    conditions = all_of([place, *restrictions(connection, findable)])
    columns = "chunks.id, chunks.document, chunks.number, coalesce(chunks.shown, chunks.body)"
    ending = f"order by chunks.document, chunks.number limit {_PAGE}"
    return [(row[0], row[1], row[2], row[3]) for row in _rows(connection, columns, JOINED, conditions, ending)]


def _elements(connection: sqlite3.Connection, element: str, kind: type, findable: Findable) -> Sequence[ContentElement]:
    """The chunk, the section and the document with this id. A document has its sections if `kind` asks for them."""
    by_id = all_of([Condition("chunks.element = ?", (element,)), findable.chunk])
    found: list[ContentElement] = [chunk_of(row) for row in _rows(connection, CHUNK_COLUMNS, JOINED, by_id)]
    by_id = all_of([Condition("sections.element = ?", (element,)), findable.document])
    for (number,) in _rows(connection, "documents.id", _SECTIONS, by_id):
        sections = _sections(connection, number, findable)
        found.extend([sections[element]] if element in sections else ())
    by_id = all_of([Condition("documents.element = ?", (element,)), findable.document])
    for number, *row in _rows(connection, f"documents.id, {DOCUMENT_COLUMNS}", "documents", by_id):
        root = document_of(row).root
        if issubclass(kind, NavigableDocument):
            root = _with_sections(root, _sections(connection, number, findable))
        found.append(root)
    return found


def _sections(connection: sqlite3.Connection, document: int, findable: Findable) -> Mapping[str, Section]:
    return tree_of(_section_rows(connection, SECTION_COLUMNS, document, findable))


def _with_sections(root: ContentRoot, sections: Mapping[str, Section]) -> NavigableDocument:
    top = tuple(each for each in sections.values() if each.parent_id not in sections)
    return NavigableDocument(id=root.id, metadata=root.metadata, uri=root.uri, title=root.title, children=top)


def _section_rows(connection: sqlite3.Connection, columns: str, document: int, findable: Findable) -> list[Any]:
    """The sections of a document that are left in, in its order."""
    condition = all_of([Condition("sections.document = ?", (document,)), findable.section_of(document)])
    return _rows(connection, columns, "sections", condition, "order by sections.number")


def _rows(
    connection: sqlite3.Connection, columns: str, tables: str, condition: Condition, ending: str = ""
) -> list[Any]:
    statement = selected(columns, tables, condition, ending)
    return connection.execute(statement.sql, statement.values).fetchall()
