"""Filters and rights to read hold in the store: nothing leaks, and results are not fewer for what is left out."""

from dataclasses import replace

import pytest

from goalport.base.caller import ANONYMOUS, Caller
from goalport.knowledge.documents import Chunk, ContainerSection, ContentElement, NavigableDocument
from goalport.knowledge.rag import (
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Containing,
    DocumentIndex,
    Equal,
    ExpansionMethod,
    Filter,
    Not,
    OneOf,
    SearchLimits,
    TextSimilaritySearchRequest,
    UriPrefix,
)
from tests.rooms.rag.toy_documents import document

NONE: set[str] = set()
ADA, BOB = Caller("ada", "here"), Caller("bob", "here")
FOR_ADA, FOR_BOB = SearchLimits(caller=ADA), SearchLimits(caller=BOB)
OTHER_ADA = Caller("ada", "elsewhere")
STAFF = Caller("eve", "here", frozenset({"staff"}))


async def with_secrets(store: DocumentIndex) -> NavigableDocument:
    secret, chunks = document("secret.md", {"Plan": "The secret plan about roses."})
    await store.put(secret, chunks, readers=[ADA, "staff"])
    for number in range(20):
        await store.put(*document(f"{number}.md", {"Roses": f"Roses are red, says {number}. Roses, roses!"}))
    return secret


async def searched(store: DocumentIndex, caller: Caller, top_k: int = 3) -> list[set[str]]:
    request = TextSimilaritySearchRequest(query="secret plan roses", top_k=top_k, caller=caller)
    results = [
        await store.text_search(request, Chunk),
        await store.vector_search(request, Chunk),
        await store.hybrid_search(request, Chunk),
        await store.regex_search("(?i)roses", top_k, Chunk, request),
    ]
    return [{each.match.uri for each in found} for found in results]


@pytest.mark.parametrize("caller", [ADA, STAFF])
async def test_those_who_are_named_and_those_with_a_scope_find_it(store: DocumentIndex, caller: Caller) -> None:
    await with_secrets(store)
    assert all("secret.md" in found for found in await searched(store, caller))


@pytest.mark.parametrize("caller", [ANONYMOUS, BOB, OTHER_ADA])
async def test_others_find_as_much_as_if_it_were_not_there(store: DocumentIndex, caller: Caller) -> None:
    await with_secrets(store)
    for found in await searched(store, caller):
        assert len(found) == 3
        assert "secret.md" not in found


async def test_what_may_not_be_read_is_not_there_in_any_other_way(store: DocumentIndex) -> None:
    secret = await with_secrets(store)
    section, chunk = secret.children[0].id, document("secret.md", {"Plan": "x"})[1][0].id
    for element in (secret.id, section, chunk):
        assert await store.find_by_id(element, ContentElement, FOR_ADA) is not None
        assert await store.find_by_id(element, ContentElement, FOR_BOB) is None
        assert await store.read_section(element, FOR_BOB) is None
        for method in ExpansionMethod:
            assert await store.expand_result(element, method, 3, FOR_BOB) == []
    assert await store.list_sections("secret.md", FOR_BOB) == []
    assert len(await store.list_sections("secret.md", FOR_ADA)) == 1
    assert len(await store.list_documents(FOR_ADA)) == len(await store.list_documents(FOR_BOB)) + 1


async def test_a_document_for_nobody_is_found_by_nobody(store: DocumentIndex) -> None:
    made, chunks = document("secret.md", {"Plan": "The secret plan about roses."})
    await store.put(made, chunks, readers=[])
    assert await searched(store, ADA) == [set(), set(), set(), set()]
    await store.put(made, chunks)
    assert await searched(store, ANONYMOUS) == [{"secret.md"}] * 4


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Equal("kind", "letter"), {"a"}),
        (Equal("year", 2020), {"a"}),
        (Equal("year", "2020"), NONE),
        (Equal("draft", value=True), {"b"}),
        (OneOf("year", (2020, 2024)), {"a", "b"}),
        (OneOf("year", ()), NONE),
        (AtLeast("year", 2021), {"b"}),
        (AtMost("year", 2020.5), {"a"}),
        (AtLeast("day", "2024-02-01"), {"b"}),
        (Containing("tags", "red"), {"a"}),
        (Containing("kind", "ett"), {"a"}),
        (Not(Equal("kind", "letter")), {"b", "c"}),
        (AllOf((AtLeast("year", 2000), Not(Equal("year", 2024)))), {"a"}),
        (AnyOf((Equal("kind", "letter"), Equal("draft", value=True))), {"a", "b"}),
        (AllOf(()), {"a", "b", "c"}),
        (AnyOf(()), NONE),
        (UriPrefix("b"), {"b"}),
        (Equal("kind'; drop table chunks; --", "x"), NONE),
    ],
)
async def test_filters_hold_in_every_search(store: DocumentIndex, wanted: Filter, expected: set[str]) -> None:
    await store.put(*document("a", {"": "roses"}, metadata={"kind": "letter", "year": 2020, "tags": ["red", "old"]}))
    await store.put(*document("b", {"": "roses"}, metadata={"year": 2024, "draft": True, "day": "2024-02-03"}))
    await store.put(*document("c", {"": "roses"}))
    request = TextSimilaritySearchRequest(query="roses", filter=wanted)
    assert {each.match.uri for each in await store.text_search(request, Chunk)} == expected
    assert {each.match.uri for each in await store.vector_search(request, Chunk)} == expected
    assert {each.match.uri for each in await store.hybrid_search(request, Chunk)} == expected
    assert {each.match.uri for each in await store.regex_search("roses", 9, Chunk, request)} == expected


