"""The stores on which every test of stores runs: what holds of one holds of all."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from goalport.knowledge.rag import DocumentIndex, PostgresDocumentStore, SqliteDocumentStore
from tests.postgres import PostgresServer
from tests.rooms.rag.toy_documents import Hashing

_EMPTIED = """
do $$ begin
    if to_regnamespace('goalport_documents') is not null then
        set local search_path to goalport_documents;
        truncate documents, readers, sections, chunks, chunk_words, vectors;
        delete from facts where name in ('model', 'dimensions', 'without_vectors');
    end if;
end $$
"""
"""Tables that are emptied are there sooner than those that are made anew."""


@pytest.fixture(scope="session")
def documents_url(postgres: PostgresServer) -> str:
    """A database of the worker for documents."""
    return postgres.database()


@pytest.fixture
def postgresql(postgres: PostgresServer, documents_url: str) -> str:
    """The URL of a database without documents."""
    postgres.run(_EMPTIED, url=documents_url)
    return documents_url


@pytest.fixture(params=["memory", "file", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[DocumentIndex]:
    if request.param == "postgresql":
        made = PostgresDocumentStore(request.getfixturevalue("postgresql"), embeddings=Hashing())
    else:
        path = tmp_path / "data" / "documents.sqlite" if request.param == "file" else None
        made = SqliteDocumentStore(path, embeddings=Hashing())
    async with made as opened:
        yield opened
