"""Driving a process step by step, and looking at it between the steps."""

from dataclasses import dataclass

import anyio
import pytest

from goalport.agents.domain import UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.errors import GoalportError, UnknownName
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    ActionContext,
    Completed,
    Killed,
    ProcessOptions,
    ProcessStatus,
    Stuck,
    Terminated,
    Waiting,
)
from tests.rooms.toy_domain import Draft, Story


@dataclass(frozen=True)
class Review:
    stars: int


@agent(description="Writes")
class Writer:
    def __init__(self, gate: anyio.Event | None = None) -> None:
        self.gate = gate
        self.done: list[str] = []

    @action
    async def draft(self, user_input: UserInput) -> Draft:
        if self.gate is not None:
            await self.gate.wait()
        self.done.append("draft")
        return Draft(user_input.content)

    @action
    def review(self, draft: Draft) -> WaitFor[Review]:
        self.done.append("review")
        return WaitFor.form_submission(f"How good is {draft.text!r}?", Review)

    @achieves_goal(description="A story")
    async def finish(self, draft: Draft, review: Review) -> Story:
        self.done.append("finish")
        return Story(f"{draft.text} {review.stars}")


async def test_a_process_is_created_stepped_and_looked_at() -> None:
    writer = Writer()
    platform = AgentPlatform([writer])
    process = platform.create_agent_process("Writer", UserInput("tale"))
    await anyio.lowlevel.checkpoint()
    assert (process.status, process.outcome, writer.done) == (ProcessStatus.NOT_STARTED, None, [])
    with pytest.raises(UnknownName):
        await platform.process(process.id)

    with anyio.fail_after(60):
        assert await process.tick() is ProcessStatus.RUNNING
        assert (writer.done, process.last(Draft), process.outcome) == (["draft"], Draft("tale"), None)
        assert process.plan == ("Writer.draft", "Writer.review", "Writer.finish")
        assert await platform.process(process.id) is process

        assert await process.tick() is ProcessStatus.RUNNING  # asked
        assert await process.tick() is ProcessStatus.WAITING
        assert isinstance(process.outcome, Waiting)

        await platform.answer(process.id, response={"stars": 3})
        await anyio.lowlevel.checkpoint()
        assert writer.done == ["draft", "review"]
        assert await process.tick() is ProcessStatus.RUNNING
        assert await process.tick() is ProcessStatus.COMPLETED
        assert process.outcome == Completed(Story("tale 3"))

        assert await process.tick() is ProcessStatus.COMPLETED
    assert writer.done == ["draft", "review", "finish"]
    assert [each.action.rpartition(".")[2] for each in process.history] == writer.done


async def test_a_process_that_was_stepped_can_run_on_to_its_end() -> None:
    platform = AgentPlatform([Writer()])
    process = platform.create_agent_process("Writer", UserInput("tale"))
    with anyio.fail_after(60):
        await process.tick()
        assert isinstance(await process.run(), Waiting)
        await platform.answer(process.id, response={"stars": 3})  # it goes on by itself from here
        assert await process.wait() == Completed(Story("tale 3"))
        assert await process.run() == Completed(Story("tale 3"))


async def test_a_process_that_never_began_can_be_run_or_killed() -> None:
    platform = AgentPlatform([Writer()])
    with anyio.fail_after(60):
        process = platform.create_agent_process("Writer", UserInput("tale"), Review(2))
        assert await process.run() == Completed(Story("tale 2"))
        process = platform.create_agent_process("Writer", UserInput("tale"))
        process.kill("Never mind.")
        assert process.outcome == Killed("Never mind.")
        assert await process.tick() is ProcessStatus.KILLED


async def test_nobody_steps_a_process_that_somebody_else_drives() -> None:
    gate = anyio.Event()
    platform = AgentPlatform([Writer(gate)])
    process = platform.start("Writer", UserInput("tale"), Review(1))
    with pytest.raises(GoalportError, match="Expected a process that nobody drives"):
        await process.tick()
    gate.set()
    with anyio.fail_after(60):
        assert await process.run() == Completed(Story("tale 1"))


async def test_between_steps_a_process_can_be_terminated_helped_or_closed_with_its_platform() -> None:
    with anyio.fail_after(60):
        async with AgentPlatform([Writer()]) as platform:
            process = platform.create_agent_process("Writer", UserInput("tale"))
            await process.tick()
            process.terminate("Enough.")
            assert process.outcome == Terminated("Enough.")

            process = platform.create_agent_process("Writer")
            assert await process.tick() is ProcessStatus.STUCK
            assert isinstance(process.outcome, Stuck)
            process.blackboard.add(UserInput("late"))
            assert await process.tick() is ProcessStatus.RUNNING
            assert process.last(Draft) == Draft("late")
        assert process.outcome == Killed("The platform was closed.")


async def test_a_step_whose_caller_went_away_is_taken_all_the_same() -> None:
    gate = anyio.Event()
    writer = Writer(gate)
    process = AgentPlatform([writer]).create_agent_process("Writer", UserInput("tale"), Review(1))
    with anyio.move_on_after(0) as scope:
        await process.tick()
    assert scope.cancelled_caught
    gate.set()
    with anyio.fail_after(60):
        assert await process.rest() is None
    assert (writer.done, process.status) == (["draft"], ProcessStatus.RUNNING)


async def test_several_actions_at_once_are_one_step_and_the_budget_counts() -> None:
    @agent(description="Does two things")
    class Two:
        @action
        async def draft(self, user_input: UserInput, context: ActionContext) -> Draft:
            return Draft(user_input.content)

        @action
        async def review(self, user_input: UserInput) -> Review:
            return Review(len(user_input.content))

        @achieves_goal(description="A story")
        async def finish(self, draft: Draft, review: Review) -> Story:
            return Story(f"{draft.text} {review.stars}")

    options = ProcessOptions(concurrent=True)
    process = AgentPlatform([Two]).create_agent_process("Two", UserInput("x"), options=options)
    with anyio.fail_after(60):
        assert [await process.tick() for _ in range(3)] == ["running", "running", "completed"]
    assert len(process.history) == 3
