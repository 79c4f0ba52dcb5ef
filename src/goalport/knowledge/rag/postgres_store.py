"""The store of documents in PostgreSQL: its full-text search finds words, and pgvector compares vectors.

The tables have their own schema. Programs on many machines may use them: writers wait for each other, and readers see
the state before. Texts are split into words here, not by a parser of PostgreSQL: that treats addresses, paths and
hyphens specially, and depends on the locale of the database.
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
"""How many characters of a chunk are indexed: a `tsvector` has at most a megabyte."""
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
"""`chunk_words` has the stems of a chunk. Its row is read for each chunk that is scored, so it has nothing else, and is
not moved to a TOAST table if it fits."""
_VECTORS: Final = """
create table vectors (chunk bigint not null primary key, document bigint not null, vector vector not null);
create index vectors_document on vectors (document)
"""
"""The column takes vectors of any length, since those of another model may have another length."""


def _folded(text: str) -> list[str]:
    """The words of a text as they are compared: in lower case and without accents."""
    lower = text.lower()
    if not lower.isascii():
        parts = unicodedata.normalize("NFD", lower)
        lower = unicodedata.normalize("NFC", "".join(each for each in parts if not "\u0300" <= each <= "\u036f"))
    return words_of(indexed(lower))


def _expression(term: Term) -> str:
    """A term in the syntax of `to_tsquery`. Only letters and digits can be inside the quotation marks."""
    texts = (_folded(each) for each in (" ".join(term.words), *term.spellings))
    written = " | ".join(" <-> ".join(f"'{word}'" for word in words) or "'='" for words in texts)
    return f"({written}:*)" if term.prefix else f"({written})"


_SYNTAX: Final = Syntax(every=" & ", either=" | ", but_not=" & !", term=_expression)
_QUERY: Final = "(select to_tsquery('words', ?))"


_WITHOUT_WORDS: Final = """
select id from documents where chunks > 0
and not exists (select from chunk_words where chunk_words.document = documents.id)
"""
_FREQUENCY_WEIGHT: Final = (
    f"least(greatest(2.88 * ts_rank('{{1,1,1,1}}', chunk_words.words, {_QUERY}) - 0.75, 0), 2.1)::float8"
)
"""`ts_rank` is 0.61 for a word that occurs once, 0.76 for two occurrences, and 1 at most. This maps it to 1, 1.4 and
2.1: nearly what BM25 gives in a text of average length, as most chunks are. For a prefix it can be more."""
_PRESENCE_WEIGHT: Final = f"(chunk_words.words @@ {_QUERY})::integer::float8"
"""1 if a phrase, or a word or one of its other spellings, occurs; else 0."""
_SCHEMAS: Final = """
select coalesce(array_agg(quote_ident(nspname)), '{}') as names
from pg_extension join pg_namespace on pg_namespace.oid = extnamespace where extname = 'vector'
"""


class PostgresDocumentStore(DocumentIndex):
    """Documents in a PostgreSQL database, which programs on other machines may read and write too.

    Parameters: `url` as `postgresql://user:password@host:port/database`, with the options that asyncpg reads; at most
    `connections` are opened. `pooler`: `url` leads to a program such as PgBouncer, which may use another connection for
    each transaction. A search or a write fails after `seconds`, and a regular expression after `regex_seconds`. The
    tables are created in `schema`, so that the database may have other tables.

    With `embeddings`, the chunks of each document get vectors when it is stored, if the database has pgvector or the
    user may create that extension; else a warning says that only words are searched and stored. `on_other_model`
    decides if another model made the vectors: `refuse` raises an error, `text` warns and searches words; `reembed`
    makes all vectors again. Connections are opened at first use; `close`, or `async with`, ends what is under way.
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
        """Raises `ValueError` if `url` is not valid, and `StoreError` if asyncpg is not installed."""
        database = PostgresIndex(url, schema=schema, seconds=seconds, connections=connections, pooler=pooler)
        super().__init__(database, embeddings, on_other_model, regex_seconds)


