from dataclasses import replace
from random import Random

import pytest

from benchmarks.planner import (
    SURPRISES,
    after_a_step,
    anew,
    chain_with_irrelevant,
    crime,
    halfway,
    layers,
    platform_of_agents,
    random_dag,
)
from goalport.agents.plan import (
    Available,
    Holds,
    NoPlan,
    Operator,
    Plan,
    PlanGoal,
    PlanningSystem,
    Problem,
    WorldState,
    explain,
    plan,
)
from tests.rooms.plan.toys import cheapest

LETTERS = [Holds(letter) for letter in "abcdefg"]


def crowded(seed: int) -> Problem:
    """Many actions over few conditions, so that a planner that tries everything can follow."""
    random = Random(seed)
    operators = [
        Operator(
            f"o{number}",
            f"o{number}",
            {fact: random.random() < 0.6 for fact in random.sample(LETTERS, random.randint(1, 3))},
            {fact: random.random() < 0.6 for fact in random.sample(LETTERS, random.randint(1, 2))},
            random.choice((0.0, 0.1, 0.5, random.uniform(0.0, 2.0))),
        )
        for number in range(random.randint(70, 100))
    ]
    goal = PlanGoal("goal", {fact: random.random() < 0.6 for fact in random.sample(LETTERS, 4)})
    start = WorldState(frozenset(random.sample(LETTERS, 3)))
    return Problem(PlanningSystem(operators), start, (goal,), costs={"o3": random.uniform(0, 3)})


CHOOSY = (129, 184, 335, 446, 528)
"""Seeds of crowded problems whose cuts add up to less than their cheapest plans."""


@pytest.mark.parametrize("seed", [*range(40), *CHOOSY])
def test_leaving_out_what_cannot_pay_leaves_the_answer_as_it_is(seed: int) -> None:
    asked = crowded(seed)
    found, expected = plan(asked), cheapest(asked, asked.goals[0])
    assert (list(found.steps) if isinstance(found, Plan) else None) == expected


@pytest.mark.parametrize("seed", [11, 12])
def test_many_ways_to_many_things_are_told_apart_without_trying_every_order(seed: int) -> None:
    found = plan(random_dag(spares=100, seed=seed))
    assert isinstance(found, Plan)
    assert found.proven
    assert found.expansions == len(found.steps)


@pytest.mark.parametrize("surprise", SURPRISES)
@pytest.mark.parametrize("seed", [3, 11, 12])
def test_planning_again_after_a_surprise_is_planning_anew(surprise: str, seed: int) -> None:
    asked = random_dag(300, 100, spares=60, seed=seed)
    for late in (False, True):
        surprised = SURPRISES[surprise](halfway(asked) if late else asked)
        assert plan(surprised) == plan(anew(surprised))


@pytest.mark.parametrize("seed", range(12))
def test_costs_of_the_day_are_weighed_alike_in_a_large_problem(seed: int) -> None:
    """Whether the costs come from the actions or from the problem, to however many places."""
    declared = layers(4, 14, seed=seed)
    costs = {operator.action: operator.cost for operator in declared.system.operators}
    bare = PlanningSystem(replace(operator, cost=1 / 3) for operator in declared.system.operators)
    found, expected = plan(replace(declared, system=bare, costs=costs)), plan(declared)
    assert isinstance(found, Plan)
    assert isinstance(expected, Plan)
    assert (found.cost, [step.name for step in found.steps]) == (expected.cost, [step.name for step in expected.steps])


@pytest.mark.parametrize(
    ("asked", "steps", "cost"),
    [
        pytest.param(chain_with_irrelevant(), 10, 10.0, id="chain"),
        pytest.param(chain_with_irrelevant(cost=0.0), 10, 0.0, id="chain at no cost"),
        pytest.param(platform_of_agents(), 4, 0.4, id="platform"),
        pytest.param(platform_of_agents(cost=0.0), 4, 0.0, id="platform at no cost"),
        pytest.param(crime(random_actions=300), 7, 8.8, id="crime"),
        *(pytest.param(crime(count), 6 + count, 7.8 + count, id=f"{count} enemies") for count in range(1, 7)),
        pytest.param(layers(seed=5), 11, 4.46, id="layers"),
    ],
)
def test_the_best_plan_is_found_without_looking_far(asked: Problem, steps: int, cost: float) -> None:
    found = plan(anew(asked))
    assert isinstance(found, Plan)
    assert (len(found.steps), found.cost) == (steps, cost)
    assert found.expansions <= 100
    assert found.proven


@pytest.mark.parametrize("window", [60, 300, 1000])
def test_the_search_looks_at_no_more_states_than_a_plan_has_where_nothing_can_be_chosen(window: int) -> None:
    asked = random_dag(window=window, inputs=1 if window == 60 else 2)
    found = plan(asked)
    assert isinstance(found, Plan)
    assert found.expansions == len(found.steps)
    rest = plan(after_a_step(asked))
    assert isinstance(rest, Plan)
    assert (rest.steps, rest.expansions) == (found.steps[1:], 0)


def states(count: int) -> Problem:
    """A way through many states, each of which leaves all others."""
    kinds = [Available(f"S{number}") for number in range(count)]
    operators = [
        Operator(
            f"leave S{number}",
            f"leave S{number}",
            {kinds[number]: True, kinds[number + 1]: False},
            {kind: kind == kinds[number + 1] for kind in kinds},
            0.0,
        )
        for number in range(count - 1)
    ]
    goal = PlanGoal("the last", {kinds[-1]: True})
    return Problem(PlanningSystem(operators), WorldState(frozenset(kinds[:1])), (goal,), deadline=10.0)


def test_a_way_through_hundreds_of_states_is_found_at_once_and_known_from_then_on() -> None:
    asked = states(300)
    found = plan(asked)
    assert isinstance(found, Plan)
    assert (len(found.steps), found.proven) == (299, True)
    onwards = replace(asked, start=WorldState(frozenset({Available("S1")})))
    rest = plan(onwards)
    assert isinstance(rest, Plan)
    assert (rest.steps, rest.expansions) == (found.steps[1:], 0)


def test_why_a_large_problem_has_no_plan_is_told_by_the_one_thing_that_is_missing() -> None:
    asked = replace(random_dag(), start=WorldState())
    assert plan(asked) == NoPlan(asked.goals)
    explanation = explain(asked)
    assert [str(missing.fact) for missing in explanation.failures[0].missing] == ["an Input"]


def test_when_the_time_is_up_the_best_plan_at_hand_is_better_than_none() -> None:
    asked = replace(layers(20, 25), deadline=0.0)
    found = plan(asked)
    assert isinstance(found, Plan)
    assert not found.proven
    assert explain(asked).summary().endswith("perhaps not the cheapest).")