async def test_what_a_filter_leaves_out_is_not_there_in_any_other_way(store: DocumentIndex) -> None:
    plan, chunks = document("plan.md", {"Plan": "The secret plan."}, metadata={"secret": True})
    await store.put(plan, chunks)
    await store.put(*document("roses.md", {"Roses": "Roses are red."}))
    limits = SearchLimits(filter=Not(Equal("secret", value=True)))
    for element in (plan.id, plan.children[0].id, chunks[0].id):
        assert await store.find_by_id(element, ContentElement) is not None
        assert await store.find_by_id(element, ContentElement, limits) is None
        assert await store.read_section(element, limits) is None
        for method in ExpansionMethod:
            assert await store.expand_result(element, method, 3, limits) == []
    assert await store.list_sections("plan.md", limits) == []
    assert [each.uri for each in await store.list_documents(limits)] == ["roses.md"]


def house() -> tuple[NavigableDocument, tuple[Chunk, ...]]:
    """A document with a section of two rooms and one of an attic. The cellar and half of the hall are secret."""
    made, chunks = document("house.md", {"Hall": "The hall. " * 30, "Cellar": "The cellar.", "Attic": "The attic."})
    *rooms, attic = made.children
    around = ContainerSection(
        id="rooms",
        title="Rooms",
        parent_id=made.id,
        path=("house.md", "Rooms"),
        children=tuple(replace(each, parent_id="rooms") for each in rooms),
    )
    marked = tuple(replace(each, metadata={"secret": each.number in {1, 2}}) for each in chunks)
    return replace(made, children=(around, attic)), marked


async def test_a_section_is_read_only_if_all_its_chunks_fit(store: DocumentIndex) -> None:
    made, chunks = house()
    await store.put(made, chunks)
    hall, attic = chunks[0], chunks[3]
    rooms = made.children[0]
    limits = SearchLimits(filter=Equal("secret", value=False))
    assert [each.path[-1] for each in await store.list_sections("house.md", limits)] == ["Attic"]
    assert await store.find_by_id(hall.id, Chunk, limits) == hall
    assert await store.expand_result(hall.id, ExpansionMethod.ZOOM_OUT, 1, limits) == []
    assert await store.expand_result(attic.id, ExpansionMethod.SEQUENCE, 3, limits) == [hall, attic]
    assert await store.expand_result(chunks[1].id, ExpansionMethod.SEQUENCE, 3, limits) == []
    assert await store.find_by_id(rooms.id, ContentElement, limits) is None
    read = await store.find_by_id(made.id, NavigableDocument, limits)
    assert read is not None
    assert read.children == made.children[1:]


async def test_a_section_that_holds_others_has_those_that_are_left_in(store: DocumentIndex) -> None:
    made, chunks = house()
    await store.put(made, chunks)
    rooms = made.children[0]
    assert isinstance(rooms, ContainerSection)
    limits = SearchLimits(filter=Equal("secret", value=True))
    cellar = rooms.children[1]
    found = await store.find_by_id(rooms.id, ContainerSection, limits)
    assert found == replace(rooms, children=(cellar,))
    assert await store.expand_result(cellar.id, ExpansionMethod.ZOOM_OUT, 1, limits) == [found]
    outline = await store.list_sections(made.id, limits)
    assert [(each.path[-1], each.characters) for each in outline] == [("Rooms", 0), ("Cellar", 11)]
    text = await store.read_section(made.id, limits)
    assert text is not None
    assert text.leaves == (cellar,)


def test_a_key_that_no_database_could_quote_is_refused() -> None:
    with pytest.raises(ValueError, match="quotation marks"):
        Equal('a"b', 1)
