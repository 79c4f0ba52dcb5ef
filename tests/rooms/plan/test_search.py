import sys
from dataclasses import replace

import pytest

from benchmarks.planner import crime
from goalport.agents.plan import (
    BadAmount,
    ContradictoryState,
    Holds,
    NoPlan,
    Operator,
    Plan,
    PlanGoal,
    PlanningSystem,
    Problem,
    WorldState,
    plan,
)
from tests.rooms.plan.toys import deed, goal, literals, names, problem, world

CHAIN = [deed("first", "", "a"), deed("second", "a", "b"), deed("third", "b", "c")]


def test_a_goal_that_holds_has_an_empty_plan() -> None:
    target = goal("c", value=2.0)
    assert plan(problem(CHAIN, target, start=world("c"))) == Plan(target, (), cost=0.0, value=2.0)


def test_a_plan_chains_what_gives_with_what_needs() -> None:
    found = plan(problem(reversed(CHAIN), goal("c")))
    assert names(found) == ["first", "second", "third"]


def test_a_goal_that_nothing_gives_has_no_plan() -> None:
    asked = problem(CHAIN, goal("z"))
    assert plan(asked) == NoPlan(asked.goals)


def test_a_goal_that_no_action_mentions_may_hold_already() -> None:
    assert names(plan(problem(CHAIN, goal("z c"), start=world("z")))) == ["first", "second", "third"]
    assert names(plan(problem(CHAIN, goal("!z a")))) == ["first"]
    assert isinstance(plan(problem(CHAIN, goal("!z a"), start=world("z"))), NoPlan)


def test_nothing_is_planned_for_no_goals() -> None:
    assert plan(problem(CHAIN)) == NoPlan(())


def test_a_condition_that_must_be_false_is_cleared_first() -> None:
    clear = deed("clear", "b", "!blocked")
    go = deed("go", "!blocked", "c")
    found = plan(problem([go, clear, deed("make", "", "b")], goal("c"), start=world("blocked")))
    assert names(found) == ["make", "clear", "go"]


def test_a_goal_may_ask_for_a_condition_to_be_false() -> None:
    assert names(plan(problem([deed("clear", "", "!a")], goal("!a"), start=world("a")))) == ["clear"]


def test_what_a_step_takes_away_is_made_again() -> None:
    spend_twice = [
        deed("earn", "", "money"),
        deed("buy bread", "money", "!money bread"),
        deed("buy wine", "money", "!money wine"),
    ]
    found = plan(problem(spend_twice, goal("bread wine")))
    assert names(found) == ["earn", "buy bread", "earn", "buy wine"]


def test_the_cheaper_of_two_ways_is_taken_though_it_is_longer() -> None:
    dear = deed("dear", "", "c", cost=1.0)
    cheap = [deed("cheap 1", "", "a", cost=0.3), deed("cheap 2", "a", "c", cost=0.3)]
    assert names(plan(problem([dear, *cheap], goal("c")))) == ["cheap 1", "cheap 2"]


def test_of_ways_that_cost_the_same_the_shorter_is_taken() -> None:
    direct = deed("direct", "", "c", cost=0.3)
    detour = [deed("detour 1", "", "a", cost=0.1), deed("detour 2", "a", "c", cost=0.2)]
    assert names(plan(problem([*detour, direct], goal("c")))) == ["direct"]


def test_steps_that_cost_nothing_are_not_taken_for_nothing() -> None:
    free = [deed(f"free {number}", "", f"x{number}", cost=0.0) for number in range(30)]
    assert names(plan(problem([*free, deed("go", "", "c", cost=0.0)], goal("c")))) == ["go"]


def test_among_equals_the_more_specific_action_wins() -> None:
    anyhow, knowing = deed("anyhow", "", "c"), deed("knowing", "a", "c")
    assert names(plan(problem([anyhow, knowing], goal("c"), start=world("a")))) == ["knowing"]


def test_among_equally_specific_equals_the_one_declared_first_wins() -> None:
    one, other = deed("one", "a", "c"), deed("other", "b", "c")
    assert names(plan(problem([one, other], goal("c"), start=world("a b")))) == ["one"]
    assert names(plan(problem([other, one], goal("c"), start=world("a b")))) == ["other"]


def test_an_excluded_action_is_in_no_plan_by_any_of_its_exits() -> None:
    exits = [Operator(f"route to {to}", "route", {}, literals(to), cost=0.1) for to in "ab"]
    asked = problem([*exits, deed("direct", "", "c", cost=5.0), deed("from a", "a", "c")], goal("c"))
    assert names(plan(asked)) == ["route to a", "from a"]
    assert names(plan(replace(asked, excluded=frozenset({"route"})))) == ["direct"]


def test_a_cost_of_the_day_overrides_what_the_action_declares() -> None:
    asked = problem([deed("one", "", "c", cost=1.0), deed("other", "", "c", cost=2.0)], goal("c"))
    found = plan(replace(asked, costs={"one": 2.125}))
    assert names(found) == ["other"]
    assert isinstance(found, Plan)
    assert found.cost == 2.0


def test_net_value_is_what_goal_and_steps_are_worth_less_what_they_cost() -> None:
    found = plan(problem([deed("go", "", "c", cost=0.3, value=0.1)], goal("c", value=0.5)))
    assert isinstance(found, Plan)
    assert (found.value, found.net_value) == (0.6, 0.3)


