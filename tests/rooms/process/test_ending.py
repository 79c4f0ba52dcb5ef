"""How processes end before their goal: budgets, deadlines, terminating, killing; and what outlives what."""

import threading
from dataclasses import dataclass
from functools import partial

import anyio
import pytest

from goalport.agents.domain import RetryPolicy, UserInput, achieves_goal, action, agent, condition
from goalport.base.caller import Caller
from goalport.base.errors import GoalportError, NonRetryable
from goalport.base.events import ActionRetried, Event
from goalport.runtime.platform import AgentInvocation, AgentPlatform
from goalport.runtime.process import (
    ActionContext,
    AgentProcess,
    Budget,
    Completed,
    Failed,
    Killed,
    OperationContext,
    ProcessOptions,
    ProcessStatus,
    StuckResult,
    Terminated,
)


@dataclass(frozen=True)
class Step:
    number: int


@dataclass(frozen=True)
class End:
    number: int


@agent(description="Walks until it has gone far enough")
class Walker:
    @action(can_rerun=True)
    async def step(self, step: Step, context: OperationContext) -> Step | End:
        context.spend(cost=0.5, input_tokens=60, output_tokens=40)
        return Step(step.number + 1) if step.number < 1000 else End(step.number)

    @achieves_goal(description="Arrive")
    async def arrive(self, end: End) -> End:
        return end


@pytest.mark.parametrize(
    ("budget", "reason", "actions"),
    [
        (Budget(actions=5, cost=1e9), "budget of 5 actions", 5),
        (Budget(cost=1.0), "budget of 1.00 USD", 2),
        (Budget(tokens=300, cost=1e9), "budget of 300 tokens", 3),
    ],
)
async def test_a_process_is_terminated_when_its_budget_is_used_up(budget: Budget, reason: str, actions: int) -> None:
    process = await AgentPlatform([Walker]).run("Walker", Step(0), options=ProcessOptions(budget=budget))
    assert isinstance(process.outcome, Terminated)
    assert reason in process.outcome.reason
    assert len(process.history) == actions
    assert process.usage.tokens == 100 * actions


@agent(description="Waits for ever")
class Sleeper:
    def __init__(self) -> None:
        self.started = anyio.Event()
        self.cancelled = False

    @achieves_goal(description="Wake up")
    async def sleep(self, user_input: UserInput) -> End:
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled = True
        return End(0)


async def test_killing_a_process_cancels_the_running_action() -> None:
    sleeper = Sleeper()
    platform = AgentPlatform([sleeper])
    process = platform.start("Sleeper", UserInput("z"))
    with anyio.fail_after(60):
        await sleeper.started.wait()
        assert process.status is ProcessStatus.RUNNING
        process.kill("Somebody knocked.")
        assert await process.wait() == Killed("Somebody knocked.")
    assert sleeper.cancelled
    assert process.finished_at is not None
    process.kill("again")
    assert process.outcome == Killed("Somebody knocked.")


async def test_a_deadline_ends_whatever_is_running() -> None:
    sleeper = Sleeper()
    process = await AgentPlatform([sleeper]).run("Sleeper", UserInput("z"), options=ProcessOptions(deadline=0.01))
    assert process.outcome == Terminated("The deadline of 0.01 s has passed.")
    assert sleeper.cancelled


async def test_terminating_lets_the_running_action_finish() -> None:
    @agent(description="d")
    class Polite:
        @action
        async def first(self, user_input: UserInput, context: OperationContext) -> Step:
            context.process.terminate("That is enough.")
            return Step(1)

        @achieves_goal(description="g")
        async def second(self, step: Step) -> End:
            raise AssertionError

    process = await AgentPlatform([Polite]).run("Polite", UserInput("x"))
    assert process.outcome == Terminated("That is enough.")
    assert process.last(Step) == Step(1)


