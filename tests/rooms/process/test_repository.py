"""Which processes are remembered: by their end, in families, long ones and waiting ones with room of their own."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import ref

import anyio
import pytest

from goalport.agents.domain import Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.errors import ProcessEnded, UnknownName
from goalport.base.events import Event
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    AgentProcess,
    Completed,
    ProcessStatus,
    Terminated,
    run_subagent,
)
from goalport.store import InMemoryProcessStore, ProcessRecord
from goalport.store.sqlite import SqliteProcessStore


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Letter:
    text: str


@agent(description="Answers at once")
class Quick:
    @action
    async def note(self, user_input: UserInput) -> Note:
        return Note(user_input.content)

    @achieves_goal(description="A letter")
    async def write(self, note: Note) -> Letter:
        return Letter(note.text)


@agent(description="Answers when it is let")
class Slow:
    def __init__(self) -> None:
        self.door = anyio.Event()

    @achieves_goal(description="A letter")
    async def write(self, user_input: UserInput) -> Letter:
        await self.door.wait()
        return Letter(user_input.content)


@agent(description="Takes its time, as it says")
class Long:
    @achieves_goal(description="A letter", export=Export(long=True))
    async def write(self, user_input: UserInput) -> Letter:
        return Letter(user_input.content)


@agent(description="Asks")
class Asker:
    @achieves_goal(description="A letter")
    async def ask(self, user_input: UserInput) -> WaitFor[Letter]:
        return WaitFor.form_submission("What?", Letter)


@agent(description="Has another agent write")
class Delegates:
    @achieves_goal(description="A note")
    async def note(self, user_input: UserInput) -> Note:
        letter = await run_subagent(Quick(), Letter, user_input)
        return Note(letter.text)


class Follower:
    def on_event(self, event: Event, /) -> None:
        """Do nothing: that it listens is enough."""


async def knows(platform: AgentPlatform, process_id: str) -> bool:
    try:
        await platform.process(process_id)
    except UnknownName:
        return False
    return True


async def ran(platform: AgentPlatform, agent: str, times: int = 1) -> list[str]:
    """The ids of processes that have run to their ends and whose tasks are over."""
    found = [await platform.run(agent, UserInput("x")) for _ in range(times)]
    for each in found:
        await each.rest()
    return [each.id for each in found]


class LateStore(InMemoryProcessStore):
    """A store whose list of processes takes a while to come, as it does from a database."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.comes = anyio.Event(), anyio.Event()

    async def records(self, **wanted: Any) -> Sequence[ProcessRecord]:
        found = await super().records(**wanted)
        self.asked.set()
        await self.comes.wait()
        return found


async def test_a_process_that_is_stored_while_processes_are_listed_is_listed() -> None:
    platform = AgentPlatform([slow := Slow()], store=(store := LateStore()))
    process = platform.start("Slow", UserInput("x"))
    listed: list[str] = []

    async def look() -> None:
        listed.extend(each.id for each in await platform.processes.records())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            await store.asked.wait()
            slow.door.set()
            await process.rest()
            store.comes.set()
    assert listed == [process.id]


async def test_the_process_that_ended_first_is_forgotten_first_whenever_it_began() -> None:
    platform = AgentPlatform([Quick, slow := Slow()], store=InMemoryProcessStore(window=3))
    with anyio.fail_after(60):
        first = platform.start("Slow", UserInput("late"))
        quick = await ran(platform, "Quick", 3)
        slow.door.set()
        await first.rest()
        (last,) = await ran(platform, "Quick")
    assert [await knows(platform, each) for each in (*quick, first.id, last)] == [False, False, True, True, True]


async def test_a_process_that_somebody_follows_is_not_forgotten() -> None:
    platform = AgentPlatform([Quick], store=InMemoryProcessStore(window=1))
    followed = await platform.run("Quick", UserInput("x"))
    await followed.rest()
    leave = followed.subscribe(Follower())
    last = await ran(platform, "Quick", 3)
    assert [await knows(platform, each) for each in (followed.id, *last)] == [True, False, False, True]
    leave()
    await ran(platform, "Quick")
    assert not await knows(platform, followed.id)


async def test_a_long_goals_result_outlasts_any_number_of_short_calls() -> None:
    platform = AgentPlatform([Quick, Long], store=InMemoryProcessStore(window=2))
    (long,) = await ran(platform, "Long")
    await ran(platform, "Quick", 10)
    assert (await platform.process(long)).outcome == Completed(Letter("x"))


async def test_long_results_are_kept_for_their_time_and_then_as_many_as_short_ones() -> None:
    lasting = AgentPlatform([Long], store=InMemoryProcessStore(window=2))
    kept = await ran(lasting, "Long", 5)
    assert all([await knows(lasting, each) for each in kept])
    fleeting = AgentPlatform([Long], store=InMemoryProcessStore(window=2, seconds=0.0))
    kept = await ran(fleeting, "Long", 5)
    assert [await knows(fleeting, each) for each in kept] == [False, False, False, True, True]


