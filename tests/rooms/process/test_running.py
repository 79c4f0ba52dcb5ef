"""Running agents: plans, results, failures, retries and new plans, through the platform."""

from typing import Annotated

import anyio
import pytest

from goalport.agents.blackboard import Blackboard
from goalport.agents.domain import (
    Provided,
    RetryPolicy,
    UserInput,
    achieves_goal,
    action,
    agent,
    component,
    condition,
    cost,
)
from goalport.base.errors import BadInput, DeploymentError, NonRetryable, ProcessStuck, Retryable, UnknownName
from goalport.base.events import ActionRetried, Event, ProgressUpdated
from goalport.runtime.platform import AgentInvocation, AgentPlatform
from goalport.runtime.process import (
    ActionContext,
    AgentProcess,
    Completed,
    Failed,
    OperationContext,
    ProcessStatus,
    Stuck,
)
from goalport.tools import Tool, ToolGroup, ToolGroupRequirement
from tests.rooms.toy_domain import Horoscope, Person, Writeup


class Heard:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


@agent(description="Writes about a person's stars")
class StarWriter:
    @action
    async def extract(self, user_input: UserInput) -> Person | None:
        return Person(user_input.content) if user_input.content else None

    @action
    def read_stars(self, person: Person) -> Horoscope:
        return Horoscope(f"{person.name} will travel")

    @achieves_goal(description="Write it up")
    async def write(self, person: Person, horoscope: Horoscope, context: OperationContext) -> Writeup:
        context.progress("writing")
        return Writeup(f"{person.name}: {horoscope.text}")


async def test_the_steps_are_found_from_their_types_and_run_in_order() -> None:
    process = await AgentPlatform([StarWriter]).run("StarWriter", UserInput("Ada"))
    assert process.outcome == Completed(Writeup("Ada: Ada will travel"))
    assert process.status is ProcessStatus.COMPLETED
    assert [step.action.rpartition(".")[2] for step in process.history] == ["extract", "read_stars", "write"]
    assert process.result_of_type(Writeup).content == "Ada: Ada will travel"


async def test_what_is_there_already_is_not_made_again() -> None:
    process = await AgentPlatform([StarWriter]).run("StarWriter", Person("Bo"))
    assert [step.action.rpartition(".")[2] for step in process.history] == ["read_stars", "write"]


async def test_an_action_that_answers_none_declines_and_without_another_way_the_process_is_stuck() -> None:
    process = await AgentPlatform([StarWriter]).run("StarWriter", UserInput(""))
    assert isinstance(process.outcome, Stuck)
    assert process.history[0].status == "declined"
    assert process.outcome.reason.startswith("StarWriter.extract gave nothing.")
    with pytest.raises(ProcessStuck, match=process.id):
        process.result_of_type(Writeup)


async def test_every_step_is_told_with_its_place_in_the_plan() -> None:
    heard = Heard()
    await AgentPlatform([StarWriter], listeners=[heard]).run("StarWriter", UserInput("Ada"))
    unsaid = {"ObjectBound", "AgentDeployed"}
    names = [name for event in heard.events if (name := type(event).__name__) not in unsaid]
    step = ["PlanFormulated", "ActionStarted", "ActionFinished"]
    assert names == [
        "ProcessCreated",
        *step,
        *step,
        *step[:2],
        "ProgressUpdated",
        step[2],
        "GoalAchieved",
        "ProcessFinished",
    ]
    finished = [(event.number, event.planned) for event in heard.events if type(event).__name__ == "ActionFinished"]  # type: ignore[union-attr]
    assert finished == [(1, 3), (2, 3), (3, 3)]


async def test_a_result_is_asked_for_by_its_type() -> None:
    platform = AgentPlatform([StarWriter])
    writeup = await AgentInvocation.on(platform).returning(Writeup).invoke(UserInput("Cy"))
    assert writeup.content.startswith("Cy")
    handle = AgentInvocation.on(platform).returning(Writeup).invoke_async(named_person=Person("Di"))
    assert (await handle).content == "Di: Di will travel"
    assert handle.process.blackboard.get("named_person", Person) == Person("Di")


def test_a_program_without_an_event_loop_asks_synchronously() -> None:
    invocation = AgentInvocation.on(AgentPlatform([StarWriter])).returning(Writeup)
    assert invocation.invoke_sync(UserInput("Eve")).content.startswith("Eve")
    assert invocation.invoke_sync(UserInput("Flo")).content.startswith("Flo")