async def test_an_action_in_a_thread_is_abandoned_and_can_notice() -> None:
    entered, noticed, refused = threading.Event(), threading.Event(), list[Exception]()

    @agent(description="d")
    class Threaded:
        @achieves_goal(description="g")
        def work(self, user_input: UserInput, context: ActionContext) -> End:
            entered.set()
            for _ in range(5000):
                if context.cancelled:
                    break
                threading.Event().wait(0.001)
            try:
                context.bind("late", Step(1))
            except NonRetryable as error:
                refused.append(error)
            noticed.set()
            return End(1)

    process = AgentPlatform([Threaded]).start("Threaded", UserInput("x"))
    await anyio.to_thread.run_sync(entered.wait, 30)
    process.kill()
    with anyio.fail_after(60):
        assert isinstance(await process.wait(), Killed)
    assert await anyio.to_thread.run_sync(noticed.wait, 30)
    assert refused
    assert process.blackboard.get("late") is None


async def test_whoever_only_watches_does_not_hurt_a_process_but_whoever_runs_it_does() -> None:
    sleeper = Sleeper()
    platform = AgentPlatform([sleeper])
    process = platform.start("Sleeper", UserInput("z"))
    with anyio.move_on_after(0.01):
        await process.wait()
    assert process.status is ProcessStatus.RUNNING
    with anyio.move_on_after(0.01):
        await platform.run("Sleeper", UserInput("y"))
    mine = await platform.process((await platform.processes.records())[-1].id)
    with anyio.fail_after(60):
        assert isinstance(await mine.wait(), Killed)
    assert process.status is ProcessStatus.RUNNING
    await platform.aclose()
    assert process.outcome == Killed("The platform was closed.")


async def test_leaving_the_platform_ends_what_it_runs() -> None:
    async with AgentPlatform([Sleeper()]) as platform:
        process = platform.start("Sleeper", UserInput("z"), caller=Caller("ada"))
        assert process.caller.id == "ada"
    assert process.status is ProcessStatus.KILLED


async def test_a_listener_that_fails_harms_nobody() -> None:
    class Faulty:
        def on_event(self, event: object) -> None:
            raise RuntimeError("deaf")

    process = await AgentPlatform([Walker], listeners=[Faulty()]).run("Walker", Step(1000))
    assert process.outcome == Completed(End(1000))


async def test_a_bug_in_goalport_itself_would_fail_the_process_and_not_hang_it() -> None:
    class Broken(Budget):
        def used_up(self, actions: int) -> str | None:
            raise RuntimeError("impossible")

    process = await AgentPlatform([Walker]).run("Walker", Step(0), options=ProcessOptions(budget=Broken()))
    assert process.status is ProcessStatus.FAILED


async def test_asking_for_what_no_agent_gives_names_what_there_is() -> None:
    with pytest.raises(GoalportError, match=r"gives Step. Goals here give: End"):
        await AgentInvocation.on(AgentPlatform([Walker])).returning(Step).invoke()
    with pytest.raises(GoalportError, match=r"await invocation.invoke"):
        AgentInvocation.on(AgentPlatform([Walker])).returning(End).invoke_sync()


@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_what_has_ended_stays_as_it_ended(end: str) -> None:
    process = await AgentPlatform([Walker]).run("Walker", Step(1000))
    getattr(process, end)("Too late.")
    assert (process.status, process.outcome) == (ProcessStatus.COMPLETED, Completed(End(1000)))
    assert process.end_requested is None


@pytest.mark.parametrize(("end", "status"), [("kill", ProcessStatus.KILLED), ("terminate", ProcessStatus.TERMINATED)])
async def test_what_is_stuck_has_not_ended_for_good(end: str, status: ProcessStatus) -> None:
    process = await AgentPlatform([Walker]).run("Walker")
    assert process.status is ProcessStatus.STUCK
    getattr(process, end)("Enough.")
    assert process.status is status
    process.resume(Step(1000))
    assert process.status is status


