"""When nothing goes on any more: `rest` tells it by an event, and `wait` never gives what was answered already."""

import asyncio
import threading
from dataclasses import dataclass

import anyio
import pytest
from anyio.to_thread import run_sync

from goalport.agents.domain import WaitFor, achieves_goal, agent
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    ActionContext,
    AgentProcess,
    Completed,
    Failed,
    Killed,
    ProcessStatus,
    Stuck,
    Waiting,
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
    number: int


@dataclass(frozen=True)
class Bookings:
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Offer:
    number: int


@agent(description="Books a room as somebody wishes")
class Desk:
    def __init__(self) -> None:
        self.booking = anyio.Event()
        self.door = anyio.Event()

    @achieves_goal(description="Book a room")
    async def book(self, room: Room, context: ActionContext) -> Booking:
        wish = await context.ask(f"How many nights in {room.number}?", Wish)
        self.booking.set()
        await self.door.wait()
        return Booking(room.number + wish.nights)


@agent(description="Books two rooms at once")
class Group:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @achieves_goal(description="Book both")
    async def both(self, room: Room, context: ActionContext) -> Bookings:
        async def one(number: int) -> Booking:
            return await context.as_sub_process(Booking, self.desk, Room(number))

        booked = await context.parallel_map([100, 200], one)
        return Bookings(tuple(each.number for each in booked))


@agent(description="Books one room by way of the desk")
class Guest:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @achieves_goal(description="Offer a room")
    async def offer(self, room: Room) -> Offer:
        return Offer((await run_subagent(self.desk, Booking)).number)


@agent(description="Asks and is done with it")
class Form:
    @achieves_goal(description="Know a wish")
    def ask(self, room: Room) -> WaitFor[Wish]:
        return WaitFor.form_submission("How many nights?", Wish)


def told(outcome: object) -> list[str]:
    assert isinstance(outcome, Waiting), outcome
    return [each.message for each in outcome.questions]


@pytest.mark.parametrize("first", [0, 1])
async def test_waiting_after_one_of_two_sub_processes_was_answered_gives_the_other_question_alone(first: int) -> None:
    desk = Desk()
    platform = AgentPlatform([Group(desk)])
    with anyio.fail_after(60):
        process = await platform.run("Group", Room(0))
        questions = process.open_questions
        assert told(process.outcome) == ["How many nights in 100?", "How many nights in 200?"]
        await platform.answer(process.id, questions[first].id, Wish(1))
        assert (process.status, process.outcome) == (ProcessStatus.RUNNING, None)
        await desk.booking.wait()
        assert (process.status, process.outcome) == (ProcessStatus.RUNNING, None)
        desk.door.set()
        assert told(await process.wait()) == [questions[1 - first].message]
        await platform.answer(process.id, response=Wish(2))
        assert await process.wait() == Completed(Bookings((101, 202) if first == 0 else (102, 201)))


async def test_waiting_right_after_an_answer_from_another_thread_gives_what_comes_of_it() -> None:
    desk = Desk()
    platform = AgentPlatform([Guest(desk)])
    desk.door.set()
    with anyio.fail_after(60):
        process = await platform.run("Guest", Room(3))
        (question,) = process.open_questions
        answer = platform.answer(process.id, question.id, Wish(2))
        thread = threading.Thread(target=asyncio.run, args=(answer,))
        thread.start()
        thread.join()  # the event loop stands still meanwhile: nothing can have gone on
        assert question.status == "answered"
        assert await process.wait() == Completed(Offer(5))


async def test_waiting_right_after_a_kill_from_another_thread_gives_its_end() -> None:
    platform = AgentPlatform([Form])
    with anyio.fail_after(60):
        process = await platform.run("Form", Room(3))
        thread = threading.Thread(target=process.kill, args=("Enough.",))
        thread.start()
        thread.join()
        assert await process.wait() == Killed("Enough.")
        assert await process.rest() == Killed("Enough.")


