"""What conditions, costs, options and requests give that they should not: a defined outcome, and a word about it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from anyio import fail_after

from goalport.agents.domain import WaitFor, achieves_goal, action, agent, condition, cost
from goalport.base.errors import BadInput, ReplanRequested, UnknownName
from goalport.base.events import Event
from goalport.models.llm import TokenUsage
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import (
    ActionContext,
    Budget,
    Completed,
    Failed,
    MaxActions,
    ProcessOptions,
    Stuck,
    Terminated,
)


@dataclass(frozen=True)
class Seed:
    size: int = 0


@dataclass(frozen=True)
class Leaf:
    size: int = 0


@dataclass(frozen=True)
class Root:
    size: int = 0


@dataclass(frozen=True)
class Tree:
    size: int = 0


async def outcome_of(declared: type, *inputs: object, **how: Any) -> object:
    with fail_after(60):
        async with AgentPlatform([declared]) as platform:
            return (await platform.run(declared.__name__, *(inputs or (Seed(),)), **how)).outcome


def _raise() -> bool:
    raise LookupError("no list of blocked ones")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda: "no", "gave 'no', neither True nor False"),
        (lambda: None, "gave None, neither True nor False"),
        (lambda: 2, "gave 2, neither True nor False"),
        (_raise, "LookupError: no list of blocked ones"),
    ],
)
@pytest.mark.parametrize("needed", ["blocked", "!blocked"])
async def test_a_condition_that_answers_neither_yes_nor_no_opens_nothing(
    answer: Callable[[], Any], why: str, needed: str, caplog: pytest.LogCaptureFixture
) -> None:
    @agent(description="d")
    class Doubtful:
        @condition
        def blocked(self) -> bool:
            return answer()

        @achieves_goal(description="g")
        @action(pre=[needed])
        def pay(self, seed: Seed) -> Tree:
            raise AssertionError

    outcome = await outcome_of(Doubtful)
    assert isinstance(outcome, Stuck)
    assert "asking for it failed: " in outcome.reason
    assert why in outcome.reason
    assert "Condition blocked failed and is unknown" in caplog.text


def grower(figure: Callable[[], Any]) -> type:
    @agent(description="d")
    class Grower:
        @cost
        def price(self) -> float:
            return figure()

        @action(cost=0.4, cost_method="price")
        def odd(self, seed: Seed) -> Leaf:
            return Leaf(1)

        @action(cost=0.5)
        def usual(self, seed: Seed) -> Leaf:
            if seed.size:
                raise ValueError
            return Leaf(2)

        @achieves_goal(description="g")
        def grow(self, leaf: Leaf) -> Tree:
            return Tree(leaf.size)

    return Grower


@pytest.mark.parametrize("figure", ["dear", float("nan"), -1, 10**400, None, 1j, Decimal("nan"), _raise])
async def test_a_cost_that_is_none_counts_as_dear_as_can_be_and_is_told_once(
    figure: object, caplog: pytest.LogCaptureFixture
) -> None:
    declared = grower(figure if callable(figure) else lambda: figure)
    assert await outcome_of(declared) == Completed(Tree(2))
    assert await outcome_of(declared, Seed(1)) == Completed(Tree(1))
    assert caplog.text.count("Cost price of Grower.odd") == 2, "once on each platform"


@pytest.mark.parametrize("figure", [float("inf"), Decimal("inf")])
async def test_what_costs_an_infinite_amount_never_runs(figure: object, caplog: pytest.LogCaptureFixture) -> None:
    assert await outcome_of(grower(lambda: figure)) == Completed(Tree(2))
    assert isinstance(await outcome_of(grower(lambda: figure), Seed(1)), Failed)
    assert "Cost price" not in caplog.text


async def test_a_figure_of_another_number_type_is_a_figure() -> None:
    @agent(description="d")
    class Exact:
        @cost
        def price(self) -> float:
            return Decimal("0.6")  # type: ignore[return-value]

        @action(cost=0.4, cost_method="price")
        def dear(self, seed: Seed) -> Leaf:
            return Leaf(1)

        @action(cost=0.5)
        def cheap(self, seed: Seed) -> Leaf:
            return Leaf(2)

        @achieves_goal(description="g")
        def grow(self, leaf: Leaf) -> Tree:
            return Tree(leaf.size)

    assert await outcome_of(Exact) == Completed(Tree(2))


@pytest.mark.parametrize(
    "request_of", [lambda: ReplanRequested("no", None), lambda: ReplanRequested("no", update={"x": None})]
)
async def test_a_request_for_another_plan_with_nothing_to_add_fails_its_action_only(
    request_of: Callable[[], Exception],
) -> None:
    @agent(description="d")
    class Wishful:
        @action(cost=0.1)
        def wish(self, seed: Seed) -> Leaf:
            raise request_of()

        @action(cost=0.9)
        def work(self, seed: Seed) -> Leaf:
            return Leaf(3)

        @achieves_goal(description="g")
        def grow(self, leaf: Leaf) -> Tree:
            return Tree(leaf.size)

    assert await outcome_of(Wishful) == Completed(Tree(3))


async def test_working_through_items_none_at_a_time_is_refused() -> None:
    @agent(description="d")
    class Idle:
        @achieves_goal(description="g")
        async def grow(self, seed: Seed, context: ActionContext) -> list[int]:
            return await context.parallel_map([1, 2], lambda each: each, max_concurrency=0)

    outcome = await outcome_of(Idle)
    assert isinstance(outcome, Failed)
    assert "max_concurrency to be 1 or more, but got 0" in outcome.reason


@agent(description="d")
class Gardener:
    @action
    async def leaf(self, seed: Seed) -> Leaf:
        return Leaf(seed.size)

    @action
    async def root(self, seed: Seed) -> Root:
        return Root(seed.size)

    @achieves_goal(description="g")
    async def grow(self, leaf: Leaf, root: Root) -> Tree:
        return Tree(leaf.size + root.size)


@pytest.mark.parametrize(
    "limits", [ProcessOptions(budget=Budget(actions=1)), ProcessOptions(early_termination=MaxActions(1))]
)
async def test_steps_that_run_at_once_keep_within_the_budget(limits: ProcessOptions) -> None:
    options = limits.with_(concurrent=True)
    async with AgentPlatform([Gardener]) as platform:
        process = await platform.run("Gardener", Seed(), options=options)
        assert isinstance(process.outcome, Terminated)
        assert len(process.history) == 1


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: ProcessOptions(planner="utility"), "planner to be a PlannerType"),  # type: ignore[arg-type]
        (lambda: ProcessOptions(deadline=float("nan")), "deadline"),
        (lambda: ProcessOptions(deadline=-1), "deadline"),
        (lambda: ProcessOptions(delay=float("inf")), "delay"),
        (lambda: ProcessOptions(tool_delay=-1), "tool_delay"),
        (lambda: ProcessOptions(budget=3), "budget to be a Budget"),  # type: ignore[arg-type]
        (lambda: Budget(cost=float("nan")), "cost to be a number from 0 up, but got nan"),
        (lambda: Budget(cost=None), "cost to be a number"),  # type: ignore[arg-type]
        (lambda: Budget(actions=-1), "actions to be a whole number from 0 up, but got -1"),
        (lambda: Budget(tokens=1.5), "tokens to be a whole number"),  # type: ignore[arg-type]
        (lambda: MaxActions(True), "limit to be a whole number"),
    ],
)
def test_an_option_of_another_kind_is_refused(declare: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        declare()


async def test_nothing_begins_from_nothing() -> None:
    told: list[Event] = []

    class Ear:
        def on_event(self, event: Event, /) -> None:
            told.append(event)

    async with AgentPlatform([Gardener], listeners=[Ear()]) as platform:
        told.clear()
        with pytest.raises(TypeError, match="an object to begin with, but got None"):
            platform.start("Gardener", None)
        with pytest.raises(TypeError, match="an object to bind as 'seed', but got None"):
            platform.start("Gardener", bindings={"seed": None})
        with pytest.raises(UnknownName, match="goal"):
            platform.start("Gardener", Seed(), goals=["nowhere"])
        assert told == []
        assert not await platform.processes.records()


@agent(description="d")
class Asker:
    @action
    def leaf(self, seed: Seed) -> WaitFor[Leaf]:
        return WaitFor.form_submission("How many leaves?", Leaf)

    @action
    def root(self, seed: Seed) -> WaitFor[Root]:
        return WaitFor.form_submission("How many roots?", Root)

    @achieves_goal(description="g")
    def grow(self, leaf: Leaf, root: Root) -> Tree:
        return Tree(leaf.size + root.size)


async def test_an_answer_to_no_question_in_particular_says_which_there_are() -> None:
    async with AgentPlatform([Asker]) as platform:
        process = await platform.run("Asker", Seed())
        one, two = process.open_questions
        with pytest.raises(BadInput, match=rf"Say which[^.]*{one.id}[^.]*{two.id}"):
            await platform.answer(process.id, response={"size": 1})
        for each in (one, two):
            await platform.answer(process.id, each.id, {"size": 1})
        with fail_after(60):
            await process.wait()
        with pytest.raises(BadInput, match="No question is open"):
            await platform.answer(process.id, response={"size": 1})


async def test_of_many_who_answer_at_once_one_counts() -> None:
    async with AgentPlatform([Asker]) as platform:
        process = await platform.run("Asker", Seed())
        one, two = process.open_questions

        async def answer(size: int) -> bool:
            try:
                await platform.answer(process.id, one.id, {"size": size})
            except Exception:
                return False
            return True

        taken = await asyncio.gather(*(answer(size) for size in range(8)))
        assert taken.count(True) == 1
        await platform.answer(process.id, two.id, {"size": 100})
        with fail_after(60):
            outcome = await process.wait()
        assert outcome == Completed(Tree(100 + taken.index(True)))


def test_amounts_below_a_cent_are_shown_with_the_digits_that_it_takes() -> None:
    assert Budget(cost=0.0005).overspent(TokenUsage(cost=0.00123)) == (
        "The budget of 0.00050 USD is used up (0.0012 USD spent)."
    )
    assert Budget(cost=2).overspent(TokenUsage(cost=2.5)) == "The budget of 2.00 USD is used up (2.50 USD spent)."
    assert Budget(cost=0).overspent(TokenUsage(cost=0.3)) == "The budget of 0.00 USD is used up (0.30 USD spent)."
