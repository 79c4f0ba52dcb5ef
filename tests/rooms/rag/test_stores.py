"""What every store of documents does: what is put is found by words, meaning and pattern, until it is removed."""

from dataclasses import replace
from typing import Literal
from unicodedata import normalize

import pytest

from goalport.base.errors import BadInput, StoreError
from goalport.knowledge.documents import Chunk, ContentRoot, LeafSection, NavigableDocument
from goalport.knowledge.rag import (
    DocumentIndex,
    DocumentStore,
    ExpansionMethod,
    HybridSearch,
    RegexSearchOperations,
    ResultExpander,
    SectionReader,
    SqliteDocumentStore,
    TextSearch,
    TextSimilaritySearchRequest,
    UriPrefix,
    VectorSearch,
    supports,
)
from tests.rooms.rag.toy_documents import document

GARDEN = document(
    "file:///garden.md",
    {
        "Roses": "Roses are pruned in early spring. The shears are sharp. Error ERR-1234 means a broken blade.",
        "Tomatoes": "Tomatoes want warm soil and water each day. Pruning the side shoots helps them.",
    },
    title="The garden",
    metadata={"topic": "plants", "year": 2024},
)
KITCHEN = document(
    "file:///kitchen.md",
    {"Knives": "A knife is sharpened on a whetstone. " * 12, "Pots": "Cast iron pots rust. Café au lait stains them."},
    title="The kitchen",
    metadata={"topic": "tools", "year": 2020},
)

NONE: set[str] = set()


def asked(query: str, **limits: object) -> TextSimilaritySearchRequest:
    return TextSimilaritySearchRequest(query=query, **limits)  # pyright: ignore[reportArgumentType]


async def filled(store: DocumentIndex) -> DocumentIndex:
    for made, chunks in (GARDEN, KITCHEN):
        await store.put(made, chunks, content_hash=f"hash of {made.title}")
    return store


async def found(store: TextSearch, query: str, **limits: object) -> list[tuple[str, str]]:
    results = await store.text_search(asked(query, **limits), Chunk)
    assert all(0 <= each.score <= 1 for each in results)
    assert [each.score for each in results] == sorted((each.score for each in results), reverse=True)
    return [(each.match.path[-1], each.match.uri) for each in results]


@pytest.mark.parametrize(
    "text", ["Plain words about tea.", "\uff26ull width tea, in 東京都の茶", "Tea in NFD: Cafe\u0301"]
)
@pytest.mark.parametrize("read", [None, "What stood there before it was transformed: tea."])
async def test_a_chunk_comes_back_as_it_was_put(store: DocumentIndex, text: str, read: str | None) -> None:
    made, (chunk,) = document("file:///tea.md", {"Tea": text}, metadata={"topic": "tea"})
    put = replace(chunk, urtext=text if read is None else read, metadata={"pages": [1, 2]})
    await store.put(made, [put])
    (back,) = await store.text_search(asked("tea"), Chunk)
    assert replace(back.match, metadata=put.metadata) == put
    assert back.match.metadata == {"topic": "tea", "pages": [1, 2]}


async def sections(store: TextSearch, query: str, **limits: object) -> set[str]:
    return {section for section, _ in await found(store, query, **limits)}


async def uris(store: TextSearch, query: str) -> set[str]:
    return {uri for _, uri in await found(store, query)}


def test_a_store_does_all_that_can_be_searched() -> None:
    store = SqliteDocumentStore()
    for protocol in (TextSearch, RegexSearchOperations, ResultExpander, SectionReader):
        assert supports(store, protocol)
    assert isinstance(store, DocumentStore)
    assert not supports(store, VectorSearch)
    assert not supports(store, HybridSearch)


async def test_words_are_found_in_any_of_their_forms(store: DocumentIndex) -> None:
    await filled(store)
    assert (await found(store, "prune"))[0][1] == "file:///garden.md"
    assert await sections(store, "prune") == {"Roses", "Tomatoes"}
    assert await sections(store, "sharpening") == {"Knives"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("+prune +tomatoes", {"Tomatoes"}),
        ("prune -tomatoes", {"Roses"}),
        ("prune AND roses", {"Roses"}),
        ("prune NOT roses", {"Tomatoes"}),
        ('"early spring"', {"Roses"}),
        ('"spring early"', NONE),
        ('"pruned spring"~2', {"Roses"}),
        ("tomat*", {"Tomatoes"}),
        ("whetstnoe~", {"Knives"}),
        ("+whetston~ +sharpenned~2", {"Knives"}),
        ("whtstnoe~", NONE),
        ("(roses OR pots) AND rust", {"Pots"}),
        ("cafe", {"Pots"}),
        ("cafe\u0301", {"Pots"}),
        ("CAFÉ", {"Pots"}),
        ("-prune", NONE),
        ("the", {"Roses", "Tomatoes", "Knives", "Pots"}),
        ("wombat", NONE),
    ],
)
async def test_the_query_language_says_what_has_to_be_there(
    store: DocumentIndex, query: str, expected: set[str]
) -> None:
    await filled(store)
    assert await sections(store, query) == expected