async def test_a_stepped_process_that_was_answered_does_not_wait_any_more() -> None:
    platform = AgentPlatform([Form])
    with anyio.fail_after(60):
        process = platform.create_agent_process("Form", Room(3))
        await process.tick()
        assert await process.tick() is ProcessStatus.WAITING
        await platform.answer(process.id, response=Wish(2))
        assert (process.status, process.outcome) == (ProcessStatus.RUNNING, None)
        assert await process.rest() is None
        with anyio.move_on_after(0) as scope:
            await process.wait()
        assert scope.cancelled_caught  # it goes on by steps only
        assert await process.tick() is ProcessStatus.COMPLETED
        assert await process.wait() == Completed(Wish(2))


async def test_a_process_rests_when_it_waits_is_stuck_or_has_not_begun() -> None:
    desk = Desk()
    platform = AgentPlatform([Guest(desk), Form])
    with anyio.fail_after(60):
        assert await platform.create_agent_process("Form", Room(1)).rest() is None
        assert isinstance(await platform.start("Form").rest(), Stuck)
        process = platform.start("Guest", Room(1))
        assert told(await process.rest()) == ["How many nights in 1?"]
        assert told(await process.rest()) == ["How many nights in 1?"]


async def test_a_process_does_not_rest_while_one_that_it_started_goes_on() -> None:
    desk = Desk()
    platform = AgentPlatform([Guest(desk)])
    rested: list[object] = []

    async def look(process: AgentProcess) -> None:
        rested.append(await process.rest())

    with anyio.fail_after(60):
        process = await platform.run("Guest", Room(3))
        await platform.answer(process.id, response=Wish(2))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look, process)
            tasks.start_soon(look, process.children[0])
            await desk.booking.wait()
            assert rested == []
            desk.door.set()
        assert rested == [Completed(Booking(5)), Completed(Offer(5))]


async def test_who_hears_of_the_end_of_a_sub_process_finds_its_parent_going_on() -> None:
    desk = Desk()
    desk.door.set()
    platform = AgentPlatform([Guest(desk)])
    with anyio.fail_after(60):
        process = await platform.run("Guest", Room(3))
        (child,) = process.children
        await platform.answer(process.id, response=Wish(2))
        await child.wait()
        assert process.outcome is None
        assert await process.rest() == Completed(Offer(5))


async def test_a_killed_process_rests_when_what_it_started_has_stopped() -> None:
    stopping, go, stopped = anyio.Event(), anyio.Event(), anyio.Event()

    @agent(description="Takes its time to stop")
    class Slow:
        @achieves_goal(description="Book a room")
        async def book(self, room: Room) -> Booking:
            try:
                await anyio.sleep_forever()
            finally:
                stopping.set()
                with anyio.CancelScope(shield=True):
                    await go.wait()
                stopped.set()
            raise AssertionError

    @agent(description="Has somebody book, and does not wait")
    class Impatient:
        @achieves_goal(description="Offer a room")
        async def offer(self, room: Room, process: AgentProcess) -> Offer:
            child = process.platform.start_child(process, "", Slow(), Booking, [room])
            await anyio.lowlevel.checkpoint()
            child.kill("Too slow.")
            return Offer(room.number)

    with anyio.fail_after(60):
        process = await AgentPlatform([Impatient]).run("Impatient", Room(3))
        assert process.outcome == Completed(Offer(3))
        assert not stopped.is_set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.rest)
            await stopping.wait()
            go.set()
        assert stopped.is_set()


async def test_a_cancelled_wait_for_rest_leaves_the_process_as_it_is() -> None:
    desk = Desk()
    platform = AgentPlatform([Desk()])
    with anyio.fail_after(60):
        process = await platform.run("Desk", Room(3))
        await platform.answer(process.id, response=Wish(1))
        with anyio.move_on_after(0):
            await process.rest()
        assert process.status is ProcessStatus.RUNNING
        process.kill("Enough.")
        assert await process.rest() == Killed("Enough.")
    assert not desk.booking.is_set()


async def test_rest_is_told_where_the_work_was_done_in_a_thread() -> None:
    @agent(description="Fails in a thread")
    class Fails:
        @achieves_goal(description="Book a room")
        def book(self, room: Room) -> Booking:
            raise OSError(f"No {room.number}.")

    with anyio.fail_after(60):
        process = AgentPlatform([Fails]).start("Fails", Room(3))
        assert isinstance(await process.rest(), Failed)
        assert await run_sync(lambda: process.status) is ProcessStatus.FAILED
