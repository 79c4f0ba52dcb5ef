"""How plans are made (sections 3.2.2 and 3.28, and the planning appendix, 8): the least, the cheapest, or none."""

from dataclasses import dataclass

import pytest

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    ProcessOptions,
    ProcessStatus,
    UserInput,
    achieves_goal,
    action,
    agent,
    condition,
)
from goalport.agents import Circular
from goalport.runtime import Completed, mistakes_in
from goalport.testing import plan_of


@dataclass(frozen=True)
class Wood:
    trees: int


@dataclass(frozen=True)
class Plank:
    length: int


@dataclass(frozen=True)
class Nail:
    length: int


@dataclass(frozen=True)
class Painting:
    colour: str


@dataclass(frozen=True)
class Shed:
    of: str


def ran(process: AgentProcess) -> list[str]:
    return [each.action.rpartition(".")[2] for each in process.history]


@agent(description="Builds sheds")
class Builder:
    """A long cheap way, a short dear one, and steps that lead nowhere."""

    @action(cost=0.1)
    async def fell(self, user_input: UserInput) -> Wood:
        return Wood(3)

    @action(cost=0.1)
    async def saw(self, wood: Wood) -> Plank:
        return Plank(wood.trees)

    @action(cost=0.1)
    async def forge(self, user_input: UserInput) -> Nail:
        return Nail(1)

    @action
    async def paint(self, wood: Wood) -> Painting:
        return Painting("green")

    @action
    async def whistle(self, user_input: UserInput) -> None: ...

    @achieves_goal(description="Have built a shed")
    @action(cost=0.1)
    async def build(self, plank: Plank, nail: Nail) -> Shed:
        return Shed("planks")

    @achieves_goal(description="Have bought a shed")
    @action(cost=0.9)
    async def buy(self, user_input: UserInput) -> Shed:
        return Shed("plastic")


def test_only_actions_that_bring_the_goal_nearer_are_in_the_plan() -> None:
    steps = plan_of(Builder, given=[UserInput], goal="build")
    assert set(steps) == {"fell", "saw", "forge", "build"}
    assert steps.index("fell") < steps.index("saw") < steps.index("build")
    assert steps.index("forge") < steps.index("build")


@pytest.mark.parametrize(
    ("given", "steps"),
    [([Wood], {"saw"}), ([Plank], set[str]()), ([Plank, Nail], set[str]()), ([Nail], {"fell", "saw"})],
)
def test_what_is_there_already_is_planned_from(given: list[type], steps: set[str]) -> None:
    needed = {"build"} | steps | (set[str]() if Nail in given else {"forge"})
    assert set(plan_of(Builder, given=[UserInput, *given], goal="build")) == needed


async def test_of_two_goals_the_one_with_the_cheaper_plan_is_pursued_though_it_is_longer() -> None:
    process = await AgentPlatform([Builder]).run("Builder", UserInput("go"))
    assert process.outcome == Completed(Shed("planks"))
    assert set(ran(process)) == {"fell", "saw", "forge", "build"}


def test_the_plan_says_what_it_costs_and_what_the_next_best_would() -> None:
    why = AgentPlatform([Builder]).explain("build", [UserInput])
    assert why.plan
    assert why.plan.cost == pytest.approx(0.4)
    assert why.alternative is None


async def test_a_plan_is_made_from_whatever_a_step_really_brought() -> None:
    @agent(description="Finds ready-made planks in the wood")
    class Lucky(Builder):
        @action(cost=0.1)
        async def fell(self, user_input: UserInput, context: ActionContext) -> Wood:  # type: ignore[override]
            context.add(Plank(1))
            return Wood(0)

    process = await AgentPlatform([Lucky]).run("Lucky", UserInput("go"))
    assert process.outcome == Completed(Shed("planks"))
    assert "saw" not in ran(process)


async def test_pruning_leaves_only_actions_that_are_in_some_plan_and_changes_no_result() -> None:
    platform = AgentPlatform([Builder])
    whole = await platform.run("Builder", UserInput("go"))
    pruned = await platform.run("Builder", UserInput("go"), options=ProcessOptions(prune=True))
    assert {each.rpartition(".")[2] for each in pruned.scope.actions} == {"fell", "saw", "forge", "build", "buy"}
    assert (pruned.outcome, ran(pruned)) == (whole.outcome, ran(whole))
    with_nails = await platform.run("Builder", Plank(1), Nail(1), options=ProcessOptions(prune=True))
    assert set(with_nails.scope.actions) == {"Builder.build", "Builder.buy"}


def test_without_a_way_there_is_no_plan_and_it_is_said_what_is_missing() -> None:
    why_not = AgentPlatform([Builder]).explain("build", [Plank])
    assert why_not.plan is None
    assert "UserInput" in why_not.summary()


@agent(description="Needs what it makes")
class Circles:
    @action
    async def saw(self, wood: Wood) -> Plank:
        raise AssertionError

    @action
    async def burn(self, plank: Plank) -> Wood:
        raise AssertionError

    @achieves_goal(description="Nail it")
    async def nail(self, plank: Plank) -> Shed:
        raise AssertionError


async def test_types_that_need_one_another_leave_the_agent_stuck_and_are_told_before_it_runs() -> None:
    platform = AgentPlatform([Circles])
    process = await platform.run("Circles", UserInput("go"))
    assert process.status is ProcessStatus.STUCK
    assert ran(process) == []
    (failure,) = platform.explain("nail", [UserInput]).failures
    assert any(isinstance(each.why, Circular) for each in failure.missing)
    assert any("it cannot be reached" in str(each) for each in mistakes_in(platform.agents, platform.groups))


@agent(description="Asks before it chooses")
class Weather:
    """Several conditions are unknown at first; each is asked only if it can change the plan."""

    def __init__(self, *, dry: bool, windy: bool) -> None:
        self.answers = {"dry": dry, "windy": windy}
        self.asked: list[str] = []

    def _ask(self, name: str) -> bool:
        self.asked.append(name)
        return self.answers[name]

    @condition
    def dry(self) -> bool:
        return self._ask("dry")

    @condition
    def windy(self) -> bool:
        return self._ask("windy")

    @achieves_goal(description="Fly a kite")
    @action(pre=["dry", "windy"], cost=0.1)
    async def fly(self, user_input: UserInput) -> Shed:
        return Shed("kite")

    @achieves_goal(description="Take a walk")
    @action(pre=["dry"], cost=0.3)
    async def walk(self, user_input: UserInput) -> Shed:
        return Shed("walk")

    @achieves_goal(description="Stay in")
    @action(cost=0.5)
    async def stay(self, user_input: UserInput) -> Shed:
        return Shed("stay")


@pytest.mark.parametrize(
    ("dry", "windy", "what"),
    [(True, True, "kite"), (True, False, "walk"), (False, True, "stay"), (False, False, "stay")],
)
async def test_any_number_of_unknown_conditions_is_found_out_when_it_matters(
    dry: bool,  # noqa: FBT001 (a case of a table)
    windy: bool,  # noqa: FBT001
    what: str,
) -> None:
    declared = Weather(dry=dry, windy=windy)
    process = await AgentPlatform([declared]).run("Weather", UserInput("out"))
    assert process.outcome == Completed(Shed(what))
    if not dry:
        assert declared.asked.count("windy") <= declared.asked.count("dry")
