"""The PostgreSQL database of an index of documents: its tables, and operations on them.

The tables are in a schema of their own, beside whatever else the database has. Programs on other machines may read and
write them too: those that write do so one after the other, and whoever reads sees the state before. Below: `operations`
and the room `postgres`. Above: `postgres_store` and `postgres_search`.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar, cast

from goalport.errors import StoreError
from goalport.postgres import Connection, Connections, DatabaseServer, PostgresAddress, Tables, driver
from goalport.rag.embedding_state import VectorColumn
from goalport.rag.operations import Batch, Operation, Rows
from goalport.rag.rows import plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PostgresIndex", "fetched", "performed"]

T = TypeVar("T")

_ATTEMPTS: Final = 3
"""How often something is written whose connection ended while it was committed: written twice, it is there once."""
_FIRST: Final = """
create table schema_version (version bigint not null primary key, applied_at bigint not null);
create text search dictionary porter (template = snowball, language = porter);
create table facts (name text not null primary key, value text not null);
create table documents (
    id bigint generated always as identity primary key, element text collate "C" not null unique,
    uri text collate "C" not null unique, restricted boolean not null, title text not null, content_hash text not null,
    stored_at text not null, chunks integer not null, metadata text not null);
create index documents_restricted on documents (restricted) where restricted;
create table readers (document bigint not null, reader text collate "C" not null, primary key (document, reader));
create table sections (
    id bigint generated always as identity primary key, document bigint not null,
    element text collate "C" not null unique, parent text collate "C" not null, number integer not null,
    title text not null, path text not null, start integer not null, body text, metadata text not null);
create index sections_document on sections (document, number);
create table chunks (
    id bigint generated always as identity primary key, document bigint not null, number integer not null,
    element text collate "C" not null unique, parent text collate "C" not null, first integer not null,
    past integer not null, metadata jsonb not null, path text not null, title text not null, body text not null,
    shown text, urtext text);
create index chunks_document on chunks (document, number);
create table chunk_words (
    chunk bigint not null primary key, document bigint not null, size integer not null, words tsvector not null)
    with (toast_tuple_target = 8160);
alter table chunk_words alter column words set storage main;
create index chunk_words_document on chunk_words (document);
create index chunk_words_words on chunk_words using gin (words);
create table vocabulary (
    word text collate "C" not null primary key, chunks integer not null, titles integer not null)
    with (fillfactor = 70);
