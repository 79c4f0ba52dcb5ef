"""Search by questions that nobody here wrote: the FAQs of five projects, over the pages of their documentation.

A heading of an FAQ is a question, and the pages that its answer links to are what a search should find; the FAQ itself
is not searched. Three projects may be looked at while search is worked on, two only for the figures of a release.
Every search reads the same chunks, and those by meaning the same vectors. `benchmarks/peers/prepare` brings the
documentation, as Debian packages it, and the peers.
"""

import asyncio
import re
import site
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias
from urllib.parse import urldefrag

from benchmarks.knowledge import word_table
from benchmarks.report import Table
from benchmarks.servers import BENCHMARKS
from goalport.knowledge.documents import Chunk, Chunker, NavigableDocument, read_html
from goalport.knowledge.rag import SimilarityResult, SqliteDocumentStore, TableEmbeddings, TextSimilaritySearchRequest
from goalport.models.llm import EmbeddingService

_PEERS = BENCHMARKS / "peers"
_OPEN = {
    "Python": "python3.11-doc/usr/share/doc/python3.11/html",
    "Django": "python-django-doc/usr/share/doc/python-django-doc/html",
    "SQLAlchemy": "python-sqlalchemy-doc/usr/share/doc/python-sqlalchemy-doc/html",
}
_HELD_OUT = {
    "Scrapy": "python-scrapy-doc/usr/share/doc/python-scrapy-doc/html",
    "Celery": "python-celery-doc/usr/share/doc/python-celery-doc/html",
}
_NO_TEXT = ("_modules", "_sources", "_static", "faq", "genindex", "py-modindex", "search", "contents")
"""How the names of pages begin that list others, are source code, or hold the questions themselves."""
_FOUND, _CUT = 10, 5
"""How many chunks a search gives, and how many of them count for recall."""

