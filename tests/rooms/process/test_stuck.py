"""Help for what is stuck: the agent itself, then others in order; and nobody overtakes whoever ends the process."""

from collections.abc import Callable
from dataclasses import dataclass

import anyio
import pytest

from goalport.agents.domain import achieves_goal, action, agent, condition
from goalport.base.events import Event, StuckHandled
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    AgentProcess,
    Completed,
    Failed,
    Killed,
    OnStuck,
    ProcessOptions,
    ProcessStatus,
    Stuck,
    StuckCode,
    StuckHandler,
    StuckResult,
    Terminated,
)

REPLAN = StuckResult(StuckCode.REPLAN)


@dataclass(frozen=True)
class Dog:
    name: str


@dataclass(frozen=True)
class Frog:
    name: str


@agent(description="Turns dogs into frogs")
class Frogs:
    @achieves_goal(description="The big goal in the sky")
    async def to_frog(self, dog: Dog) -> Frog:
        return Frog(dog.name)


class Unsticks(Frogs):
    """Brings its own dog."""

    def handle_stuck(self, process: AgentProcess) -> StuckResult:
        process.blackboard.add(Dog("Duke"))
        return StuckResult(StuckCode.REPLAN, "Unsticking myself")


class Says:
    """A handler that does and says what it is told."""

    def __init__(self, result: StuckResult, act: Callable[[AgentProcess], object] = lambda _: None) -> None:
        self.result = result
        self.act = act
        self.asked = 0

    async def handle_stuck(self, process: AgentProcess) -> StuckResult:
        self.asked += 1
        self.act(process)
        return self.result


class Heard(list[StuckHandled]):
    def on_event(self, event: Event, /) -> None:
        if isinstance(event, StuckHandled):
            self.append(event)


def given(*handlers: StuckHandler) -> ProcessOptions:
    return ProcessOptions().with_(stuck_handlers=handlers)


async def run(agent: object, *handlers: StuckHandler) -> AgentProcess:
    platform = AgentPlatform([agent])
    with anyio.fail_after(60):
        return await platform.run(next(iter(platform.agents)), options=given(*handlers))


def test_an_agent_with_such_a_method_is_a_handler() -> None:
    assert isinstance(Unsticks(), StuckHandler)
    assert not isinstance(Frogs(), StuckHandler)


async def test_an_agent_handles_its_own_stuck_state() -> None:
    heard = Heard()
    process = await AgentPlatform([Unsticks], listeners=[heard]).run("Unsticks")
    assert process.outcome == Completed(Frog("Duke"))
    assert [(each.handler, each.code, each.message) for each in heard] == [("Unsticks", "replan", "Unsticking myself")]


async def test_handlers_are_asked_in_order_and_the_first_that_helps_counts() -> None:
    no = Says(StuckResult(StuckCode.NO_RESOLUTION))
    helps = Says(REPLAN, lambda process: process.blackboard.add(Dog("Rex")))
    never = Says(REPLAN)
    process = await run(Frogs, no, helps, never)
    assert process.outcome == Completed(Frog("Rex"))
    assert (no.asked, helps.asked, never.asked) == (1, 1, 0)


async def test_the_agent_itself_is_asked_before_others() -> None:
    other = Says(REPLAN)
    assert (await run(Unsticks, other)).outcome == Completed(Frog("Duke"))
    assert other.asked == 0


async def test_a_process_that_nobody_can_help_stays_stuck_and_says_who_was_asked() -> None:
    process = await run(Frogs, Says(StuckResult(StuckCode.NO_RESOLUTION)))
    assert isinstance(process.outcome, Stuck)
    assert process.outcome.reason.startswith("The goal Frogs.to_frog cannot be reached")
    assert process.outcome.reason.endswith("Says could not help.")


async def test_the_handlers_of_the_platforms_options_count_where_a_run_has_no_options() -> None:
    options = given(Says(REPLAN, lambda process: process.blackboard.add(Dog("Rex"))))
    assert (await AgentPlatform([Frogs], options=options).run("Frogs")).status is ProcessStatus.COMPLETED


async def test_a_handler_that_changes_nothing_is_asked_once() -> None:
    idle = Says(REPLAN)
    process = await run(Frogs, idle)
    assert isinstance(process.outcome, Stuck)
    assert process.outcome.reason.endswith("It was to be planned again, but nothing had changed.")
    assert idle.asked == 1


async def test_a_handler_that_changes_what_does_not_help_is_asked_a_bounded_number_of_times() -> None:
    busy = Says(REPLAN, lambda process: process.blackboard.add(Frog(str(process.created_at))))
    rivals = Says(REPLAN, lambda process: process.blackboard.set_condition(str(len(process.blackboard.objects)), True))

    @agent(description="Wants a dog")
    class Wants:
        @achieves_goal(description="A name")
        async def name(self, dog: Dog) -> str:
            return dog.name

    for handler in (busy, rivals):
        process = await run(Wants, handler)
        assert isinstance(process.outcome, Stuck)
        assert "It was to be planned again" in process.outcome.reason
        assert handler.asked <= 20


