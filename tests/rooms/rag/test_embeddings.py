"""Vectors: who makes them is remembered and checked, and a store without them searches text."""

import logging
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from math import nan
from pathlib import Path
from typing import Any

import pytest

from goalport.base.errors import ModelUnavailable, StoreError
from goalport.knowledge.documents import Chunk
from goalport.knowledge.rag import (
    PostgresDocumentStore,
    SqliteDocumentStore,
    TableEmbeddings,
    TextSimilaritySearchRequest,
    VectorSearch,
    find_chunks,
    supports,
)
from goalport.models.llm import EmbeddingService, TokenUsage, Vectors
from tests.rooms.rag.toy_documents import Hashing, document

ROSES = document("roses", {"Roses": "roses are red"})
VIOLETS = document("violets", {"Violets": "violets are blue"})
RED = TextSimilaritySearchRequest(query="red roses", top_k=1)


class Fixed:
    """An embedding service that gives the same answer, whatever it is asked."""

    name, dimensions = "fixed", None

    def __init__(self, *vectors: list[float]) -> None:
        self.vectors = list(vectors)

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        return Vectors(self.vectors, TokenUsage(input_tokens=1))


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (list[list[float]](), "0 vectors came"),
        ([[1.0], [1.0]], "2 vectors came"),
        ([list[float]()], "of 0 numbers"),
        ([[nan]], "no numbers"),
        ([[1e300]], "no numbers"),
        ([["much"]], "no numbers"),
        ([[[1.0, 2.0]]], "no numbers"),
    ],
)
async def test_vectors_that_cannot_be_used_are_not_stored_and_the_document_is_found_by_words(
    vectors: list[list[float]], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with SqliteDocumentStore(embeddings=Fixed(*vectors)) as store:
        await store.put(*ROSES)
        assert message in caplog.text
        assert (await store.info()).vectors == 0
        assert [each.match.uri for each in await store.text_search(RED, Chunk)] == ["roses"]


class Answering:
    """An embedding service of a user that does what no service should."""

    name, dimensions = "odd", None

    def __init__(self, answer: object) -> None:
        self.answer = answer

    async def embed(self, texts: Sequence[str], /) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "'odd' gave None; expected a list with a vector for each text"),
        ([1.0], "'odd' gave vectors with values that are no numbers"),
        (KeyError("vectors"), "'odd' failed: KeyError: 'vectors'"),
        (ModelUnavailable("Its own words."), "^Its own words"),
    ],
)
async def test_whatever_a_service_does_is_an_error_that_names_it(answer: object, message: str) -> None:
    async with SqliteDocumentStore(embeddings=Answering(answer)) as store:
        with pytest.raises(ModelUnavailable, match=message):
            await store.vector_search(RED, Chunk)


async def test_texts_are_sent_in_batches() -> None:
    service = Hashing()
    async with SqliteDocumentStore(embeddings=service) as store:
        await store.put(*document("long", {"": " ".join(map(str, range(10_000, 11_000)))}, size=12))
        assert [len(each) for each in service.asked] == [64] * 7 + [52]
        assert (await store.info()).vectors == 500


async def test_texts_that_were_there_before_keep_their_vectors() -> None:
    service = Hashing()
    async with SqliteDocumentStore(embeddings=service) as store:
        await store.put(*document("a", {"Roses": "roses are red", "Violets": "violets are blue"}))
        await store.put(*document("a", {"Roses": "roses are red", "Tulips": "tulips are yellow"}))
        assert service.asked == [["roses are red", "violets are blue"], ["tulips are yellow"]]
        assert [each.match.path[-1] for each in await store.vector_search(RED, Chunk)] == ["Roses"]


async def test_a_table_of_ones_own_needs_a_function_alone() -> None:
    def vectors(texts: Sequence[str]) -> list[list[float]]:
        return [[float("red" in each), float("blue" in each)] for each in texts]

    service: EmbeddingService = TableEmbeddings("colours", vectors)
    async with SqliteDocumentStore(embeddings=service) as store:
        await store.put(*ROSES)
        await store.put(*VIOLETS)
        (hit,) = await store.vector_search(RED, Chunk)
        assert (hit.match.uri, hit.score) == ("roses", 1.0)


async def test_without_embeddings_hybrid_search_is_by_words() -> None:
    async with SqliteDocumentStore() as store:
        await store.put(*ROSES)
        assert [each.match.uri for each in await store.hybrid_search(RED, Chunk)] == ["roses"]
        with pytest.raises(StoreError, match="no vectors to search"):
            await store.vector_search(RED, Chunk)


class Sometimes(Hashing):
    """An embedding service that can be away."""

    away = False

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        if self.away:
            self.asked.append(texts)
            raise ModelUnavailable("The provider is away.")
        return await super().embed(texts)