async def test_even_long_results_have_a_limit() -> None:
    platform = AgentPlatform([Long], store=InMemoryProcessStore(window=1))
    kept = await ran(platform, "Long", 12)
    assert [await knows(platform, each) for each in kept] == [False, False, *[True] * 10]


async def test_processes_that_wait_take_no_room_from_those_that_have_ended() -> None:
    platform = AgentPlatform([Quick, Asker], store=InMemoryProcessStore(window=2))
    waiting = await ran(platform, "Asker", 5)
    ended = await ran(platform, "Quick", 2)
    assert all([await knows(platform, each) for each in (*waiting, *ended)])


async def test_of_too_many_waiting_processes_the_one_that_has_waited_longest_is_terminated() -> None:
    platform = AgentPlatform([Asker], store=InMemoryProcessStore(waiting=2))
    one, two = await ran(platform, "Asker", 2)
    with anyio.fail_after(60):
        (await platform.process(one)).resume()  # nothing has changed, so it waits again, as the newest
        await (await platform.process(one)).wait()
        await ran(platform, "Asker")
    assert (await platform.process(one)).status is ProcessStatus.WAITING
    outcome = (await platform.process(two)).outcome
    assert isinstance(outcome, Terminated)
    assert "More than 2 processes wait" in outcome.reason


async def test_a_process_is_forgotten_with_all_that_it_started_and_not_before() -> None:
    platform = AgentPlatform([Delegates, Quick], store=InMemoryProcessStore(window=2))
    (outer,) = await ran(platform, "Delegates")
    (child,) = (await platform.process(outer)).children
    await ran(platform, "Quick")
    assert await knows(platform, outer)
    assert await knows(platform, child.id)
    await ran(platform, "Quick")
    assert not await knows(platform, outer)
    assert not await knows(platform, child.id)


async def test_a_killed_process_that_waited_makes_room_as_any_other() -> None:
    platform = AgentPlatform([Asker], store=InMemoryProcessStore(window=1, seconds=0.0))
    one, two = await ran(platform, "Asker", 2)
    for each in (one, two):
        killed = await platform.process(each)
        killed.kill()
        await killed.rest()
    assert not await knows(platform, one)
    assert (await platform.process(two)).status is ProcessStatus.KILLED


async def test_a_process_that_the_program_holds_keeps_all_that_it_knew_and_is_still_found() -> None:
    platform = AgentPlatform([Delegates, Quick])
    held = await platform.run("Delegates", UserInput("x"))
    await ran(platform, "Quick", 101)
    assert await platform.process(held.id) is held
    assert held.last(Note) == Note("x")
    assert held.children[0].result_of_type(Note) == Note("x")


async def test_of_one_that_nobody_holds_only_the_end_is_kept_and_it_says_so() -> None:
    platform = AgentPlatform([Delegates, Quick])
    (old,) = await ran(platform, "Delegates")
    (new, *_) = await ran(platform, "Quick", 100)
    gc.collect()
    found = await platform.process(old)
    assert (found.status, found.outcome, len(found.history)) == (ProcessStatus.COMPLETED, Completed(Note("x")), 1)
    assert found.result_of_type(Note) == Note("x")
    assert found.children[0].outcome == Completed(Letter("x"))
    for ask in (lambda: found.last(Letter), lambda: found.result_of_type(Letter)):
        with pytest.raises(ProcessEnded, match=r"Letter is not known any more.*Hold on to the process"):
            ask()
    assert (await platform.process(new)).last(Note) == Note("x")


async def test_a_stuck_process_keeps_what_it_knows_since_it_may_go_on() -> None:
    platform = AgentPlatform([Quick])
    process_id = (await platform.run("Quick")).id
    await ran(platform, "Quick", 101)
    gc.collect()
    with anyio.fail_after(60):
        (await platform.process(process_id)).resume(UserInput("at last"))
        found: AgentProcess = await platform.process(process_id)
        assert await found.wait() == Completed(Letter("at last"))


async def test_one_that_waits_is_in_memory_as_long_as_somebody_holds_or_follows_it(tmp_path: Path) -> None:
    class Follower:
        def on_event(self, event: Event, /) -> None: ...

    async with SqliteProcessStore(tmp_path / "processes.db") as store, AgentPlatform([Asker], store=store) as platform:
        process = platform.start("Asker", UserInput("one"))
        leave = process.subscribe(Follower())
        with anyio.fail_after(60):
            await process.wait()
            await process.rest()
        process_id, known = process.id, ref(process)
        del process
        gc.collect()
        assert known() is not None, "somebody follows it"
        leave()
        del leave
        with anyio.fail_after(60):
            while known() is not None:  # what has stored it may still have to be told so
                await anyio.sleep(0.01)
                gc.collect()
        assert (await platform.process(process_id)).status is ProcessStatus.WAITING
