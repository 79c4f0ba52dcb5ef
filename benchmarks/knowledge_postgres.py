"""Documents in PostgreSQL: how well questions find what answers them, and what searches take, beside SQLite.

Both stores get the same documents and questions, one after the other in one run. The server is that of the tests, with
256 MB for pages. Processor time is that of this program and of the server's processes together.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from benchmarks.knowledge import fill_index, put_topics, random_vectors, score, word_table
from benchmarks.pydoc_questions import LATER_QUESTIONS, QUESTIONS
from benchmarks.report import Table
from goalport.knowledge.documents import Chunk
from goalport.knowledge.rag import PostgresDocumentStore, SqliteDocumentStore, TextSimilaritySearchRequest
from tests.postgres import PostgresServer, postgres_files, postgres_server

__all__ = ["knowledge_postgres"]


def knowledge_postgres(*, quick: bool = False) -> Table:
    """The table of searches in both."""
    settings = {"autovacuum": "on", "shared_buffers": "256MB"}
    with (
        postgres_files() as files,
        postgres_server(files, **settings) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        rows = asyncio.run(_rows(server, Path(folder), (200,) if quick else (10_000, 100_000)))
    note = "Processor time is that of the program and of PostgreSQL together. Vectors have 384 numbers."
    return Table("knowledge_postgres", "Documents in PostgreSQL", ("what", "SQLite", "PostgreSQL"), rows, [note])


async def _rows(server: PostgresServer, folder: Path, sizes: tuple[int, ...]) -> list[list[str]]:
    rows = await _quality(server, folder)
    for size in sizes:
        rows += await _speed(server, folder, size)
    return rows


async def _quality(server: PostgresServer, folder: Path) -> list[list[str]]:
    table = word_table()
    columns: list[list[str]] = []
    for store in (
        SqliteDocumentStore(folder / "topics.db", embeddings=table),
        PostgresDocumentStore(server.database(), embeddings=table),
    ):
        async with store:
            await put_topics(store)
            found = [await score(store.text_search, each) for each in (QUESTIONS, LATER_QUESTIONS)]
            if table is not None:
                found += [await score(store.hybrid_search, each) for each in (QUESTIONS, LATER_QUESTIONS)]
            columns.append(found)
    names = [
        f"{kind}, by {how}: recall@5 (MRR)" for how in ("words", "both") for kind in ("60 questions", "60 later ones")
    ]
    return [[name, *found] for name, *found in zip(names, *columns, strict=False)]


async def _speed(server: PostgresServer, folder: Path, size: int) -> list[list[str]]:
    embeddings = random_vectors()
    columns: list[list[str]] = []
    for store in (
        SqliteDocumentStore(folder / f"{size}.db", embeddings=embeddings),
        PostgresDocumentStore(server.database(), embeddings=embeddings),
    ):
        async with store:
            measured = _Clock(server)
            await fill_index(store, size)
            column = [f"{measured.seconds / size * 1e6:.0f} µs ({measured.processor_seconds / size * 1e6:.0f} µs)"]
            for search in (store.text_search, store.vector_search):
                await search(TextSimilaritySearchRequest(query="what is there first"), Chunk)
                clock = _Clock(server)
                times = [await _seconds(search, question) for question, _ in QUESTIONS]
                used = clock.processor_seconds / len(times)
                column.append(f"{median(times) * 1e3:.1f} ms ({used * 1e3:.1f} ms)")
            columns.append(column)
    about = f"{size:,} chunks, median (mean processor time)"
    names = [f"storing one of {size:,} chunks (processor time)", f"text search of {about}", f"vector search of {about}"]
    return [[name, *found] for name, *found in zip(names, *columns, strict=True)]


async def _seconds(search: Callable[..., Awaitable[object]], query: str) -> float:
    began = time.perf_counter()
    await search(TextSimilaritySearchRequest(query=query), Chunk)
    return time.perf_counter() - began


class _Clock:
    """Seconds since it was made."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._processor, self._began = self._now(), time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    @property
    def processor_seconds(self) -> float:
        """Those of this process and of all that serve the database."""
        return self._now() - self._processor

    def _now(self) -> float:
        (first, *_) = (self._server.folder / "data" / "postmaster.pid").read_text().split()
        ticks = 0
        for each in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = each.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            ticks += sum(map(int, fields[11:13])) if fields[1] == first else 0
        return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")
