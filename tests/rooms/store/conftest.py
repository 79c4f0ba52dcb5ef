"""Stores of a test: one in a file, and each kind that there is."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest

from goalport.store import InMemoryProcessStore, ProcessStore
from goalport.store.sqlite import SqliteProcessStore

Open = Callable[[], ProcessStore]
"""Opens a store: another one for the same database each time, as another program would."""
MakeDatabase = Callable[[], Open]
"""Makes a new database."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteProcessStore]:
    async with SqliteProcessStore(file, synchronous="normal", busy_seconds=20) as opened:
        yield opened


class Databases:
    """Makes databases, and closes the stores that were opened for them."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder, self._stack, self._numbers = folder, stack, count()

    def sqlite(self) -> Open:
        file = self._folder / f"{next(self._numbers)}.db"

        def opened() -> ProcessStore:
            store = SqliteProcessStore(file, synchronous="normal", busy_seconds=20)
            self._stack.push_async_callback(store.close)
            return store

        return opened

    def in_a_new_file(self) -> ProcessStore:
        return self.sqlite()()


@pytest.fixture
async def databases(tmp_path: Path) -> AsyncIterator[Databases]:
    async with AsyncExitStack() as stack:
        yield Databases(tmp_path, stack)


@pytest.fixture(params=["sqlite"])
def make_database(request: pytest.FixtureRequest, databases: Databases) -> MakeDatabase:
    return {"sqlite": databases.sqlite}[request.param]


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, databases: Databases) -> Open:
    """Makes stores of each kind, each with nothing in it."""
    return {"memory": InMemoryProcessStore, "sqlite": databases.in_a_new_file}[request.param]
