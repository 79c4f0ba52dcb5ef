"""What a database of an index has to do: run operations, and write the statements that find chunks in it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from goalport.base.errors import StoreError
from goalport.knowledge.rag.elements import Scored
from goalport.knowledge.rag.filters import Filter
from goalport.knowledge.rag.query import Group, Term
from goalport.knowledge.rag.statements import Condition, Operation, Statement

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

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


class Weighed(NamedTuple):
    """A term of a query, as a part of the weight of a chunk."""

    term: Term
    rarity: float
    """How much it tells, as in BM25: rare words much, and common ones little."""


class IndexDatabase(Protocol):
    """A database with the tables of an index."""

    vector_place: str
    """The place of a vector in a statement."""
    vector_column: str
    """The column of a vector, as it is read."""

    def vector(self, vector: "NDArray[np.float32]", /) -> object:
        """A vector as the driver takes it."""
        ...

    def array(self, value: Any, /) -> "NDArray[np.float32]":
        """A vector that the driver has read."""
        ...

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        """What an operation reads from one state of the database. It may be begun again. Raises `StoreError`."""
        ...

    async def write(self, begin: Callable[[], Operation[T]], /) -> T:
        """Run an operation in a transaction; when it raises, nothing is written. Raises `StoreError`."""
        ...

    async def lack(self) -> tuple[str, str] | None:
        """Why it can keep no vectors, and what to do about it, as sentences; None: it can."""
        ...

    def error(self, problem: str, fix: str, /) -> StoreError: ...

    @property
    def is_there(self) -> bool:
        """Whether something may be stored; if not, reading would make the database."""
        ...

    def fits(self, wanted: Filter, /) -> Condition:
        """Whether a row of `chunks`, beside its row of `documents`, fits a filter. It is never null."""
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
        self, terms: Sequence[Weighed], within: Group | None, conditions: Sequence[Condition], most: int, /
    ) -> Statement:
        """The statement that gives the heaviest chunks with a term, and their weights by BM25, best first.

        They fit all the conditions and, if there is one, the group of terms `within`.
        """
        ...

    def nearest(
        self, vector: "NDArray[np.float32]", conditions: Sequence[Condition], most: int, /
    ) -> Operation[list[Scored]]:
        """The chunks that lie nearest to a vector, with their cosines, best first."""
        ...

    async def tidy(self) -> None:
        """Leave nothing of what was deleted in its files."""
        ...

    async def close(self) -> None:
        """End what is under way, and let go of the file or the connections. Closing twice does nothing."""
        ...
