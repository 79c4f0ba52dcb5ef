"""Where the programs of these tests work: each has a folder, and a store in a file or in PostgreSQL."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.crashes.faults import Crew
from tests.postgres import PostgresServer

MakeCrew = Callable[[], Crew]
"""Makes crews, each with a store in which there is nothing yet."""


@pytest.fixture(params=["sqlite", "postgres"])
def make_crew(request: pytest.FixtureRequest, tmp_path: Path) -> MakeCrew:
    numbers, url = count(), ""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.database()

    def made() -> Crew:
        name = f"crew{next(numbers)}"
        folder = tmp_path / name
        folder.mkdir()
        return Crew(folder, f"{url}#{name}" if url else str(folder / "processes.db"))

    return made


@pytest.fixture
def crew(make_crew: MakeCrew) -> Crew:
    return make_crew()
