"""How much memory ended processes take: the oldest are forgotten, large results are in files, what is watched stays."""

import gc
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_IMODE
from weakref import ref

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from goalport.domain import Export, achieves_goal, agent
from goalport.errors import BadInput, StoreError, UnknownName
from goalport.events import Event
from goalport.platform import AgentPlatform
from goalport.process import AgentProcess, run_subagent
from goalport.store import InMemoryProcessStore

BOUND = 100_000
OWN = 9_000
"""More than a family of two takes besides its results."""


@dataclass(frozen=True)
class Wanted:
    number: int
    size: int


@dataclass(frozen=True)
class Report:
    text: str


@dataclass(frozen=True)
class Whole:
    text: str


@dataclass(frozen=True)
class Callback:
    text: str
    call: object


class Gates:
    """Lets each process end when it is its turn."""

    def __init__(self) -> None:
        self._events: dict[int, anyio.Event] = {}

    def of(self, number: int) -> anyio.Event:
        return self._events.setdefault(number, anyio.Event())


@agent(description="Writes as much as is wanted, when it is let")
class Short:
    def __init__(self, gates: Gates) -> None:
        self._gates = gates

    @achieves_goal(description="A report")
    async def write(self, wanted: Wanted) -> Report:
        await self._gates.of(wanted.number).wait()
        return Report("x" * wanted.size)


@agent(description="The same, for callers that come back later")
class Long:
    def __init__(self, gates: Gates) -> None:
        self._gates = gates

    @achieves_goal(description="A report", export=Export(long=True))
    async def write(self, wanted: Wanted) -> Report:
        await self._gates.of(wanted.number).wait()
        return Report("x" * wanted.size)


@agent(description="Has another agent write")
class Delegates:
    def __init__(self, gates: Gates) -> None:
        self._short = Short(gates)

    @achieves_goal(description="The whole")
    async def write(self, wanted: Wanted) -> Whole:
        report = await run_subagent(self._short, Report, wanted)
        return Whole(report.text)


@agent(description="Writes at once")
class Writer:
    @achieves_goal(description="A report")
    async def write(self, wanted: Wanted) -> Report:
        return Report(f"{wanted.number}" * wanted.size)


@agent(description="Gives what no file can hold")
class Caller:
    @achieves_goal(description="A callback")
    async def write(self, wanted: Wanted) -> Callback:
        return Callback("x" * wanted.size, lambda: None)


class Follower:
    def on_event(self, event: Event, /) -> None:
        """Do nothing: that it listens is enough."""


async def knows(platform: AgentPlatform, process_id: str) -> bool:
    try:
        await platform.process(process_id)
    except UnknownName:
        return False
    return True


async def ended(platform: AgentPlatform, agent: str, size: int, number: int = 0) -> AgentProcess:
    process = await platform.run(agent, Wanted(number, size))
    await process.rest()
    return process


def results_of(family: Sequence[AgentProcess]) -> int:
    return sum(len(each.outcome.value.text) for each in family)  # type: ignore[union-attr]


RUNS = st.lists(
    st.tuples(st.sampled_from(["Short", "Long", "Delegates"]), st.sampled_from([10, 20_000, 45_000, 70_000, 150_000])),
    min_size=1,
    max_size=7,
)


@given(runs=RUNS, data=st.data())
@settings(max_examples=25, deadline=None)
def test_whatever_ends_in_whatever_order_the_newest_stay_whole_and_within_the_bound(
    runs: list[tuple[str, int]], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(runs))))
    anyio.run(_end_in_order, runs, order)


async def _end_in_order(runs: Sequence[tuple[str, int]], order: Sequence[int]) -> None:
    gates = Gates()
    platform = AgentPlatform(
        [Short(gates), Long(gates), Delegates(gates)], store=InMemoryProcessStore(remembered_bytes=BOUND)
    )
    processes = [platform.start(agent, Wanted(number, size)) for number, (agent, size) in enumerate(runs)]
    done: list[AgentProcess] = []
    with anyio.fail_after(60):
        for number in order:
            gates.of(number).set()
            await processes[number].rest()
            done.append(processes[number])
            await _check(platform, done)