def test_a_value_of_the_day_counts_for_the_goal_that_is_chosen() -> None:
    asked = problem([deed("to a", "", "a"), deed("to b", "", "b")], goal("a", value=1.0), goal("b", value=1.0))
    assert names(plan(asked)) == ["to a"]
    assert names(plan(replace(asked, values={"to b": 0.5}))) == ["to b"]


def test_a_goal_that_holds_competes_with_its_empty_plan() -> None:
    far, here = goal("a", value=1.5), goal("b", value=1.0)
    found = plan(problem([deed("to a", "", "a")], far, here, start=world("b")))
    assert isinstance(found, Plan)
    assert found.goal is here


def test_goals_of_equal_net_value_are_decided_by_declaration() -> None:
    goals = goal("a", name="declared first"), goal("b", name="declared second")
    found = plan(problem([deed("to both", "", "a b")], *goals))
    assert isinstance(found, Plan)
    assert found.goal is goals[0]


def test_what_could_not_be_decided_satisfies_nobody_until_an_action_settles_it() -> None:
    asked = problem([deed("if so", "a", "c"), deed("if not", "!a", "c")], goal("c"), start=world(undecidable="a"))
    assert isinstance(plan(asked), NoPlan)
    settled = problem([*asked.system.operators, deed("settle", "", "!a")], goal("c"), start=asked.start)
    assert names(plan(settled)) == ["settle", "if not"]


def test_a_search_without_time_gives_up_and_says_so() -> None:
    asked = replace(problem(CHAIN, goal("c")), deadline=0.0)
    found = plan(asked)
    assert found == NoPlan(asked.goals, timed_out=True)
    assert plan(replace(asked, deadline=60.0)) == plan(replace(asked, deadline=None))


def test_an_action_may_repeat_what_one_needs_false_and_sets_true() -> None:
    once = Operator("once", "once", {Holds("ran"): False}, {Holds("ran"): True, Holds("a"): True})
    spoil = deed("spoil", "a", "!a b")
    assert isinstance(plan(problem([once, spoil], goal("a b"))), NoPlan)


@pytest.mark.parametrize("cost", [-0.1, float("nan"), float("inf")])
def test_a_cost_that_cannot_be_weighed_is_refused(cost: float) -> None:
    with pytest.raises(BadAmount, match="cost of go: expected a finite number that is not negative"):
        deed("go", cost=cost)
    with pytest.raises(BadAmount, match="cost of go"):
        replace(problem([deed("go")], goal("c")), costs={"go": cost})


def test_a_value_may_be_negative_but_not_endless() -> None:
    assert deed("go", value=-3.0).value == -3.0
    with pytest.raises(BadAmount, match="value of go"):
        deed("go", value=float("inf"))
    with pytest.raises(BadAmount, match="value of c"):
        goal("c", value=float("nan"))
    with pytest.raises(BadAmount, match="value of go"):
        replace(problem([deed("go")]), values={"go": float("-inf")})


def test_enormous_costs_are_compared_exactly_and_their_sum_does_not_fail() -> None:
    steps = [deed("one", "", "a", cost=1e308), deed("two", "a", "c", cost=1e308), deed("more", "a", "c", cost=1.1e308)]
    found = plan(problem(steps, goal("c")))
    assert names(found) == ["one", "two"]
    assert isinstance(found, Plan)
    assert (found.cost, found.net_value) == (sys.float_info.max, -sys.float_info.max)


def test_a_world_that_says_two_things_of_one_fact_is_refused() -> None:
    with pytest.raises(ContradictoryState, match="condition a"):
        WorldState(true=frozenset({Holds("a")}), unknown=frozenset({Holds("a")}))


def test_operators_and_goals_can_be_kept_in_sets() -> None:
    assert len({deed("a", "b", "c"), deed("a", "b", "c"), deed("b")}) == 2
    assert len({goal("a"), PlanGoal("a", literals("a")), goal("b")}) == 2


def test_planning_goes_on_from_where_the_last_plan_foresaw_without_a_search() -> None:
    asked = problem([*CHAIN, deed("other", "a", "c", cost=9.0)], goal("c"))
    whole = plan(asked)
    rest = plan(replace(asked, start=world("a")))
    assert isinstance(whole, Plan)
    assert isinstance(rest, Plan)
    assert rest.steps == whole.steps[1:]
    assert (whole.expansions, rest.expansions) == (3, 0)
    assert names(plan(replace(asked, start=world("a"), excluded=frozenset({"second"})))) == ["other"]
    assert names(plan(replace(asked, start=world("a"), costs={"third": 20.0}))) == ["other"]


def test_planning_stays_right_when_more_is_asked_than_is_remembered() -> None:
    system = PlanningSystem(deed(f"to {number}", f"from{number}", "c") for number in range(12))
    asked = [
        Problem(system, world(f"from{number}"), (goal("c", name=f"goal {goals}"),))
        for goals in range(150)
        for number in range(12)
    ]
    assert [names(plan(each)) for each in asked] == [[f"to {number}"] for _ in range(150) for number in range(12)]
    again = plan(asked[-1])
    assert isinstance(again, Plan)
    assert again.expansions == 0


def test_the_crime_pays_least_when_seven_things_are_done() -> None:
    found = plan(crime())
    assert isinstance(found, Plan)
    assert (found.cost, len(found.steps), found.net_value) == (8.8, 7, 1.2)
