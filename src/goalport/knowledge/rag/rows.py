"""Documents, sections and chunks as rows of an index: how they are written, and read again."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

from goalport.base.caller import Caller
from goalport.knowledge.documents import Chunk, ContainerSection, ContentRoot, LeafSection, NavigableDocument, Section
from goalport.knowledge.rag.document_store import StoredDocument
from goalport.knowledge.rag.query import indexed
from goalport.knowledge.rag.statements import Operation, reader_of

CHUNK_COLUMNS: Final = (
    "chunks.element, chunks.metadata, coalesce(chunks.shown, chunks.body), "
    "coalesce(chunks.urtext, chunks.shown, chunks.body), chunks.parent, documents.element, documents.uri, chunks.path, "
    "chunks.number, chunks.first, chunks.past"
)
DOCUMENT_COLUMNS: Final = (
    "documents.element, documents.metadata, documents.uri, documents.title, documents.content_hash, "
    "documents.stored_at, documents.chunks"
)
_DOCUMENT: Final = """
insert into documents (element, uri, restricted, title, content_hash, stored_at, chunks, metadata)
values (?, ?, ?, ?, ?, ?, ?, ?) returning id
"""
_SECTION: Final = """
insert into sections (document, element, parent, number, title, path, start, body, metadata)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_CHUNK: Final = """
insert into chunks (document, number, element, parent, first, past, metadata, path, title, body, shown, urtext)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
SECTION_COLUMNS: Final = "element, metadata, title, parent, path, body, start"


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


def tree_of(rows: Iterable[Sequence[Any]], kept: Collection[str] | None) -> Mapping[str, Section]:
    """The sections of one document by id, each with those that it holds, of rows of `SECTION_COLUMNS` in order.

    `kept` are the ids of the sections with a text that are left in, and so are those that hold one; None: all.
    """
    held: dict[str, list[Section]] = {}
    made: dict[str, Section] = {}
    for element, metadata, title, parent, path, body, start in reversed(list(rows)):
        if kept is not None and (element not in held if body is None else element not in kept):
            continue
        known: dict[str, Any] = {"id": element, "metadata": json.loads(metadata), "title": title, "parent_id": parent}
        known["path"] = tuple(json.loads(path))
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
    document: NavigableDocument, chunks: Sequence[Chunk], content_hash: str, readers: Collection[Caller | str] | None
) -> Operation[int]:
    """Write a document, but for what finds its chunks. Returns its number."""
    head = (document.id, document.uri, readers is not None, storable(document.title), content_hash)
    known = (datetime.now(UTC).isoformat(), len(chunks), _json(document.metadata))
    made = yield _DOCUMENT, head + known
    number: int = made[0][0]
    yield "insert into readers values (?, ?)", [(number, each) for each in sorted({*map(reader_of, readers or ())})]
    sections = enumerate(document.sections())
    yield _SECTION, [(number, *_section_row(place, section)) for place, section in sections]
    yield _CHUNK, [(number, *_chunk_row(each, document.metadata)) for each in chunks]
    return number


def delete_document(number: int) -> Operation[None]:
    """Delete a document, but for what finds its chunks."""
    for table in ("chunks", "sections", "readers"):
        yield f"delete from {table} where document = ?", (number,)  # noqa: S608 - one of these names
    yield "delete from documents where id = ?", (number,)


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


def storable(text: str) -> str:
    """The text without halves of characters, which UTF-8 cannot say."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(plain(dict(value)))


def _section_row(place: int, section: Section) -> tuple[object, ...]:
    title, path, metadata = storable(section.title), json.dumps(section.path), _json(section.metadata)
    start, body = (section.start, storable(section.text)) if isinstance(section, LeafSection) else (0, None)
    return section.id, section.parent_id, place, title, path, start, body, metadata


def _chunk_row(chunk: Chunk, common: Mapping[str, object]) -> tuple[Any, ...]:
    """In `title` and `body` is what is indexed, and in the others a text where it differs from that before."""
    text, urtext = storable(chunk.text), storable(chunk.urtext)
    body = indexed(text)
    return (
        *(chunk.number, chunk.id, chunk.parent_id, chunk.start, chunk.end, _json({**common, **chunk.metadata})),
        *(json.dumps(chunk.path), indexed(storable(" ".join(dict.fromkeys(chunk.path)))), body),
        *(None if text == body else text, None if urtext == text else urtext),
    )
