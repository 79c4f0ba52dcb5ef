"""Documents, sections and chunks as rows of an index: how they are written, and read again.

The functions run within a transaction of `database`; nothing here waits or decides who may read. Above: `sqlite_store`.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from goalport.caller import Caller
from goalport.documents import Chunk, ContainerSection, ContentRoot, LeafSection, NavigableDocument, Section
from goalport.rag.conditions import Condition, reader_of
from goalport.rag.document_store import StoredDocument
from goalport.rag.full_text import indexed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "CHUNK_COLUMNS",
    "chunk_of",
    "confirm_document",
    "delete_document",
    "document_of",
    "insert_document",
    "tree_of",
]

CHUNK_COLUMNS: Final = (
    "chunks.element, chunks.metadata, coalesce(chunks.shown, chunks.body), "
    "coalesce(chunks.urtext, chunks.shown, chunks.body), chunks.parent, documents.element, documents.uri, chunks.path, "
    "chunks.number, chunks.first, chunks.past"
)
DOCUMENT_COLUMNS: Final = (
    "documents.element, documents.metadata, documents.uri, documents.title, documents.content_hash, "
    "documents.stored_at, documents.chunks"
)
SECTION_COLUMNS: Final = (
    "sections.element, sections.metadata, sections.title, sections.parent, sections.path, sections.body, sections.start"
)


def chunk_of(row: Sequence[Any]) -> Chunk:
    """The chunk of a row of `CHUNK_COLUMNS`."""
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


def document_of(row: Sequence[Any]) -> StoredDocument:
    """The document of a row of `DOCUMENT_COLUMNS`."""
    element, metadata, uri, title, content_hash, stored_at, chunks = row
    root = ContentRoot(id=element, metadata=json.loads(metadata), uri=uri, title=title)
    stored = datetime.fromisoformat(stored_at)
    return StoredDocument(root=root, content_hash=content_hash, stored_at=stored, chunks=chunks)


def tree_of(rows: Iterable[Sequence[Any]]) -> Mapping[str, Section]:
    """The sections of one document by id, each with those that it holds, of rows of `SECTION_COLUMNS` in order."""
    held: dict[str, list[Section]] = {}
    made: dict[str, Section] = {}
    for element, metadata, title, parent, path, body, start in reversed(list(rows)):
        known: dict[str, Any] = {
            "id": element,
            "metadata": json.loads(metadata),
            "title": title,
            "parent_id": parent,
            "path": tuple(json.loads(path)),
        }
        section: Section
        if body is None:
            section = ContainerSection(**known, children=tuple(reversed(held.pop(element, []))))
        else:
            section = LeafSection(**known, text=body, start=start)
        made[element] = section
        held.setdefault(parent, []).append(section)
    return dict(reversed(made.items()))


def leaves_of(section: Section) -> Iterator[LeafSection]:
    """The sections with a text in this one, or itself, in order."""
    if isinstance(section, LeafSection):
        yield section
    elif isinstance(section, ContainerSection):
        for each in section.children:
            yield from leaves_of(each)


def insert_document(
    connection: sqlite3.Connection,
    document: NavigableDocument,
    chunks: Sequence[Chunk],
    *,
    content_hash: str,
    readers: Collection[Caller | str] | None,
    vectors: "NDArray[np.float32] | None",
) -> None:
    """Write a document with all that belongs to it."""
    number = _insert_head(connection, document, len(chunks), content_hash, restricted=readers is not None)
    allowed = {reader_of(each) for each in readers or ()}
    connection.executemany("insert into readers values (?, ?)", [(number, each) for each in sorted(allowed)])
    connection.executemany(
        "insert into sections (document, element, parent, number, title, path, start, body, metadata) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [_section_row(number, place, section) for place, section in enumerate(document.sections())],
    )
    connection.executemany(
        "insert into chunks (document, number, element, parent, first, past, metadata, path, title, body, shown, "
        "urtext) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [_chunk_row(number, each, document.metadata) for each in chunks],
    )
    for index in ("chunk_stems", "chunk_words"):
        connection.execute(
            f"insert into {index} (rowid, title, body) "  # noqa: S608 - one of two names
            "select id, title, body from chunks where document = ? order by id",
            (number,),
        )
    connection.execute("update facts set value = value + ? where name = 'chunks'", (len(chunks),))
    if vectors is not None:
        ids = connection.execute("select id from chunks where document = ? order by id", (number,)).fetchall()
        rows = [(chunk, number, vector.tobytes()) for (chunk,), vector in zip(ids, vectors, strict=True)]
        connection.executemany("insert into vectors values (?, ?, ?)", rows)


def _insert_head(
    connection: sqlite3.Connection, document: NavigableDocument, chunks: int, content_hash: str, *, restricted: bool
) -> int:
    """Write the row of the document itself. Returns its number."""
    stored_at, metadata = datetime.now(UTC).isoformat(), json.dumps(dict(document.metadata))
    cursor = connection.execute(
        "insert into documents (element, uri, restricted, title, content_hash, stored_at, chunks, metadata) "
        "values (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            document.id,
            document.uri,
            restricted,
            _storable(document.title),
            content_hash,
            stored_at,
            chunks,
            metadata,
        ),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def confirm_document(connection: sqlite3.Connection, uri: str) -> None:
    """Write that a document is now as it was stored."""
    connection.execute("update documents set stored_at = ? where uri = ?", (datetime.now(UTC).isoformat(), uri))


def delete_document(connection: sqlite3.Connection, uri: str) -> bool:
    """Delete a document with all that belongs to it. Returns whether it was there."""
    row = connection.execute("select id, chunks from documents where uri = ?", (uri,)).fetchone()
    if row is None:
        return False
    number, chunks = row
    for index in ("chunk_stems", "chunk_words"):
        connection.execute(
            f"insert into {index} ({index}, rowid, title, body) "  # noqa: S608 - one of two names
            "select 'delete', id, title, body from chunks where document = ?",
            (number,),
        )
    for table in ("vectors", "new_vectors"):
        connection.execute(
            f"delete from {table} where chunk in (select id from chunks where document = ?)",  # noqa: S608 - as above
            (number,),
        )
    for table in ("chunks", "sections", "readers"):
        connection.execute(f"delete from {table} where document = ?", (number,))  # noqa: S608 - as above
    connection.execute("delete from documents where id = ?", (number,))
    connection.execute("update facts set value = value - ? where name = 'chunks'", (chunks,))
    return True


def selected(columns: str, tables: str, condition: Condition, ending: str = "") -> Condition:
    """A statement that reads rows; all its parts are texts of this room, and values are bound."""
    return Condition(f"select {columns} from {tables} where {condition.sql} {ending}", condition.values)  # noqa: S608


def _section_row(document: int, place: int, section: Section) -> tuple[object, ...]:
    leaf = section if isinstance(section, LeafSection) else None
    return (
        document,
        section.id,
        section.parent_id,
        place,
        _storable(section.title),
        json.dumps(section.path),
        leaf.start if leaf else 0,
        _storable(leaf.text) if leaf else None,
        json.dumps(dict(section.metadata)),
    )


def _chunk_row(document: int, chunk: Chunk, common: Mapping[str, object]) -> tuple[object, ...]:
    text, urtext = _storable(chunk.text), _storable(chunk.urtext)
    body = indexed(text)
    return (
        document,
        chunk.number,
        chunk.id,
        chunk.parent_id,
        chunk.start,
        chunk.end,
        json.dumps({**common, **chunk.metadata}),
        json.dumps(chunk.path),
        indexed(_storable(" ".join(dict.fromkeys(chunk.path)))),
        body,
        None if text == body else text,
        None if urtext == text else urtext,
    )


def _storable(text: str) -> str:
    """The text without halves of characters, which UTF-8 cannot say."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
