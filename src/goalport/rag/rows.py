"""Documents, sections and chunks as rows of an index: how they are written, and read again.

What finds chunks by their words or vectors is written by each database itself. Above: `indexed_documents`.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

from goalport.caller import Caller
from goalport.documents import Chunk, ContainerSection, ContentRoot, LeafSection, NavigableDocument, Section
from goalport.rag.conditions import reader_of
from goalport.rag.document_store import StoredDocument
from goalport.rag.operations import Batch, Operation, Statement
from goalport.rag.query import indexed

__all__ = [
    "CHUNK_COLUMNS",
    "DOCUMENT_COLUMNS",
    "SECTION_COLUMNS",
    "DocumentRows",
    "chunk_of",
    "confirm_document",
    "delete_document",
    "document_of",
    "insert_document",
    "leaves_of",
    "plain",
    "storable",
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


@dataclass(frozen=True, slots=True)
class DocumentRows:
    """A document with all that belongs to it, as rows but for the number that it will have."""

    uri: str
    head: tuple[Any, ...]
    readers: Sequence[str]
    sections: Sequence[tuple[Any, ...]]
    chunks: Sequence[tuple[Any, ...]]
    texts: Sequence[tuple[str, str]]
    """The titles above each chunk and its text, as they are indexed."""

    @classmethod
    def of(
        cls,
        document: NavigableDocument,
        chunks: Sequence[Chunk],
        *,
        content_hash: str,
        readers: Collection[Caller | str] | None,
    ) -> "DocumentRows":
        """The rows of a document that these callers may read; None: everyone may."""
        written = [_chunk_row(each, document.metadata) for each in chunks]
        head = (
            *(document.id, document.uri, readers is not None, storable(document.title), content_hash),
            *(datetime.now(UTC).isoformat(), len(chunks), json_text(document.metadata)),
        )
        return cls(
            document.uri,
            head,
            sorted({reader_of(each) for each in readers or ()}),
            [_section_row(place, section) for place, section in enumerate(document.sections())],
            written,
            [(row[7], row[8]) for row in written],
        )


def insert_document(rows: DocumentRows) -> Operation[int]:
    """Write a document, but for what finds its chunks. Returns its number."""
    made = yield Statement(
        "insert into documents (element, uri, restricted, title, content_hash, stored_at, chunks, metadata) "
        "values (?, ?, ?, ?, ?, ?, ?, ?) returning id",
        rows.head,
    )
    number: int = made[0][0]
    yield Batch("insert into readers values (?, ?)", [(number, each) for each in rows.readers])
    yield Batch(
        "insert into sections (document, element, parent, number, title, path, start, body, metadata) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(number, *each) for each in rows.sections],
    )
    yield Batch(
        "insert into chunks (document, number, element, parent, first, past, metadata, path, title, body, shown, "
        "urtext) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(number, *each) for each in rows.chunks],
    )
    return number


def confirm_document(uri: str) -> Operation[None]:
    """Write that a document is now as it was stored."""
    yield Statement("update documents set stored_at = ? where uri = ?", (datetime.now(UTC).isoformat(), uri))


def delete_document(number: int) -> Operation[None]:
    """Delete a document, but for what finds its chunks."""
    for table in ("chunks", "sections", "readers"):
        yield Statement(f"delete from {table} where document = ?", (number,))  # noqa: S608 - one of these names
    yield Statement("delete from documents where id = ?", (number,))


def json_text(value: Mapping[str, object]) -> str:
    """A JSON object that any database can read: one of them cannot say half a character, and another one no NUL."""
    written = json.dumps(dict(value))
    if "\\u0000" in written or "\\ud" in written:
        return json.dumps(plain(dict(value)))
    return written


def plain(value: Any) -> Any:
    """A text or JSON value that any database can keep: without NUL, and without halves of characters."""
    match value:
        case str():
            return storable(value).replace("\0", "\ufffd")
        case dict():
            return {plain(key): plain(each) for key, each in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [plain(each) for each in cast("list[Any]", value)]
        case _:
            return value


def _section_row(place: int, section: Section) -> tuple[object, ...]:
    leaf = section if isinstance(section, LeafSection) else None
    return (
        section.id,
        section.parent_id,
        place,
        storable(section.title),
        json.dumps(section.path),
        leaf.start if leaf else 0,
        storable(leaf.text) if leaf else None,
        json_text(section.metadata),
    )


def _chunk_row(chunk: Chunk, common: Mapping[str, object]) -> tuple[Any, ...]:
    text, urtext = storable(chunk.text), storable(chunk.urtext)
    body = indexed(text)
    return (
        chunk.number,
        chunk.id,
        chunk.parent_id,
        chunk.start,
        chunk.end,
        json_text({**common, **chunk.metadata}),
        json.dumps(chunk.path),
        indexed(storable(" ".join(dict.fromkeys(chunk.path)))),
        body,
        None if text == body else text,
        None if urtext == text else urtext,
    )


def storable(text: str) -> str:
    """The text without halves of characters, which UTF-8 cannot say."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