@pytest.mark.parametrize("kind", ["file", "postgresql"])
async def test_what_is_stored_while_the_service_is_away_is_found_by_meaning_once_it_is_back(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def opened(service: EmbeddingService) -> SqliteDocumentStore | PostgresDocumentStore:
        if kind == "postgresql":
            return PostgresDocumentStore(request.getfixturevalue("postgresql"), embeddings=service)
        return SqliteDocumentStore(tmp_path / "a", embeddings=service)

    service = Sometimes()
    service.away = True
    async with opened(service) as store:
        for number in range(20):
            await store.put(*document(f"{number}", {"": f"violets {number}"}))
        await store.put(*ROSES)
        assert len(service.asked) == 1  # it is not waited for again and again
        assert [each.match.uri for each in await store.text_search(RED, Chunk)] == ["roses"]
    service = Hashing()
    async with opened(service) as store:
        for _ in range(3):
            assert [each.match.uri for each in await store.vector_search(RED, Chunk)] == ["roses"]
        assert [len(each) for each in service.asked] == [1, 21, 1, 1]
        assert (await store.info()).vectors == 21


async def test_an_index_that_cannot_be_written_is_searched_as_it_is(tmp_path: Path) -> None:
    async with SqliteDocumentStore(tmp_path / "a") as store:
        await store.put(*ROSES)
    service = Hashing()
    async with SqliteDocumentStore(tmp_path / "a", embeddings=service, busy_seconds=0.1) as store:
        await store.info()
        with closing(sqlite3.connect(tmp_path / "a", isolation_level=None)) as other:
            other.execute("begin immediate")
            assert [each.match.uri for each in await find_chunks(store, RED)] == ["roses"]
        assert service.asked == [["red roses"]]


async def test_the_best_search_is_by_words_while_the_embedding_model_is_away(caplog: pytest.LogCaptureFixture) -> None:
    service = Sometimes()
    async with SqliteDocumentStore(embeddings=service) as store:
        await store.put(*ROSES)
        service.away = True
        assert [each.match.uri for each in await find_chunks(store, RED)] == ["roses"]
        assert caplog.messages == ["Documents are searched by words alone. The provider is away."]
        with pytest.raises(ModelUnavailable):
            await store.hybrid_search(RED, Chunk)


async def test_another_model_is_noticed_and_makes_its_own_vectors_on_request(tmp_path: Path) -> None:
    async with SqliteDocumentStore(tmp_path / "a", embeddings=Hashing("old")) as store:
        await store.put(*ROSES)
    async with SqliteDocumentStore(tmp_path / "a", embeddings=Hashing("new", 32)) as store:
        for attempt in (store.put(*VIOLETS), store.vector_search(RED, Chunk)):
            with pytest.raises(StoreError, match=r"'old' \(64 numbers\).*'new'.*`goalport rag reembed`"):
                await attempt
        assert [each.match.uri for each in await store.text_search(RED, Chunk)] == ["roses"]
        assert await store.reembed() == 1
        await store.put(*VIOLETS)
        assert [each.match.uri for each in await store.vector_search(RED, Chunk)] == ["roses"]
        info = await store.info()
        assert (info.model, info.dimensions, info.vectors) == ("new", 32, 2)


async def test_what_the_old_model_made_stays_until_the_new_one_answers(tmp_path: Path) -> None:
    async with SqliteDocumentStore(tmp_path / "a", embeddings=Hashing("old")) as store:
        await store.put(*ROSES)
    service = Sometimes("new")
    service.away = True
    async with SqliteDocumentStore(tmp_path / "a", embeddings=service) as store:
        with pytest.raises(ModelUnavailable):
            await store.reembed()
        assert (await store.info()).model == "old"
    async with SqliteDocumentStore(tmp_path / "a", embeddings=Hashing("old")) as store:
        assert [each.match.uri for each in await store.vector_search(RED, Chunk)] == ["roses"]


async def test_with_another_model_a_store_may_search_text_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with SqliteDocumentStore(tmp_path / "a", embeddings=Hashing("old")) as store:
        await store.put(*ROSES)
    changed = SqliteDocumentStore(tmp_path / "a", embeddings=Hashing("new"), on_other_model="text")
    async with changed as store:
        with caplog.at_level(logging.WARNING):
            await store.put(*VIOLETS)
            await store.hybrid_search(RED, Chunk)
        assert [each.message.endswith("Until then it searches text alone.") for each in caplog.records] == [True]
        assert not supports(store, VectorSearch)
        assert await store.reembed() == 2
        assert supports(store, VectorSearch)
        assert (await store.vector_search(RED, Chunk))[0].match.uri == "roses"


async def test_chunks_that_were_stored_without_vectors_get_them_on_request(tmp_path: Path) -> None:
    async with SqliteDocumentStore(tmp_path / "a") as store:
        await store.put(*ROSES)
    async with SqliteDocumentStore(tmp_path / "a", embeddings=Hashing()) as store:
        await store.put(*VIOLETS)
        assert await store.reembed(only_missing=True) == 1
        assert [each.match.uri for each in await store.vector_search(RED, Chunk)] == ["roses"]


async def test_vectors_follow_what_other_programs_write(tmp_path: Path) -> None:
    first = SqliteDocumentStore(tmp_path / "a", embeddings=Hashing(dimensions=1_000))
    second = SqliteDocumentStore(tmp_path / "a", embeddings=Hashing(dimensions=1_000))
    async with first, second:
        for number in range(30):
            await first.put(*document(str(number), {"": f"common {number}"}))
            found = await second.vector_search(TextSimilaritySearchRequest(query=f"common {number}", top_k=1), Chunk)
            assert found[0].match.uri == str(number)
        for number in range(29):
            await first.remove(str(number))
        found = await second.vector_search(TextSimilaritySearchRequest(query="common"), Chunk)
        assert [each.match.uri for each in found] == ["29"]


async def test_vectors_that_hardly_differ_are_told_apart() -> None:
    count = 400

    def vectors(texts: Sequence[str]) -> list[list[float]]:
        """The larger its number, the less a text is like what is searched for."""
        return [[1.0, *[0.0] * 47] if each == "wanted" else [0.5 - int(each) * 1e-5, *[1.0] * 47] for each in texts]

    store = SqliteDocumentStore(embeddings=TableEmbeddings("close", vectors))
    numbers = [(each * 171) % count for each in range(count)]
    await store.put(*document("numbers", {str(each): str(each) for each in numbers}))
    found = await store.vector_search(TextSimilaritySearchRequest(query="wanted", top_k=7), Chunk)
    assert [each.match.text for each in found] == [str(each) for each in range(7)]