async def test_a_failing_step_is_left_out_and_another_way_is_taken() -> None:
    @agent(description="d")
    class TwoWays:
        @action(cost=0.1)
        async def cheap(self, person: Person) -> Horoscope:
            raise ValueError("the oracle is closed")

        @action(cost=0.9)
        async def dear(self, person: Person) -> Horoscope:
            return Horoscope("dear")

        @achieves_goal(description="g")
        async def write(self, horoscope: Horoscope) -> Writeup:
            return Writeup(horoscope.text)

    process = await AgentPlatform([TwoWays]).run("TwoWays", Person("Ada"))
    assert process.outcome == Completed(Writeup("dear"))
    assert [(step.action, step.status) for step in process.history] == [
        ("TwoWays.cheap", "failed"),
        ("TwoWays.dear", "succeeded"),
        ("TwoWays.write", "succeeded"),
    ]


async def test_a_process_fails_only_when_no_way_is_left_and_says_what_was_tried() -> None:
    @agent(description="d")
    class OneWay:
        @achieves_goal(description="g")
        async def write(self, person: Person) -> Writeup:
            raise ValueError("no ink")

    process = await AgentPlatform([OneWay]).run("OneWay", Person("Ada"))
    assert isinstance(process.outcome, Failed)
    assert process.outcome.tried == ("OneWay.write failed: ValueError: no ink",)


async def test_the_callers_mistake_ends_the_process_with_its_own_words() -> None:
    calls: list[str] = []

    @agent(description="d")
    class Strict:
        @action(cost=0)
        def check(self, person: Person) -> Horoscope:
            calls.append(person.name)
            raise BadInput("Give a name of at least two letters.")

        @action(cost=1)
        def other(self, person: Person) -> Horoscope:
            raise AssertionError

        @achieves_goal(description="g")
        def write(self, horoscope: Horoscope) -> Writeup:
            raise AssertionError

    process = await AgentPlatform([Strict]).run("Strict", Person("A"))
    assert process.outcome == Failed("Give a name of at least two letters.", caller_mistake=True)
    assert calls == ["A"]


@pytest.mark.parametrize(
    ("error", "attempts"), [(Retryable("busy"), 3), (TimeoutError(), 3), (ValueError("no"), 1), (NonRetryable("no"), 1)]
)
async def test_failures_that_may_pass_are_tried_again(error: Exception, attempts: int) -> None:
    heard, calls = Heard(), list[int]()

    @agent(description="d")
    class Flaky:
        @achieves_goal(description="g")
        @action(retry=RetryPolicy(first_delay=0.001, factor=1))
        async def write(self, person: Person) -> Writeup:
            calls.append(1)
            raise error

    await AgentPlatform([Flaky], listeners=[heard]).run("Flaky", Person("Ada"))
    assert len(calls) == attempts
    assert len(heard.of(ActionRetried)) == attempts - 1


async def test_a_step_that_succeeds_at_a_later_attempt_has_succeeded() -> None:
    keys: list[str] = []

    @agent(description="d")
    class Flaky:
        @achieves_goal(description="g")
        @action(retry=RetryPolicy(first_delay=0.001))
        async def write(self, person: Person, context: ActionContext) -> Writeup:
            keys.append(context.key)
            if len(keys) < 3:
                raise ConnectionError("reset")
            return Writeup("at last")

    process = await AgentPlatform([Flaky]).run("Flaky", Person("Ada"))
    assert process.outcome == Completed(Writeup("at last"))
    assert keys == [f"{process.id}:0"] * 3


async def test_conditions_guard_actions_and_are_asked_only_when_they_matter() -> None:
    asked: list[str] = []

    @agent(description="d")
    class Guarded:
        @condition
        async def approved(self, person: Person) -> bool:
            asked.append("approved")
            return person.name == "Ada"

        @condition
        def irrelevant(self) -> bool:
            raise AssertionError

        @action(pre=["approved"], cost=0.1)
        async def fast(self, person: Person) -> Horoscope:
            return Horoscope("fast")

        @action(cost=0.5)
        async def slow(self, person: Person) -> Horoscope:
            return Horoscope("slow")

        @action(pre=["irrelevant"], cost=0.9)
        async def never(self, person: Person) -> Horoscope:
            raise AssertionError

        @achieves_goal(description="g")
        async def write(self, horoscope: Horoscope) -> Writeup:
            return Writeup(horoscope.text)

    platform = AgentPlatform([Guarded])
    assert (await platform.run("Guarded", Person("Ada"))).outcome == Completed(Writeup("fast"))
    assert (await platform.run("Guarded", Person("Bo"))).outcome == Completed(Writeup("slow"))
    assert asked == ["approved", "approved"]


