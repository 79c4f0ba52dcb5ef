"""What has ended and is not saved yet takes a bounded part of memory: who begins waits for the disk, or is told."""

import gc
import sqlite3
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import ref

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from goalport.agents.domain import achieves_goal, action, agent
from goalport.base.errors import UnknownName
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess, Failed, Killed, ProcessStatus, run_subagent
from goalport.store import EventRecord, Lease, ProcessStore, StoredProcess
from goalport.store.sqlite import SqliteProcessStore

BOUND = 32 * 1024 * 1024
LARGE = 6 * 1024 * 1024


@dataclass(frozen=True)
class Wanted:
    size: int


@dataclass(frozen=True)
class Report:
    text: str


@dataclass(frozen=True)
class Whole:
    text: str


@agent(description="Writes as much as is wanted")
class Writer:
    @achieves_goal(description="A report")
    async def write(self, wanted: Wanted) -> Report:
        return Report("x" * wanted.size)


@agent(description="Has another agent write")
class Delegates:
    @achieves_goal(description="The whole")
    async def write(self, wanted: Wanted) -> Whole:
        return Whole((await run_subagent(Writer(), Report, wanted)).text)


@dataclass(frozen=True)
class Draft:
    text: str


@agent(description="Writes in two steps")
class InSteps:
    @action
    async def draft(self, wanted: Wanted) -> Draft:
        return Draft("x" * wanted.size)

    @achieves_goal(description="A report")
    async def finish(self, draft: Draft) -> Report:
        return Report(draft.text)


class InTurn(SqliteProcessStore):
    """Saves each family when it is let."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, synchronous="normal")
        self._turns: dict[str, anyio.Event] = {}

    def turn(self, process_id: str) -> anyio.Event:
        return self._turns.setdefault(process_id, anyio.Event())

    async def save(
        self,
        changes: Sequence[StoredProcess],
        lease: Lease,
        /,
        *,
        wake_at: datetime | None,
        release: bool,
        events: Sequence[EventRecord] = (),
    ) -> Lease:
        await self.turn(lease.root).wait()
        return await super().save(changes, lease, wake_at=wake_at, release=release, events=events)


@contextmanager
def locked(file: Path) -> Generator[None]:
    """A time in which nobody else can write to a database."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        connection.execute("begin immediate")
        yield
    finally:
        connection.close()


@asynccontextmanager
async def served(folder: Path, busy_seconds: float) -> AsyncGenerator[tuple[AgentPlatform, Path]]:
    file = folder / "processes.db"
    store = SqliteProcessStore(file, synchronous="normal", busy_seconds=busy_seconds)
    async with store, AgentPlatform([Writer, Delegates, InSteps], store=store) as platform:
        yield platform, file


async def begun(platform: AgentPlatform, sizes: Sequence[int]) -> tuple[list[AgentProcess], list[AgentProcess]]:
    """Processes that have ended, and those that have not begun, after as many as wanted were started in turn."""
    processes: list[AgentProcess] = []
    for size in sizes:
        processes.append(platform.start("Writer", Wanted(size)))
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
    ended = [each for each in processes if each.outcome is not None]
    return ended, [each for each in processes if each.status is ProcessStatus.NOT_STARTED]


async def is_stored(store: ProcessStore, processes: Sequence[AgentProcess]) -> bool:
    return all([await store.find(each.id) is not None for each in processes])


async def test_nothing_begins_while_too_much_is_not_saved_and_everything_is_saved_in_the_end(tmp_path: Path) -> None:
    async with served(tmp_path, busy_seconds=60) as (platform, file):
        with locked(file):
            ended, waiting = await begun(platform, [LARGE] * 8)
            assert 1 < len(ended) <= BOUND / LARGE
            assert len(ended) + len(waiting) == 8
        with anyio.fail_after(60):
            for each in (*ended, *waiting):
                await each.rest()
        assert {each.status for each in (*ended, *waiting)} == {ProcessStatus.COMPLETED}
        assert await is_stored(platform.store, [*ended, *waiting])


async def test_what_is_saved_is_let_go_without_looking_for_garbage(tmp_path: Path) -> None:
    async with served(tmp_path, busy_seconds=60) as (platform, _):
        gc.collect()
        gc.disable()
        try:
            process = await platform.run("Writer", Wanted(LARGE))
            await process.rest()
            result = ref(process.result_of_type(Report))
            del process
            with anyio.fail_after(60):
                while result() is not None:
                    await anyio.sleep(0.01)
        finally:
            gc.enable()


