"""The stores on which every test of stores runs: what holds of one holds of all."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from goalport.rag import SqliteDocumentStore
from tests.rooms.rag.toy_documents import Hashing


@pytest.fixture(params=["memory", "file"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SqliteDocumentStore]:
    path = tmp_path / "data" / "documents.sqlite" if request.param == "file" else None
    async with SqliteDocumentStore(path, embeddings=Hashing()) as made:
        yield made
