"""What stops an action or a process from an unusual side: exits, stray cancellations, other threads and other loops."""

import asyncio
import gc
import sys
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import pytest

from goalport.agents.domain import RetryPolicy, achieves_goal, action, agent, condition
from goalport.base.errors import UnknownName
from goalport.runtime.platform import AgentInvocation, AgentPlatform
from goalport.runtime.process import (
    AgentProcess,
    Completed,
    Failed,
    Killed,
    OperationContext,
    ProcessOptions,
    Terminated,
)
from goalport.store import InMemoryProcessStore
from tests.rooms.toy_domain import Invoice, Order, Receipt


async def ended(declared: object, name: str, **settings: Any) -> object:
    with anyio.fail_after(60):
        return (await AgentPlatform([declared]).run(name, Order("tea"), **settings)).outcome


async def test_an_action_that_exits_the_program_only_fails() -> None:
    @agent(description="d")
    class Exits:
        @action
        def bill(self, order: Order) -> Invoice:
            sys.exit(3)

        @action(cost=0.5)
        async def bill_again(self, order: Order) -> Invoice:
            sys.exit("no way")

        @achieves_goal(description="g")
        def pay(self, invoice: Invoice) -> Receipt:
            raise AssertionError

    outcome = await ended(Exits, "Exits")
    assert isinstance(outcome, Failed)
    assert len(outcome.tried) == 2
    assert "exit the program (SystemExit)" in outcome.reason


async def test_an_action_that_awaits_something_cancelled_only_fails() -> None:
    @agent(description="d")
    class Awaits:
        @achieves_goal(description="g")
        async def bill(self, order: Order) -> Invoice:
            task = asyncio.create_task(asyncio.sleep(5))
            task.cancel()
            await task
            raise AssertionError

    outcome = await ended(Awaits, "Awaits")
    assert isinstance(outcome, Failed)
    assert "waited for was cancelled" in outcome.reason


async def test_failures_in_a_task_group_are_told_one_by_one_and_tried_again_when_all_may_pass() -> None:
    attempts: list[int] = []

    async def fail(error: Exception) -> None:
        raise error

    @agent(description="d")
    class Parallel:
        @achieves_goal(description="g")
        @action(retry=RetryPolicy(first_delay=0.001))
        async def bill(self, order: Order) -> Invoice:
            attempts.append(1)
            async with anyio.create_task_group() as group:
                group.start_soon(fail, ConnectionError("reset"))
            raise AssertionError

    outcome = await ended(Parallel, "Parallel")
    assert isinstance(outcome, Failed)
    assert outcome.tried == ("Parallel.bill failed: ConnectionError: reset",)
    assert len(attempts) == 3


def kills_itself_in_a_condition() -> type:
    @agent(description="d")
    class Kills:
        @condition
        def ready(self, context: OperationContext) -> bool:
            context.process.kill("No.")
            return True

        @achieves_goal(description="g")
        @action(pre=["ready"])
        def bill(self, order: Order) -> Invoice:
            raise AssertionError

    return Kills


def kills_itself_in_its_last_action() -> type:
    @agent(description="d")
    class Kills:
        @achieves_goal(description="g")
        def bill(self, order: Order, context: OperationContext) -> Invoice:
            context.process.kill("No.")
            return Invoice("too late")

    return Kills


@pytest.mark.parametrize("declared", [kills_itself_in_a_condition(), kills_itself_in_its_last_action()])
def test_a_process_is_killed_from_a_worker_thread_too(declared: type) -> None:
    # asyncio refuses in its debug mode what is not safe from another thread.
    assert asyncio.run(ended(declared, "Kills"), debug=True) == Killed("No.")


async def test_a_process_that_was_killed_before_it_began_never_begins_and_the_first_reason_counts() -> None:
    process = AgentPlatform([kills_itself_in_its_last_action()]).start("Kills", Order("tea"))
    process.kill("First.")
    process.kill("Second.")
    process.terminate("Third.")
    with anyio.fail_after(60):
        assert await process.wait() == Killed("First.")
    assert process.history == ()


