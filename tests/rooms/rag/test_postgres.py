"""The store in PostgreSQL: what is its own, beside what all stores do."""

import logging
from collections.abc import AsyncGenerator

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings

from goalport.base.errors import StoreError
from goalport.knowledge.documents import Chunk
from goalport.knowledge.rag import (
    DocumentIndex,
    PostgresDocumentStore,
    TextSimilaritySearchRequest,
    VectorSearch,
    supports,
)
from tests.postgres import PostgresServer
from tests.rooms.rag.test_query_language import QUERIES
from tests.rooms.rag.toy_documents import Hashing, document

ROSES = TextSimilaritySearchRequest(query="roses", top_k=100)


@pytest.fixture
async def empty(postgresql: str) -> AsyncGenerator[PostgresDocumentStore]:
    async with PostgresDocumentStore(postgresql) as store:
        yield store


async def uris(store: DocumentIndex, query: str) -> list[str]:
    results = await store.text_search(TextSimilaritySearchRequest(query=query), Chunk)
    return [each.match.uri for each in results]


async def test_programs_that_fill_one_index_at_once_leave_whole_documents(
    postgres: PostgresServer, postgresql: str
) -> None:
    async def fill(program: str) -> None:
        async with PostgresDocumentStore(postgresql, embeddings=Hashing()) as store:
            for version in range(5):
                for number in range(3):
                    parts = {f"part {part}": f"roses version{version} {program} " * 5 for part in range(8)}
                    await store.put(*document(f"{number}.md", parts, size=1_000), content_hash=f"version{version}")
                await store.text_search(ROSES, Chunk)

    async with anyio.create_task_group() as programs, PostgresDocumentStore(postgresql) as store:
        with anyio.fail_after(60):
            for program in ("one", "other"):
                programs.start_soon(fill, program)
            while not (await store.info()).documents:
                await anyio.sleep(0.01)
            # As by a program that is killed, the connections of both are lost again and again.
            for _ in range(5):
                postgres.run(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where pid <> pg_backend_pid() and datname = current_database()",
                    url=postgresql,
                )
    async with PostgresDocumentStore(postgresql) as store:
        for known in await store.documents():
            found = [each.match for each in await store.text_search(ROSES, Chunk) if each.match.uri == known.root.uri]
            assert len(found) == known.chunks == 8
            assert len({each.text for each in found}) == 1
            assert known.content_hash in found[0].text
        info = await store.info()
        assert (info.documents, info.chunks, info.vectors) == (3, 24, 24)


