"""Documents: how well questions find what answers them, how long searches take, and what an index needs of memory.
Skills: how long it takes to scan folders and to activate one.

Quality is measured over `pydoc_data.topics`, which ships with every Python, by the questions of `pydoc_questions`; a
result counts if its topic answers the question, or if its text stands in one that does. Speed is measured over texts
made of the same words, put together anew.
"""

import asyncio
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pydoc_data import topics as pydoc
from statistics import median
from typing import Any

from benchmarks.pydoc_questions import LATER_QUESTIONS, QUESTIONS, Questions
from benchmarks.report import Table
from benchmarks.servers import ROOT
from goalport.knowledge.documents import Chunk, Chunker, read_plain_text
from goalport.knowledge.rag import (
    DocumentIndex,
    SimilarityResult,
    SqliteDocumentStore,
    TableEmbeddings,
    TextSimilaritySearchRequest,
)
from goalport.knowledge.rag.query import STOP_WORDS
from goalport.knowledge.skills import Skills
from goalport.models.llm import EmbeddingService

__all__ = ["fill_index", "knowledge", "put_topics", "random_vectors", "score", "word_table"]

_TOPICS: dict[str, str] = pydoc.topics
_CUT = 5
"""How many results count for recall."""
_DIMENSIONS = 384
_Taken = tuple[float, float]
_Search = Callable[[TextSimilaritySearchRequest, type[Chunk]], Awaitable[Sequence[SimilarityResult[Chunk]]]]


def knowledge(*, quick: bool = False) -> Table:
    """The table of searches."""
    rows = asyncio.run(_quality())
    chunks = 200 if quick else 10_000
    rows += _alone(
        "text", chunks, f"text search over {chunks:,} chunks, median of {len(QUESTIONS)} questions", "≤ 5 ms"
    )
    vectors = 1_000 if quick else 100_000
    rows += _alone("vectors", vectors, f"vector search over {vectors:,} × 384, exact, median of 50", "≤ 10 ms")
    rows += _alone(
        "memory", vectors, f"memory for {vectors:,} chunks, searched by words and by vectors", "≤ 60 MB and the vectors"
    )
    skills = 20 if quick else 2_000
    rows += _alone("scan", skills, f"{skills:,} folders with skills, scanned once more", "≤ 500 ms")
    rows += _alone("activation", skills, "a skill among them activated, median of 50", "≤ 5 ms")
    quality = (
        f"Recall@{_CUT}: the share of questions with an answer among the first {_CUT} results. MRR: the mean of 1 / "
        "rank of the first answer among 10."
    )
    speed = (
        "Times are those of asynchronous calls, with their way to a thread and back. SQLite alone orders the same "
        "words by its own rank; numpy alone multiplies a matrix of floats with the vector. Memory is what the program "
        "needs more than after the same searches of 100 chunks."
    )
    return Table("knowledge", "Searching documents, and skills", ("what", "found", "aim"), rows, [quality, speed])


async def put_topics(store: DocumentIndex) -> None:
    """Store Python's own topics, each as a document."""
    for name, text in _TOPICS.items():
        document = read_plain_text(text, f"pydoc:{name}")
        await store.put(document, await Chunker().chunk(document))


async def _quality() -> list[list[str]]:
    table = word_table()
    async with SqliteDocumentStore(embeddings=table) as store:
        await put_topics(store)
        rows: list[list[str]] = []
        for kind, questions in (("", QUESTIONS), ("later ", LATER_QUESTIONS)):
            about = f"{len(questions)} {kind}questions over {len(_TOPICS)} topics"
            found = await score(store.text_search, questions)
            rows.append([f"{about}, by words: recall@{_CUT} (MRR)", found, "≥ 0.85 (0.75)"])
            none = "not measured: there is no wordllama with its table"
            found = none if table is None else await score(store.hybrid_search, questions)
            rows.append(["…, by words and meaning", found, "≥ 0.9"])
        return rows


