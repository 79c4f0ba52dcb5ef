"""Who calls for a process to be run makes no difference to it: the program that begins it, or a queue of DBOS."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import anyio
import pytest

from goalport.agents.domain import UserInput
from goalport.base.errors import SettingsError
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.dbos_engine import DbosEngine
from goalport.runtime.process import AgentProcess, Completed, Context, Failed, ProcessOptions, ProcessStatus, Waiting
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings
from tests.postgres import PostgresServer
from tests.rooms.platform.bakers import Cake, Dough, Feast, Parcel, noted, opened

PROGRAM = "from tests.rooms.platform import bakers; bakers.main()"
ENGINES = ["local", "dbos"]


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.database()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def platform(engine: str, url: str) -> AsyncIterator[AgentPlatform]:
    async with opened(engine, url) as platform:
        yield platform


@contextmanager
def program(engine: str, url: str, name: str, file: Path) -> Generator[tuple["subprocess.Popen[str]", str]]:
    """Another program on the database, and what it said: the id of the process that it has started."""
    command = [sys.executable, "-c", PROGRAM, engine, url, name, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout is not None
            yield started, started.stdout.readline().strip()
        finally:
            started.kill()


async def outcome(process: AgentProcess) -> object:
    with anyio.fail_after(60):
        found = await process.wait()
    return found.value if isinstance(found, Completed) else found


async def until(done: Path | Sequence[Path], reached: Callable[[list[str]], bool]) -> list[str]:
    """What actions have noted in files as soon as that is reached."""
    files = [done] if isinstance(done, Path) else done
    with anyio.fail_after(60):
        while not reached(found := [line for each in files for line in noted(each)]):
            await anyio.sleep(0.01)
    return found


async def test_a_process_is_told_to_who_started_it_and_each_action_runs_once(
    platform: AgentPlatform, tmp_path: Path
) -> None:
    file = tmp_path / "done"
    file.with_suffix(".open").touch()
    process = platform.start("Courier", UserInput(str(file)))
    assert await outcome(process) == Parcel("there")
    assert [each.split()[0] for each in noted(file)] == ["load", "drive", "arrive"]
    assert [each.action for each in process.history] == ["Courier.load", "Courier.drive"]


async def test_a_process_begins_with_its_context_once(platform: AgentPlatform, tmp_path: Path) -> None:
    file, context = tmp_path / "done", Context("round")
    file.with_suffix(".open").touch()
    context.add(Dough(str(file)))
    await platform.contexts.save(context)
    process = platform.start("Courier", options=ProcessOptions(context_id="round"))
    assert await outcome(process) == Parcel("there")
    with anyio.fail_after(60):
        await process.rest()
    assert (await platform.process(process.id)).blackboard.all(Dough) == [Dough(str(file))]


async def test_a_process_waits_and_an_answer_continues_it(platform: AgentPlatform, tmp_path: Path) -> None:
    file = tmp_path / "done"
    process = platform.start("Baker", UserInput(str(file)))
    assert isinstance(await outcome(process), Waiting)
    await platform.answer(process.id, response={"name": "plums"})
    assert await outcome(process) == Cake("plums")
    assert noted(file) == ["mix", "ask", "bake"]


async def test_a_question_of_a_sub_process_is_answered_and_its_parent_goes_on(
    platform: AgentPlatform, tmp_path: Path
) -> None:
    file = tmp_path / "done"
    process = platform.start("Caterer", UserInput(str(file)))
    assert isinstance(await outcome(process), Waiting)
    await platform.answer(process.id, response={"name": "plums"})
    assert await outcome(process) == Feast(Cake("plums"))
    assert noted(file) == ["mix", "ask", "bake"]


async def test_a_question_expires(platform: AgentPlatform, tmp_path: Path) -> None:
    process = platform.start("Hasty", UserInput(str(tmp_path / "done")))
    while isinstance(ended := await outcome(process), Waiting):
        await anyio.sleep(0.01)
    assert isinstance(ended, Failed)
    assert "Nobody answered in time" in ended.reason


async def test_a_process_is_ended_while_it_runs_elsewhere_or_here(platform: AgentPlatform, tmp_path: Path) -> None:
    file = tmp_path / "done"
    process = platform.start("Courier", UserInput(str(file)))
    await until(file, lambda found: len(found) == 2)
    process.kill("Enough.")
    await outcome(process)
    assert process.status is ProcessStatus.KILLED
    assert process.outcome is not None
    assert process.outcome.reason == "Enough."


@pytest.mark.parametrize("first", ENGINES)
async def test_what_a_killed_program_ran_goes_on_in_another_whichever_engine_each_has(
    first: str, engine: str, url: str, tmp_path: Path
) -> None:
    file = tmp_path / "done"
    with program(first, url, "Courier", file) as (killed, process_id):
        loaded, driven = await until(file, lambda found: len(found) == 2)
        async with opened(engine, url) as platform:
            killed.kill()
            killed.wait()
            assert await until(file, lambda found: len(found) == 3) == [loaded, driven, driven]
            file.with_suffix(".open").touch()
            assert await outcome(await platform.process(process_id)) == Parcel("there")
    assert noted(file) == [loaded, driven, driven, "arrive"]


@pytest.mark.parametrize("first", ENGINES)
async def test_a_process_waits_in_one_program_and_is_answered_in_another_whichever_engine_each_has(
    first: str, engine: str, url: str, tmp_path: Path
) -> None:
    file = tmp_path / "done"
    with program(first, url, "Caterer", file) as (killed, process_id):
        async with opened(engine, url) as platform:
            await until(file, lambda found: "ask" in found)
            process = await platform.process(process_id)
            assert isinstance(await outcome(process), Waiting)
            killed.kill()
            await platform.answer(process_id, response={"name": "plums"})
            assert await outcome(process) == Feast(Cake("plums"))
    assert noted(file) == ["mix", "ask", "bake"]


async def test_a_platform_that_closes_gives_its_processes_to_the_next_at_once(
    engine: str, url: str, tmp_path: Path
) -> None:
    file = tmp_path / "done"
    async with opened(engine, url) as platform:
        process_id = platform.start("Courier", UserInput(str(file))).id
        loaded, driven = await until(file, lambda found: len(found) == 2)
    file.with_suffix(".open").touch()
    async with opened(engine, url) as platform:
        assert await outcome(await platform.process(process_id)) == Parcel("there")
    assert noted(file) == [loaded, driven, driven, "arrive"]


async def test_no_more_processes_run_at_once_than_the_queue_allows(url: str, tmp_path: Path) -> None:
    files = [tmp_path / str(each) for each in range(3)]
    async with opened("dbos", url, total_concurrency=1) as platform:
        processes = [platform.start("Courier", UserInput(str(each))) for each in files]
        for number in range(len(files)):
            driven = await until(files, lambda found, number=number: len(found) >= 3 * number + 2)
            assert len(driven) == 3 * number + 2
            running = next(each for each in files if len(noted(each)) == 2)
            running.with_suffix(".open").touch()
        assert [await outcome(each) for each in processes] == [Parcel("there")] * 3
    assert all(len(noted(each)) == 3 for each in files)


async def test_what_is_submitted_again_is_delivered_once(url: str) -> None:
    delivered, begun, gate = list[str](), anyio.Event(), anyio.Event()

    async def drive(process_id: str) -> bool:
        delivered.append(process_id)
        if process_id == "last":
            begun.set()
        else:
            await gate.wait()
        return True

    engine = DbosEngine(url, concurrency=1)
    await engine.start(drive)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.stop)
        for version in (1, 1):
            await engine.submit("first", version)
        for version in (1, 2, 3):
            await engine.submit("second", version)
        gate.set()
        await engine.submit("last", 1)
        with anyio.fail_after(60):
            await begun.wait()
        await engine.submit("first", 1)
    assert delivered == ["first", "second", "last"]


async def test_dbos_runs_once_in_a_program(url: str) -> None:
    async with opened("dbos", url):
        with pytest.raises(SettingsError, match="DBOS runs once in a program"):
            async with opened("dbos", url):
                pass


def test_an_engine_needs_a_store_that_programs_share(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="needs a store that programs share"):
        AgentPlatform(engine=DbosEngine("postgresql:///goalport"))
    settings = load_settings(tmp_path, engine="dbos", store="sqlite")
    with pytest.raises(SettingsError, match="came store = 'sqlite'"):
        AgentPlatform.from_workspace(load_workspace(tmp_path), settings)


def test_the_engine_says_how_to_install_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dbos", None)
    with pytest.raises(SettingsError, match=r"pip install 'goalport\[dbos\]'"):
        DbosEngine("postgresql:///goalport")