async def test_what_is_terminated_is_not_tried_again() -> None:
    tried: list[int] = []

    @agent(description="d")
    class Stubborn:
        @achieves_goal(description="g")
        @action(retry=RetryPolicy(attempts=4, first_delay=0.0, every_error=True))
        async def end(self, user_input: UserInput, context: OperationContext) -> End:
            tried.append(1)
            context.process.terminate("That is enough.")
            raise ConnectionError

    process = await AgentPlatform([Stubborn]).run("Stubborn", UserInput("x"))
    assert process.outcome == Terminated("That is enough.")
    assert len(tried) == 1


async def test_terminating_waits_for_no_next_attempt() -> None:
    @agent(description="d")
    class Patient:
        @achieves_goal(description="g")
        @action(retry=RetryPolicy(first_delay=60, every_error=True))
        async def end(self, user_input: UserInput) -> End:
            raise ConnectionError

    retried = anyio.Event()

    class Hears:
        def on_event(self, event: Event, /) -> None:
            if isinstance(event, ActionRetried):
                retried.set()

    process = AgentPlatform([Patient]).start("Patient", UserInput("x"))
    process.subscribe(Hears())
    with anyio.fail_after(20):
        await retried.wait()
        process.terminate("That is enough.")
        assert await process.wait() == Terminated("That is enough.")
    assert [each.status for each in process.history] == ["failed"]


async def test_terminating_waits_for_no_condition() -> None:
    asked = anyio.Event()

    @agent(description="d")
    class Slow:
        @condition
        async def ready(self) -> bool:
            asked.set()
            await anyio.sleep_forever()
            return True

        @achieves_goal(description="g")
        @action(pre=["ready"])
        async def end(self, user_input: UserInput) -> End:
            raise AssertionError

    process = AgentPlatform([Slow]).start("Slow", UserInput("x"))
    with anyio.fail_after(20):
        await asked.wait()
        process.terminate("That is enough.")
        assert await process.wait() == Terminated("That is enough.")


async def test_an_action_cannot_close_the_platform_that_runs_it() -> None:
    @agent(description="d")
    class Closes:
        @achieves_goal(description="g")
        async def end(self, user_input: UserInput) -> End:
            await platform.aclose()
            raise AssertionError

    platform = AgentPlatform([Closes])
    with anyio.fail_after(20):
        process = await platform.run("Closes", UserInput("x"))
    assert isinstance(process.outcome, Failed)
    assert "An action cannot close the platform that runs it." in process.outcome.reason


async def test_a_platform_that_is_closed_starts_nothing() -> None:
    async with AgentPlatform([Sleeper]) as platform:
        made_before = platform.create_agent_process("Sleeper", UserInput("x"))
    for start in (partial(platform.run, "Sleeper", UserInput("x")), made_before.run, made_before.tick):
        with anyio.fail_after(20), pytest.raises(GoalportError, match="This platform is closed"):
            await start()


async def test_nobody_waits_for_what_was_never_started() -> None:
    process = AgentPlatform([Sleeper]).create_agent_process("Sleeper", UserInput("x"))
    with anyio.fail_after(20), pytest.raises(GoalportError, match="has not been started"):
        await process.wait()


class Raises:
    """An option that fails wherever it is asked."""

    def handle_stuck(self, process: AgentProcess) -> StuckResult:
        raise LookupError("no help")

    def not_before(self, process: object, action: str) -> None:
        raise LookupError("no clock")

    def reason_to_end(self, process: object, *, stuck: bool) -> str | None:
        raise LookupError("no policy")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (ProcessOptions(schedule=Raises()), "Raises.not_before failed: LookupError: no clock"),
        (ProcessOptions(early_termination=Raises()), "Raises.reason_to_end failed: LookupError: no policy"),
    ],
)
async def test_an_option_that_fails_is_named(options: ProcessOptions, name: str) -> None:
    process = await AgentPlatform([Sleeper]).run("Sleeper", UserInput("z"), options=options)
    assert isinstance(process.outcome, Failed)
    assert process.outcome.reason == name