async def score(search: _Search, questions: Questions) -> str:
    """Recall and, in parentheses, the mean reciprocal rank."""
    ranks: list[int | None] = []
    for question, answers in questions:
        found = await search(TextSimilaritySearchRequest(query=question, top_k=10), Chunk)
        ranks.append(next((rank for rank, each in enumerate(found, 1) if _answers(each.match, answers)), None))
    recall = sum(rank is not None and rank <= _CUT for rank in ranks) / len(ranks)
    return f"{recall:.2f} ({sum(1 / rank for rank in ranks if rank) / len(ranks):.2f})"


def _answers(chunk: Chunk, answers: Sequence[str]) -> bool:
    """Whether a chunk is of one of the topics, or of one that has their text as a part."""
    middle = len(chunk.urtext) // 2
    part = chunk.urtext[max(0, middle - 60) : middle + 60]
    return chunk.uri.removeprefix("pydoc:") in answers or any(part in _TOPICS.get(each, "") for each in answers)


def word_table() -> EmbeddingService | None:
    """The table of word vectors in the package wordllama, if it is installed; its own loader needs the network."""
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        return None
    import numpy as np

    load_file: Any = import_module("safetensors.numpy").load_file
    read_tokenizer: Any = import_module("tokenizers").Tokenizer.from_file
    folder = Path(found.origin).parent
    (weights,) = folder.glob("weights/*.safetensors")
    (table,) = load_file(weights).values()
    tokenizer = read_tokenizer(str(next(folder.glob("tokenizers/*.json"))))

    def vectors(texts: Sequence[str]) -> list[list[float]]:
        encoded = [tokenizer.encode(each, add_special_tokens=False).ids for each in texts]
        return [np.mean(table[ids].astype(np.float32), axis=0).tolist() for ids in encoded]

    return TableEmbeddings(f"wordllama {weights.stem}", vectors)


