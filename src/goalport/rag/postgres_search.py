"""Finding chunks in PostgreSQL: by words, by vectors, by both, and by a pattern; always of those that may be found.

Below: `postgres_database`, and `postgres_full_text`, which writes queries. Above: `postgres_store`.
"""

import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from goalport.documents import Chunk
from goalport.errors import BadInput
from goalport.postgres import Connection, driver
from goalport.rag import elements
from goalport.rag.conditions import Condition, Findable, all_of
from goalport.rag.elements import JOINED, Scored
from goalport.rag.filters import Filter
from goalport.rag.fusion import fused, window
from goalport.rag.operations import Batch, Operation, Statement, selected
from goalport.rag.patterns import check_length, too_slow
from goalport.rag.postgres_conditions import fits
from goalport.rag.postgres_database import PostgresIndex, fetched, performed
from goalport.rag.postgres_full_text import ChunkWords, FullTextQuery, Vocabulary, folded
from goalport.rag.postgres_patterns import translated
from goalport.rag.query import Fuzzy, Group, Leaf, Phrase, Prefix, leaves, parse
from goalport.rag.rows import DocumentRows
from goalport.rag.search import SimilarityResult, TextSimilaritySearchRequest
from goalport.rag.spelling import MOST_LOOKED_AT, beginnings, nearest
from goalport.words import first_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PostgresFinder"]

Found = Sequence[SimilarityResult[Chunk]]
_Entries = Sequence[tuple[int, str]]
"""The number of words of each chunk, and their vector."""


class PostgresFinder:
    """Finds chunks by `tsvector`, by pgvector and by `~`."""

    def __init__(self, database: PostgresIndex, regex_seconds: float, patterns: int) -> None:
        """At most so many `patterns` are matched at once."""
        self._database, self._regex_seconds = database, regex_seconds
        self._patterns = anyio.CapacityLimiter(patterns)

    def fits(self, wanted: Filter, /) -> Condition:
        return fits(wanted)

    async def entries(self, document: DocumentRows, /) -> _Entries:
        chunks = await anyio.to_thread.run_sync(_words_of_chunks, document)
        every = list({word for each in chunks for words in (each.titles, each.body) for word in words})

        def read() -> Operation[dict[str, str]]:
            rows = yield Statement(_STEMS, (every,))
            return {row[0]: row[1] for row in rows}

        stems = await self._database.read(read)
        return await anyio.to_thread.run_sync(lambda: [(each.size, each.vector(stems)) for each in chunks])

    def add(self, document: int, entries: _Entries, vectors: "NDArray[np.float32] | None", /) -> Operation[None]:
        ids = [row[0] for row in (yield Statement(_CHUNK_IDS, (document,)))]
        yield Batch(
            "insert into chunk_words values (?, ?, ?, ?::text::tsvector)",
            [(chunk, document, size, words) for chunk, (size, words) in zip(ids, entries, strict=True)],
        )
        yield Statement(_COUNTED, (document,))
        yield from _counted(len(ids), sum(size for size, _ in entries))
        if vectors is not None:
            rows = [(chunk, document, vector.tolist()) for chunk, vector in zip(ids, vectors, strict=True)]
            yield Batch("insert into vectors values (?, ?, ?::real[]::vector)", rows)

    def remove(self, document: int, /) -> Operation[None]:
        yield Statement(_UNCOUNTED, (document,))
        known = yield Statement(
            "select count(*), coalesce(sum(size), 0)::bigint from chunk_words where document = ?", (document,)
        )
        yield from _counted(-known[0][0], -known[0][1])
        for table in ("chunk_words", *self._database.vector_tables):
            yield Statement(f"delete from {table} where document = ?", (document,))  # noqa: S608 - one of these names

    async def by_text(self, request: TextSimilaritySearchRequest, /) -> Found:
        return await self._found(lambda connection: _by_text(connection, request, request.top_k), request)

    async def by_vector(self, vector: "NDArray[np.float32]", request: TextSimilaritySearchRequest, /) -> Found:
        return await self._found(lambda connection: _by_vector(connection, vector, request, request.top_k), request)

    async def by_both(self, vector: "NDArray[np.float32] | None", request: TextSimilaritySearchRequest, /) -> Found:
        async def both(connection: Connection) -> list[Scored]:
            most = window(request.top_k)
            orders = [await _by_text(connection, request, most)]
            if vector is not None:
                near = await _by_vector(connection, vector, request, most)
                orders.append([each for each in near if each[1] > 0])
            return fused([chunk for chunk, _ in order] for order in orders)[: request.top_k]

        return await self._found(both, request)

    async def by_pattern(self, regex: str, most: int, findable: Findable, /) -> Found:
        check_length(regex)

        async def matched(connection: Connection) -> Found:
            conditions = await performed(connection, elements.restrictions(findable))
            pattern = translated(unicodedata.normalize("NFC", regex))
            place = Condition(f"{_TEXT} ~ ?", (pattern,))
            if not regex.isascii():  # it takes its time, so only texts are composed that have to be
                composed = Condition(f"{_TEXT} ~ ? and normalize({_TEXT}) ~ ?", (_DECOMPOSED, pattern))
                place = all_of([place, composed], "or")
            statement = selected(
                "chunks.id, 1.0::float8",
                JOINED,
                all_of([*conditions, place]),
                "order by chunks.document, chunks.number limit ?",
            )
            await connection.execute(f"set local statement_timeout = {round(self._regex_seconds * 1000)}")
            try:
                rows = await fetched(connection, statement.sql, *statement.values, most)
            except driver().InvalidRegularExpressionError as error:
                problem = str(error).removeprefix("invalid regular expression: ")
                raise BadInput(
                    f"{first_line(regex, 80)!r} is no regular expression of PostgreSQL: {problem}."
                ) from error
            except driver().QueryCanceledError as error:
                raise too_slow(regex) from error
            return await performed(connection, elements.results([(row[0], row[1]) for row in rows]))

        async with self._patterns:  # slow patterns leave connections to the other searches
            return await self._database.using(matched)

    async def _found(
        self, search: Callable[[Connection], Awaitable[Sequence[Scored]]], request: TextSimilaritySearchRequest
    ) -> Found:
        async def found(connection: Connection) -> Found:
            scored = await search(connection)
            return await performed(connection, elements.results(scored, request.similarity_threshold))

        return await self._database.using(found)


