"""Programs of two versions on one store: who may change its schema, and what becomes of the older program."""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import anyio
import httpx2
import pytest

from goalport.store.tables import LATEST_VERSION, MIGRATIONS, steps_after
from tests.postgres import PostgresServer
from tests.programs import ran
from tests.stories.servers import running
from tests.stories.test_rest import FILES, ORDER

STEP = len(MIGRATIONS) + 1
NEWER = f"""
from goalport.store import tables
tables.MIGRATIONS += (
    "ALTER TABLE process ADD COLUMN colour TEXT",
    "CREATE TABLE paint (process BIGINT NOT NULL, colour TEXT NOT NULL)",
    "CREATE INDEX paint_process ON paint (process)",
),
tables.EXPANSIONS = frozenset({{{STEP}}})
from goalport.cli.program import app
app(["upgrade"])
"""
"""A program of the next version, which has expanded the schema."""


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.database()


def run(command: list[str], folder: Path, store: str = "sqlite") -> tuple[int, str]:
    done = ran(command, {**os.environ, "GOALPORT_STORE": store}, folder)
    return done.returncode, done.stdout + done.stderr


def steps_in(folder: Path, *statements: str) -> list[int]:
    """The numbers of the steps that the file has taken, after some statements."""
    with closing(sqlite3.connect(folder / ".goalport/processes.db")) as connection, connection:
        for each in statements:
            connection.execute(each)
        return [number for (number,) in connection.execute("select version from schema_version order by 1")]


async def test_a_server_is_not_ready_once_a_newer_program_has_changed_the_schema(
    tmp_path: Path, place: str, request: pytest.FixtureRequest
) -> None:
    async with (
        running(tmp_path, FILES, store=place) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=30) as http,
    ):
        assert (await http.post("/api/v1/process", json={**ORDER, "wait": 20})).status_code == 202
        assert (await http.get("/health/ready")).status_code == 200
        changed = "insert into {}schema_version values (99, 0)"
        if place == "sqlite":
            steps_in(tmp_path, changed.format(""))
        else:
            request.getfixturevalue("postgres").run(changed.format("goalport."), url=place)
        health = await http.get("/health/ready")
        assert health.status_code == 503
        assert "A newer goalport has changed it" in str(health.json()["reasons"])
        refused = await http.post("/api/v1/process", json={**ORDER, "wait": 20})
        assert (refused.status_code, (await http.get("/metrics")).status_code) == (503, 200)


async def test_an_older_server_goes_on_beside_a_program_that_has_expanded_the_schema(
    tmp_path: Path, place: str
) -> None:
    async with (
        running(tmp_path, FILES, store=place) as before,
        httpx2.AsyncClient(base_url=before.address, timeout=30) as http,
    ):
        begun = await http.post("/api/v1/process", json={**ORDER, "wait": 20})
        links = begun.json()["links"]
        command = [sys.executable, "-c", NEWER]
        newer = await anyio.run_process(command, cwd=tmp_path, env={**os.environ, "GOALPORT_STORE": place})
        assert "The store of processes is that of goalport" in (newer.stdout + newer.stderr).decode()
        assert (await http.get("/health/ready")).status_code == 200
        # One that begins now goes on with what the other has stored, too.
        async with (
            running(tmp_path, FILES, store=place) as later,
            httpx2.AsyncClient(base_url=later.address, timeout=30) as other,
        ):
            answer = await other.post(links["continue"], json={"response": {"name": "ham"}})
            assert answer.json()["status"] == "completed"
            assert (await other.get("/health/ready")).status_code == 200
        assert (await http.get(links["self"])).json()["result"] == {"content": "30 cm with ham"}
        assert (await http.post("/api/v1/process", json=ORDER)).status_code == 202
    code, said = run(["ps", "--all"], tmp_path, place)
    assert (code, "completed" in said) == (0, True), said
    if place == "sqlite":
        assert steps_in(tmp_path) == [-STEP, *range(1, STEP)]


def test_commands_that_look_leave_a_store_of_an_earlier_version_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".goalport").mkdir()
    before = LATEST_VERSION - 1
    made = [each for number, step in steps_after(0, "sqlite") if number <= before for each in step]
    versions = map("insert into schema_version values ({}, 0)".format, range(1, LATEST_VERSION))
    assert steps_in(tmp_path, *made, *versions) == [*range(1, LATEST_VERSION)]
    for command in (["ps"], ["show", "one"], ["kill", "one"], ["conversations", "list"], ["prune", "--keep", "1"]):
        code, said = run(command, tmp_path)
        assert (code, "`goalport upgrade` changes the store" in said) == (1, True), said
        assert steps_in(tmp_path) == [*range(1, LATEST_VERSION)]
    assert run(["upgrade"], tmp_path)[0] == 0
    assert steps_in(tmp_path) == [*range(1, LATEST_VERSION + 1)]
    assert run(["ps"], tmp_path) == (0, "No process is stored.\n")
