"""Operations on an index of documents, in the words that its databases share: statements, conditions, rows.

An operation is a generator: it yields statements with values, gets the rows of each, and returns what it is for. Any
driver can run it, as one transaction. Values are bound, and never become part of a statement. What differs between
databases is the `IndexDatabase`.
"""

import json
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, TypeVar, assert_never, cast

from goalport.base.caller import Caller
from goalport.base.errors import StoreError
from goalport.knowledge.documents import Chunk, ContainerSection, ContentRoot, LeafSection, NavigableDocument, Section
from goalport.knowledge.rag.query import Group, Term, indexed
from goalport.knowledge.rag.search import (
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Containing,
    Equal,
    Filter,
    Not,
    OneOf,
    StoredDocument,
    UriPrefix,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
Rows: TypeAlias = Sequence[Sequence[Any]]
Statement: TypeAlias = tuple[str, Sequence[Any]]
"""A statement, whose places are question marks, with its values; a list of tuples: it is run once for each."""
Operation: TypeAlias = Generator[Statement, Rows, T]
Comparison: TypeAlias = Equal | AtLeast | AtMost
Scored = tuple[int, float]
"""The id of a row of `chunks`, and its score."""
OPERATORS: Final[Mapping[type[Comparison], str]] = {Equal: "=", AtLeast: ">=", AtMost: "<="}

JOINED: Final = "chunks join documents on documents.id = chunks.document"
CHUNK_COLUMNS: Final = (
    "chunks.element, chunks.metadata, coalesce(chunks.shown, chunks.body), "
    "coalesce(chunks.urtext, chunks.shown, chunks.body), chunks.parent, documents.element, documents.uri, chunks.path, "
    "chunks.number, chunks.first, chunks.past"
)
DOCUMENT_COLUMNS: Final = (
    "documents.element, documents.metadata, documents.uri, documents.title, documents.content_hash, "
    "documents.stored_at, documents.chunks"
)
TABLES: Final = """
create table facts (name text not null primary key, value text not null);
create table documents (
    id {id}, element text {exact} not null unique, uri text {exact} not null unique, restricted boolean not null,
    title text not null, content_hash text not null, stored_at text not null, chunks integer not null,
    metadata text not null);
create index documents_restricted on documents (restricted) where restricted;
create table readers (document bigint not null, reader text {exact} not null, primary key (document, reader));
create table sections (
    id {id}, document bigint not null, element text {exact} not null unique, parent text {exact} not null,
    number integer not null, title text not null, path text not null, start integer not null, body text,
    metadata text not null);
create index sections_document on sections (document, number);
create table chunks (
    id {id}, document bigint not null, number integer not null, element text {exact} not null unique,
    parent text {exact} not null, first integer not null, past integer not null, metadata {json} not null,
    path text not null, title text not null, body text not null, shown text, urtext text);
create index chunks_document on chunks (document, number)"""
"""The tables that all databases have. In `chunks`, `title` and `body` are what is indexed, `shown` is the text where it
differs from `body`, and `urtext` the text in the document where it differs from what is shown. In `sections`, `body` is
null for one that holds others. In `facts`, `model` and `dimensions` say who made the vectors."""
MOST_COUNTED: Final = 2_000
"""How far chunks are counted that have a word: it is rare, or it is not."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition and the values for its places."""

    sql: str
    values: tuple[Any, ...] = ()


def all_of(conditions: Sequence[Condition], joined: str = "and") -> Condition:
    """One condition of several; of none, one that always holds (`and`) or never (`or`)."""
    if not conditions:
        return Condition("1 = 1" if joined == "and" else "1 = 0")
    sql = f" {joined} ".join(f"({each.sql})" for each in conditions)
    return Condition(sql, tuple(value for each in conditions for value in each.values))


def selected(columns: str, tables: str, condition: Condition, ending: str = "") -> Statement:
    """A statement that reads rows; all its parts are texts of this room."""
    return f"select {columns} from {tables} where {condition.sql} {ending}", condition.values  # noqa: S608 - ours


class IndexDatabase(Protocol):
    """A database with the tables of an index."""

    vector_place: str
    """The place of a vector in a statement; its value is an array of numpy."""
    vector_column: str
    """The column of a vector, as it is read: its bytes, or a list of numbers."""

    @property
    def is_there(self) -> bool:
        """Whether something may be stored; if not, reading would make the database."""
        ...

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        """What an operation reads from one state of the database. It may be begun again. Raises `StoreError`."""
        ...

    async def write(self, begin: Callable[[], Operation[T]], /) -> T:
        """Run an operation in a transaction; when it raises, nothing is written. Raises `StoreError`."""
        ...

    async def trim(self) -> None:
        """Leave nothing of what was deleted in its files."""
        ...

    async def close(self) -> None:
        """End what is under way, and let go of the file or the connections. Closing twice does nothing."""
        ...

    async def lack(self) -> tuple[str, str] | None:
        """Why it can keep no vectors, and what to do about it, as sentences; None: it can."""
        ...

    def error(self, problem: str, fix: str, /) -> StoreError: ...

    def compared(self, wanted: Comparison | Containing, /) -> Condition:
        """Whether metadata of a chunk fit a comparison, with a value of the same kind. It is never null."""
        ...

    def add(self, document: int, /) -> Operation[None]:
        """Write what finds the chunks of a document by their words."""
        ...

    def remove(self, document: int, /) -> Operation[None]:
        """Delete what finds the chunks of a document, before these are deleted."""
        ...

    def counted(self, term: Term, /) -> Statement:
        """The statement that gives how many chunks have a term; it need not count more than `MOST_COUNTED`."""
        ...

    def weighed(
        self, rarities: Mapping[Term, float], within: Group | None, conditions: Sequence[Condition], most: int, /
    ) -> Statement:
        """The statement that gives the heaviest chunks with a term, and their weights by BM25, best first.

        The rarity of a term says how much it tells. The chunks fit all the conditions and, if there is one, the group
        of terms `within`.
        """
        ...

    def nearest(
        self, vector: "NDArray[np.float32]", conditions: Sequence[Condition], most: int, /
    ) -> Operation[list[Scored]]:
        """The chunks that lie nearest to a vector, with their cosines, best first."""
        ...


def _fitting(wanted: Filter, database: IndexDatabase) -> Condition:
    """Whether a row of `chunks`, beside its row of `documents`, fits a filter. It is never null."""
    match wanted:
        case Equal() | AtLeast() | AtMost() | Containing():
            return database.compared(wanted)
        case OneOf(key, values):
            return all_of([database.compared(Equal(key, value)) for value in values], "or")
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
class Findable:
    """What may be found: what a filter leaves in, of the documents that a caller may read."""

    left_in: Condition | None
    """Whether a filter leaves a chunk in; None: there is no filter."""
    chunk: Condition
    """Whether a row of `chunks`, beside its row of `documents`, may be found."""
    document: Condition
    """Whether a row of `documents` may be found: with a filter, if one of its chunks may."""

    @classmethod
    def of(cls, wanted: Filter | None, caller: Caller, database: IndexDatabase) -> Self:
        known = (reader_of(caller), *map(reader_of, sorted(caller.scopes)))
        one_of_them = f"readers.reader in ({', '.join('?' * len(known))})"
        named = f"exists (select 1 from readers where readers.document = documents.id and {one_of_them})"  # noqa: S608 - ours
        readable = Condition(f"not documents.restricted or {named}", known)
        if wanted is None:
            return cls(None, readable, readable)
        left = _fitting(wanted, database)
        some = f"exists (select 1 from chunks where chunks.document = documents.id and ({left.sql}))"  # noqa: S608 - ours
        return cls(left, all_of([readable, left]), all_of([readable, Condition(some, left.values)]))

    def restrictions(self) -> Operation[list[Condition]]:
        """What has to hold of `chunks` and `documents`; nothing where everything may be found."""
        if (yield selected("1", "documents", Condition("documents.restricted"), "limit 1")):
            return [self.chunk]
        return [self.left_in] if self.left_in is not None else []


def reader_of(allowed: Caller | str) -> str:
    """How a caller, or a scope given as text, is written down among those who may read a document."""
    return f"scope {allowed}" if isinstance(allowed, str) else f"caller {json.dumps([allowed.issuer, allowed.id])}"


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


def sections_of(document: int, findable: Findable) -> Operation[dict[str, Section]]:
    """The sections of a document that are left in by id, in its order, each with those that it holds.

    `search` says which are left in.
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
    held: dict[str, list[Section]] = {}
    made: dict[str, Section] = {}
    for element, metadata, title, parent, path, body, start in rows:
        if kept is not None and (element not in held if body is None else element not in kept):
            continue
        known: dict[str, Any] = {"id": element, "metadata": json.loads(metadata), "title": title, "parent_id": parent}
        known["path"] = tuple(json.loads(path))
        made[element] = (
            ContainerSection(**known, children=tuple(reversed(held.pop(element, []))))
            if body is None
            else LeafSection(**known, text=body, start=start)
        )
        held.setdefault(parent, []).append(made[element])
    return dict(reversed(made.items()))


def _insert(table: str, columns: str) -> str:
    return f"insert into {table} ({columns}) values ({', '.join('?' * (columns.count(',') + 1))})"  # noqa: S608 - ours


def insert_document(
    document: NavigableDocument, chunks: Sequence[Chunk], content_hash: str, readers: Collection[Caller | str] | None
) -> Operation[int]:
    """Write a document, but for what finds its chunks. Returns its number."""
    metadata = json.dumps(plain(document.metadata))
    head = "element, uri, restricted, title, content_hash, stored_at, chunks, metadata"
    ((number,),) = yield (
        f"{_insert('documents', head)} returning id",
        (
            *(document.id, document.uri, readers is not None, storable(document.title), content_hash),
            *(datetime.now(UTC).isoformat(), len(chunks), metadata),
        ),
    )
    yield "insert into readers values (?, ?)", [(number, each) for each in sorted({*map(reader_of, readers or ())})]
    sections: list[tuple[object, ...]] = []
    for place, each in enumerate(document.sections()):
        start, body = (each.start, storable(each.text)) if isinstance(each, LeafSection) else (0, None)
        where = (number, each.id, each.parent_id, place, storable(each.title), json.dumps(each.path))
        sections.append((*where, start, body, json.dumps(plain(each.metadata))))
    yield _insert("sections", "document, element, parent, number, title, path, start, body, metadata"), sections
    rows: list[tuple[object, ...]] = []
    for each in chunks:
        text, urtext, titles = storable(each.text), storable(each.urtext), " ".join(dict.fromkeys(each.path))
        own, body = json.dumps(plain({**document.metadata, **each.metadata})), indexed(text)
        rows.append(
            (
                *(number, each.number, each.id, each.parent_id, each.start, each.end, own),
                *(json.dumps(each.path), indexed(storable(titles)), body),
                *(None if text == body else text, None if urtext == text else urtext),
            )
        )
    columns = "document, number, element, parent, first, past, metadata, path, title, body, shown, urtext"
    yield _insert("chunks", columns), rows
    return number


def plain(value: Any) -> Any:
    """A text or JSON value that any database can keep: without NUL, and without halves of characters."""
    match value:
        case str():
            return storable(value).replace("\0", "\ufffd")
        case Mapping():
            return {plain(key): plain(each) for key, each in cast("Mapping[str, Any]", value).items()}
        case list() | tuple():
            return [plain(each) for each in cast("list[Any]", value)]
        case _:
            return value


def storable(text: str) -> str:
    """The text without halves of characters, which UTF-8 cannot say."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