def _words_of_chunks(document: DocumentRows) -> list[ChunkWords]:
    return [ChunkWords(folded(title), folded(text)) for title, text in document.texts]


def _counted(chunks: int, words: int) -> Operation[None]:
    yield Batch(
        "update facts set value = (value::bigint + ?::bigint)::text where name = ?",
        [(chunks, "chunks"), (words, "words")],
    )


async def _by_text(connection: Connection, request: TextSimilaritySearchRequest, most: int) -> list[Scored]:
    """What has the words of the query, the best first."""
    tree = parse(request.query)
    known = await _vocabulary(connection, tree)
    query = FullTextQuery.of(tree, known) if known.chunks else None
    if query is None:
        return []
    conditions = await _restrictions(connection, request)
    found: Sequence[Any] = []
    if query.rare:
        found = await _run(connection, query.weighed(conditions, most, only=query.rare))
    if len(found) < most or found[-1][1] < query.enough:
        found = await _run(connection, query.weighed(conditions, most))
    return [(chunk, min(weight / query.most, 1.0)) for chunk, weight in found]


async def _by_vector(
    connection: Connection, vector: "NDArray[np.float32]", request: TextSimilaritySearchRequest, most: int
) -> list[Scored]:
    """What lies nearest to a vector, the nearest first.

    Where everything may be found, an index of the vectors is used if somebody has made one; a filter is always exact.
    """
    conditions = await _restrictions(connection, request)
    distance = f"vectors.vector::vector({len(vector)}) <#> ?::real[]::vector"
    tables = f"vectors join {JOINED.replace('chunks join', 'chunks on chunks.id = vectors.chunk join')}"
    if not conditions:
        # Such an index gives 40 results by itself.
        await connection.execute(f"set local hnsw.ef_search = {min(max(most, 40), 1_000)}")
        tables = "vectors"
    else:
        distance = "vectors.vector <#> ?::real[]::vector"
    condition = all_of(conditions)
    numbers = vector.tolist()
    sql = (
        f"select chunk, -distance from (select vectors.chunk as chunk, {distance} as distance from {tables} "  # noqa: S608 - ours
        f"where {condition.sql} order by {distance} limit ?) as near order by distance, chunk"
    )
    rows = await fetched(connection, sql, numbers, *condition.values, numbers, most)
    return [(chunk, min(max(cosine, 0.0), 1.0)) for chunk, cosine in rows]


async def _restrictions(connection: Connection, request: TextSimilaritySearchRequest) -> list[Condition]:
    left_in = fits(request.filter) if request.filter is not None else None
    return await performed(connection, elements.restrictions(Findable(left_in, request.caller)))