@pytest.mark.parametrize(
    "query", ["GRÖSSE", "größe", "grosse", "GRÖẞE", '"grösse der"', "gröss*", "größte~", "ΛΌΓΟΣ", "λόγος"]
)
async def test_letters_that_are_others_in_capitals_are_found(store: DocumentIndex, query: str) -> None:
    await store.put(*document("a", {"b": "Die Größe der Straße: ὁ λόγος."}))
    (hit,) = await store.text_search(asked(query), Chunk)
    assert hit.match.text == "Die Größe der Straße: ὁ λόγος."


async def test_text_without_spaces_between_words_is_found(store: DocumentIndex) -> None:
    await store.put(*document("a", {"東京": "東京タワーは東京都港区にある。"}))
    assert await sections(store, "港区") == {"東京"}
    assert await sections(store, "区港") == set()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_a_word_is_found_however_its_letters_are_composed(
    store: DocumentIndex, form: Literal["NFC", "NFD"]
) -> None:
    for each in ("Caf\u00e9", "Cafe\u0301", "x\u030cy"):
        await store.put(*document(each, {"": f"the {each} there"}))
    cafe = normalize(form, "caf\u00e9")
    for query in (cafe, f'"the {cafe}"', f"{cafe[:-1]}*", f"{cafe}~", f"+{cafe}"):
        assert await uris(store, query) == {"Caf\u00e9", "Cafe\u0301"}, query
    assert await uris(store, "x\u030cy") == {"x\u030cy"}
    for pattern in (rf"(?i)\b{cafe}\b", normalize(form, "Caf\u00e9")):
        matched = await store.regex_search(pattern, 10, Chunk)
        assert [each.match.text for each in matched] == ["the Caf\u00e9 there", "the Cafe\u0301 there"]


async def test_emojis_are_words(store: DocumentIndex) -> None:
    await store.put(*document("party", {"": "What a party🎉, she said"}, title="Fun"))
    await store.put(*document("love", {"": "With ❤️ and 👍🏽"}))
    await store.put(*document("none", {"": "Nothing of the kind"}, title="🎉"))
    assert await uris(store, "🎉") == {"party", "none"}
    assert await uris(store, "+party🎉 -❤️") == {"party"}
    assert await uris(store, '"party 🎉 she"') == {"party"}
    for query in ("❤️", "❤", "👍", "👍🏽", "👍*"):
        assert await uris(store, query) == {"love"}, query
    (hit,) = await store.text_search(asked("❤"), Chunk)
    assert hit.match.text == "With ❤️ and 👍🏽"


async def test_a_question_without_spaces_finds_what_has_some_of_its_words(store: DocumentIndex) -> None:
    texts = {
        "休暇": "従業員は年間二十日の有給休暇を取得できる。",
        "本社": "本社は大阪にあります。",
        "Tea": "NHK",
    }
    await store.put(*document("a", texts))
    assert (await found(store, "有給休暇は何日ですか"))[0][0] == "休暇"
    assert await sections(store, "NHKの放送") == {"Tea"}
    assert await sections(store, "+有給休暇は何日") == set()


async def test_the_titles_above_a_text_count(store: DocumentIndex) -> None:
    await filled(store)
    assert (await found(store, "kitchen"))[0][1] == "file:///kitchen.md"


async def test_rare_words_count_more_and_common_ones_are_still_found(store: DocumentIndex) -> None:
    texts = {str(number): f"common thing {number}" for number in range(2_400)}
    await store.put(*document("many", {**texts, "rare": "common wombat", "plain": "thing wombat"}))
    best = await found(store, "common wombat thing", top_k=50)
    assert {section for section, _ in best[:2]} == {"rare", "plain"}
    assert len(best) == 50
    assert len(await found(store, "common wombat", filter=UriPrefix("man"), top_k=5)) == 5
    assert await sections(store, "+wombat common") == {"rare", "plain"}


async def test_results_are_limited_by_number_and_score(store: DocumentIndex) -> None:
    await filled(store)
    assert len(await found(store, "prune", top_k=1)) == 1
    assert await found(store, "prune wombat whisky", similarity_threshold=0.9) == []


async def test_chunks_are_found_by_meaning_and_by_both(store: DocumentIndex) -> None:
    await filled(store)
    near = await store.vector_search(asked("warm soil and water", top_k=2), Chunk)
    assert near[0].match.path[-1] == "Tomatoes"
    assert 0 <= near[1].score < near[0].score <= 1
    both = await store.hybrid_search(asked("warm soil and water", top_k=2), Chunk)
    assert both[0].match.path[-1] == "Tomatoes"
    assert both[0].score == pytest.approx(1)


