"""Steps that need nothing of one another, run at once."""

from dataclasses import dataclass

import anyio

from goalport.agents.domain import UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.errors import BadInput
from goalport.base.events import ActionFinished, Event
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import ActionContext, Completed, Failed, Killed, ProcessOptions, Terminated, Waiting

AT_ONCE = ProcessOptions(concurrent=True)


@dataclass(frozen=True)
class Left:
    key: str


@dataclass(frozen=True)
class Right:
    key: str


@dataclass(frozen=True)
class Both:
    text: str


class Heard:
    def __init__(self) -> None:
        self.finished: list[tuple[str, int]] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, ActionFinished):
            self.finished.append((event.action, event.number))


@agent(description="Goes left and right at once")
class Forks:
    def __init__(self) -> None:
        self.left, self.right = anyio.Event(), anyio.Event()

    @action
    async def go_left(self, user_input: UserInput, context: ActionContext) -> Left:
        self.left.set()
        await self.right.wait()
        return Left(context.key)

    @action
    async def go_right(self, user_input: UserInput, context: ActionContext) -> Right:
        self.right.set()
        await self.left.wait()
        return Right(context.key)

    @achieves_goal(description="Both")
    async def join(self, left: Left, right: Right) -> Both:
        return Both(f"{left.key} {right.key}")


async def test_steps_that_need_nothing_of_one_another_run_at_once_with_keys_of_their_own() -> None:
    heard = Heard()
    with anyio.fail_after(60):
        process = await AgentPlatform([Forks()], listeners=[heard]).run("Forks", UserInput("x"), options=AT_ONCE)
    assert process.outcome == Completed(Both(f"{process.id}:0 {process.id}:1"))
    assert [number for _, number in heard.finished] == [1, 2, 3]
    assert heard.finished[-1][0] == "Forks.join"


async def test_without_the_option_one_step_runs_after_the_other() -> None:
    forks = Forks()
    process = await AgentPlatform([forks]).run("Forks", UserInput("x"), options=ProcessOptions(deadline=0.05))
    assert isinstance(process.outcome, Terminated)
    assert forks.left.is_set() is not forks.right.is_set()


async def test_a_kill_ends_all_that_run_at_once() -> None:
    @agent(description="d")
    class Stays(Forks):
        @action
        async def go_left(self, user_input: UserInput, context: ActionContext) -> Left:
            self.left.set()
            await anyio.sleep_forever()
            raise AssertionError

        @action
        async def go_right(self, user_input: UserInput, context: ActionContext) -> Right:
            await self.left.wait()
            context.process.kill("Enough.")
            await anyio.sleep_forever()
            raise AssertionError

    with anyio.fail_after(60):
        process = await AgentPlatform([Stays()]).run("Stays", UserInput("x"), options=AT_ONCE)
    assert process.outcome == Killed("Enough.")


async def test_a_step_that_fails_leaves_the_one_beside_it_alone() -> None:
    @agent(description="d")
    class Stumbles(Forks):
        @action
        async def go_left(self, user_input: UserInput, context: ActionContext) -> Left:
            raise ValueError("a stone")

        @action(cost=1)
        async def other_way(self, user_input: UserInput) -> Left:
            return Left("around")

        @action
        async def go_right(self, user_input: UserInput, context: ActionContext) -> Right:
            await anyio.lowlevel.checkpoint()
            return Right("right")

    process = await AgentPlatform([Stumbles()]).run("Stumbles", UserInput("x"), options=AT_ONCE)
    assert process.outcome == Completed(Both("around right"))
    assert [each.action for each in process.history].count("Stumbles.go_right") == 1


async def test_the_callers_mistake_in_one_ends_the_process() -> None:
    @agent(description="d")
    class Refuses(Forks):
        @action
        async def go_left(self, user_input: UserInput, context: ActionContext) -> Left:
            raise BadInput("Say where.")

        @action
        async def go_right(self, user_input: UserInput, context: ActionContext) -> Right:
            return Right("right")

    process = await AgentPlatform([Refuses()]).run("Refuses", UserInput("x"), options=AT_ONCE)
    assert process.outcome == Failed("Say where.", caller_mistake=True)


async def test_a_question_is_asked_while_the_step_beside_it_works() -> None:
    @agent(description="d")
    class Asks(Forks):
        @action
        async def ask(self, user_input: UserInput) -> WaitFor[Left]:
            return WaitFor.confirmation(Left("asked"), "Left?")

        @action(cost=9)
        async def go_left(self, user_input: UserInput, context: ActionContext) -> Left:
            raise AssertionError

        @action
        async def go_right(self, user_input: UserInput, context: ActionContext) -> Right:
            return Right("right")

    platform = AgentPlatform([Asks()])
    process = await platform.run("Asks", UserInput("x"), options=AT_ONCE)
    assert isinstance(process.outcome, Waiting)
    assert process.last(Right) == Right("right")
    await platform.answer(process.id, response=True)
    with anyio.fail_after(60):
        assert await process.wait() == Completed(Both("asked right"))