_Search: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""From a question to the pages of the chunks found, best first."""


@dataclass(frozen=True)
class _Corpus:
    documents: Sequence[tuple[NavigableDocument, Sequence[Chunk]]]
    questions: Sequence[tuple[str, frozenset[str]]]
    """Each with the pages that answer it."""
    embeddings: EmbeddingService
    """Gives a text the same vector again without computing it anew: searches are timed without it."""

    @property
    def chunks(self) -> list[Chunk]:
        return [chunk for _, chunks in self.documents for chunk in chunks]


def questions(*, quick: bool = False) -> Table:
    """The table of searches by foreign questions."""
    chosen = _HELD_OUT if quick else {**_OPEN, **_HELD_OUT}
    table = Table("questions", "Searching by the questions of others", ["search", *chosen, "median"], [], _NOTES)
    folders = [_PEERS / ".docs" / place for place in chosen.values()]
    for each in (_PEERS / ".venv").glob("lib/python*/site-packages"):
        site.addsitedir(str(each))
    vectors = word_table()
    if vectors is None or not all(each.is_dir() for each in folders):
        missing = "Not measured: `benchmarks/peers/prepare` had no Debian packages of documentation, or no peers."
        return Table(table.name, table.title, table.columns, [], [missing])
    scores: dict[str, list[str]] = {}
    times: dict[str, list[float]] = {}
    sizes: list[str] = []
    for name, folder in zip(chosen, folders, strict=True):
        corpus = _read(folder, vectors)
        pages, chunks = len(corpus.documents), len(corpus.chunks)
        sizes.append(f"{name} {len(corpus.questions)} questions, {pages} pages, {chunks:,} chunks")
        for search, score, took in asyncio.run(_measured(corpus)):
            scores.setdefault(search, []).append(score)
            times.setdefault(search, []).append(took)
    rows = [[search, *each, f"{median(times[search]):.1f} ms"] for search, each in scores.items()]
    return Table(table.name, table.title, table.columns, rows, [*_NOTES, f"{'; '.join(sizes)}."])


_NOTES = (
    (
        f"Recall@{_CUT}, and in parentheses the mean of 1 / rank of the first right page among {_FOUND} chunks. A page "
        "is right if the FAQ's own answer links to it. Nothing was ever chosen by looking at "
        f"{' and '.join(_HELD_OUT)}."
    ),
    "All searches read goalport's chunks, and vectors of the package wordllama, whose making is not in the times.",
)


def _read(folder: Path, embeddings: EmbeddingService) -> _Corpus:
    documents: list[tuple[NavigableDocument, Sequence[Chunk]]] = []
    for page in sorted(folder.rglob("*.html")):
        name = page.relative_to(folder).as_posix()
        if not name.startswith(_NO_TEXT):
            document = read_html(page.read_text(encoding="utf-8"), name)
            documents.append((document, Chunker().split(document)))
    pages = frozenset(document.uri for document, _ in documents)
    faqs = sorted([*folder.glob("faq/*.html"), *folder.glob("faq.html")])
    asked = [(text, answers & pages) for faq in faqs for text, answers in _asked(faq, folder.resolve())]
    known: dict[str, list[float]] = {}

    def remembered(texts: Sequence[str]) -> list[list[float]]:
        new = list(dict.fromkeys(each for each in texts if each not in known))
        known.update(zip(new, asyncio.run(embeddings.embed(new)), strict=True))
        return [known[each] for each in texts]

    table = TableEmbeddings(embeddings.name, remembered, embeddings.dimensions)
    return _Corpus(documents, [(text, answers) for text, answers in asked if answers], table)


def _asked(faq: Path, folder: Path) -> Iterator[tuple[str, frozenset[str]]]:
    """The innermost sections of a page: heading, and the pages of the same documentation that the text links to."""
    from selectolax.lexbor import LexborHTMLParser

    for section in LexborHTMLParser(faq.read_text(encoding="utf-8")).css("section, div.section"):
        heading = section.css_first("h1, h2, h3, h4")
        if heading is None or len(section.css("section, div.section")) > 1:
            continue
        links = [urldefrag(each.attributes.get("href") or "").url for each in section.css("a.reference.internal")]
        targets = [(faq.parent / link).resolve() for link in links if link and ":" not in link]
        inside = [each.relative_to(folder).as_posix() for each in targets if each.is_relative_to(folder)]
        yield heading.text().replace("¶", "").strip(), frozenset(inside)


async def _measured(corpus: _Corpus) -> list[tuple[str, str, float]]:
    """For each search its name, its score, and the median of its milliseconds."""
    found: list[tuple[str, str, float]] = []
    async with SqliteDocumentStore(embeddings=corpus.embeddings) as store:
        for document, chunks in corpus.documents:
            await store.put(document, chunks)
        searches = {
            "goalport, words": _pages(store.text_search),
            "goalport, vectors": _pages(store.vector_search),
            "goalport, both": _pages(store.hybrid_search),
        }
        with tempfile.TemporaryDirectory() as place:
            for peer in (_bm25s, _tantivy, _sqlite):
                searches |= peer(corpus)
            searches |= await _lancedb(corpus, Path(place))
            for name, search in searches.items():
                await search("brings what it needs into memory")
                found.append((name, *await _score(search, corpus)))
    return found


async def _score(search: _Search, corpus: _Corpus) -> tuple[str, float]:
    ranks: list[int] = []
    times: list[float] = []
    for question, answers in corpus.questions:
        began = time.perf_counter()
        pages = await search(question)
        times.append(time.perf_counter() - began)
        ranks.append(next((rank for rank, page in enumerate(pages, 1) if page in answers), 0))
    recall = sum(0 < rank <= _CUT for rank in ranks) / len(ranks)
    return f"{recall:.2f} ({sum(1 / rank for rank in ranks if rank) / len(ranks):.3f})", median(times) * 1e3


def _pages(
    search: Callable[[TextSimilaritySearchRequest, type[Chunk]], Awaitable[Sequence[SimilarityResult[Chunk]]]],
) -> _Search:
    async def found(question: str) -> list[str]:
        request = TextSimilaritySearchRequest(query=question, top_k=_FOUND)
        return [each.match.uri for each in await search(request, Chunk)]

    return found


def _bm25s(corpus: _Corpus) -> dict[str, _Search]:
    bm25s: Any = import_module("bm25s")
    stemmer = import_module("Stemmer").Stemmer("english")
    chunks = corpus.chunks
    index = bm25s.BM25()
    index.index(
        bm25s.tokenize([each.text for each in chunks], stopwords="en", stemmer=stemmer, show_progress=False),
        show_progress=False,
    )

    async def found(question: str) -> list[str]:
        words = bm25s.tokenize(question, stopwords="en", stemmer=stemmer, show_progress=False)
        places, _ = index.retrieve(words, k=_FOUND, show_progress=False)
        return [chunks[int(place)].uri for place in places[0]]

    return {"bm25s, words": found}


def _tantivy(corpus: _Corpus) -> dict[str, _Search]:
    tantivy: Any = import_module("tantivy")
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", tokenizer_name="en_stem")
    schema.add_text_field("page", stored=True, tokenizer_name="raw")
    index = tantivy.Index(schema.build())
    writer = index.writer()
    for chunk in corpus.chunks:
        writer.add_document(tantivy.Document(text=chunk.text, page=chunk.uri))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    async def found(question: str) -> list[str]:
        query, _ = index.parse_query_lenient(" ".join(re.findall(r"\w+", question)), ["text"])
        return [searcher.doc(place)["page"][0] for _, place in searcher.search(query, _FOUND).hits]

    return {"tantivy, words": found}


def _sqlite(corpus: _Corpus) -> dict[str, _Search]:
    connection = sqlite3.connect(":memory:")
    connection.execute("create virtual table chunks using fts5(text, page unindexed, tokenize='porter unicode61')")
    connection.executemany("insert into chunks values (?, ?)", [(each.text, each.uri) for each in corpus.chunks])

    async def found(question: str) -> list[str]:
        words = " OR ".join(f'"{each}"' for each in re.findall(r"\w+", question))
        statement = "select page from chunks where chunks match ? order by rank limit ?"
        return [page for (page,) in connection.execute(statement, [words, _FOUND])]

    return {"SQLite FTS5, words": found}


async def _lancedb(corpus: _Corpus, place: Path) -> dict[str, _Search]:
    lancedb: Any = import_module("lancedb")
    vectors = await corpus.embeddings.embed([each.text for each in corpus.chunks])
    rows = [
        {"text": chunk.text, "page": chunk.uri, "vector": vector}
        for chunk, vector in zip(corpus.chunks, vectors, strict=True)
    ]
    table = lancedb.connect(place).create_table("chunks", rows)
    table.create_fts_index("text", language="English", stem=True, remove_stop_words=True)

    async def by_words(question: str) -> list[str]:
        return [row["page"] for row in table.search(question, query_type="fts").limit(_FOUND).to_list()]

    async def by_vectors(question: str) -> list[str]:
        (vector,) = await corpus.embeddings.embed([question])
        return [row["page"] for row in table.search(vector).distance_type("cosine").limit(_FOUND).to_list()]

    async def by_both(question: str) -> list[str]:
        (vector,) = await corpus.embeddings.embed([question])
        search = table.search(query_type="hybrid").vector(vector).text(question).distance_type("cosine")
        return [row["page"] for row in search.limit(_FOUND).to_list()]

    return {"LanceDB, words": by_words, "LanceDB, vectors": by_vectors, "LanceDB, both": by_both}
