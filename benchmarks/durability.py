"""What it costs to keep a process: one action's rows in the SQLite store, against the same rows over plain sqlite3.

All figures of a row are measured in turn, in one run and on one disk; only their ratios say something about goalport.
How much processes at once gain depends on how long the disk takes to confirm.
"""

import asyncio
import json
import sqlite3
import tempfile
import time
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final, Literal

from benchmarks.report import Table
from goalport.store import Lease, ObjectRecord, ProcessStore, StoredProcess
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.store.programs import record

__all__ = ["AT_ONCE", "ENTRY", "OBJECT", "SPENDING", "STATE", "RunningProcess", "Taken", "durability", "together"]

AT_ONCE: Final = 16
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
OBJECT: Final = {"text": "x" * 1500}
STATE: Final = {"goal": "write", "plan": ["Writer.draft", "Writer.review"], "entries": [[0, 9]], "has_run": ["a"] * 5}
ENTRY: Final = {"action": "Writer.draft", "seconds": 1.5, "attempts": 1, "started_at": "2026-01-01T00:00:00Z"}
SPENDING: Final = {"model": "some-model", "input_tokens": 1000, "output_tokens": 200, "cost": 0.01}

_PLAIN_TABLES: Final = """
    create table process (id text primary key, status text, ended integer, finished_at integer, version integer,
                          definition text, state text);
    create table object (process text, number integer, kind text, value text, primary key (process, number));
    create table history (process text, place integer, value text, primary key (process, place));
    create table spending (process text, place integer, value text, primary key (process, place));
"""


def durability(*, quick: bool = False) -> Table:
    """The table of what a commit costs, and what commits at once share."""
    rounds = 2 if quick else 15
    rows = [_row(synchronous, rounds) for synchronous in ("full", "normal")]
    columns = (
        "`synchronous`",
        "plain sqlite3",
        "goalport",
        "ratio",
        f"{AT_ONCE} processes at once",
        "against one alone",
    )
    note = (
        "A commit of what one action leaves behind: the row of its process, an object of 1.5 kB, an entry of the"
        " history and what a model cost. Medians of a commit; for processes at once, the time of all over their number."
        " Aims: the ratio to plain sqlite3 ≤ 3; at once, ≥ 5 times as many per second as one alone under `full`."
    )
    return Table("durability", "Processes kept in a SQLite file", columns, rows, [note])


def _row(synchronous: Literal["full", "normal"], rounds: int) -> Sequence[str]:
    with tempfile.TemporaryDirectory(prefix="goalport-durability-") as folder:
        taken = asyncio.run(_measured(Path(folder), synchronous, rounds))
    return (f"`{synchronous}`", *taken.cells)


@dataclass
class Taken:
    """Seconds per commit."""

    plain: list[float] = field(default_factory=list[float])
    alone: list[float] = field(default_factory=list[float])
    at_once: list[float] = field(default_factory=list[float])

    @property
    def cells(self) -> Sequence[str]:
        plain, alone, at_once = median(self.plain), median(self.alone), median(self.at_once)
        return _ms(plain), _ms(alone), f"{alone / plain:.2f} ×", _ms(at_once), f"{alone / at_once:.1f} ×"

    def add(self, pairs: Sequence[tuple[float, float]], at_once: float) -> None:
        """Add a turn: what each commit took plainly and here, and what those at once took each."""
        self.plain += [plain for plain, _ in pairs]
        self.alone += [alone for _, alone in pairs]
        self.at_once.append(at_once)


async def _measured(folder: Path, synchronous: Literal["full", "normal"], rounds: int, commits: int = 20) -> Taken:
    taken = Taken()
    async with SqliteProcessStore(folder / "goalport.db", synchronous=synchronous) as store:
        await store.heartbeat(3600)
        alone, several = RunningProcess(store, "alone"), [RunningProcess(store, f"p{each}") for each in range(AT_ONCE)]
        with closing(_plain(folder / "plain.db", synchronous)) as connection:
            for turn in range(rounds + 1):
                first = turn * commits
                pairs = [
                    (_commit_plainly(connection, number), await alone.commit(number))
                    for number in range(first, first + commits)
                ]
                at_once = await together([each.commit_all(range(first, first + commits)) for each in several], commits)
                if turn:  # The first turn makes the files and warms caches.
                    taken.add(pairs, at_once)
    return taken


async def together(work: Sequence[Coroutine[None, None, None]], commits: int) -> float:
    """The seconds that each commit takes when many commit so often at the same time."""
    began = time.perf_counter()
    await asyncio.gather(*work)
    return (time.perf_counter() - began) / commits / len(work)


def _plain(file: Path, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.executescript(f"pragma journal_mode=wal; pragma synchronous={synchronous}; {_PLAIN_TABLES}")
    connection.execute("insert into process values ('one', 'running', 0, null, 0, ?, '')", (json.dumps(STATE),))
    return connection


def _commit_plainly(connection: sqlite3.Connection, number: int) -> float:
    began = time.perf_counter()
    connection.execute("begin immediate")
    connection.execute("insert into object values ('one', ?, null, ?)", (number, json.dumps(OBJECT)))
    connection.execute("insert into history values ('one', ?, ?)", (number, json.dumps(ENTRY)))
    connection.execute("insert into spending values ('one', ?, ?)", (number, json.dumps(SPENDING)))
    connection.execute(
        "update process set status = 'running', version = version + 1, state = ? where id = 'one' and version = ?",
        (json.dumps(STATE), number),
    )
    connection.execute("commit")
    return time.perf_counter() - began


class RunningProcess:
    """A process that runs, and what its actions leave behind."""

    def __init__(self, store: ProcessStore, process_id: str) -> None:
        self._store, self._lease = store, Lease(process_id)

    async def commit(self, number: int) -> float:
        """The seconds that a commit takes."""
        changes = [_changes(self._lease.root, number)]
        began = time.perf_counter()
        self._lease = await self._store.save(changes, self._lease, wake_at=_EPOCH, release=False)
        return time.perf_counter() - began

    async def commit_all(self, numbers: Iterable[int]) -> None:
        for each in numbers:
            await self.commit(each)


def _changes(process_id: str, number: int) -> StoredProcess:
    kept = record(process_id)._replace(definition=None if number else STATE, state=STATE)
    return StoredProcess(
        kept, [ObjectRecord(number, OBJECT)], [ENTRY], [SPENDING], history_from=number, spendings_from=number
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


if __name__ == "__main__":
    print(durability().markdown)
