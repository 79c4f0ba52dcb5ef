"""How a process goes on after it rested: whoever waits for it hears what comes next, and nothing can wedge it."""

import threading
from dataclasses import dataclass

import anyio
import pytest

from goalport.agents.domain import UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.errors import GoalportError
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    AgentProcess,
    Completed,
    Failed,
    Killed,
    ProcessOptions,
    ProcessStatus,
    Terminated,
    Waiting,
    run_subagent,
)


@dataclass(frozen=True)
class Permit:
    number: int


@dataclass(frozen=True)
class House:
    number: int


@agent(description="Asks twice, and thinks in between")
class Office:
    def __init__(self) -> None:
        self.thinks = anyio.Event()
        self.door = anyio.Event()

    @action
    async def first(self, user_input: UserInput) -> WaitFor[int]:
        return WaitFor.form_submission("How high?", int)

    @action
    async def think(self, height: int) -> str:
        self.thinks.set()
        await self.door.wait()
        return f"{height} m"

    @achieves_goal(description="A permit")
    async def second(self, words: str) -> WaitFor[Permit]:
        return WaitFor.form_submission(f"Is {words} allowed?", Permit)


@agent(description="Builds with a permit")
class Builder:
    def __init__(self, office: Office) -> None:
        self.office = office

    @achieves_goal(description="A house")
    async def build(self, user_input: UserInput) -> House:
        return House((await run_subagent(self.office, Permit, user_input)).number)


@agent(description="Has builders")
class Owner:
    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    @achieves_goal(description="A house of one's own")
    async def own(self, user_input: UserInput) -> House:
        return await run_subagent(self.builder, House, user_input)


async def begun() -> tuple[AgentPlatform, Office, AgentProcess]:
    office = Office()
    platform = AgentPlatform([Owner(Builder(office))])
    return platform, office, await platform.run("Owner", UserInput("x"))


async def test_waiting_after_the_answer_to_a_sub_process_gives_what_comes_of_it() -> None:
    with anyio.fail_after(60):
        platform, office, process = await begun()
        assert isinstance(process.outcome, Waiting)
        await platform.answer(process.id, response=3)
        assert (process.status, process.outcome) == (ProcessStatus.RUNNING, None)
        await office.thinks.wait()
        assert (process.status, process.outcome) == (ProcessStatus.RUNNING, None)
        office.door.set()
        outcome = await process.wait()
        assert isinstance(outcome, Waiting)
        assert [each.message for each in outcome.questions] == ["Is 3 m allowed?"]
        await platform.answer(process.id, response=Permit(7))
        assert await process.wait() == Completed(House(7))


@pytest.mark.parametrize(("end", "outcome"), [("kill", Killed("No.")), ("terminate", Terminated("No."))])
async def test_a_process_that_only_waits_for_a_running_one_can_be_ended(end: str, outcome: Killed | Terminated) -> None:
    with anyio.fail_after(60):
        platform, office, process = await begun()
        await platform.answer(process.id, response=3)
        await office.thinks.wait()
        getattr(process, end)("No.")
        assert await process.wait() == outcome
        office.door.set()
        child = process.children[0].children[0]
        assert await child.wait() == outcome


async def test_whoever_stops_waiting_watches_the_process_no_more() -> None:
    office = Office()
    process = AgentPlatform([office]).start("Office", UserInput("a shed"))
    await process.wait()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(process.changed)
            await anyio.wait_all_tasks_blocked()
            assert process.watched
            waiting.cancel_scope.cancel()
    assert not process.watched


async def test_resuming_a_process_by_itself_lets_it_go_on() -> None:
    @agent(description="Builds")
    class Simple:
        @achieves_goal(description="A house")
        async def build(self, permit: Permit) -> House:
            return House(permit.number)

    process = await AgentPlatform([Simple]).run("Simple")
    assert process.status is ProcessStatus.STUCK
    with anyio.fail_after(60):
        process.resume(Permit(1))
        assert await process.wait() == Completed(House(1))
    process.resume(Permit(2))
    assert process.outcome == Completed(House(1))
    with pytest.raises(GoalportError, match="completed"):
        await process.platform.step(process)


async def test_a_waiting_process_can_be_killed_from_another_thread() -> None:
    with anyio.fail_after(60):
        _, _, process = await begun()
        thread = threading.Thread(target=process.kill, args=("Somebody else.",))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        assert await process.wait() == Killed("Somebody else.")


async def test_terminating_counts_also_where_the_running_action_ends_with_a_question() -> None:
    @agent(description="Asks, and has enough")
    class Asks:
        @achieves_goal(description="A permit")
        async def ask(self, user_input: UserInput, process: AgentProcess) -> WaitFor[Permit]:
            process.terminate("Enough.")
            return WaitFor.form_submission("?", Permit)

    process = await AgentPlatform([Asks]).run("Asks", UserInput("x"))
    assert process.outcome == Terminated("Enough.")


async def test_an_ephemeral_process_that_would_ask_fails_since_nobody_would_find_it() -> None:
    process = await AgentPlatform([Office()]).run("Office", UserInput("x"), options=ProcessOptions(ephemeral=True))
    assert isinstance(process.outcome, Failed)
    assert "an ephemeral process cannot ask people" in process.outcome.reason