async def test_a_pattern_finds_what_has_a_fixed_shape(store: DocumentIndex) -> None:
    await filled(store)
    (hit,) = await store.regex_search(r"ERR-\d{4}", 5, Chunk)
    assert (hit.match.path[-1], hit.score) == ("Roses", 1.0)
    assert len(await store.regex_search("(?i)KNIFE", 1, Chunk)) == 1
    assert await store.regex_search("wombat", 5, Chunk) == []
    with pytest.raises(BadInput, match="no regular expression"):
        await store.regex_search("(", 5, Chunk)


async def test_a_result_is_shown_with_what_is_around_it(store: DocumentIndex) -> None:
    await filled(store)
    chunks = KITCHEN[1]
    near = await store.expand_result(chunks[1].id, ExpansionMethod.SEQUENCE, 1)
    assert near == [chunks[0], chunks[1], chunks[2]]
    (section,) = await store.expand_result(chunks[1].id, ExpansionMethod.ZOOM_OUT, 1)
    assert section == KITCHEN[0].children[0]
    (root,) = await store.expand_result(section.id, ExpansionMethod.ZOOM_OUT, 1)
    assert isinstance(root, ContentRoot)
    assert await store.expand_result("wombat", ExpansionMethod.SEQUENCE, 1) == []
    assert await store.expand_result("wombat", ExpansionMethod.ZOOM_OUT, 1) == []


async def test_what_was_put_is_found_again_by_id(store: DocumentIndex) -> None:
    await filled(store)
    made, chunks = GARDEN
    assert await store.find_by_id(chunks[0].id, Chunk) == chunks[0]
    assert await store.find_by_id(made.children[0].id, LeafSection) == made.children[0]
    assert await store.find_by_id(made.id, NavigableDocument) == made
    assert await store.find_by_id(made.id, Chunk) is None


async def test_documents_and_sections_are_listed_and_read(store: DocumentIndex) -> None:
    await filled(store)
    assert [each.uri for each in await store.list_documents()] == ["file:///garden.md", "file:///kitchen.md"]
    assert [each.uri for each in await store.list_documents(after="file:///garden.md")] == ["file:///kitchen.md"]
    outline = await store.list_sections("file:///garden.md")
    assert [each.path for each in outline] == [("The garden", "Roses"), ("The garden", "Tomatoes")]
    read = await store.read_section(outline[1].id)
    assert read is not None
    assert (read.uri, read.leaves) == ("file:///garden.md", (GARDEN[0].children[1],))
    whole = await store.read_section(GARDEN[0].id)
    assert whole is not None
    assert whole.leaves == GARDEN[0].children
    assert await store.read_section("wombat") is None
    assert await store.list_sections("wombat") == []


async def test_a_document_is_replaced_and_removed_as_a_whole(store: DocumentIndex) -> None:
    await filled(store)
    known = await store.document("file:///garden.md")
    assert known is not None
    assert (known.content_hash, known.chunks) == ("hash of The garden", len(GARDEN[1]))
    changed = document("file:///garden.md", {"Hedges": "Hedges are clipped."})
    await store.put(*changed)
    assert await sections(store, "roses prune hedge") == {"Hedges"}
    assert await store.regex_search("ERR", 5, Chunk) == []
    assert {each.match.uri for each in await store.vector_search(asked("prune"), Chunk)} == {
        "file:///garden.md",
        "file:///kitchen.md",
    }
    assert await store.remove("file:///garden.md")
    assert not await store.remove("file:///garden.md")
    assert await store.document("file:///garden.md") is None
    assert await store.find_by_id(changed[0].id, ContentRoot) is None
    assert {each.match.uri for each in await store.vector_search(asked("prune"), Chunk)} == {"file:///kitchen.md"}
    assert (await store.info()).chunks == (await store.info()).vectors == len(KITCHEN[1])


async def test_two_chunks_with_one_id_are_refused_and_nothing_is_written(store: DocumentIndex) -> None:
    await filled(store)
    made, chunks = document("file:///twice.md", {"a": "once"})
    with pytest.raises(StoreError, match="same id"):
        await store.put(made, (*chunks, *chunks))
    assert await store.document("file:///twice.md") is None
    assert await sections(store, "once") == set()


async def test_a_type_that_is_not_searched_is_refused(store: DocumentIndex) -> None:
    with pytest.raises(TypeError, match="is searched"):
        await store.text_search(asked("a"), LeafSection)


async def test_a_request_with_limits_that_make_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="top_k"):
        asked("a", top_k=0)
    with pytest.raises(ValueError, match="threshold"):
        asked("a", similarity_threshold=2.0)


async def test_characters_that_a_database_cannot_keep_fail_no_document(store: DocumentIndex) -> None:
    text = {"b\ud800\x00": "roses \ud800 \x00 red"}
    await store.put(*document("a", text, metadata={"kind": "a\x00b", "half": ["\ud800"]}))
    assert [uri for _, uri in await found(store, "red\x00 \ud800")] == ["a"]
    (hit,) = await store.text_search(asked("red", filter=UriPrefix("a")), Chunk)
    assert len(hit.match.text) == len("roses ? ? red")
    assert await store.find_by_id("\x00\ud800", Chunk) is None
    assert await store.list_sections("\x00\ud800") == []