async def test_a_handler_may_help_by_what_only_a_condition_sees() -> None:
    @agent(description="Waits for its owner")
    class Locked:
        def __init__(self) -> None:
            self.open = False

        @condition
        async def unlocked(self) -> bool:
            return self.open

        @achieves_goal(description="Go in")
        @action(pre=["unlocked"])
        async def enter(self) -> Frog:
            return Frog("inside")

        def handle_stuck(self, _: AgentProcess) -> StuckResult:
            self.open = True
            return REPLAN

    assert (await run(Locked)).outcome == Completed(Frog("inside"))


async def test_a_handler_that_fails_fails_the_process_and_is_told() -> None:
    def broken(_: AgentProcess) -> None:
        raise LookupError("no dog anywhere")

    process = await run(Frogs, Says(REPLAN, broken))
    assert isinstance(process.outcome, Failed)
    assert "Says.handle_stuck failed: LookupError: no dog anywhere" in process.outcome.reason
    assert process.failure is not None


async def test_a_handler_that_says_something_else_is_told_what_to_say() -> None:
    class Vague:
        def handle_stuck(self, process: AgentProcess) -> StuckResult:
            return process  # type: ignore[return-value]

    process = await run(Frogs, Vague())
    assert isinstance(process.outcome, Failed)
    assert (
        "Expected Vague.handle_stuck to return a StuckResult, but it returned AgentProcess." in process.outcome.reason
    )


@pytest.mark.parametrize("code", list(StuckCode))
@pytest.mark.parametrize(("end", "kind"), [(AgentProcess.kill, Killed), (AgentProcess.terminate, Terminated)])
async def test_no_handler_overtakes_whoever_ends_the_process(
    end: Callable[[AgentProcess], None], kind: type, code: StuckCode
) -> None:
    def ends_and_helps(process: AgentProcess) -> None:
        end(process)
        process.blackboard.add(Dog("Rex"))

    process = await run(Frogs, Says(StuckResult(code), ends_and_helps))
    assert isinstance(process.outcome, kind)
    assert process.history == ()


async def test_a_handler_that_takes_long_is_cancelled_when_the_process_is_killed() -> None:
    class Slow:
        def __init__(self) -> None:
            self.asked = anyio.Event()

        async def handle_stuck(self, _: AgentProcess) -> StuckResult:
            self.asked.set()
            await anyio.sleep_forever()
            return REPLAN

    slow = Slow()
    process = AgentPlatform([Frogs]).start("Frogs", options=given(slow))
    with anyio.fail_after(60):
        await slow.asked.wait()
        process.kill()
        assert isinstance(await process.wait(), Killed)


async def test_a_policy_that_ends_what_is_stuck_comes_before_handlers() -> None:
    handler = Says(REPLAN)
    options = given(handler).with_(early_termination=OnStuck())
    process = await AgentPlatform([Frogs]).run("Frogs", options=options)
    assert isinstance(process.outcome, Terminated)
    assert handler.asked == 0


async def test_a_process_that_was_stuck_for_good_is_helped_by_hand() -> None:
    platform = AgentPlatform([Frogs])
    process = await platform.run("Frogs", options=given(Says(REPLAN)))
    assert process.status is ProcessStatus.STUCK
    platform.processes.resume(process, Dog("Rex"))
    with anyio.fail_after(60):
        assert await process.wait() == Completed(Frog("Rex"))


@dataclass(frozen=True)
class Round:
    number: int


@dataclass(frozen=True)
class Won:
    number: int


async def test_a_loop_that_forgets_to_say_so_is_told_how_to_run_again() -> None:
    @agent(description="Plays")
    class Plays:
        @action
        async def play(self, round_: Round) -> Round | Won:
            return Won(round_.number) if round_.number == 2 else Round(round_.number + 1)

        @achieves_goal(description="Win")
        async def win(self, won: Won) -> Won:
            return won

    process = await AgentPlatform([Plays]).run("Plays", Round(0))
    assert isinstance(process.outcome, Stuck)
    assert "has run already" in process.outcome.reason
    assert "If Plays.play should run now all the same, write `can_rerun=True`" in process.outcome.reason
    assert "`clear_blackboard=True` on the action that begins each round" in process.outcome.reason


async def test_output_that_was_there_from_the_beginning_is_told_with_the_way_out() -> None:
    @agent(description="Wins")
    class Wins:
        @achieves_goal(description="Win")
        async def win(self, round_: Round) -> Won:
            return Won(round_.number)

    process = await AgentPlatform([Wins]).run("Wins", Round(0), Won(0))
    assert isinstance(process.outcome, Stuck)
    assert "it needs there to be no Won, but there is one" in process.outcome.reason
    assert "If Wins.win should run now all the same, write `can_rerun=True`" in process.outcome.reason


async def test_no_way_out_is_told_where_something_else_is_missing_or_an_action_gave_nothing() -> None:
    @agent(description="Gives up")
    class GivesUp:
        @achieves_goal(description="Win")
        async def win(self, round_: Round) -> Won | None:
            return None

    for inputs in ((), (Round(1),)):
        process = await AgentPlatform([GivesUp]).run("GivesUp", *inputs)
        assert isinstance(process.outcome, Stuck)
        assert "can_rerun" not in process.outcome.reason
