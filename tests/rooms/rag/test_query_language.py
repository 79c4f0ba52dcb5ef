"""Whatever a person or a model writes as a query: it never fails, and never becomes syntax of a database."""

import pytest
from hypothesis import example, given, settings, strategies as st

from goalport.knowledge.documents import Chunk
from goalport.knowledge.rag import SqliteDocumentStore, TextSimilaritySearchRequest
from goalport.knowledge.rag.query import Group, Term, indexed, parse
from tests.rooms.rag.toy_documents import document

PIECES = st.one_of(
    st.sampled_from("a+-\"()*~^2{}:,;é東😀\\%_! '\x00\ud800"),
    st.sampled_from(["rose", "AND", "OR", "NOT", "NEAR(", "title:", "--", "e\u0301", "rowid", "MATCH", "&&", "||"]),
)
QUERIES = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join))


def prefix(text: str) -> Group:
    return Group(optional=(Term((text,), prefix=True),))


def words(*texts: str) -> tuple[Term, ...]:
    return tuple(Term((each,)) for each in texts)


BEGINNING = Group(optional=(Term(("gardene",), prefix=True), *words("garden", "garde", "gard")))


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("roses red", Group(optional=words("roses", "red"))),
        ("+roses -red", Group(words("roses"), (), words("red"))),
        ('"red roses" ros*', Group(optional=(Term(("red", "roses")), prefix("ros")))),
        ("gardene*", Group(optional=(BEGINNING,))),
        ("a AND (b OR c) NOT d", Group((*words("a"), Group(optional=words("b", "c"))), (), words("d"))),
        ("a (-b) ((c))", Group((), (*words("a"), Group(optional=(Group(optional=words("c")),))), words("b"))),
        ('foo"bar', Group(optional=words("foo", "bar"))),
        ("-semi-detached", Group(prohibited=(Term(("semi", "detached")),))),
        ("title:roses^2", Group(optional=words("title", "roses"))),
        ('+ - * ~ AND ( "', Group()),
        ("gardener's", Group(optional=words("gardener"))),
        ("東京 tower", Group(optional=words("東京", "tower"))),
        ("東京都", Group(optional=words("東京", "京都"))),
        ("NHK局 a", Group(optional=words("NHK", "局", "a"))),
        ('+東京都 -港区内 "東京都"', Group(words("東京都"), words("東京都"), words("港区内"))),
        ("“red roses”~3", Group(optional=(Group(required=words("red", "roses")),))),
    ],
)
def test_a_query_is_read_as_people_mean_it(query: str, tree: Group) -> None:
    assert parse(query) == tree


@given(QUERIES)
def test_every_query_is_a_small_tree_of_words(query: str) -> None:
    for term in parse(query).terms():
        assert all(indexed(word).replace(" ", "").isalnum() for word in term.words)


def test_a_long_query_counts_as_far_as_it_is_read() -> None:
    assert len(list(parse(" ".join(f"word{number}" for number in range(2_000))).terms())) <= 48
    assert len(list(parse("(" * 3_000 + "a").terms())) == 1
    assert len(list(parse("x" * 10_000).terms())) == 1
    assert len(list(parse("".join(map(chr, range(0x4E00, 0x4F00)))).terms())) <= 48


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def shelf() -> SqliteDocumentStore:
    store = SqliteDocumentStore()
    texts = {"Roses": "A red rose is a rose. " * 20, "Towers": "東京タワー 😀 é and a title"}
    await store.put(*document("a", texts))
    return store


@pytest.mark.parametrize(
    "query", ['foo"bar', "a AND", "NEAR(", "title:x", "*", '"', "-x", "a OR OR b", "\x00a", "^a", "{a}:b"]
)
async def test_what_is_syntax_of_the_database_is_none_here(shelf: SqliteDocumentStore, query: str) -> None:
    await shelf.text_search(TextSimilaritySearchRequest(query=query), Chunk)


@settings(max_examples=300)
@given(QUERIES)
@example("rose " * 2_000)
@example('(((rose) AND -x*) OR y~2) NOT "a b"~9')
async def test_no_query_fails(shelf: SqliteDocumentStore, query: str) -> None:
    results = await shelf.text_search(TextSimilaritySearchRequest(query=query, top_k=3), Chunk)
    assert all(0 <= each.score <= 1 for each in results)


@settings(max_examples=150)
@given(st.lists(st.sampled_from(["red", "rose", "title", "tower", "wombat"]), min_size=1, max_size=3), QUERIES)
async def test_a_required_word_is_in_every_result(shelf: SqliteDocumentStore, words: list[str], rest: str) -> None:
    query = " ".join(f"+{word}" for word in words)
    results = await shelf.text_search(TextSimilaritySearchRequest(query=query), Chunk)
    found = [f"{' '.join(each.match.path)} {each.match.text}".lower() for each in results]
    assert all(word in text for word in words for text in found)