async def _check(platform: AgentPlatform, done: Sequence[AgentProcess]) -> None:
    families = [[each, *each.children] for each in done]
    kept = [[await knows(platform, each.id) for each in family] for family in families]
    assert all(all(family) or not any(family) for family in kept), "a family was torn apart"
    assert all(kept[-1]), "the one that ended last was forgotten"
    left = [family for family, known in zip(families, kept, strict=True) if known[0]]
    assert len(left) == 1 or sum(map(results_of, left)) <= BOUND
    short = [known[0] for each, known in zip(done, kept, strict=True) if each.agent.name != "Long"]
    assert short == sorted(short), "one that ended later was forgotten earlier"
    if sum(results_of(family) + OWN for family in families) <= BOUND:
        assert all(map(all, kept)), "one was forgotten although there was room"


async def test_a_process_that_somebody_follows_is_not_forgotten() -> None:
    platform = AgentPlatform([Writer], store=InMemoryProcessStore(remembered_bytes=BOUND))
    with anyio.fail_after(60):
        followed, other = await ended(platform, "Writer", 60_000), await ended(platform, "Writer", 10_000)
        leave = followed.subscribe(Follower())
        await ended(platform, "Writer", 60_000)
        assert [await knows(platform, each.id) for each in (followed, other)] == [True, False]
        leave()
        await ended(platform, "Writer", 60_000)
        assert not await knows(platform, followed.id)


async def test_a_large_result_is_in_memory_no_more_and_is_given_to_whoever_asks(tmp_path: Path) -> None:
    store = InMemoryProcessStore(remembered_bytes=14_000_000, folder=tmp_path / "data")
    async with AgentPlatform([Writer], store=store) as platform:
        process = await ended(platform, "Writer", 4_000_000, 1)
        process_id, result = process.id, ref(process.result_of_type(Report))
        del process
        last = [(await ended(platform, "Writer", 4_000_000, number)).id for number in (2, 3)]
        with anyio.fail_after(60):
            while result() is not None:
                await anyio.lowlevel.checkpoint()
                gc.collect()
        for number, each in enumerate([process_id, *last], 1):
            assert (await platform.process(each)).result_of_type(Report) == Report(f"{number}" * 4_000_000)
    assert list((tmp_path / "data").iterdir()) == []
    assert S_IMODE((tmp_path / "data").stat().st_mode) == 0o700 or sys.platform == "win32"


async def test_results_that_come_faster_than_they_can_be_written_are_all_in_files_in_the_end(tmp_path: Path) -> None:
    store = InMemoryProcessStore(remembered_bytes=1_000_000, folder=tmp_path)
    async with AgentPlatform([Writer], store=store) as platform:
        processes = [platform.start("Writer", Wanted(number, 150_000)) for number in range(6)]
        with anyio.fail_after(60):
            for each in processes:
                await each.rest()
            large = processes[1:]  # memory was not scarce yet for the first
            while any([await ended_value(store, each.id) is each.result_of_type(Report) for each in large]):
                await anyio.lowlevel.checkpoint()
        for number, each in enumerate(processes):
            assert await ended_value(store, each.id) == Report(f"{number}" * 150_000)


async def test_a_large_result_for_which_there_is_no_place_is_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = InMemoryProcessStore(1, remembered_bytes=BOUND, folder=tmp_path)
    async with AgentPlatform([Writer], store=store) as platform:
        followed = await ended(platform, "Writer", 10)
        followed.subscribe(Follower())
        other = await ended(platform, "Writer", 70_000)
        assert [await knows(platform, each.id) for each in (followed, other)] == [True, False]
    assert not caplog.records


async def test_a_result_that_waits_to_be_written_is_kept_whoever_wants_its_process_to_go_on(tmp_path: Path) -> None:
    store = InMemoryProcessStore(remembered_bytes=40_000_000, folder=tmp_path)
    async with AgentPlatform([Writer], store=store) as platform:
        processes = [platform.start("Writer", Wanted(number, 3_000_000)) for number in range(10)]
        with anyio.fail_after(60):
            for each in processes:
                await each.rest()
            for each in processes:
                with pytest.raises(BadInput):
                    await platform.go_on(each.id, retry=True)
            large = processes[-1]
            while await ended_value(store, large.id) is large.result_of_type(Report):
                await anyio.lowlevel.checkpoint()
            for number, each in enumerate(processes):
                assert await ended_value(store, each.id) == Report(f"{number}" * 3_000_000)


