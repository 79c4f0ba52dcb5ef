"""The store of documents in PostgreSQL: words are found by its full-text search, and vectors by pgvector.

The tables are in a schema of their own. Programs on many machines may read and write them: those that write do so one
after the other, and whoever reads sees the state before. Words are found here and not by a parser of PostgreSQL, which
reads addresses, paths and hyphens each in its own way, and depends on the locale of the database.
"""

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from anyio import to_thread

from goalport.base.errors import StoreError
from goalport.knowledge.rag.database import (
    JOINED,
    MOST_COUNTED,
    OPERATORS,
    SAME_ID,
    TABLES,
    Comparison,
    Condition,
    Operation,
    Rows,
    Scored,
    Statement,
    all_of,
    plain,
    selected,
)
from goalport.knowledge.rag.index import DocumentIndex
from goalport.knowledge.rag.query import Group, Syntax, Term, indexed, words_of
from goalport.knowledge.rag.search import Containing
from goalport.models.llm import EmbeddingService
from goalport.store.postgres import Connection, Connections, DatabaseServer, PostgresAddress, Tables, driver

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

_LONGEST: Final = 250_000
"""How many characters of a chunk are indexed: a vector of words has a megabyte at most."""
_FIRST: Final = (
    "create table schema_version (version bigint not null primary key, applied_at bigint not null);\n"
    "create text search dictionary porter (template = snowball, language = porter);\n"
    + TABLES.format(id="bigint generated always as identity primary key", exact='collate "C"', json="jsonb")
)
_SECOND: Final = """
drop table if exists chunk_words, vocabulary, new_vectors;
create text search configuration words (copy = pg_catalog.simple);
alter text search configuration words alter mapping replace pg_catalog.simple with porter;
create table chunk_words (
    chunk bigint not null primary key, document bigint not null, words tsvector not null)
    with (toast_tuple_target = 8160);
alter table chunk_words alter column words set storage main;
create index chunk_words_document on chunk_words (document);
create index chunk_words_words on chunk_words using gin (words);
delete from facts where name in ('chunks', 'words')
"""
"""`chunk_words` has the stems of a chunk; it is read for each chunk that is weighed, so its rows hold words and nothing
else, where they are stored."""
_VECTORS: Final = """
create table vectors (chunk bigint not null primary key, document bigint not null, vector vector not null);
create index vectors_document on vectors (document)
"""
"""A column for vectors of any length: with another model it becomes another one."""


def _folded(text: str) -> list[str]:
    """The words of a text in the form in which they are compared: small letters without accents."""
    lower = text.lower()
    if not lower.isascii():
        parts = unicodedata.normalize("NFD", lower)
        lower = unicodedata.normalize("NFC", "".join(each for each in parts if not "\u0300" <= each <= "\u036f"))
    return words_of(indexed(lower))


def _expression(term: Term) -> str:
    """A term as `to_tsquery` reads it: only letters and digits get within the quotation marks."""
    texts = (_folded(each) for each in (" ".join(term.words), *term.spellings))
    written = " | ".join(" <-> ".join(f"'{word}'" for word in words) or "'='" for words in texts)
    return f"({written}:*)" if term.prefix else f"({written})"


_SYNTAX: Final = Syntax(every=" & ", either=" | ", but_not=" & !", term=_expression)
_QUERY: Final = "(select to_tsquery('words', ?))"


_WITHOUT_WORDS: Final = """
select id from documents where chunks > 0
and not exists (select from chunk_words where chunk_words.document = documents.id)
"""
_OFTEN: Final = f"least(greatest(2.88 * ts_rank('{{1,1,1,1}}', chunk_words.words, {_QUERY}) - 0.75, 0), 2.1)::float8"
"""`ts_rank` gives a word that is there once 0.61, twice 0.76, and 1 at most. This makes of it 1, 1.4 and 2.1: nearly
what BM25 gives in a text of average length, which that of a chunk hardly differs from. Of a prefix it can be more."""
_WHOLE: Final = f"(chunk_words.words @@ {_QUERY})::integer::float8"
"""Of a phrase, and of a word with other spellings, only whether it is there."""
_SCHEMAS: Final = """
select coalesce(array_agg(quote_ident(nspname)), '{}') as names
from pg_extension join pg_namespace on pg_namespace.oid = extnamespace where extname = 'vector'
"""


