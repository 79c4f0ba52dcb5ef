"""Utility agents: what is worth most is done first, and a goal that is reached is the end."""

from dataclasses import dataclass

import anyio
import pytest

from goalport.agents.domain import (
    PlannerType,
    State,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
    component,
    condition,
    cost,
)
from goalport.agents.plan import Explanation
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess, Completed, Failed, ProcessOptions, ProcessStatus, Stuck, Waiting

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Ticket:
    text: str


@dataclass(frozen=True)
class Resolved:
    by: str


class Category(State): ...


class Critical(Category):
    ticket: Ticket

    @achieves_goal(description="Escalate", value=0.5)
    @action
    def escalate(self) -> Resolved:
        return Resolved("on call")


class General(Category):
    ticket: Ticket

    @achieves_goal(description="Answer")
    @action
    def reply(self) -> Resolved:
        return Resolved("support")


@agent(description="Routes tickets", planner=PlannerType.UTILITY)
class Triage:
    @action
    def classify(self, ticket: Ticket) -> Category:
        return Critical(ticket) if "down" in ticket.text else General(ticket)


@dataclass(frozen=True)
class Seen:
    what: str


@dataclass(frozen=True)
class Label:
    text: str


@dataclass(frozen=True)
class Alarm:
    text: str


@agent(description="Does what is worth while", planner=PlannerType.UTILITY)
class Watcher:
    asked = 0

    @condition
    def urgent(self, seen: Seen) -> bool:
        self.asked += 1
        return "fire" in seen.what

    @cost
    def eagerness(self, seen: Seen | None) -> float:
        return len(seen.what) / 10 if seen else 0.0

    @action(value=0.1)
    def look(self, user_input: UserInput) -> Seen:
        return Seen(user_input.content)

    @action(value=0.9, pre=["urgent"])
    def alarm(self, seen: Seen) -> Alarm:
        return Alarm(seen.what)

    @action(value_method="eagerness")
    def label(self, seen: Seen) -> Label | None:
        return None if seen.what == "?" else Label(seen.what)


async def run(declared: object, *inputs: object, planner: PlannerType | None = None) -> AgentProcess:
    async with AgentPlatform([declared]) as platform:
        with anyio.fail_after(60):
            name = next(iter([*platform.agents, *platform.agents.components])).name
            return await platform.run(name, *inputs, options=ProcessOptions(planner=planner))


def ran(process: AgentProcess) -> list[str]:
    return [each.action for each in process.history]


@pytest.mark.parametrize(("text", "by"), [("it is down", "on call"), ("how to?", "support")])
async def test_a_ticket_is_classified_and_the_action_of_its_state_reaches_the_goal(text: str, by: str) -> None:
    process = await run(Triage(), Ticket(text))

    assert process.outcome == Completed(Resolved(by))
    assert len(process.history) == 2


async def test_an_agent_without_goals_does_what_is_worth_while_until_nothing_is_left() -> None:
    process = await run(Watcher(), UserInput("fire"))

    assert process.status is ProcessStatus.STUCK
    assert ran(process) == ["Watcher.look", "Watcher.alarm", "Watcher.label"]
    assert isinstance(process.outcome, Stuck)
    assert process.outcome.reason.startswith("Nothing is left to do after Watcher.look, Watcher.alarm, Watcher.label: ")


async def test_values_are_computed_anew_before_each_choice() -> None:
    process = await run(Watcher(), UserInput("a very long fire story"))

    assert ran(process) == ["Watcher.look", "Watcher.label", "Watcher.alarm"]


async def test_a_condition_is_asked_only_where_the_choice_depends_on_it() -> None:
    watcher = Watcher()

    process = await run(watcher, UserInput("smoke"))

    assert ran(process) == ["Watcher.look", "Watcher.label"]
    assert "Watcher.alarm needs condition urgent to be true" in str(process.outcome)
    # When it is chosen beside `label`, and once more when nothing else is left: not before there is anything seen.
    assert watcher.asked == 2


async def test_what_gave_nothing_is_told_when_nothing_is_left() -> None:
    process = await run(Watcher(), UserInput("?"))

    assert isinstance(process.outcome, Stuck)
    assert process.outcome.reason.startswith("Watcher.label gave nothing. Nothing is left to do after Watcher.look: ")


async def test_where_nothing_can_run_at_all_it_is_said_what_is_lacking() -> None:
    process = await run(Watcher())

    assert isinstance(process.outcome, Stuck)
    assert process.outcome.reason.startswith("There is nothing to do: Watcher.look needs a UserInput; ")


