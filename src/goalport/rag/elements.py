"""Reading documents, sections and chunks of an index by where they are, for callers who may read them.

The functions run on a connection, in a thread. What a caller may not read is not there. Above: `sqlite_store`.
"""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from goalport.caller import Caller
from goalport.documents import Chunk, ContentElement, ContentRoot, NavigableDocument, Section
from goalport.rag.conditions import Condition, all_of, may_read
from goalport.rag.document_store import StoredDocument
from goalport.rag.filters import Filter
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


def documents(connection: sqlite3.Connection, limit: int, after: str, caller: Caller | None) -> list[StoredDocument]:
    """Documents in the order of their URIs; None: whoever may read them."""
    conditions = [Condition("documents.uri > ?", (after,)), *([may_read(caller)] if caller is not None else ())]
    ending = f"order by documents.uri limit {int(limit)}"
    return [document_of(row) for row in _rows(connection, DOCUMENT_COLUMNS, "documents", all_of(conditions), ending)]


def found(connection: sqlite3.Connection, element: str, kind: type, caller: Caller) -> ContentElement | None:
    """The element with this id, if it is of this type."""
    for each in _elements(connection, element, kind, caller):
        if isinstance(each, kind):
            return each
    return None


def chunks(connection: sqlite3.Connection, limit: int, after: str, caller: Caller) -> list[Chunk]:
    """Chunks in the order in which they were stored."""
    conditions = restrictions(connection, None, caller)
    if after:
        conditions.append(Condition("chunks.id > (select id from chunks where element = ?)", (after,)))
    rows = _rows(connection, CHUNK_COLUMNS, JOINED, all_of(conditions), f"order by chunks.id limit {int(limit)}")
    return [chunk_of(row) for row in rows]


def neighbours(connection: sqlite3.Connection, element: str, count: int, caller: Caller) -> list[Chunk]:
    """A chunk with those before and after it."""
    most = min(max(count, 0), _MOST_NEIGHBOURS)
    near = Condition(
        "chunks.document = (select document from chunks where element = ?) and abs(chunks.number - "
        "(select number from chunks where element = ?)) <= ?",
        (element, element, most),
    )
    conditions = all_of([near, may_read(caller)])
    return [chunk_of(row) for row in _rows(connection, CHUNK_COLUMNS, JOINED, conditions, "order by chunks.number")]


def around(connection: sqlite3.Connection, element: str, caller: Caller) -> list[ContentElement]:
    """The section around a chunk or a section, or the document of one that no section holds."""
    parents = [
        *connection.execute("select parent from chunks where element = ?", (element,)),
        *connection.execute("select parent from sections where element = ?", (element,)),
    ]
    outer = found(connection, parents[0][0], ContentElement, caller) if parents else None
    return [outer] if outer is not None else []


def outline(connection: sqlite3.Connection, document: str, caller: Caller) -> list[SectionOutline]:
    """The sections of a document, given by id or URI."""
    named = Condition("documents.element = ? or documents.uri = ?", (document, document))
    columns = "sections.element, sections.path, documents.uri, length(sections.body)"
    rows = _rows(connection, columns, _SECTIONS, all_of([named, may_read(caller)]), "order by sections.number")
    return [
        SectionOutline(id=section, path=tuple(json.loads(path)), uri=uri, characters=length or 0)
        for section, path, uri, length in rows
    ]


def text(connection: sqlite3.Connection, element: str, caller: Caller) -> SectionText | None:
    """The text of a section, or of a document."""
    for each in _elements(connection, element, NavigableDocument, caller):
        match each:
            case NavigableDocument(uri=uri):
                return SectionText(uri=uri, leaves=tuple(each.leaves()))
            case Section():
                row = _rows(connection, "documents.uri", _SECTIONS, Condition("sections.element = ?", (element,)))[0]
                return SectionText(uri=row[0], leaves=tuple(leaves_of(each)))
            case _:
                pass
    return None


def page(
    connection: sqlite3.Connection, after: tuple[int, int], wanted: Filter | None, caller: Caller
) -> list[tuple[int, int, int, str]]:
    """The next chunks in the order of the documents, each as its row, document, number and text."""
    place = Condition("(chunks.document, chunks.number) > (?, ?)", after)
    conditions = all_of([place, *restrictions(connection, wanted, caller)])
    columns = "chunks.id, chunks.document, chunks.number, coalesce(chunks.shown, chunks.body)"
    ending = f"order by chunks.document, chunks.number limit {_PAGE}"
    return [(row[0], row[1], row[2], row[3]) for row in _rows(connection, columns, JOINED, conditions, ending)]


def _elements(connection: sqlite3.Connection, element: str, kind: type, caller: Caller) -> Sequence[ContentElement]:
    """The chunk, the section and the document with this id. A document has its sections if `kind` asks for them."""
    readable = may_read(caller)
    by_id = all_of([Condition("chunks.element = ?", (element,)), readable])
    found: list[ContentElement] = [chunk_of(row) for row in _rows(connection, CHUNK_COLUMNS, JOINED, by_id)]
    by_id = all_of([Condition("sections.element = ?", (element,)), readable])
    for (row,) in _rows(connection, "sections.document", _SECTIONS, by_id):
        found.append(_sections(connection, row)[element])
    by_id = all_of([Condition("documents.element = ?", (element,)), readable])
    for number, *row in _rows(connection, f"documents.id, {DOCUMENT_COLUMNS}", "documents", by_id):
        root = document_of(row).root
        found.append(_with_sections(connection, number, root) if issubclass(kind, NavigableDocument) else root)
    return found


def _sections(connection: sqlite3.Connection, number: int) -> Any:
    condition = Condition("sections.document = ?", (number,))
    return tree_of(_rows(connection, SECTION_COLUMNS, "sections", condition, "order by sections.number"))


def _with_sections(connection: sqlite3.Connection, number: int, root: ContentRoot) -> NavigableDocument:
    sections = _sections(connection, number)
    top = tuple(each for each in sections.values() if each.parent_id not in sections)
    return NavigableDocument(id=root.id, metadata=root.metadata, uri=root.uri, title=root.title, children=top)


def _rows(
    connection: sqlite3.Connection, columns: str, tables: str, condition: Condition, ending: str = ""
) -> list[Any]:
    statement = selected(columns, tables, condition, ending)
    return connection.execute(statement.sql, statement.values).fetchall()
