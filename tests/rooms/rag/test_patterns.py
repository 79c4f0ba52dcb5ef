"""Regular expressions of models: they are matched as Python does, and a bad one costs its time and nothing else."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from goalport.documents import Chunk
from goalport.errors import BadInput
from goalport.rag import SqliteDocumentStore
from goalport.rag.patterns import matches
from tests.rooms.rag.toy_documents import document


async def paged(*pages: Sequence[str]) -> AsyncIterator[Sequence[str]]:
    for page in pages:
        yield page


@settings(max_examples=10)
@given(st.lists(st.text(max_size=20), max_size=10))
async def test_texts_of_any_kind_are_matched(texts: list[str]) -> None:
    readable = [each.encode("utf-8", "replace").decode() for each in texts]
    assert await matches(r"(?s)\A.*\Z", paged(readable[:3], readable[3:]), 100, 60) == list(range(len(texts)))


async def test_texts_are_read_until_there_are_enough_matches() -> None:
    read: list[int] = []

    async def numbers() -> AsyncIterator[list[str]]:
        for number in range(5_000):
            read.append(number)
            yield [f"{number} {'x' * 10_000}"]

    assert await matches("^99[01] ", numbers(), 1, 60) == [990]
    assert len(read) < 5_000


@pytest.mark.parametrize("regex", ["(", "a{2,1}", r"(?P<a>x)(?P<a>y)", "(" * 500])
async def test_what_is_no_pattern_is_said_in_words(regex: str) -> None:
    with pytest.raises(BadInput, match="no regular expression of Python"):
        await matches(regex, paged(["a"] * 1_000), 1, 60)


async def test_a_pattern_of_any_length_is_not_read() -> None:
    with pytest.raises(BadInput, match="at most 1000 characters"):
        await matches("a" * 1_001, paged(["a"]), 1, 60)


async def test_a_pattern_may_not_take_all_memory() -> None:
    with pytest.raises(BadInput, match="too much memory"):
        await matches("(?:(a)|b)*", paged(["a" * 20_000_000]), 1, 120)


@pytest.mark.skipif(os.name == "nt", reason="there it takes as long as the store allows")
async def test_a_pattern_that_never_ends_ends_and_holds_nobody_meanwhile() -> None:
    async with SqliteDocumentStore(regex_seconds=60.0) as store:
        await store.put(*document("long", {"": "a" * 1_000_000 + "!"}, size=1_000_001))
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await anyio.sleep(0.01)
                ticks += 1

        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            with anyio.fail_after(20), pytest.raises(BadInput, match="takes too long"):
                await store.regex_search("(a+)+$", 1, Chunk)
            group.cancel_scope.cancel()
        assert ticks > 10
        assert (await store.info()).documents == 1


async def test_others_search_while_a_pattern_is_matched_and_cancelling_ends_it() -> None:
    async with SqliteDocumentStore(regex_seconds=60.0) as store, anyio.create_task_group() as group:
        await store.put(*document("long", {"": "a" * 5_000 + "!"}, size=10_000))

        async def search_for_long() -> None:
            with suppress(BadInput):  # on a busy machine it may be given up first
                await store.regex_search("(a+)+$", 1, Chunk)

        group.start_soon(search_for_long)
        with anyio.fail_after(60):
            for _ in range(20):
                await anyio.sleep(0.01)
                assert (await store.info()).documents == 1
        group.cancel_scope.cancel()