async def test_without_pgvector_words_are_searched_and_a_warning_says_why(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres.database()
    postgres.run("create role reader login", "create schema goalport_documents authorization reader", url=url)
    async with PostgresDocumentStore(url.replace("postgres@", "reader@"), embeddings=Hashing()) as store:
        with caplog.at_level(logging.WARNING, "goalport.knowledge.rag"):
            await store.put(*document("a", {"": "roses are red"}))
            assert [each.match.uri for each in await store.hybrid_search(ROSES, Chunk)] == ["a"]
        assert ["CREATE EXTENSION vector" in each.message for each in caplog.records] == [True]
        assert not supports(store, VectorSearch)
        with pytest.raises(StoreError, match="no extension `vector`"):
            await store.vector_search(ROSES, Chunk)
        assert await store.remove("a")
        assert (await store.info()).chunks == 0


async def test_an_index_of_vectors_that_somebody_made_is_used(postgres: PostgresServer) -> None:
    url = postgres.database()
    request = TextSimilaritySearchRequest(query="w30 w31 w32 w33 w34", top_k=3)
    texts = {str(number): " ".join(f"w{each}" for each in range(number, number + 5)) for number in range(60)}
    async with PostgresDocumentStore(url, embeddings=Hashing(dimensions=1_000)) as store:
        await store.put(*document("many", texts))
        exact = await store.vector_search(request, Chunk)
        postgres.run(
            "create index by_meaning on goalport_documents.vectors using hnsw ((vector::vector(1000)) vector_ip_ops)",
            "analyze goalport_documents.vectors",
            "do $$ begin execute format('alter database %I set enable_seqscan = off', current_database()); end $$",
            url=url,
        )
    async with PostgresDocumentStore(url, embeddings=Hashing(dimensions=1_000)) as store:
        found = await store.vector_search(request, Chunk)
    assert {each.match.path[-1] for each in found} == {each.match.path[-1] for each in exact} == {"29", "30", "31"}
    used = "select idx_scan > 0 from pg_stat_user_indexes where indexrelname = 'by_meaning'"
    assert postgres.run(used, url=url) == "t"


async def test_what_is_too_much_for_a_vector_of_words_is_found_by_its_first_words(empty: PostgresDocumentStore) -> None:
    text = " ".join(f"word{number}" for number in range(60_000))
    await empty.put(*document("large", {"": f"{text} last"}, size=len(text) + 10))
    await empty.put(*document("wide", {"": "x" * 100_000 + " narrow"}, size=200_000))
    assert await uris(empty, "word17") == ["large"]
    assert await uris(empty, "last") == []
    assert await uris(empty, "narrow") == ["wide"]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(QUERIES)
@example("rose " * 2_000)
@example('(((rose) AND -x*) OR y~2) NOT "a b"~9')
@example('"a b c d e f"~50 +東京* 東京タ~ \'); drop table chunks; --')
async def test_no_query_fails_in_postgresql(empty: PostgresDocumentStore, query: str) -> None:
    await empty.put(*document("a", {"Towers": "東京タワー 😀 é and a rose"}))
    results = await empty.text_search(TextSimilaritySearchRequest(query=query, top_k=3), Chunk)
    assert all(0 <= each.score <= 1 for each in results)


async def test_behind_a_pooler_nothing_is_kept_in_a_connection(postgresql: str) -> None:
    async with PostgresDocumentStore(postgresql, embeddings=Hashing(), pooler=True, connections=1) as store:
        await store.put(*document("a", {"": "roses are red"}))
        assert [each.match.uri for each in await store.hybrid_search(ROSES, Chunk)] == ["a"]


async def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    async with PostgresDocumentStore("postgresql://ada:s3cret@127.0.0.1:1/documents") as store:
        with pytest.raises(
            StoreError, match=r"postgresql://ada@127\.0\.0\.1:1/documents: It cannot be reached"
        ) as caught:
            await store.info()
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ValueError, match="URL of a PostgreSQL database"):
        PostgresDocumentStore("documents.db")


async def test_an_index_of_the_first_version_has_its_words_indexed_anew(
    postgres: PostgresServer, postgresql: str
) -> None:
    async with PostgresDocumentStore(postgresql) as store:
        await store.put(*document("a", {"": "roses are red"}))
    postgres.run(
        "set search_path to goalport_documents; drop table chunk_words; drop text search configuration words; "
        "create table chunk_words (a int); create table vocabulary (a int); create table new_vectors (a int); "
        "delete from schema_version where version = 2; insert into facts values ('chunks', '1')",
        url=postgresql,
    )
    async with PostgresDocumentStore(postgresql) as store:
        assert await uris(store, "+rose +red") == ["a"]
        assert (await store.info()).chunks == 1
        assert await store.remove("a")


async def test_an_index_that_loses_its_connection_while_it_is_prepared_is_prepared_anew(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    async with PostgresDocumentStore(url) as store:
        await store.put(*document("a", {"": "roses are red"}))
    postgres.run(
        "delete from goalport_documents.chunk_words",
        "create sequence public.tries",
        """create function leave() returns trigger language plpgsql as $$ begin
             if nextval('public.tries') < 2 then perform pg_terminate_backend(pg_backend_pid()); end if; return null;
           end $$""",
        """create constraint trigger leave after insert on goalport_documents.chunk_words
           deferrable initially deferred for each row execute function leave()""",
        url=url,
    )
    async with PostgresDocumentStore(url) as store:
        assert (await store.info()).chunks == 1
        assert await uris(store, "roses") == ["a"]
    assert postgres.run("select last_value > 1 from public.tries", url=url) == "t"