def _alone(part: str, size: int, what: str, aim: str) -> list[list[str]]:
    """A row that is measured in a process of its own, so that memory is that of the index alone."""
    command = [sys.executable, "-m", "benchmarks.knowledge", part, str(size)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [[what, json.loads(done.stdout), aim]]


async def _text_speed(size: int, folder: Path) -> str:
    path = folder / "index"
    async with SqliteDocumentStore(path) as store:
        await fill_index(store, size)
        for question, _ in QUESTIONS:
            await store.text_search(TextSimilaritySearchRequest(query=question), Chunk)
        times = [await _taken(store.text_search, question) for question, _ in QUESTIONS]
    with closing(sqlite3.connect(path)) as connection:
        alone = [_taken_at_once(partial(_ranked, connection, question)) for question, _ in QUESTIONS]
    return f"{_medians(times)}; SQLite alone {_medians(alone)}"


def _ranked(connection: sqlite3.Connection, question: str) -> None:
    """Find the best chunks for the words of a question as SQLite ranks them."""
    words = [f'"{each}"' for each in re.findall(r"\w+", question) if each.lower() not in STOP_WORDS]
    statement = "select rowid from chunk_stems where chunk_stems match ? order by rank limit 10"
    connection.execute(statement, (" OR ".join(words),)).fetchall()


async def _vector_speed(size: int, folder: Path) -> str:
    import numpy as np

    embeddings = random_vectors()
    async with SqliteDocumentStore(folder / "index", embeddings=embeddings) as store:
        await fill_index(store, size, words=20)
        await store.vector_search(TextSimilaritySearchRequest(query="loads the vectors"), Chunk)
        times = [await _taken(store.vector_search, "again") for _ in range(50)]
    matrix = np.zeros((size, _DIMENSIONS), np.float32) + np.float32(0.5)
    (vector,) = np.asarray(await embeddings.embed(["alone"]), np.float32)
    alone = [_taken_at_once(lambda: matrix @ vector) for _ in range(50)]
    return f"{_medians(times)}; numpy alone {_medians(alone)}"


async def _memory(size: int, folder: Path) -> str:
    fill = (
        "import asyncio, sys; from benchmarks.knowledge import fill; asyncio.run(fill(sys.argv[1], int(sys.argv[2])))"
    )
    resident: list[int] = []
    for count in (100, size):
        path = folder / str(count)
        command = [sys.executable, "-c", fill, str(path), str(count)]
        await asyncio.to_thread(subprocess.run, command, cwd=ROOT, check=True)
        async with SqliteDocumentStore(path, embeddings=random_vectors()) as store:
            for question, _ in QUESTIONS:
                await store.hybrid_search(TextSimilaritySearchRequest(query=question), Chunk)
            resident.append(_resident())
    return f"{(resident[1] - resident[0]) / 2**20:.0f} MB"


def random_vectors() -> EmbeddingService:
    import numpy as np

    chance = np.random.default_rng(1)
    return TableEmbeddings(
        "random", lambda texts: chance.standard_normal((len(texts), _DIMENSIONS)).tolist(), _DIMENSIONS
    )


def _resident() -> int:
    """The memory of this process in bytes; the highest so far (`ru_maxrss`) would begin with that of its parent."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def fill(path: str, size: int) -> None:
    """Make an index of so many chunks with vectors."""
    async with SqliteDocumentStore(Path(path), embeddings=random_vectors()) as store:
        await fill_index(store, size)


async def fill_index(store: DocumentIndex, size: int, words: int = 220) -> None:
    """Store chunks of words from all topics, a hundred to a document, each with some words of its own."""
    every = " ".join(_TOPICS.values()).split()
    chance = random.Random(1)  # noqa: S311 - the same texts each time
    number = 0
    while number < size:
        uri = f"made:{number}"
        texts: list[str] = []
        for _ in range(min(100, size - number)):
            start = chance.randrange(len(every) - words)
            texts.append(" ".join([*every[start : start + words], *(f"w{chance.randrange(50_000)}" for _ in range(5))]))
            number += 1
        document = read_plain_text("\n\n".join(texts), uri)
        (leaf,) = document.leaves()
        chunks = [
            Chunk(
                id=f"{uri}:{place}",
                text=text,
                urtext=text,
                parent_id=leaf.id,
                root_id=document.id,
                uri=uri,
                path=leaf.path,
                number=place,
                start=0,
                end=len(text),
            )
            for place, text in enumerate(texts)
        ]
        await store.put(document, chunks)


async def _taken(search: _Search, query: str) -> _Taken:
    return await _awaited(search(TextSimilaritySearchRequest(query=query), Chunk))


async def _awaited(work: Awaitable[object]) -> _Taken:
    """The seconds, and those of processor time, that something takes."""
    began, worked = time.perf_counter(), time.process_time()
    await work
    return time.perf_counter() - began, time.process_time() - worked


def _taken_at_once(work: Callable[[], object]) -> _Taken:
    began, worked = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - worked


def _medians(times: Sequence[_Taken]) -> str:
    took, worked = (median(each) * 1e3 for each in zip(*times, strict=True))
    return f"{took:.1f} ms ({worked:.1f} ms of processor time)"


def _skills(size: int, folder: Path) -> Skills:
    for number in range(size):
        place = folder / f"skill-{number}"
        place.mkdir()
        head = f"name: {place.name}\ndescription: Does what is to be done for case {number}."
        (place / "SKILL.md").write_text(f"---\n{head}\n---\n\n# Case {number}\n\n{'Do it well. ' * 200}\n")
    return Skills("cases", "What to do").with_local_skills(folder)


async def _scan_speed(size: int, folder: Path) -> str:
    _skills(size, folder)
    return _medians([_taken_at_once(lambda: Skills("cases", "What to do").with_local_skills(folder)) for _ in range(5)])


async def _activation_speed(size: int, folder: Path) -> str:
    (activate, *_) = _skills(size, folder).tools()
    return _medians([await _awaited(activate.call({"name": f"skill-{each * 7 % size}"})) for each in range(50)])


_PARTS = {
    "text": _text_speed,
    "vectors": _vector_speed,
    "memory": _memory,
    "scan": _scan_speed,
    "activation": _activation_speed,
}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(asyncio.run(_PARTS[sys.argv[1]](int(sys.argv[2]), Path(place)))))