async def test_a_result_that_no_file_can_hold_stays_in_memory_as_long_as_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = InMemoryProcessStore(remembered_bytes=300_000, folder=tmp_path)
    async with AgentPlatform([Caller, Writer], store=store) as platform:
        kept = await ended(platform, "Caller", 100_000)
        large = await ended(platform, "Writer", 100_000)
        assert (await platform.process(kept.id)).result_of_type(Callback) is kept.result_of_type(Callback)
        await ended(platform, "Caller", 250_000)
        with anyio.fail_after(60):
            while await knows(platform, kept.id):
                await anyio.lowlevel.checkpoint()
        assert await knows(platform, large.id)
    assert not caplog.records


async def test_a_folder_that_cannot_be_written_keeps_results_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").write_text("a file, no folder")
    store = InMemoryProcessStore(remembered_bytes=300_000, folder=tmp_path / "data")
    async with AgentPlatform([Writer], store=store) as platform:
        process = await ended(platform, "Writer", 100_000)
        with anyio.fail_after(60):
            while "stay in memory" not in caplog.text:
                await anyio.lowlevel.checkpoint()
        assert (await platform.process(process.id)).result_of_type(Report) is process.result_of_type(Report)


async def ended_value(store: InMemoryProcessStore, process_id: str) -> object:
    """What the store has as the result of a process."""
    (stored, *_), _ = await store.family(process_id)
    return stored.objects[0].value


@contextmanager
def files_of_at_most(size: int) -> Generator[None]:
    """A time in which no file can be made larger, as on a full disk."""
    import resource

    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows limits no files")
async def test_what_is_in_a_file_can_be_read_although_the_disk_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = InMemoryProcessStore(remembered_bytes=300_000, folder=tmp_path)
    async with AgentPlatform([Writer], store=store) as platform:
        process_id = (await ended(platform, "Writer", 100_000, 1)).id
        result = await ended_value(store, process_id)
        with anyio.fail_after(60):
            while await ended_value(store, process_id) is result:
                await anyio.lowlevel.checkpoint()
        with files_of_at_most(200_000):  # the last bytes of the second result do not fit
            last = await ended(platform, "Writer", 100_000, 2)
            with anyio.fail_after(60):
                while "stay in memory" not in caplog.text:
                    await anyio.lowlevel.checkpoint()
            assert await ended_value(store, process_id) == Report("1" * 100_000)
        assert (await platform.process(last.id)).result_of_type(Report) == Report("2" * 100_000)


def cut_open_files(folder: Path) -> None:
    """Cut the files of a folder that this program has open, also those without names."""
    for each in Path("/proc/self/fd").iterdir():
        if each.is_symlink() and str(each.readlink()).startswith(f"{folder}/"):
            os.truncate(each, 10)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which files are open")
async def test_a_file_that_is_cut_is_an_error_of_the_store(tmp_path: Path) -> None:
    store = InMemoryProcessStore(remembered_bytes=300_000, folder=tmp_path)
    async with AgentPlatform([Writer], store=store) as platform:
        process_id = (await ended(platform, "Writer", 100_000, 1)).id
        result = await ended_value(store, process_id)
        with anyio.fail_after(60):
            while await ended_value(store, process_id) is result:
                await anyio.lowlevel.checkpoint()
        cut_open_files(tmp_path)
        with pytest.raises(StoreError, match="A large result cannot be read"):
            await ended_value(store, process_id)


async def test_what_is_in_files_still_counts_when_somebody_has_had_the_process(tmp_path: Path) -> None:
    store = InMemoryProcessStore(remembered_bytes=300_000, folder=tmp_path)
    async with AgentPlatform([Writer], store=store) as platform:
        ids = list[str]()
        for _ in range(21):  # there is room for 19 in the files
            ids.append((await ended(platform, "Writer", 250_000)).id)
            result = await ended_value(store, ids[-1])
            with anyio.fail_after(60):
                while await ended_value(store, ids[-1]) is result:
                    await anyio.lowlevel.checkpoint()
            lease = await store.claim(ids[-1])
            assert lease is not None
            await store.release(lease)
        assert not await knows(platform, ids[0])
        assert await knows(platform, ids[-1])
