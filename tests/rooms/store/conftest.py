"""Stores of a test: one in a file, and each kind that there is."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest

from goalport.store import InMemoryProcessStore, ProcessStore
from goalport.store.database import DatabaseProcessStore
from goalport.store.postgres.process_store import PostgresProcessStore
from goalport.store.sqlite import SqliteProcessStore
from tests.postgres import PostgresServer

MakeStore = Callable[[], ProcessStore]
Open = Callable[[], DatabaseProcessStore]
"""Opens another store for the same database each time, as another program would."""
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

    def __init__(self, folder: Path, stack: AsyncExitStack, server: Callable[[], PostgresServer]) -> None:
        self._folder, self._stack, self._server, self._numbers = folder, stack, server, count()
        self._url = ""

    def sqlite(self) -> Open:
        file = self._folder / f"{next(self._numbers)}.db"

        def opened() -> DatabaseProcessStore:
            store = SqliteProcessStore(file, synchronous="normal", busy_seconds=20)
            self._stack.push_async_callback(store.close)
            return store

        return opened

    def postgres(self) -> Open:
        # A schema is made sooner than a database, and for goalport it is the same.
        self._url = self._url or self._server().database()
        schema = f"number {next(self._numbers)}"

        def opened() -> DatabaseProcessStore:
            store = PostgresProcessStore(self._url, schema=schema)
            self._stack.push_async_callback(store.close)
            return store

        return opened


@pytest.fixture
async def databases(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Databases]:
    async with AsyncExitStack() as stack:
        yield Databases(tmp_path, stack, lambda: request.getfixturevalue("postgres"))


@pytest.fixture(params=["sqlite", "postgres"])
def make_database(request: pytest.FixtureRequest, databases: Databases) -> MakeDatabase:
    return {"sqlite": databases.sqlite, "postgres": databases.postgres}[request.param]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_store(request: pytest.FixtureRequest, databases: Databases) -> MakeStore:
    """Makes stores of each kind, each with nothing in it."""
    if request.param == "memory":
        return InMemoryProcessStore
    make = {"sqlite": databases.sqlite, "postgres": databases.postgres}[request.param]

    def made() -> ProcessStore:
        return make()()

    return made