class PostgresDocumentStore(DocumentIndex):
    """Documents in a PostgreSQL database, which programs on other machines may read and write too.

    Parameters: `url` as `postgresql://user:password@host:port/database`, with the options that asyncpg reads; at most
    `connections` are opened. `pooler`: they lead to a program such as PgBouncer, which may use another one for each
    transaction. A search or a write that has not happened after `seconds` fails, and a regular expression after
    `regex_seconds`. The tables are made in `schema`, so that the database may have others.

    With `embeddings`, the chunks of each document get vectors when it is stored, if the database has pgvector or may
    make that extension; otherwise a warning says that only words are searched and stored. `on_other_model` says what
    happens when another model made the vectors: `refuse`, or `text` with a warning; `reembed` makes all of them anew.
    Nothing is connected before it is needed; `close`, or `async with`, ends what is under way.
    """

    def __init__(
        self,
        url: str,
        *,
        embeddings: EmbeddingService | None = None,
        on_other_model: Literal["refuse", "text"] = "refuse",
        regex_seconds: float = 5.0,
        connections: int = 5,
        pooler: bool = False,
        seconds: float = 60.0,
        schema: str = "goalport_documents",
    ) -> None:
        """Raises `ValueError` if `url` is none, and `StoreError` if asyncpg is not installed."""
        database = PostgresIndex(url, schema=schema, seconds=seconds, connections=connections, pooler=pooler)
        super().__init__(database, embeddings, on_other_model, regex_seconds)


