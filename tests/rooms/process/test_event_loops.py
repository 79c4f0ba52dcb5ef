"""Processes on the plain event loop of a program, and answers and ends that come from its worker threads."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from anyio import fail_after, from_thread, sleep, to_thread

from goalport.agents.domain import WaitFor, achieves_goal, action, agent
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    ActionContext,
    AgentProcess,
    Completed,
    Failed,
    Outcome,
    ProcessOptions,
    ProcessStatus,
    run_subagent,
)


@dataclass(frozen=True)
class Room:
    number: int


@dataclass(frozen=True)
class Wish:
    nights: int


@dataclass(frozen=True)
class Booking:
    nights: int


@agent(description="Asks how long somebody stays")
class Desk:
    @action
    def ask(self, room: Room) -> WaitFor[Wish]:
        return WaitFor.form_submission(f"How long in {room.number}?", Wish)

    @achieves_goal(description="Book a room")
    def book(self, room: Room, wish: Wish) -> Booking:
        return Booking(room.number + wish.nights)


@agent(description="Lets the desk ask")
class Hotel:
    @achieves_goal(description="Welcome a guest")
    async def welcome(self, room: Room) -> Booking:
        return await run_subagent(Desk(), Booking)


@agent(description="Asks and does not wait long")
class Hasty:
    @achieves_goal(description="Know a wish")
    def ask(self, room: Room) -> WaitFor[Wish]:
        return WaitFor.form_submission("Quick?", Wish, expires_in=0.01)


async def ended(process: AgentProcess) -> Outcome:
    with fail_after(60):
        return await process.wait()


def test_a_parent_goes_on_in_a_program_that_has_only_asyncio() -> None:
    async def main() -> Outcome:
        async with AgentPlatform([Hotel]) as platform:
            process = await platform.run("Hotel", Room(100))
            await platform.answer(process.id, response={"nights": 3})
            return await ended(process)

    assert asyncio.run(main()) == Completed(Booking(103))


def test_a_question_expires_in_a_program_that_has_only_asyncio() -> None:
    async def main() -> Outcome:
        async with AgentPlatform([Hasty]) as platform:
            process = await platform.run("Hasty", Room(1))
            with fail_after(60):
                while not (outcome := await process.wait()).status.ended:
                    await sleep(0.01)
            return outcome

    outcome = asyncio.run(main())
    assert isinstance(outcome, Failed)
    assert "Nobody answered in time" in outcome.reason


def test_an_answer_may_come_from_a_worker_thread() -> None:
    async def main() -> Outcome:
        async with AgentPlatform([Desk]) as platform:
            process = await platform.run("Desk", Room(100))
            await to_thread.run_sync(lambda: from_thread.run(partial(platform.answer, process.id, response=Wish(2))))
            return await ended(process)

    assert asyncio.run(main()) == Completed(Booking(102))


@pytest.mark.parametrize("end", [AgentProcess.kill, AgentProcess.terminate])
def test_a_sub_process_that_waits_may_be_ended_from_a_worker_thread(end: Callable[[AgentProcess], None]) -> None:
    async def main() -> tuple[Outcome, Outcome | None]:
        async with AgentPlatform([Hotel]) as platform:
            process = await platform.run("Hotel", Room(100))
            (child,) = process.children
            await to_thread.run_sync(lambda: end(child))
            return await ended(process), child.outcome

    outcome, of_child = asyncio.run(main())
    assert isinstance(outcome, Failed)
    assert of_child is not None
    assert of_child.reason.rstrip(".") in outcome.reason


def test_a_paused_process_may_be_terminated_from_a_worker_thread() -> None:
    class Tomorrow:
        def not_before(self, _process: object, _action: str, /) -> datetime:
            return datetime.now(UTC) + timedelta(days=1)

    async def main() -> Outcome:
        async with AgentPlatform([Desk]) as platform:
            process = platform.start("Desk", Room(1), options=ProcessOptions(schedule=Tomorrow()))
            while process.status is not ProcessStatus.PAUSED:
                await sleep(0.01)
            await to_thread.run_sync(process.terminate)
            return await ended(process)

    assert asyncio.run(main()).status is ProcessStatus.TERMINATED


async def test_children_that_start_in_another_order_after_an_answer_are_told_apart() -> None:
    first_to_go = iter([2, 2, 1, 1])

    @agent(description="Books two rooms at once")
    class Group:
        @achieves_goal(description="Book both")
        async def both(self, room: Room, context: ActionContext) -> list[Booking]:
            favoured, turn = next(first_to_go), asyncio.Event()

            async def one(number: int) -> Booking:
                if number != favoured:
                    await turn.wait()
                turn.set()
                return await context.as_sub_process(Booking, Desk(), Room(number))

            return await context.parallel_map([1, 2], one)

    async with AgentPlatform([Group]) as platform:
        process = await platform.run("Group", Room(0))
        for question in process.open_questions:
            await platform.answer(process.id, question.id, Wish(10 if "1?" in question.message else 20))
        assert await ended(process) == Completed([Booking(11), Booking(22)])
        assert len(process.children) == 2
