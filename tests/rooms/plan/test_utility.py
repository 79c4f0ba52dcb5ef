"""The utility planner: one step at a time, the best of what can be done; nothing more once a goal is reached."""

from dataclasses import replace

from goalport.agents.plan import (
    NIRVANA,
    HasRun,
    Holds,
    NoPlan,
    Operator,
    Plan,
    PlanningSystem,
    Problem,
    Undecided,
    best_step,
    idleness,
)
from tests.rooms.plan.toys import deed, goal, names, problem, world


def test_the_step_of_greatest_value_less_cost_is_taken() -> None:
    steps = [deed("dear", "", "a", 0.9, 1.0), deed("good", "", "b", 0.1, 0.8), deed("poor", "", "c", 0.0, 0.3)]

    assert names(best_step(problem(steps))) == ["good"]


def test_what_cannot_be_done_now_is_not_considered_and_nothing_is_planned_ahead() -> None:
    steps = [deed("later", "a", "x", 0.0, 9.0), deed("now", "", "a", 1.0)]

    found = best_step(problem(steps, goal("x", 5.0)))

    assert isinstance(found, Plan)
    assert (names(found), found.goal, found.expansions) == (["now"], NIRVANA, 1)


def test_equal_worth_is_decided_by_preconditions_and_then_by_order_even_in_decimals() -> None:
    steps = [deed("first", "", "a", 0.1, 0.3), deed("second", "", "b", 0.0, 0.2), deed("specific", "k", "c", 0.3, 0.5)]

    assert names(best_step(problem(steps))) == ["first"]
    assert names(best_step(problem(steps, start=world("k")))) == ["specific"]


def test_a_goal_that_the_best_step_reaches_is_named_with_its_value() -> None:
    found = best_step(problem([deed("go", "", "a", 0.25, 0.5)], goal("a", 2.0), goal("a", 3.0, "best"), goal("z", 9.0)))

    assert isinstance(found, Plan)
    assert (found.goal.name, found.cost, found.value, found.net_value) == ("best", 0.25, 3.5, 3.25)


def test_a_goal_that_a_worse_step_would_reach_is_not_named() -> None:
    steps = [deed("better", "", "b", 0.0, 1.0), deed("reaching", "", "a")]

    found = best_step(problem(steps, goal("a", 9.0)))

    assert isinstance(found, Plan)
    assert (names(found), found.goal) == (["better"], NIRVANA)


def test_once_a_goal_is_reached_nothing_more_is_done_although_there_is_something_to_do() -> None:
    found = best_step(problem([deed("more", "", "b", 0.0, 9.0)], goal("a", 1.0), goal("b", 5.0), start=world("a")))

    assert isinstance(found, Plan)
    assert (found.steps, found.goal.name, found.value, found.expansions) == ((), "a", 1.0, 0)


def test_where_nothing_can_be_done_there_is_no_plan() -> None:
    asked = problem([deed("go", "key", "a"), deed("stay", "", "b")], goal("a"))

    assert best_step(replace(asked, excluded=frozenset({"stay"}))) == NoPlan(asked.goals)


def test_only_what_the_choice_depends_on_is_asked_for() -> None:
    steps = [deed("certain", "", "a", 0.0, 0.5), deed("best", "p q", "b", 0.0, 0.9), deed("worse", "r", "c", 0.0, 0.1)]

    asked = problem(steps, start=world("p", "q r"))
    told = replace(asked, start=world("p", "r"))

    assert best_step(asked) == Undecided(Holds("q"))
    assert names(best_step(told)) == ["certain"]
    assert names(best_step(replace(asked, start=world("p q", "r")))) == ["best"]
    assert names(best_step(replace(asked, start=world("p", "r", "q")))) == ["certain"]


def test_whether_a_goal_is_reached_is_asked_for_too() -> None:
    asked = problem([deed("go", "", "x")], goal("a b"), start=world("a", "b"))

    assert best_step(asked) == Undecided(Holds("b"))


def test_costs_and_values_of_the_moment_decide() -> None:
    asked = problem([deed("one", "", "a", 0.5), deed("other", "", "b", 0.1)])

    assert names(best_step(replace(asked, costs={"one": 0.0}))) == ["one"]
    assert names(best_step(replace(asked, values={"one": 0.9}))) == ["one"]


def test_idleness_names_what_the_waiting_actions_lack() -> None:
    ran = Operator("done", "done", {HasRun("done"): False}, {HasRun("done"): True})
    system = PlanningSystem([ran, *(deed(f"go{number}", f"k{number}", "a") for number in range(7))])
    start = replace(world(), true=frozenset({HasRun("done")}))

    told = idleness(Problem(system, start, ()))

    assert told.startswith("go0 needs condition k0 to be true; go1 needs")
    assert told.endswith("go4 needs condition k4 to be true; and 2 more cannot run either")
    assert idleness(Problem(PlanningSystem([ran]), start, ())) == "every action has run, or is left out"
