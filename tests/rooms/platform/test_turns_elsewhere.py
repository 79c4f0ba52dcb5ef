"""A process that goes on from turn to turn, told by several programs that use the same store."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from anyio import fail_after

from goalport import AgentPlatform, AgentProcess, PlannerType, ProcessOptions, action, agent
from goalport.base.errors import BadInput
from goalport.runtime.process import Budget, ProcessStatus, Stuck
from goalport.store import ProcessStore
from goalport.store.postgres.process_store import PostgresProcessStore
from goalport.store.sqlite import SqliteProcessStore

TURNS = ProcessOptions(turns=True)


@dataclass(frozen=True)
class Word:
    text: str


@dataclass(frozen=True)
class Heard:
    text: str


@agent(name="Hearer", description="Hears words", planner=PlannerType.UTILITY)
@dataclass
class Hearer:
    heard: list[str] = field(default_factory=list[str])
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    hangs: bool = True

    @action(trigger=Word, can_rerun=True)
    async def hear(self, word: Word) -> Heard:
        self.heard.append(word.text)
        self.begun.set()
        if word.text == "wait" and self.hangs:
            await asyncio.Event().wait()
        if word.text == "fail":
            raise ValueError("a bad word")
        return Heard(word.text)


@dataclass
class Programs:
    """Programs that use one store."""

    open_store: Callable[[], ProcessStore]
    stack: AsyncExitStack

    async def start(self, hearer: Hearer, *, lease_seconds: float = 30.0) -> AgentPlatform:
        platform = AgentPlatform([hearer], store=self.open_store(), lease_seconds=lease_seconds)
        return await self.stack.enter_async_context(platform)


@pytest.fixture(params=["sqlite", "postgres"])
async def programs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Programs]:
    async with AsyncExitStack() as stack:
        url = request.getfixturevalue("postgres").database() if request.param == "postgres" else ""

        def opened() -> ProcessStore:
            store = PostgresProcessStore(url) if url else SqliteProcessStore(tmp_path / "store.db")
            stack.push_async_callback(store.close)
            return store

        yield Programs(opened, stack)


async def _told(platform: AgentPlatform, process_id: str, word: str) -> AgentProcess:
    with fail_after(60):
        process = await platform.tell(process_id, Word(word))
        await process.wait()
        await process.rest()
    return process


async def test_what_another_program_tells_is_heard_once_by_the_program_that_runs_the_process(
    programs: Programs,
) -> None:
    here, there = Hearer(), Hearer()
    first, second = await programs.start(here), await programs.start(there)
    process = first.create_agent_process("Hearer", options=TURNS)
    await first.tell(process, Word("wait"))
    with fail_after(60):
        await here.begun.wait()
        telling = asyncio.create_task(_told(second, process.id, "after"))
        await second.stop_turn(process.id, "Enough.")
        await telling
    assert sorted([*here.heard, *there.heard]) == ["after", "wait"]


async def test_each_program_goes_on_where_the_other_one_stopped(programs: Programs) -> None:
    here, there = Hearer(), Hearer()
    first, second = await programs.start(here), await programs.start(there)
    process = first.create_agent_process("Hearer", options=TURNS.with_(budget=Budget(actions=2)))
    with fail_after(60):
        await first.tell(process, Word("0"))
        await process.rest()
    for number in range(1, 6):
        last = await _told((first, second)[number % 2], process.id, f"{number}")
        assert last.status is ProcessStatus.RESTING
        assert [each.status for each in last.history] == ["succeeded"] * (number + 1)
        assert last.turn_actions == 1
    assert sorted([*here.heard, *there.heard]) == [f"{number}" for number in range(6)]


async def test_a_turn_that_failed_is_known_to_have_failed_after_a_restart_and_may_be_tried_again(
    programs: Programs,
) -> None:
    first, again = await programs.start(Hearer()), Hearer()
    process = first.create_agent_process("Hearer", options=TURNS)
    with fail_after(60):
        await first.tell(process, Word("fail"))
        await process.rest()
        await first.aclose()
    second = await programs.start(again)
    failed = (await second.process(process.id)).outcome
    assert isinstance(failed, Stuck)
    assert failed.turn_failed
    last = await _told(second, process.id, "hello")
    assert last.last(Heard) == Heard("hello")
    assert again.heard == ["hello"]


async def test_a_turn_that_was_cut_off_with_its_program_is_done_once_before_what_is_told_next(
    programs: Programs,
) -> None:
    here, there = Hearer(), Hearer(hangs=False)
    first = await programs.start(here, lease_seconds=1.0)
    process = first.create_agent_process("Hearer", options=TURNS)
    await first.tell(process, Word("wait"))
    with fail_after(60):
        await here.begun.wait()
        await first.aclose()  # its store stays open, so that its lease runs out while the next word is told
    second = await programs.start(there, lease_seconds=1.0)
    await _told(second, process.id, "next")
    assert (here.heard, there.heard) == (["wait"], ["wait", "next"])
    assert [each.action for each in (await second.process(process.id)).history] == ["Hearer.hear"] * 2


async def test_an_ended_process_is_told_nothing_more_by_any_program(programs: Programs) -> None:
    first, second = await programs.start(Hearer()), await programs.start(Hearer())
    process = first.create_agent_process("Hearer", options=TURNS)
    with fail_after(60):
        await first.tell(process, Word("hello"))
        await process.rest()
        process.kill()
        await process.rest()
    with pytest.raises(BadInput, match="has ended: killed"):
        await second.tell(process.id, Word("more"))


KILLED = """
import asyncio, sys
from pathlib import Path
from goalport import AgentPlatform
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.platform.test_turns_elsewhere import TURNS, Hearer, Word

async def main():
    hearer = Hearer()
    async with SqliteProcessStore(Path(sys.argv[1])) as store, AgentPlatform([hearer], store=store) as platform:
        process = platform.create_agent_process("Hearer", options=TURNS)
        await platform.tell(process, Word("hello"))
        await process.rest()
        await platform.tell(process, Word("wait"))
        await hearer.begun.wait()
        print(process.id, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_program_that_is_killed_in_the_middle_of_a_turn_leaves_it_to_the_next_which_does_it_once(
    tmp_path: Path,
) -> None:
    file, hearer = tmp_path / "store.db", Hearer(hangs=False)
    with fail_after(100):
        killed = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, str(file), stdout=asyncio.subprocess.PIPE
        )
        assert killed.stdout is not None
        process_id = (await killed.stdout.readline()).decode().strip()
        killed.kill()
        await killed.wait()
        async with SqliteProcessStore(file) as store, AgentPlatform([hearer], store=store) as platform:
            process = await platform.tell(process_id, Word("next"))
            await process.rest()
            assert hearer.heard == ["wait", "next"]
            heard = [each.text for each in process.blackboard.all(Heard)]
            assert heard == ["hello", "wait", "next"]