async def test_a_condition_that_fails_counts_as_false() -> None:
    @agent(description="d")
    class Shaky:
        @condition
        def safe(self, person: Person) -> bool:
            raise OSError("sensor gone")

        @achieves_goal(description="g")
        @action(pre=["safe"])
        def write(self, person: Person) -> Writeup:
            raise AssertionError

    process = await AgentPlatform([Shaky]).run("Shaky", Person("Ada"))
    assert isinstance(process.outcome, Stuck)
    assert "safe" in process.outcome.reason


async def test_costs_are_computed_from_what_is_known() -> None:
    @agent(description="d")
    class Priced:
        @cost
        def effort(self, person: Person | None, blackboard: Blackboard) -> float:
            return 10 if person is not None and person.name == "Ada" else 0.1

        @action(cost_method="effort")
        def first(self, person: Person) -> Horoscope:
            return Horoscope("first")

        @action(cost=1)
        def second(self, person: Person) -> Horoscope:
            return Horoscope("second")

        @achieves_goal(description="g")
        def write(self, horoscope: Horoscope) -> Writeup:
            return Writeup(horoscope.text)

    platform = AgentPlatform([Priced])
    assert (await platform.run("Priced", Person("Ada"))).outcome == Completed(Writeup("second"))
    assert (await platform.run("Priced", Person("Bo"))).outcome == Completed(Writeup("first"))


async def test_clearing_the_blackboard_leaves_the_output_alone() -> None:
    @agent(description="d")
    class Clears:
        @action(clear_blackboard=True)
        def digest(self, person: Person) -> Horoscope:
            return Horoscope(person.name)

        @achieves_goal(description="g")
        def write(self, horoscope: Horoscope, person: Person | None) -> Writeup:
            return Writeup(f"{horoscope.text} {person}")

    process = await AgentPlatform([Clears]).run("Clears", Person("Ada"))
    assert process.outcome == Completed(Writeup("Ada None"))


class Oracle:
    def ask(self) -> str:
        return "yes"


async def test_services_are_provided_and_a_missing_one_is_found_when_deploying() -> None:
    @agent(description="d")
    class Asks:
        @achieves_goal(description="g")
        def write(
            self, person: Person, oracle: Annotated[Oracle, Provided], process: AgentProcess, platform: AgentPlatform
        ) -> Writeup:
            assert AgentProcess.current() is process
            return Writeup(f"{oracle.ask()} {len(platform.agents)}")

    platform = AgentPlatform([Asks], services=[Oracle()])
    assert (await platform.run("Asks", Person("Ada"))).outcome == Completed(Writeup("yes 1"))
    with pytest.raises(DeploymentError, match=r"Oracle.*services="):
        AgentPlatform([Asks])


async def test_components_lend_their_actions_to_every_agent_but_an_opaque_one() -> None:
    @component
    class Stars:
        @action
        def read_stars(self, person: Person) -> Horoscope:
            return Horoscope(person.name)

    @agent(description="d")
    class Open:
        @achieves_goal(description="g")
        def write(self, horoscope: Horoscope) -> Writeup:
            return Writeup(horoscope.text)

    @agent(description="d", opaque=True)
    class Closed(Open): ...

    platform = AgentPlatform([Open, Stars, Closed])
    assert [each.name for each in platform.agents] == ["Open", "Closed"]
    assert (await platform.run("Open", Person("Ada"))).outcome == Completed(Writeup("Ada"))
    assert isinstance((await platform.run("Closed", Person("Ada"))).outcome, Stuck)


async def test_a_required_tool_group_is_a_precondition_and_a_named_one_is_not() -> None:
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"hello {name}"

    @agent(description="d")
    class Uses:
        @achieves_goal(description="g")
        @action(tool_groups=["nowhere"], tool_group_requirements=[ToolGroupRequirement("greetings", ("greet",))])
        async def write(self, person: Person, context: ActionContext) -> Writeup:
            return Writeup((await context.tool("greet").call({"name": person.name})).text)

    group = ToolGroup("greetings", (Tool.of(greet),))
    assert (await AgentPlatform([Uses], tool_groups=[group]).run("Uses", Person("Ada"))).outcome == Completed(
        Writeup("hello Ada")
    )
    without = (await AgentPlatform([Uses]).run("Uses", Person("Ada"))).outcome
    assert isinstance(without, Stuck)
    assert "greetings" in without.reason


