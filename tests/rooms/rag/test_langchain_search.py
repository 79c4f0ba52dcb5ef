"""`LangChainVectorSearch` over a small store with the interface of LangChain; `tests/clients` has real ones."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from goalport.base.caller import Caller
from goalport.knowledge.documents import Chunk, LeafSection
from goalport.knowledge.rag import (
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Containing,
    Equal,
    Filter,
    LangChainVectorSearch,
    Not,
    OneOf,
    TextSimilaritySearchRequest,
    ToolishRag,
    UriPrefix,
    chroma_filter,
)
from tests.rooms.rag.toy_documents import document

ADA, BOB = Caller("ada", scopes=frozenset({"law", "kitchen"})), Caller("bob")


@dataclass
class Shelf:
    """Texts with metadata, each as near to every query as its place says: the first is the nearest."""

    texts: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    asked: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list[tuple[int, Mapping[str, Any]]])

    async def aadd_texts(self, texts: list[str], metadatas: list[dict[str, Any]] | None = None, **more: Any) -> Any:
        self.texts += zip(texts, metadatas or [], strict=True)

    async def _asimilarity_search_with_relevance_scores(self, query: str, k: int = 4, **more: Any) -> Any:
        self.asked.append((k, more))
        found = [SimpleNamespace(id=None, page_content=text, metadata=known) for text, known in self.texts[:k]]
        return [(each, 1.1 - 0.1 * place) for place, each in enumerate(found)]


TEXTS = [
    ("one", {"source": "https://a/1", "team": "law", "pages": 3, "tags": ["old"], "draft": True}),
    ("two", {"source": "https://a/2", "team": "kitchen", "pages": 2.5}),
    ("three", {"source": "file:///b/3", "pages": "3"}),
]


async def found(search: LangChainVectorSearch, **request: Any) -> list[str]:
    wanted = TextSimilaritySearchRequest(query="any", **request)
    return [each.match.text for each in await search.vector_search(wanted, Chunk)]


@pytest.mark.parametrize(
    ("wanted", "texts", "said"),
    [
        (Equal("team", "law"), ["one"], {"team": {"$eq": "law"}}),
        (OneOf("team", ("law", "x")), ["one"], {"$or": [{"team": {"$eq": "law"}}, {"team": {"$eq": "x"}}]}),
        (OneOf("team", ("kitchen",)), ["two"], {"team": {"$eq": "kitchen"}}),
        (AtLeast("pages", 2.7), ["one"], {"pages": {"$gte": 2.7}}),
        (
            AllOf((AtMost("pages", 3), Equal("draft", True), UriPrefix("https:"))),
            ["one"],
            {"$and": [{"pages": {"$lte": 3}}, {"draft": {"$eq": True}}]},
        ),
        (AllOf((Not(Equal("team", "law")), AllOf((AtMost("pages", 3),)))), ["two"], {"pages": {"$lte": 3}}),
        (AnyOf((Equal("team", "law"), UriPrefix("file:"))), ["one", "three"], None),
        (Equal("pages", 2.5), ["two"], None),
        (AtLeast("pages", "2"), ["three"], None),
        (Containing("tags", "old"), ["one"], None),
        (Containing("team", "itch"), ["two"], None),
        (Equal("a.b", 1), [], None),
        (Not(AnyOf(())), ["one", "two", "three"], None),
        (AnyOf(()), [], None),
    ],
)
async def test_a_filter_holds_of_all_results_whatever_the_store_makes_of_it(
    wanted: Filter, texts: list[str], said: object
) -> None:
    shelf = Shelf(TEXTS)
    assert await found(LangChainVectorSearch(shelf, translate=chroma_filter), filter=wanted) == texts
    assert shelf.asked == [(10, {"filter": said} if said else {})]
    assert await found(LangChainVectorSearch(shelf), filter=wanted) == texts


async def test_each_caller_finds_what_is_readable_and_the_filter_leaves_in() -> None:
    shelf = Shelf(TEXTS)
    search = LangChainVectorSearch(shelf, readable=lambda caller: OneOf("team", tuple(caller.scopes)))
    assert await found(search, caller=ADA) == ["one", "two"]
    assert await found(search, caller=ADA, filter=UriPrefix("https://a/2")) == ["two"]
    shelf.asked.clear()
    assert await found(search, caller=BOB) == []
    assert shelf.asked == []

    rag = ToolishRag("shelf", "A shelf", search, caller=ADA)
    assert [each.name for each in rag.tools()] == ["vectorSearch"]
    (tool,) = rag.tools()
    text = (await tool.call({"query": "any", "topK": 5, "threshold": 0.95})).text
    assert "2 results" in text
    assert 'source="https://a/1"' in text


async def test_more_is_asked_for_until_enough_fits_and_the_end_is_said(caplog: pytest.LogCaptureFixture) -> None:
    rare = [("no", {"n": 0})] * 250 + [("yes", {"n": 1})] * 2
    shelf = Shelf(rare)
    search = LangChainVectorSearch(shelf)
    assert await found(search, filter=Equal("n", 1), top_k=2) == ["yes", "yes"]
    assert [count for count, _ in shelf.asked] == [2, 20, 200, 2000]
    assert await found(search, top_k=1) == ["no"]

    endless = LangChainVectorSearch(Shelf([("no", {"n": 0})] * 10_001))
    with caplog.at_level(logging.WARNING):
        assert await found(endless, filter=Equal("n", 1), top_k=1) == []
    assert "Only the 10000 nearest texts" in caplog.text


async def test_scores_lie_between_0_and_1_and_the_least_one_counts() -> None:
    search = LangChainVectorSearch(Shelf(TEXTS))
    request = TextSimilaritySearchRequest(query="any", similarity_threshold=0.95)
    results: Sequence[Any] = await search.vector_search(request, Chunk)
    assert [(each.match.text, round(each.score, 2)) for each in results] == [("one", 1.0), ("two", 1.0)]
    assert await search.vector_search(request, LeafSection) == ()
    bare = Shelf([("no place", {})] * 13)
    results = await LangChainVectorSearch(bare).vector_search(TextSimilaritySearchRequest(query="any", top_k=13), Chunk)
    assert [(each.match.uri, each.match.path, each.score) for each in results[12:]] == [("", (), 0.0)]


async def test_a_chunk_comes_back_as_it_was_stored_and_a_strangers_text_with_what_is_known() -> None:
    metadata: dict[str, Any] = {"language": "en", "tags": ["a"], "team": "spoofed"}
    _, chunks = document("file:///garden.md", {"Roses": "Roses are red.", "Pots": "Clay."}, metadata=metadata)
    shelf = Shelf()
    search = LangChainVectorSearch(shelf)
    await search.add(chunks, {"team": "garden"})
    results = await search.vector_search(TextSimilaritySearchRequest(query="any"), Chunk)
    for chunk, result in zip(chunks, results, strict=True):
        back = result.match
        kept = {"language": "en", "team": "garden", "source": chunk.uri, "title": " > ".join(chunk.path)}
        assert back.metadata == kept
        assert all(getattr(back, name) == getattr(chunk, name) for name in _names(chunk) if name != "metadata")

    shelf.texts = [("Some words", {"source": "https://a/1", "title": "One", "start_index": 12.0, "page": 3})]
    (result,) = await search.vector_search(TextSimilaritySearchRequest(query="any"), Chunk)
    stranger = result.match
    assert (stranger.uri, stranger.path, stranger.start, stranger.end) == ("https://a/1", ("One",), 12, 22)
    assert stranger.metadata["page"] == 3


def _names(chunk: Chunk) -> list[str]:
    return list(cast("Any", chunk).__dataclass_fields__)


def test_what_a_store_is_not_to_be_told_is_refused() -> None:
    with pytest.raises(TypeError, match="Expected comparisons"):
        chroma_filter(UriPrefix("https:"))