@agent(description="d")
class Waits:
    def __init__(self) -> None:
        self.begun = threading.Event()

    @achieves_goal(description="g")
    async def bill(self, order: Order) -> Invoice:
        self.begun.set()
        await anyio.sleep_forever()
        raise AssertionError


def test_a_process_does_not_outlive_its_event_loop_and_does_not_blame_its_deadline() -> None:
    async def leave() -> AgentProcess:
        process = AgentPlatform([Waits]).start("Waits", Order("tea"), options=ProcessOptions(deadline=60))
        await asyncio.sleep(0)
        return process

    outcome = asyncio.run(leave()).outcome
    assert outcome == Terminated("Its task was cancelled: the program stopped, or an action cancelled it.")


async def test_closing_ends_what_runs_on_other_event_loops_too() -> None:
    waits, ends = Waits(), list[Exception]()

    def invoke(platform: AgentPlatform) -> None:
        try:
            AgentInvocation.on(platform).returning(Invoice).invoke_sync(Order("tea"))
        except Exception as error:
            ends.append(error)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group, AgentPlatform([waits]) as platform:
            group.start_soon(anyio.to_thread.run_sync, invoke, platform)
            await anyio.to_thread.run_sync(waits.begun.wait, 30)
    assert [type(error).__name__ for error in ends] == ["ProcessKilled"]


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="Python 3.12 ends coroutines whose frames are cleared")
async def test_a_process_that_failed_is_forgotten_without_the_garbage_collector() -> None:
    @agent(description="d")
    class Fails:
        @achieves_goal(description="g")
        async def bill(self, order: Order) -> Invoice:
            raise ValueError(order.item)

    platform = AgentPlatform([Fails], store=InMemoryProcessStore(window=0))
    gc.disable()
    try:
        process = weakref.ref(await platform.run("Fails", Order("tea")))
        for _ in range(100):  # as many as are kept whole
            await platform.run("Fails", Order("tea"))
        await asyncio.sleep(0)
        assert process() is None
    finally:
        gc.enable()


async def test_what_ended_well_stays_well() -> None:
    @agent(description="d")
    class Bills:
        @achieves_goal(description="g")
        def bill(self, order: Order) -> Invoice:
            return Invoice(order.item)

    process = await AgentPlatform([Bills]).run("Bills", Order("tea"))
    process.kill()
    assert process.outcome == Completed(Invoice("tea"))


@dataclass
class Equal:
    heard: list[str]

    def on_event(self, event: object) -> None:
        self.heard.append(type(event).__name__)


async def test_a_listener_leaves_once_and_takes_no_equal_one_along() -> None:
    class LeavesAtOnce:
        def on_event(self, event: object) -> None:
            leave_at_once()

    platform = AgentPlatform([Waits])
    leave_at_once = platform.subscribe(LeavesAtOnce())
    one, other = Equal([]), Equal([])
    platform.subscribe(one)
    leave = platform.subscribe(other)
    leave()
    platform.subscribe(other)
    leave()
    platform.undeploy("Waits")
    assert (one.heard, other.heard) == (["AgentUndeployed"], ["AgentUndeployed"])


async def test_a_reason_that_ends_with_a_stop_is_not_stopped_twice() -> None:
    @agent(description="d")
    class Fails:
        @achieves_goal(description="g")
        async def bill(self, order: Order) -> Invoice:
            raise ValueError("No tea.")

    outcome = await ended(Fails, "Fails")
    assert isinstance(outcome, Failed)
    assert outcome.reason == "Fails.bill failed: ValueError: No tea"


async def test_an_unknown_process_is_not_answered_with_the_ids_of_others() -> None:
    platform = AgentPlatform([Waits])
    process = platform.start("Waits", Order("tea"))
    with pytest.raises(UnknownName) as caught:
        await platform.process(f"{process.id[:-1]}x")
    assert process.id not in str(caught.value)
    assert caught.value.known == ()
    await platform.aclose()
