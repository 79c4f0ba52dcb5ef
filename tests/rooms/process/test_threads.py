"""`def` steps in worker threads, `async` ones on the event loop, and what either may do to the server: nothing."""

import asyncio
import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import anyio.lowlevel
import pytest

from goalport.agents.domain import UserInput, achieves_goal, action, agent
from goalport.base.events import Event, ProgressUpdated
from goalport.base.observe import log_lines
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import ActionContext, Completed, Failed, Killed, ProcessOptions, ProcessStatus
from goalport.tools import Tool, tool


@dataclass(frozen=True)
class Done:
    text: str


class News:
    """Keeps what is told of progress."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.came = anyio.Event()

    def on_event(self, event: Event, /) -> None:
        if isinstance(event, ProgressUpdated):
            self.messages.append(event.message)
            self.came.set()


async def test_an_action_that_catches_the_failure_of_an_item_goes_on() -> None:
    async def one(item: int) -> int:
        if item == 1:
            raise ValueError("The first is broken")
        await anyio.sleep_forever()
        return item

    @agent(description="d")
    class Maps:
        @achieves_goal(description="g")
        async def work(self, user_input: UserInput, context: ActionContext) -> Done:
            try:
                await context.parallel_map([1, 2], one)
            except ValueError as error:
                context.add(Done("draft"))
                return Done(str(error))
            return Done("none failed")

    with anyio.fail_after(60):
        process = await AgentPlatform([Maps]).run("Maps", UserInput("x"))
    assert process.outcome == Completed(Done("The first is broken"))


@agent(description="Holds its thread until it is let go")
class Stubborn:
    def __init__(self) -> None:
        self.begun, self.let_go = threading.Semaphore(0), threading.Event()
        self.running = self.most = 0
        self.lock = threading.Lock()

    @achieves_goal(description="Done")
    def work(self, user_input: UserInput) -> Done:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.begun.release()
        self.let_go.wait(10)
        with self.lock:
            self.running -= 1
        return Done(user_input.content)


@contextmanager
def released(stubborn: Stubborn) -> Generator[None]:
    try:
        yield
    finally:
        stubborn.let_go.set()


async def test_steps_that_nobody_waits_for_any_more_count_until_they_end_and_others_queue_and_say_so() -> None:
    stubborn, news = Stubborn(), News()
    platform = AgentPlatform([stubborn], max_threads=2)
    with released(stubborn), anyio.fail_after(60):
        for _ in range(2):
            process = platform.start("Stubborn", UserInput("lost"))
            await anyio.to_thread.run_sync(stubborn.begun.acquire)
            process.kill()
            assert isinstance(await process.wait(), Killed)
        waiting = platform.start("Stubborn", UserInput("mine"), options=ProcessOptions(listeners=[news]))
        await news.came.wait()
        (told,) = news.messages
        assert told.startswith("Stubborn.work waits for a thread: all 2 run `def` functions, perhaps some that nobody")
        assert told.endswith("max_threads sets how many may.")
        assert (waiting.status, stubborn.most) == (ProcessStatus.RUNNING, 2)
        stubborn.let_go.set()
        assert await waiting.wait() == Completed(Done("mine"))
        assert stubborn.most == 2


async def test_a_step_that_waits_for_a_thread_can_be_killed_and_gives_its_place_to_others() -> None:
    stubborn, news = Stubborn(), News()
    platform = AgentPlatform([stubborn], max_threads=1)
    with released(stubborn), anyio.fail_after(60):
        first = platform.start("Stubborn", UserInput("first"))
        await anyio.to_thread.run_sync(stubborn.begun.acquire)
        second = platform.start("Stubborn", UserInput("second"), options=ProcessOptions(listeners=[news]))
        await news.came.wait()
        second.kill()
        assert isinstance(await second.wait(), Killed)
        stubborn.let_go.set()
        assert await first.wait() == Completed(Done("first"))
        for number in range(3):
            assert (await platform.run("Stubborn", UserInput(str(number)))).outcome == Completed(Done(str(number)))


class Odd(BaseException):
    """Of no family."""


@pytest.mark.parametrize("escape", [KeyboardInterrupt, SystemExit, GeneratorExit, Odd])
async def test_whatever_a_step_raises_ends_the_step_and_nothing_else(escape: type[BaseException]) -> None:
    @agent(description="Raises")
    class Raises:
        @action(cost=0.1)
        def in_thread(self, user_input: UserInput) -> Done:
            raise escape

        @action(cost=0.2)
        async def on_loop(self, user_input: UserInput) -> Done:
            await anyio.lowlevel.checkpoint()
            raise escape

        @action(cost=0.3)
        async def in_group(self, user_input: UserInput, context: ActionContext) -> Done:
            async def one(number: int) -> Done:
                raise escape

            return (await context.parallel_map([1, 2], one))[0]

        @action(cost=0.4)
        async def in_a_group_of_its_own(self, user_input: UserInput) -> Done:
            raise BaseExceptionGroup("several", [escape(), ValueError()])

        @achieves_goal(description="Done")
        async def end(self, done: Done) -> Done:
            return done

    with anyio.fail_after(60):
        platform = AgentPlatform([Raises])
        outcome = (await platform.run("Raises", UserInput("x"))).outcome
        assert isinstance(outcome, Failed)
        assert len(outcome.tried) == 4
        word = "exit the program" if escape is SystemExit else f"It raised {escape.__name__}, which is no Exception"
        assert all(word in each for each in outcome.tried[:3])


@pytest.mark.parametrize("escape", [KeyboardInterrupt, SystemExit, GeneratorExit, Odd])
async def test_a_tool_that_interrupts_has_failed(escape: type[BaseException]) -> None:
    @tool
    def breaks() -> str:
        """Break."""
        raise escape

    @tool
    async def breaks_too() -> str:
        """Break."""
        await anyio.lowlevel.checkpoint()
        raise escape

    for each in (breaks, breaks_too):
        result = await Tool.of(each).call({})
        assert result.is_error
        assert escape.__name__ in result.text


async def test_a_tool_that_is_cancelled_by_something_of_its_own_has_failed() -> None:
    waited = anyio.Event()

    @tool
    async def waits(whose: str) -> str:
        """Wait."""
        if whose == "its own":
            raise asyncio.CancelledError
        waited.set()
        await anyio.sleep_forever()
        return ""

    result = await Tool.of(waits).call({"whose": "its own"})
    assert "Something that it waited for was cancelled" in result.text
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Tool.of(waits).call, {"whose": "the caller"})
            await waited.wait()
            tasks.cancel_scope.cancel()
    assert tasks.cancel_scope.cancelled_caught


async def test_an_async_step_that_holds_the_event_loop_is_told_of_by_name_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @agent(description="Holds everybody up")
    class Holds:
        @action
        async def polite(self, user_input: UserInput) -> str:
            await anyio.lowlevel.checkpoint()
            return "ready"

        @achieves_goal(description="Done")
        async def hold(self, ready: str) -> Done:
            threading.Event().wait(0.6)
            return Done(ready)

    platform = AgentPlatform([Holds])
    with caplog.at_level(logging.WARNING, "goalport"):
        for _ in range(2):
            assert (await platform.run("Holds", UserInput("x"))).outcome == Completed(Done("ready"))
        (told,) = [each.message for each in caplog.records if "held the event loop" in each.message]
        assert told.startswith("Holds.hold held the event loop for 0.")
        assert "Write it as `def`" in told
        monkeypatch.setattr(log_lines, "_SECONDS", 0.0)  # the minute is over
        await platform.run("Holds", UserInput("x"))
    assert len([each for each in caplog.records if "held the event loop" in each.message]) == 2