class PostgresIndex:
    """An index in a schema of a database, which is made when it is first needed."""

    vector_place, vector_column = "?::real[]::vector", "vectors.vector::real[]"
    is_there = True  # where its server is

    def __init__(self, url: str, *, schema: str, seconds: float, connections: int, pooler: bool) -> None:
        steps = [each.strip().split(";\n") for each in (_FIRST, _SECOND)]
        tables = Tables(schema, steps, "Say so: pooler=True.", "let each program have fewer", prepared=self._prepare)
        self._server = DatabaseServer(PostgresAddress(url), tables, seconds, pooler=pooler)
        self._connections = Connections(self._server, connections)
        self.error, self.close = self._server.error, self._connections.close
        self._lack: tuple[str, str] | None = None
        self._prepared = False

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        return await self._connections.run(lambda connection: _performed(connection, begin()), reading=True)

    async def write(self, begin: Callable[[], Operation[T]], /) -> T:
        """What an operation gives that may be done again when nobody knows whether it was committed."""

        async def work(connection: Connection) -> T:
            # Writers follow each other: of two that store one document, the later one replaces it.
            lock = "select pg_advisory_xact_lock(hashtextextended(?, 0))"
            await _fetched(connection, lock, (f"goalport writes {self._server.schema}",))
            try:
                return await _performed(connection, begin(), writing=True)
            except driver().UniqueViolationError as error:
                problem, fix = SAME_ID
                raise self.error(problem.format(error=error), fix) from error

        for _ in range(2):
            try:
                return await self._connections.run(work, reading=False)
            except StoreError as error:
                if not error.unknown:
                    raise
        return await self._connections.run(work, reading=False)

    async def trim(self) -> None:
        """Nothing: the server gives space back by itself."""

    async def lack(self) -> tuple[str, str] | None:
        if not self._prepared:
            await self._connections.run(lambda connection: connection.fetch("select 1"), reading=True)
        return self._lack

    def compared(self, wanted: Comparison | Containing, /) -> Condition:
        key, value, found = wanted.key, wanted.value, "chunks.metadata -> ?"
        if isinstance(wanted, Containing):
            return Condition(
                f"case jsonb_typeof({found}) when 'string' then position(? in chunks.metadata ->> ?) > 0 "
                f"when 'array' then ({found}) @> to_jsonb(?::text) else false end",
                (key, value, key, key, value),
            )
        operator = OPERATORS[type(wanted)]
        if isinstance(value, str):
            compared = f'chunks.metadata ->> ? collate "C" {operator} ?'
            sql = f"case jsonb_typeof({found}) when 'string' then {compared} else false end"
            return Condition(sql, (key, key, value))
        kind = "boolean" if isinstance(value, bool) else "number"
        sql = f"coalesce(jsonb_typeof({found}) = '{kind}' and {found} {operator} ?::text::jsonb, false)"
        return Condition(sql, (key, key, json.dumps(value)))

    def add(self, document: int, /) -> Operation[None]:
        chunks = yield "select id, title, body from chunks where document = ? order by number", (document,)
        words = [(chunk, document, " ".join(_folded(f"{title} {body[:_LONGEST]}"))) for chunk, title, body in chunks]
        yield "insert into chunk_words values (?, ?, to_tsvector('words', ?))", words

    def remove(self, document: int, /) -> Operation[None]:
        for table in ("chunk_words", *(() if self._lack else ("vectors",))):
            yield f"delete from {table} where document = ?", (document,)  # noqa: S608 - one of two names

    def counted(self, term: Term, /) -> Statement:
        within = f"select 1 from chunk_words where words @@ {_QUERY} limit {MOST_COUNTED}"  # noqa: S608 - ours
        return f"select count(*) from ({within}) as found", (_expression(term),)  # noqa: S608 - ours

    def weighed(
        self, rarities: Mapping[Term, float], within: Group | None, conditions: Sequence[Condition], most: int, /
    ) -> Statement:
        tables, every = "chunk_words", within or Group(optional=(*rarities,))
        kept = all_of([Condition(f"chunk_words.words @@ {_QUERY}", (every.expression(_SYNTAX),)), *conditions])
        if conditions:
            tables += " join chunks on chunks.id = chunk_words.chunk join documents on documents.id = chunks.document"
        simple = [not each.words[1:] and not each.spellings for each in rarities]
        weight = " + ".join(f"?::float8 * {_OFTEN if each else _WHOLE}" for each in simple)
        ending = f"order by weight desc, chunk limit {int(most)}"
        statement, values = selected(f"chunk_words.chunk, {weight} as weight", tables, kept, ending)
        weights = (value for term, rarity in rarities.items() for value in (rarity, _expression(term)))
        return statement, (*weights, *values)

    def nearest(
        self, vector: "NDArray[np.float32]", conditions: Sequence[Condition], most: int, /
    ) -> Operation[list[Scored]]:
        """Where everything may be found, an index of the vectors is used if somebody made one; a filter is exact."""
        distance, tables = "vectors.vector <#> ?::real[]::vector", f"vectors join {JOINED}"
        tables = tables.replace("join chunks", "join chunks on chunks.id = vectors.chunk")
        if not conditions:
            # Such an index gives 40 results by itself.
            yield f"set local hnsw.ef_search = {min(max(most, 40), 1_000)}", ()
            distance, tables = f"vectors.vector::vector({len(vector)}) <#> ?::real[]::vector", "vectors"
        columns = f"vectors.chunk as chunk, {distance} as distance"
        near, values = selected(columns, tables, all_of(conditions), f"order by {distance} limit {int(most)}")
        rows = yield (
            f"select chunk, -distance from ({near}) as near order by distance, chunk",  # noqa: S608 - ours
            (vector, *values, vector),
        )
        return [(chunk, cosine) for chunk, cosine in rows]

    async def _prepare(self, connection: Connection) -> None:
        """Make the tables of vectors when the extension for them is there, and what an older version lacks."""
        if self._prepared:
            return
        lack: tuple[str, str] | None = None
        async with self._server.changing(connection):
            ((made,),) = await connection.fetch("select to_regclass($1)::text", f"{self._server.quoted}.vectors")
            if not made:
                await connection.execute("savepoint extension")
                try:
                    await connection.execute("create extension if not exists vector")
                except driver().PostgresError as error:
                    await connection.execute("rollback to savepoint extension")
                    lack = (
                        f"It has no extension `vector`, and cannot make it ({str(error).rstrip('.')}).",
                        "Install pgvector there, and let one who may do it run CREATE EXTENSION vector.",
                    )
            ((schemas,),) = await connection.fetch(_SCHEMAS)  # the extension may be in any schema
            path = f"set local search_path to {', '.join([self._server.quoted, *schemas])}"
            await connection.execute(path)
            for each in () if made or lack else _VECTORS.strip().split(";\n"):
                await connection.execute(each)
            for (document,) in await _fetched(connection, _WITHOUT_WORDS, ()):
                await _performed(connection, self.add(document))
        self._server.local = f"{path}; set local jit = off"
        self._lack, self._prepared = lack, True


async def _performed(connection: Connection, operation: Operation[T], *, writing: bool = False) -> T:
    """What an operation gives on a connection. One that writes makes rows of whole documents, which takes a thread."""
    rows: Rows | None = None

    def next_step() -> tuple[Statement | None, T | None]:
        try:
            return operation.send(cast("Rows", rows)), None
        except StopIteration as end:
            return None, cast("T", end.value)

    while True:
        step, result = await to_thread.run_sync(next_step) if writing else next_step()
        if step is None:
            return cast("T", result)
        sql, values = step
        if isinstance(values, list):
            await connection.executemany(_numbered(sql), [[*map(_bound, row)] for row in values])
            rows = ()
        else:
            rows = await _fetched(connection, sql, values)


async def _fetched(connection: Connection, sql: str, values: Sequence[object]) -> Rows:
    """The rows that a statement gives for the values of its places, which are question marks."""
    return cast("Rows", await connection.fetch(_numbered(sql), *map(_bound, values)))


@lru_cache(500)
def _numbered(sql: str) -> str:
    """A statement with its places as PostgreSQL writes them."""
    first, *others = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, start=1))


def _bound(value: Any) -> object:
    return plain(value) if isinstance(value, str) else value.tolist() if hasattr(value, "tolist") else value
