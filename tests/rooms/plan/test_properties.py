"""What holds for every problem, tried on small random ones against a planner too simple to be wrong."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from hypothesis import example, given, settings, strategies as st

from goalport.agents.plan import (
    Fact,
    Holds,
    NoPlan,
    Operator,
    Plan,
    PlanGoal,
    PlanningSystem,
    Problem,
    Undecided,
    WorldState,
    explain,
    plan,
    prune,
)
from tests.rooms.plan.toys import anew, cheapest, first_state, holds

FACTS: list[Fact] = [Holds(letter) for letter in "abcdef"]
COSTS = (0.0, 0.1, 0.2, 0.3, 1.0, 2.5)

tried = settings(max_examples=60, derandomize=True, database=None)

requirements = st.dictionaries(st.sampled_from(FACTS), st.booleans(), max_size=3)
effects = st.dictionaries(st.sampled_from(FACTS), st.booleans(), min_size=1, max_size=3)


@st.composite
def worlds(draw: st.DrawFn, kinds: str = "tfu") -> WorldState:
    """A world in which each fact is true, false, unknown (?) or undecidable (u)."""
    drawn = {fact: draw(st.sampled_from(kinds)) for fact in FACTS}
    true, unknown, undecidable = (frozenset(f for f, kind in drawn.items() if kind == each) for each in "t?u")
    return WorldState(true, unknown, undecidable)


@st.composite
def problems(draw: st.DrawFn, kinds: str = "tfu", goals: int = 1) -> Problem:
    operators = [
        Operator(f"o{number}", f"o{number}", draw(requirements), draw(effects), draw(st.sampled_from(COSTS)), value)
        for number, value in enumerate(draw(st.lists(st.sampled_from((0.0, 0.5)), max_size=8)))
    ]
    targets = [
        PlanGoal(f"g{number}", draw(requirements.filter(bool)), draw(st.sampled_from((0.0, 0.3, 5.0))))
        for number in range(draw(st.integers(1, goals)))
    ]
    actions = [operator.action for operator in operators]
    excluded = draw(st.frozensets(st.sampled_from(actions), max_size=1)) if actions else frozenset[str]()
    costs = draw(st.dictionaries(st.sampled_from(actions), st.sampled_from((0.0, 0.15, 4.0)))) if actions else {}
    return Problem(PlanningSystem(operators), draw(worlds(kinds)), tuple(targets), excluded, costs)


def run(start: WorldState, steps: tuple[Operator, ...]) -> Mapping[Fact, bool | None]:
    state = dict(first_state(start))
    for step in steps:
        assert holds(state, step.requires)
        state |= step.effects
    return state


def answered(asked: Problem, answers: Mapping[Fact, bool | None], among: frozenset[Fact]) -> Problem:
    """The problem after some of its unknown facts were asked for; None is no answer."""
    start = WorldState(
        asked.start.true | {fact for fact in among if answers[fact]},
        asked.start.unknown - among,
        asked.start.undecidable | {fact for fact in among if answers[fact] is None},
    )
    return replace(asked, start=start)


def asked_in_turn(asked: Problem, answers: Mapping[Fact, bool | None]) -> Plan | NoPlan:
    asked_for: frozenset[Fact] = frozenset()
    while isinstance(found := plan(answered(asked, answers, asked_for)), Undecided):
        assert found.fact in asked.start.unknown - asked_for
        asked_for |= {found.fact}
    return found


@tried
@given(problems())
def test_a_plan_can_be_carried_out_and_reaches_its_goal(asked: Problem) -> None:
    found = plan(asked)
    if isinstance(found, Plan):
        assert holds(run(asked.start, found.steps), found.goal.requires)
        assert not asked.excluded.intersection(step.action for step in found.steps)


@tried
@given(problems())
def test_a_plan_is_the_cheapest_the_shortest_and_the_first_of_equals(asked: Problem) -> None:
    found, expected = plan(asked), cheapest(asked, asked.goals[0])
    if expected is None:
        assert isinstance(found, NoPlan)
    else:
        assert isinstance(found, Plan)
        assert list(found.steps) == expected
        assert found.cost == float(sum(Fraction(str(asked.cost(step))) for step in expected))


@tried
@given(problems(goals=3))
def test_of_several_goals_the_one_with_the_best_net_value_is_planned_for(asked: Problem) -> None:
    alone = [plan(anew(replace(asked, goals=(goal,)))) for goal in asked.goals]
    plans = [found for found in alone if isinstance(found, Plan)]
    found = plan(asked)
    if plans:
        assert found == max(plans, key=lambda each: each.net_value)
    else:
        assert isinstance(found, NoPlan)


@tried
@given(problems("tfu?", goals=2))
def test_the_same_problem_has_the_same_answer_again(asked: Problem) -> None:
    first = plan(asked)
    assert plan(asked) == first
    assert plan(anew(asked)) == first


@tried
@given(problems("tfu?", goals=2), st.fixed_dictionaries({fact: st.sampled_from((True, False, None)) for fact in FACTS}))
@example(
    Problem(
        PlanningSystem([Operator("o0", "o0", {}, {Holds("a"): False}, 0.1, 0.5)]),
        WorldState(unknown=frozenset({Holds("a")})),
        (PlanGoal("g0", {Holds("b"): False}), PlanGoal("g1", {Holds("a"): False})),
    ),
    dict.fromkeys(FACTS, True),
)
def test_asking_only_when_it_matters_comes_to_the_same_as_knowing_all(
    asked: Problem, answers: Mapping[Fact, bool | None]
) -> None:
    assert asked_in_turn(asked, answers) == plan(anew(answered(asked, answers, asked.start.unknown)))


@tried
@given(problems("tfu"), worlds("tf"))
def test_planning_again_after_a_step_or_a_surprise_is_planning_anew(asked: Problem, other: WorldState) -> None:
    found = plan(asked)
    while isinstance(found, Plan) and found.steps:
        state = {**first_state(asked.start), **found.steps[0].effects}
        after = WorldState(
            frozenset(fact for fact, value in state.items() if value),
            undecidable=frozenset(fact for fact, value in state.items() if value is None),
        )
        rest = plan(replace(asked, start=after))
        assert isinstance(rest, Plan)
        assert rest.steps == found.steps[1:]
        assert rest == plan(anew(replace(asked, start=after)))
        asked, found = replace(asked, start=after), rest
    assert plan(replace(asked, start=other)) == plan(anew(replace(asked, start=other)))


@tried
@given(problems("tfu?", goals=2))
def test_every_problem_can_be_explained(asked: Problem) -> None:
    explanation = explain(asked)
    if explanation.plan is None:
        assert plan(asked) == NoPlan(asked.goals)
        assert len(explanation.failures) == len(asked.goals)
        assert all(failure.missing or failure.clash for failure in explanation.failures)
    else:
        assert all(step.supplies for step in explanation.steps)
    assert explanation.summary() in explanation.text() or explanation.plan is None


@tried
@given(problems("tfu?"))
def test_supplying_what_is_missing_takes_every_reason_away(asked: Problem) -> None:
    """With what is missing at hand, each need can be met; at worst they clash."""
    failures = explain(asked).failures
    if failures and failures[0].missing:
        helps = [
            Operator(f"help {each.fact}", f"help {each.fact}", {}, {each.fact: each.value})
            for each in failures[0].missing
        ]
        system = PlanningSystem((*asked.system.operators, *helps))
        helped = explain(replace(asked, system=system, goals=(failures[0].goal,)))
        assert helped.plan is not None or helped.failures[0].clash is not None


@tried
@given(problems("tfu?", goals=2))
def test_what_is_pruned_is_in_no_plan(asked: Problem) -> None:
    kept = prune(asked)
    rest = replace(asked, excluded=frozenset(operator.action for operator in asked.system.operators) - kept)
    assert plan(anew(replace(rest, excluded=rest.excluded | asked.excluded))) == plan(asked)
