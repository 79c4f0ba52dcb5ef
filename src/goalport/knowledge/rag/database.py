"""What the databases of an index share: tables, statements and conditions, and the protocol that each implements.

An operation is a generator: it yields statements with values, receives the rows of each, and returns a result. Any
driver can run it, as one transaction. Values are bound as parameters, never inserted into the SQL. What differs between
databases is in the protocol `IndexDatabase`.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, cast

from goalport.base.errors import StoreError
from goalport.knowledge.rag.query import Group, Term
from goalport.knowledge.rag.search import AtLeast, AtMost, Containing, Equal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
Rows: TypeAlias = Sequence[Sequence[Any]]
Statement: TypeAlias = tuple[str, Sequence[Any]]
"""SQL with `?` as placeholders, and the values. For a list of tuples, it is run once for each tuple."""
Operation: TypeAlias = Generator[Statement, Rows, T]
Comparison: TypeAlias = Equal | AtLeast | AtMost
Scored = tuple[int, float]
"""The id of a row of `chunks`, and its score."""
OPERATORS: Final[Mapping[type[Comparison], str]] = {Equal: "=", AtLeast: ">=", AtMost: "<="}

JOINED: Final = "chunks join documents on documents.id = chunks.document"
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
"""The tables that all databases have. In `chunks`, `title` and `body` are indexed; `shown` is the text to show, or null
if it equals `body`; `urtext` is the text in the document, or null if it equals the text to show. In `sections`, `body`
is null for a section with subsections. In `facts`, `model` and `dimensions` say which model made the vectors."""
MOST_COUNTED: Final = 2_000
"""Chunks with a word are counted up to this number: beyond it the word is not rare anyway."""

SAME_ID: Final = ("Two elements have the same id or URI: {error}.", "Give each its own. Nothing was written.")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in SQL, and the values for its placeholders."""

    sql: str
    values: tuple[Any, ...] = ()


def all_of(conditions: Sequence[Condition], joined: str = "and") -> Condition:
    """Several conditions joined to one. Without any, it is always true (`and`) or never (`or`)."""
    if not conditions:
        return Condition("1 = 1" if joined == "and" else "1 = 0")
    sql = f" {joined} ".join(f"({each.sql})" for each in conditions)
    return Condition(sql, tuple(value for each in conditions for value in each.values))


def selected(columns: str, tables: str, condition: Condition, ending: str = "") -> Statement:
    """A `select` statement. All its parts are texts of this package, never input."""
    return f"select {columns} from {tables} where {condition.sql} {ending}", condition.values  # noqa: S608 - ours


class IndexDatabase(Protocol):
    """A database with the tables of an index."""

    vector_place: str
    """The placeholder of a vector in a statement; its value is a numpy array."""
    vector_column: str
    """The expression that reads a vector: as bytes, or as a list of numbers."""

    @property
    def is_there(self) -> bool:
        """Whether the database exists. If not, nothing is stored, and reading would create it."""
        ...

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        """Run an operation on one state of the database. It may be started again. Raises `StoreError`."""
        ...

    async def write(self, begin: Callable[[], Operation[T]], /) -> T:
        """Run an operation in a transaction; when it raises, nothing is written. Raises `StoreError`."""
        ...

    async def trim(self) -> None:
        """Remove deleted data from its files too."""
        ...

    async def close(self) -> None:
        """End what is under way, and close the file or the connections. Closing twice does nothing."""
        ...

    async def why_no_vectors(self) -> tuple[str, str] | None:
        """Why it cannot store vectors, and what to do about it, as two sentences; None: it can."""
        ...

    def error(self, problem: str, fix: str, /) -> StoreError: ...

    def comparison(self, wanted: Comparison | Containing, /) -> Condition:
        """The condition that metadata of a chunk have a value of the same type that fits. It is never null."""
        ...

    def add(self, document: int, /) -> Operation[None]:
        """Index the words of a document's chunks."""
        ...

    def remove(self, document: int, /) -> Operation[None]:
        """Delete the index entries and vectors of a document's chunks, before the chunks are deleted."""
        ...

    def count_statement(self, term: Term, /) -> Statement:
        """The statement that counts the chunks with a term; it need not count more than `MOST_COUNTED`."""
        ...

    def score_statement(
        self, rarities: Mapping[Term, float], within: Group | None, conditions: Sequence[Condition], most: int, /
    ) -> Statement:
        """The statement that selects the best chunks with any of the terms, and their BM25 weights, best first.

        The rarity of a term is its factor in BM25 (IDF). The chunks fit all conditions and, unless it is None, the
        group of terms `within`.
        """
        ...

    def nearest(
        self, vector: "NDArray[np.float32]", conditions: Sequence[Condition], most: int, /
    ) -> Operation[list[Scored]]:
        """The chunks that lie nearest to a vector, with their cosines, best first."""
        ...


def plain(value: Any) -> Any:
    """A text or JSON value that any database can store: NUL and lone surrogates are replaced."""
    match value:
        case str():
            text = value if value.isascii() else value.encode("utf-8", "replace").decode()
            return text.replace("\0", "\ufffd")
        case Mapping():
            return {plain(key): plain(each) for key, each in cast("Mapping[str, Any]", value).items()}
        case list() | tuple():
            return [plain(each) for each in cast("list[Any]", value)]
        case _:
            return value