async def test_whoever_has_waited_longest_begins_first_when_there_is_room(tmp_path: Path) -> None:
    store = InTurn(tmp_path / "processes.db")
    async with store, AgentPlatform([Writer], store=store) as platform:
        sizes = [LARGE, LARGE * 3 // 2, LARGE * 4, LARGE, LARGE]
        (small, middle, huge), (longest, last) = await begun(platform, sizes)
        try:
            with anyio.fail_after(60):
                for each in (small, huge):  # without the small one there is no room yet
                    store.turn(each.id).set()
                    await each.rest()
                while {longest.status, last.status} == {ProcessStatus.NOT_STARTED}:
                    await anyio.sleep(0.01)
            assert last.status is ProcessStatus.NOT_STARTED
        finally:
            for each in (middle, longest, last):
                store.turn(each.id).set()


async def test_what_has_begun_goes_on_while_nothing_can_be_saved(tmp_path: Path) -> None:
    async with served(tmp_path, busy_seconds=0.01) as (platform, file):
        process = platform.create_agent_process("InSteps", Wanted(10))
        with anyio.fail_after(60):
            assert await process.tick() is ProcessStatus.RUNNING
            with locked(file):
                refused = False
                while not refused:
                    other = platform.start("Writer", Wanted(LARGE))
                    await other.rest()
                    refused = other.status is ProcessStatus.FAILED
                assert await process.tick() is ProcessStatus.RUNNING
                assert await process.tick() is ProcessStatus.COMPLETED
        assert await platform.process(process.id) is process
    async with SqliteProcessStore(file) as store:
        assert await is_stored(store, [process])


async def test_who_waits_for_room_can_be_killed(tmp_path: Path) -> None:
    async with served(tmp_path, busy_seconds=60) as (platform, file):
        with locked(file):
            _, waiting = await begun(platform, [LARGE] * 8)
            waiting[0].kill("Nobody wants it any more.")
            with anyio.fail_after(60):
                assert await waiting[0].wait() == Killed("Nobody wants it any more.")


async def test_a_platform_that_closes_keeps_nobody_waiting_for_room_and_loses_nothing(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with served(tmp_path, busy_seconds=60) as (platform, file):
            with locked(file):
                ended, waiting = await begun(platform, [LARGE] * 8)
        async with SqliteProcessStore(file) as store:
            assert await is_stored(store, ended)
    assert {each.status for each in waiting} == {ProcessStatus.KILLED}


async def test_a_store_that_refuses_too_much_is_an_error_until_it_works_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, busy_seconds=0.01) as (platform, file):
        with locked(file), anyio.fail_after(60):
            kept: list[AgentProcess] = []
            while True:
                process = platform.start("Writer", Wanted(LARGE))
                await process.rest()
                if process.status is not ProcessStatus.COMPLETED:
                    break
                kept.append(process)
            assert isinstance(process.outcome, Failed)
            assert process.outcome.not_begun
            assert "Another program has kept it locked" in process.outcome.reason
            assert all([await platform.process(each.id) is each for each in kept])
            with pytest.raises(UnknownName):
                await platform.process(process.id)
        assert "is kept in memory only" in caplog.text
        with anyio.fail_after(60):
            last = await platform.run("Writer", Wanted(LARGE))
            assert last.status is ProcessStatus.COMPLETED
    async with SqliteProcessStore(file) as store:
        assert await is_stored(store, [*kept, last])


RUNS = st.lists(
    st.tuples(st.sampled_from(["Writer", "Delegates"]), st.sampled_from([10, LARGE, 2 * LARGE])), min_size=1, max_size=6
)


@given(runs=RUNS, busy_seconds=st.sampled_from([0.01, 60]))
@settings(max_examples=8, deadline=None)
def test_however_slow_the_disk_families_are_saved_whole_and_none_is_lost(
    runs: list[tuple[str, int]], busy_seconds: float
) -> None:
    with TemporaryDirectory() as folder:
        anyio.run(_run_all, Path(folder), runs, busy_seconds)


async def _run_all(folder: Path, runs: Sequence[tuple[str, int]], busy_seconds: float) -> None:
    async with served(folder, busy_seconds) as (platform, file):
        with locked(file):
            processes = [platform.start(agent, Wanted(size)) for agent, size in runs]
            with anyio.move_on_after(0.05):
                for each in processes:
                    await each.rest()
        with anyio.fail_after(60):
            for each in processes:
                await each.rest()
    begun = [each for each in processes if not isinstance(each.outcome, Failed)]
    async with SqliteProcessStore(file) as store:
        for process in begun:
            members, _ = await store.family(process.id)
            assert [each.process.id for each in members] == [each.id for each in (process, *process.children)]
            assert {each.process.status for each in members} == {"completed"}
