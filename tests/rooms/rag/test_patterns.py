"""Regular expressions of models: they are matched as Python does, and a bad one costs its time and nothing else."""

import re

import anyio
import pytest

from goalport.base.errors import BadInput
from goalport.knowledge.documents import Chunk
from goalport.knowledge.rag import DocumentIndex, SqliteDocumentStore
from tests.rooms.rag.toy_documents import document


async def matched(store: DocumentIndex, regex: str) -> set[str]:
    return {each.match.uri for each in await store.regex_search(regex, 10, Chunk)}


async def test_patterns_mean_what_they_mean_in_python(store: DocumentIndex) -> None:
    await store.put(*document("lines", {"": "one rose\ntwo roses"}))
    await store.put(*document("upper", {"": "ROSE-17"}))
    texts = {"lines": "one rose\ntwo roses", "upper": "ROSE-17"}
    for regex in (
        r"\brose\b",
        r"(?i)\Brose|\brose\B",
        r"(?i)\brose\b",
        "one.*two",
        "(?s)one.*two",
        "^two",
        "(?m)^two",
        r"(?P<word>[A-Z]+)-\d{2}\Z",
        r"\d{1,4}",
        "\x00",
    ):
        assert await matched(store, regex) == {uri for uri, text in texts.items() if re.search(regex, text)}, regex


async def test_the_first_matches_are_found_in_the_order_of_the_documents(store: DocumentIndex) -> None:
    await store.put(*document("many", {str(number): f"number {number}" for number in range(250)}))
    found = await store.regex_search("[05]$", 3, Chunk)
    assert [each.match.text for each in found] == ["number 0", "number 5", "number 10"]
    assert [each.match.text for each in await store.regex_search("249", 3, Chunk)] == ["number 249"]


@pytest.mark.parametrize("regex", ["(", "a{2,1}", "(" * 500])
async def test_what_is_no_pattern_is_said_in_words(regex: str) -> None:
    with pytest.raises(BadInput, match="no regular expression of Python"):
        await SqliteDocumentStore().regex_search(regex, 1, Chunk)


async def test_a_pattern_that_is_too_long_or_repeats_too_much_is_not_tried() -> None:
    with pytest.raises(BadInput, match="at most 1000 characters"):
        await SqliteDocumentStore().regex_search("a" * 1_001, 1, Chunk)
    for regex in ("(?:(?:a{1000}){1000}){1000}", "(?:a{2,1000}){,1000}"):
        with pytest.raises(BadInput, match="takes too long"):
            await SqliteDocumentStore().regex_search(regex, 1, Chunk)


@pytest.mark.parametrize("sizes", [(100_000,), (10_000,) * 5])
async def test_a_pattern_that_never_ends_ends_and_holds_nobody_meanwhile(sizes: tuple[int, ...]) -> None:
    async with SqliteDocumentStore(regex_seconds=0.3) as store:
        for number, size in enumerate(sizes):
            await store.put(*document(f"long {number}", {"": "a" * size + "!"}, size=1_000_001))
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
        assert ticks > 3
        assert (await store.info()).documents == len(sizes)
