"""What the databases of an index share: tables, statements and conditions, and what each of them says in its own way.

An operation is a generator: it yields statements with values, gets the rows of each, and returns what it is for. Any
driver can run it, as one transaction. Values are bound, and never become part of a statement. What differs between
databases is the `IndexDatabase`.
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
"""A statement, whose places are question marks, with its values; a list of tuples: it is run once for each."""
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
"""The tables that all databases have. In `chunks`, `title` and `body` are what is indexed, `shown` is the text where it
differs from `body`, and `urtext` the text in the document where it differs from what is shown. In `sections`, `body` is
null for one that holds others. In `facts`, `model` and `dimensions` say who made the vectors."""
MOST_COUNTED: Final = 2_000
"""How far chunks are counted that have a word: it is rare, or it is not."""

SAME_ID: Final = ("Two elements have the same id or URI: {error}.", "Give each its own. Nothing was written.")


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


def plain(value: Any) -> Any:
    """A text or JSON value that any database can keep: without NUL, and without halves of characters."""
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