insert into facts values ('chunks', '0'), ('words', '0')
"""
"""The columns are those of the index in SQLite. `chunk_words` has the words of a chunk, those of titles with the weight
A, and their stems, which begin with `=`; it is read for each chunk that is weighed, so its rows hold words and nothing
else, where they are stored. `vocabulary` says how many chunks have a word or a stem, and how many in their titles; in
`facts`, `chunks` and `words` count those of all, and `model` and `dimensions` say who made the vectors."""
_VECTORS: Final = """
create table vectors (chunk bigint not null primary key, document bigint not null, vector vector not null);
create index vectors_document on vectors (document);
create table new_vectors (chunk bigint not null primary key, document bigint not null, vector vector not null);
create index new_vectors_document on new_vectors (document)
"""
"""A column for vectors of any length: with another model it becomes another one."""


def _array(value: Sequence[float]) -> "NDArray[np.float32]":
    import numpy as np

    return np.asarray(value, np.float32)


class PostgresIndex:
    """An index in a schema of a database, which is made when it is first needed."""

    vectors = VectorColumn(
        place="?::real[]::vector",
        selected="vectors.vector::real[]",
        dimensions="vector_dims(vector)",
        written=lambda vector: vector.tolist(),
        array=_array,
        changed=None,
    )

    def __init__(self, url: str, *, schema: str, seconds: float, connections: int, pooler: bool) -> None:
        tables = Tables(
            schema,
            [_FIRST.strip().split(";\n")],
            pooled="Say so: pooler=True.",
            fewer="let each program have fewer",
            prepared=self._prepare,
        )
        self._server = DatabaseServer(PostgresAddress(url), tables, seconds, pooler=pooler)
        self._connections = Connections(self._server, connections)
        self._lack: tuple[str, str] | None = None
        self._prepared = False

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        return await self.using(lambda connection: performed(connection, begin()))

    async def using(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """What a function reads from one state of the database. It may be called again. Raises `StoreError`."""
        return await self._connections.run(work, reading=True)

    async def write(self, begin: Callable[[], Operation[T]], /) -> T:
        """What an operation gives that may be done again when nobody knows whether it was committed."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._written(begin)
            except StoreError as error:
                if not error.unknown:
                    raise
        return await self._written(begin)

    async def _written(self, begin: Callable[[], Operation[T]]) -> T:
        async def work(connection: Connection) -> T:
            # Writers follow each other: the words that they count are mostly the same, so they would wait anyway.
            await fetched(connection, _LOCKED, f"goalport writes {self._server.schema}")
            try:
                return await performed(connection, begin())
            except driver().UniqueViolationError as error:
                raise self.error(
                    f"Two elements have the same id or URI: {error}.", "Give each its own. Nothing was written."
                ) from error

        return await self._connections.run(work, reading=False)

    is_there = True  # where its server is

    async def tidy(self) -> None:
        """Nothing: the server gives space back by itself."""

    async def lack(self) -> tuple[str, str] | None:
        if not self._prepared:
            await self.using(_nothing)
        return self._lack

    @property
    def vector_tables(self) -> Sequence[str]:
        """The tables for vectors, as far as they are there."""
        return () if self._lack else ("vectors", "new_vectors")

    async def close(self) -> None:
        await self._connections.close()

    def error(self, problem: str, fix: str, /) -> StoreError:
        return self._server.error(problem, fix)

    async def _prepare(self, connection: Connection) -> None:
        """Make the tables of vectors when the extension for them is there, and look where its operators are."""
        if self._prepared:
            return
        self._lack = await self._vector_tables(connection)
        (row,) = await connection.fetch(_SCHEMAS)
        names = [self._server.quoted, *row["names"]]
        self._server.local = f"SET LOCAL search_path TO {', '.join(names)}; SET LOCAL jit = off"
        self._prepared = True

    async def _vector_tables(self, connection: Connection) -> tuple[str, str] | None:
        """Make the tables of vectors, unless they are there. Returns why that cannot be done, and what to do."""
        if await connection.fetch(_VECTORS_MADE, self._server.schema):
            return None
        async with self._server.changing(connection):
            if await connection.fetch(_VECTORS_MADE, self._server.schema):
                return None
            if not (await connection.fetch(_EXTENSION)):
                await connection.execute("SAVEPOINT extension")
                try:
                    await connection.execute("CREATE EXTENSION vector")
                except driver().PostgresError as error:
                    await connection.execute("ROLLBACK TO SAVEPOINT extension")
                    return (
                        f"It has no extension `vector`, and cannot make it ({str(error).rstrip('.')}).",
                        "Install pgvector there, and let one who may do it run CREATE EXTENSION vector.",
                    )
            (row,) = await connection.fetch(_SCHEMAS)
            names = [self._server.quoted, *row["names"]]
            await connection.execute(f"SET LOCAL search_path TO {', '.join(names)}")
            for each in _VECTORS.strip().split(";\n"):
                await connection.execute(each)
        return None


async def fetched(connection: Connection, sql: str, *values: object) -> Rows:
    """The rows that a statement gives for the values of its places, which are question marks."""
    return cast("Rows", await connection.fetch(_numbered(sql), *map(_bound, values)))


async def performed(connection: Connection, operation: Operation[T]) -> T:
    """What an operation gives on a connection."""
    rows: Rows | None = None
    while True:
        try:
            step = operation.send(cast("Rows", rows))
        except StopIteration as end:
            return cast("T", end.value)
        if isinstance(step, Batch):
            await connection.executemany(_numbered(step.sql), [[*map(_bound, row)] for row in step.rows])
            rows = ()
        else:
            rows = await fetched(connection, step.sql, *step.values)


@lru_cache(500)
def _numbered(sql: str) -> str:
    """A statement with its places as PostgreSQL writes them."""
    first, *others = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, start=1))


def _bound(value: object) -> object:
    return plain(value) if isinstance(value, str) else value


async def _nothing(_: Connection) -> None:
    """Connecting alone tells what the database can."""


_LOCKED: Final = "select pg_advisory_xact_lock(hashtextextended(?, 0))"
_EXTENSION: Final = "SELECT FROM pg_extension WHERE extname = 'vector'"
_VECTORS_MADE: Final = """
    SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = $1 AND relname = 'vectors'
"""
_SCHEMAS: Final = """
    SELECT coalesce(array_agg(quote_ident(nspname)), '{}') AS names
    FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'
"""