@agent(description="Knows when to stop", planner=PlannerType.UTILITY)
class Content:
    @achieves_goal(description="Label it")
    @action(value=0.5)
    def label(self, user_input: UserInput) -> Label:
        return Label(user_input.content)

    @action(value=0.1)
    def look(self, user_input: UserInput) -> Seen:
        return Seen(user_input.content)


async def test_a_goal_that_is_reached_is_the_end_although_actions_remain() -> None:
    process = await run(Content(), UserInput("x"))

    assert process.outcome == Completed(Label("x"))
    assert ran(process) == ["Content.label"]


@agent(description="Goes the long way round")
class Roundabout:
    @action(value=0.9)
    def look(self, user_input: UserInput) -> Seen:
        return Seen(user_input.content)

    @achieves_goal(description="Label it")
    @action
    def label(self, user_input: UserInput) -> Label:
        return Label(user_input.content)


async def test_a_run_may_be_asked_for_with_another_planner() -> None:
    assert ran(await run(Roundabout(), UserInput("x"))) == ["Roundabout.label"]
    assert ran(await run(Roundabout(), UserInput("x"), planner=PlannerType.UTILITY)) == [
        "Roundabout.look",
        "Roundabout.label",
    ]


async def test_an_agent_without_goals_cannot_be_run_towards_one() -> None:
    process = await run(Watcher(), UserInput("x"), planner=PlannerType.GOAP)

    assert isinstance(process.outcome, Failed)
    assert process.outcome.reason.startswith("Watcher has no goal to plan for.")
    assert process.outcome.reason.endswith("run it with planner=PlannerType.UTILITY.")


@component
class Loud:
    @action(value=0.8)
    def alarm(self, seen: Seen) -> Alarm:
        return Alarm(seen.what)


@agent(description="Uses what others bring", planner=PlannerType.UTILITY)
class Host:
    @action
    def look(self, user_input: UserInput) -> Seen:
        return Seen(user_input.content)


async def test_actions_of_components_are_chosen_from_as_well() -> None:
    async with AgentPlatform([Host(), Loud()]) as platform:
        process = await platform.run("Host", UserInput("x"))

    assert ran(process) == ["Host.look", "Loud.alarm"]


async def test_a_component_can_be_run_alone_for_what_it_can_do() -> None:
    process = await run(Loud(), Seen("x"), planner=PlannerType.UTILITY)

    assert ran(process) == ["Loud.alarm"]


@agent(description="Breaks", planner=PlannerType.UTILITY)
class Breaking:
    @action(value=0.9)
    def breaks(self, user_input: UserInput) -> Seen:
        raise ValueError(user_input.content)

    @action
    def label(self, user_input: UserInput) -> Label:
        return Label(user_input.content)


async def test_what_fails_is_left_out_and_told_when_nothing_is_left() -> None:
    process = await run(Breaking(), UserInput("ouch"))

    assert ran(process)[-1] == "Breaking.label"
    assert isinstance(process.outcome, Failed)
    assert "ouch" in process.outcome.reason


@agent(description="Asks and goes on", planner=PlannerType.UTILITY)
class Asking:
    @action(value=0.9)
    def ask(self, user_input: UserInput) -> WaitFor[Seen]:
        return WaitFor.form_submission(user_input.content, Seen)

    @action
    def label(self, user_input: UserInput) -> Label:
        return Label(user_input.content)

    @achieves_goal(description="Raise it")
    @action
    def alarm(self, seen: Seen) -> Alarm:
        return Alarm(seen.what)


async def test_while_a_person_is_asked_everything_else_is_done() -> None:
    async with AgentPlatform([Asking()]) as platform:
        with anyio.fail_after(60):
            process = await platform.run("Asking", UserInput("what?"))
            assert isinstance(process.outcome, Waiting)
            assert ran(process) == ["Asking.ask", "Asking.label"]

            await platform.answer(process.id, response={"what": "smoke"})
            assert await process.wait() == Completed(Alarm("smoke"))


async def test_the_goals_of_a_utility_agent_are_explained_as_any_others() -> None:
    found: Explanation = AgentPlatform([Triage()]).explain("escalate", [Ticket])

    assert found.plan is not None
    assert [step.action for step in found.plan.steps] == ["Triage.classify", "Critical.escalate"]