class PostgresIndex:
    """An index in a schema of a database; the schema is created at first use."""

    vector_place, vector_column = "?::real[]::vector", "vectors.vector::real[]"
    is_there = True  # unlike a file, the database has to exist already

    def __init__(self, url: str, *, schema: str, seconds: float, connections: int, pooler: bool) -> None:
        steps = [each.strip().split(";\n") for each in (_FIRST, _SECOND)]
        tables = Tables(schema, steps, "Say so: pooler=True.", "let each program have fewer", prepared=self._prepare)
        self._server = DatabaseServer(PostgresAddress(url), tables, seconds, pooler=pooler)
        self._connections = Connections(self._server, connections)
        self.error, self.close = self._server.error, self._connections.close
        self._why_no_vectors: tuple[str, str] | None = None
        self._prepared = False

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        return await self._connections.run(lambda connection: _performed(connection, begin()), reading=True)

    async def write(self, begin: Callable[[], Operation[T]], /) -> T:
        """Run an operation, and repeat it while it is unknown whether it was committed: three times at most."""

        async def work(connection: Connection) -> T:
            # Writers wait for each other: if two store the same document, the later one replaces it.
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
        """Do nothing: the server frees space by itself."""

    async def why_no_vectors(self) -> tuple[str, str] | None:
        if not self._prepared:
            await self._connections.run(lambda connection: connection.fetch("select 1"), reading=True)
        return self._why_no_vectors

    def comparison(self, wanted: Comparison | Containing, /) -> Condition:
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
        for table in ("chunk_words", *(() if self._why_no_vectors else ("vectors",))):
            yield f"delete from {table} where document = ?", (document,)  # noqa: S608 - one of two names

    def count_statement(self, term: Term, /) -> Statement:
        within = f"select 1 from chunk_words where words @@ {_QUERY} limit {MOST_COUNTED}"  # noqa: S608 - ours
        return f"select count(*) from ({within}) as found", (_expression(term),)  # noqa: S608 - ours

    def score_statement(
        self, rarities: Mapping[Term, float], within: Group | None, conditions: Sequence[Condition], most: int, /
    ) -> Statement:
        tables, every = "chunk_words", within or Group(optional=(*rarities,))
        kept = all_of([Condition(f"chunk_words.words @@ {_QUERY}", (every.expression(_SYNTAX),)), *conditions])
        if conditions:
            tables += " join chunks on chunks.id = chunk_words.chunk join documents on documents.id = chunks.document"
        simple = [not each.words[1:] and not each.spellings for each in rarities]
        weight = " + ".join(f"?::float8 * {_FREQUENCY_WEIGHT if each else _PRESENCE_WEIGHT}" for each in simple)
        ending = f"order by weight desc, chunk limit {int(most)}"
        statement, values = selected(f"chunk_words.chunk, {weight} as weight", tables, kept, ending)
        weights = (value for term, rarity in rarities.items() for value in (rarity, _expression(term)))
        return statement, (*weights, *values)

    def nearest(
        self, vector: "NDArray[np.float32]", conditions: Sequence[Condition], most: int, /
    ) -> Operation[list[Scored]]:
        """Without conditions, an HNSW index is used if somebody created one; with conditions the search is exact."""
        distance, tables = "vectors.vector <#> ?::real[]::vector", f"vectors join {JOINED}"
        tables = tables.replace("join chunks", "join chunks on chunks.id = vectors.chunk")
        if not conditions:
            # By default an HNSW index returns 40 results.
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
        """Create the table of vectors if its extension is available, and index documents that have no words yet."""
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
        self._why_no_vectors, self._prepared = lack, True


async def _performed(connection: Connection, operation: Operation[T], *, writing: bool = False) -> T:
    """Run an operation on a connection. Writes prepare rows of whole documents, so their steps run in a thread."""
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
    """The rows of a statement with `?` as placeholders for values."""
    return cast("Rows", await connection.fetch(_numbered(sql), *map(_bound, values)))


@lru_cache(500)
def _numbered(sql: str) -> str:
    """A statement with the placeholders of PostgreSQL: `$1`, `$2` and so on."""
    first, *others = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, start=1))


def _bound(value: Any) -> object:
    return plain(value) if isinstance(value, str) else value.tolist() if hasattr(value, "tolist") else value