async def _vocabulary(connection: Connection, tree: Group) -> Vocabulary:
    """What the database knows of the words of a query."""
    every = list(_all_leaves(tree))
    spelled = {each: await _spellings(connection, each) for each in every if isinstance(each, Fuzzy)}
    words = {word for each in every for word in _words(each)} | {word for each in spelled.values() for word in each}
    rows = await fetched(connection, _KNOWN, list(words))
    totals = {name: int(value) for name, value in await fetched(connection, _TOTALS)}
    found: dict[str, tuple[int, int]] = {}
    for word, stem, chunks, titles, stem_chunks, stem_titles in rows:
        found |= {word: (chunks, titles), f"={stem}": (stem_chunks, stem_titles)}
    prefixes = {folded(each.text)[-1] for each in every if isinstance(each, Prefix) and folded(each.text)}
    beginning: dict[str, tuple[int, int]] = {}
    for each in prefixes:
        ((chunks, titles),) = await fetched(connection, _BEGINNING, each, f"{each}\U0010ffff")
        beginning[each] = min(chunks, totals["chunks"]), min(titles, totals["chunks"])
    average = totals["words"] / max(totals["chunks"], 1)
    return Vocabulary(totals["chunks"], max(average, 1.0), {row[0]: row[1] for row in rows}, found, spelled, beginning)


async def _spellings(connection: Connection, leaf: Fuzzy) -> Sequence[str]:
    wanted = "".join(folded(leaf.text))
    words: list[str] = []
    for first in beginnings(wanted):
        shortest, longest = len(wanted) - leaf.edits, len(wanted) + leaf.edits
        rows = await fetched(connection, _LIKE, first, f"{first}\U0010ffff", shortest, longest, MOST_LOOKED_AT)
        words += [row[0] for row in rows]
    return await anyio.to_thread.run_sync(nearest, leaf, wanted, words)


def _all_leaves(group: Group) -> Iterator[Leaf]:
    yield from leaves(group)
    for each in (*group.required, *group.optional, *group.prohibited):
        if isinstance(each, Group):
            yield from _all_leaves(each)
        elif each in group.prohibited:
            yield each


def _words(leaf: Leaf) -> list[str]:
    return folded(" ".join(leaf.words) if isinstance(leaf, Phrase) else leaf.text)


async def _run(connection: Connection, statement: Statement) -> Sequence[Any]:
    return await fetched(connection, statement.sql, *statement.values)


_TEXT: Final = "coalesce(chunks.shown, chunks.body)"
_DECOMPOSED: Final = "[\u0300-\u036f\u1100-\u11ff\u3099\u309a]"
"""Accents and parts of syllables that can be one character with what is before them."""
_CHUNK_IDS: Final = "select id from chunks where document = ? order by id"
_STEM: Final = "coalesce((ts_lexize('porter', word))[1], word) as stem from unnest(?::text[]) as word"
_STEMS: Final = f"select word, {_STEM}"
_KNOWN: Final = f"""
select given.word, given.stem, coalesce(plain.chunks, 0), coalesce(plain.titles, 0), coalesce(stems.chunks, 0),
    coalesce(stems.titles, 0)
from (select word, {_STEM}) as given left join vocabulary as plain on plain.word = given.word
left join vocabulary as stems on stems.word = '=' || given.stem
"""  # noqa: S608 - ours
_TOTALS: Final = "select name, value from facts where name in ('chunks', 'words')"
_BEGINNING: Final = """
select coalesce(sum(chunks), 0)::bigint, coalesce(sum(titles), 0)::bigint from vocabulary where word >= ? and word < ?
"""
_LIKE: Final = """
select word from vocabulary where word >= ? and word < ? and chunks > 0 and length(word) between ? and ? limit ?
"""
_WORDS_OF_DOCUMENT: Final = """
select lexeme, count(*) as chunks, count(*) filter (where 'A' = any(weights)) as titles
from chunk_words, unnest(words) where document = ? group by lexeme
"""
_COUNTED: Final = f"""
insert into vocabulary {_WORDS_OF_DOCUMENT} on conflict (word) do update
set chunks = vocabulary.chunks + excluded.chunks, titles = vocabulary.titles + excluded.titles
"""
_UNCOUNTED: Final = f"""
update vocabulary set chunks = vocabulary.chunks - gone.chunks, titles = vocabulary.titles - gone.titles
from ({_WORDS_OF_DOCUMENT}) as gone where vocabulary.word = gone.lexeme
"""  # noqa: S608 - ours