async def test_a_group_is_required_by_its_role_alone() -> None:
    def greet() -> str:
        """Greet."""
        return "hello"

    @agent(description="d")
    class Uses:
        @achieves_goal(description="g")
        @action(
            required_tool_groups=["greetings"],
            tool_group_requirements=[ToolGroupRequirement("greetings", ("greet",))],
        )
        async def write(self, person: Person, context: ActionContext) -> Writeup:
            return Writeup(" ".join(each.name for each in context.tools))

    async def ended(*groups: ToolGroup) -> object:
        return (await AgentPlatform([Uses], tool_groups=groups).run("Uses", Person("Ada"))).outcome

    assert await ended(ToolGroup("greetings", (Tool.of(greet),))) == Completed(Writeup("greet"))
    for groups in ((), (ToolGroup("greetings", ()),)):
        without = await ended(*groups)
        assert isinstance(without, Stuck)
        assert "tool group greetings" in without.reason


async def test_agents_and_goals_are_found_by_name_or_the_nearest_is_named() -> None:
    platform = AgentPlatform([StarWriter])
    with pytest.raises(UnknownName, match="Did you mean 'StarWriter'"):
        platform.start("StarWritr")
    assert platform.agents.goal("write")[1].name == "StarWriter.write"
    with pytest.raises(DeploymentError, match="both called 'StarWriter'"):
        platform.deploy(StarWriter())
    platform.undeploy("StarWriter")
    assert len(platform.agents) == 0


async def test_progress_from_a_worker_thread_arrives_in_order() -> None:
    heard = Heard()

    @agent(description="d")
    class Counts:
        @achieves_goal(description="g")
        def write(self, person: Person, context: ActionContext) -> Writeup:
            for each in range(5):
                context.progress(str(each))
            return Writeup("done")

    with anyio.fail_after(60):
        await AgentPlatform([Counts], listeners=[heard]).run("Counts", Person("Ada"))
    told = [event for event in heard.events if isinstance(event, ProgressUpdated)]
    assert [each.message for each in told] == ["0", "1", "2", "3", "4"]
    assert type(heard.events[-1]).__name__ == "ProcessFinished"


async def test_an_action_that_returns_another_type_than_it_declares_fails_with_the_place_and_the_fix() -> None:
    @agent(description="d")
    class Wrong:
        @achieves_goal(description="g")
        def write(self, person: Person) -> Writeup:
            return Horoscope("not a write-up")  # pyright: ignore[reportReturnType]

    process = await AgentPlatform([Wrong]).run("Wrong", Person("Ada"))
    assert isinstance(process.outcome, Failed)
    assert "Wrong.write" in process.outcome.reason
    assert "declares that it returns Writeup, but it returned a Horoscope" in process.outcome.reason
    assert "test_running.py" in process.outcome.reason


async def test_what_an_action_posts_holds_afterwards_unless_the_action_says_otherwise() -> None:
    @agent(description="d")
    class Posts:
        @action(post=["checked"])
        def check(self, person: Person, context: OperationContext) -> Horoscope:
            if person.name != "Ada":
                context.blackboard.set_condition("checked", False)
            return Horoscope("checked")

        @achieves_goal(description="g")
        @action(pre=["checked"])
        def write(self, horoscope: Horoscope) -> Writeup:
            return Writeup("ok")

    platform = AgentPlatform([Posts])
    assert (await platform.run("Posts", Person("Ada"))).outcome == Completed(Writeup("ok"))
    assert isinstance((await platform.run("Posts", Person("Bo"))).outcome, Stuck)


@agent(description="Writes much")
class Rambler:
    @achieves_goal(description="A text")
    @action
    async def write(self, user_input: UserInput) -> Writeup:
        return Writeup("x" * int(user_input.content))


async def test_a_result_that_takes_too_much_memory_fails_its_process_alone() -> None:
    async with AgentPlatform([Rambler], max_object_bytes=1_000_000) as platform:
        process = await platform.run("Rambler", UserInput("2000000"))
        assert isinstance(process.outcome, Failed | Stuck)
        assert "takes about 2 MiB of memory, and may take 1 (max_object_bytes)" in str(process.outcome)
        assert (await platform.run("Rambler", UserInput("1000"))).status is ProcessStatus.COMPLETED
