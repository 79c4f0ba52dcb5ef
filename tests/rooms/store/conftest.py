"""A file of a test, and a store in it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goalport.store.sqlite import SqliteProcessStore


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteProcessStore]:
    async with SqliteProcessStore(file, synchronous="normal", busy_seconds=20) as opened:
        yield opened
