"""What it costs to keep a process in PostgreSQL, against the same rows over plain asyncpg.

The server is the one of the tests, on this machine; it waits for the disk as PostgreSQL does by default. All figures of
a row are measured in turn, in one run; only their ratios say something about goalport.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from benchmarks.durability import AT_ONCE, ENTRY, OBJECT, SPENDING, STATE, RunningProcess, Taken, together
from benchmarks.report import Table
from goalport.store.postgres.process_store import PostgresProcessStore
from tests.postgres import postgres_files, postgres_server

__all__ = ["sharing"]

_TABLES: Final = """
    create schema plain;
    create table plain.process (id text primary key, status text, version bigint, state text);
    create table plain.object (process text, number bigint, kind text, value text, primary key (process, number));
    create table plain.history (process text, place bigint, value text, primary key (process, place));
    create table plain.spending (process text, place bigint, value text, primary key (process, place));
"""


def sharing(*, quick: bool = False) -> Table:
    """The table of what a commit costs in a database that many programs share."""
    rounds = 2 if quick else 15
    with postgres_files() as files, postgres_server(files, fsync="on", autovacuum="on") as server:
        version = server.run("show server_version")
        alone, at_once = asyncio.run(_measured(server.database(), rounds))
    rows = [("one process", *alone.cells[:3]), (f"{AT_ONCE} processes at once", *at_once.cells[:3])]
    columns = ("", "plain asyncpg", "goalport", "ratio")
    note = (
        f"PostgreSQL {version}. A commit of what one action leaves behind: the row of its process, an object of 1.5 kB,"
        " an entry of the history and what a model cost; plain asyncpg changes the row and adds the others, each with"
        " the number that it was given. Medians of a commit; for processes at once, the time of all over their number,"
        " each with a connection of its own. Aim: the ratio to plain asyncpg ≤ 3."
    )
    return Table("sharing", "Processes kept in PostgreSQL", columns, rows, [note])


async def _measured(url: str, rounds: int, commits: int = 20) -> tuple[Taken, Taken]:
    alone, at_once = Taken(), Taken()
    asyncpg: Any = import_module("asyncpg")
    plain = [_Plain(await asyncpg.connect(url), f"p{each}") for each in range(AT_ONCE)]
    await plain[0].connection.execute(_TABLES)
    async with PostgresProcessStore(url, connections=AT_ONCE) as store:
        await store.heartbeat(3600)
        ours = [RunningProcess(store, f"p{each}") for each in range(AT_ONCE)]
        for each in plain:
            await each.begin()
        for turn in range(rounds + 1):
            numbers = range(2 * turn * commits, (2 * turn + 1) * commits)
            pairs = [(await plain[0].commit(number), await ours[0].commit(number)) for number in numbers]
            numbers = range(numbers.stop, numbers.stop + commits)
            plainly = await together([each.commit_all(numbers) for each in plain], commits)
            here = await together([each.commit_all(numbers) for each in ours], commits)
            if turn:  # The first turn makes the tables and the connections, and warms caches.
                alone.add(pairs, here)
                at_once.add([(plainly, here)], here)
    for each in plain:
        await each.connection.close()
    return alone, at_once


class _Plain:
    """A process whose rows are written without goalport."""

    def __init__(self, connection: Any, process_id: str) -> None:
        self.connection, self._id = connection, process_id

    async def begin(self) -> None:
        await self.connection.execute("insert into plain.process values ($1, 'running', 0, '')", self._id)

    async def commit(self, number: int) -> float:
        """The seconds that a commit takes."""
        began = time.perf_counter()
        async with self.connection.transaction():
            update = "update plain.process set status = $1, version = version + 1, state = $2 where id = $3"
            await self.connection.execute(update, "running", json.dumps(STATE), self._id)
            added = "insert into plain.object values ($1, $2, null, $3)"
            await self.connection.execute(added, self._id, number, json.dumps(OBJECT))
            for table, value in (("history", ENTRY), ("spending", SPENDING)):
                added = f"insert into plain.{table} values ($1, $2, $3)"  # noqa: S608
                await self.connection.execute(added, self._id, number, json.dumps(value))
        return time.perf_counter() - began

    async def commit_all(self, numbers: Sequence[int]) -> None:
        for each in numbers:
            await self.commit(each)


if __name__ == "__main__":
    print(sharing().markdown)
