from dataclasses import replace

from goalport.agents.plan import Fact, Holds, NoPlan, Plan, PlanGoal, Problem, Undecided, WorldState, plan
from tests.rooms.plan.toys import deed, goal, names, problem, world

ROUTES = [deed("short", "open", "c", cost=1.0), deed("long", "", "c", cost=3.0)]


def test_an_unknown_condition_that_would_pay_is_asked_for_first() -> None:
    assert plan(problem(ROUTES, goal("c"), start=world(unknown="open"))) == Undecided(Holds("open"))


def test_the_answer_decides_between_the_ways() -> None:
    assert names(plan(problem(ROUTES, goal("c"), start=world("open")))) == ["short"]
    assert names(plan(problem(ROUTES, goal("c")))) == ["long"]
    assert names(plan(problem(ROUTES, goal("c"), start=world(undecidable="open")))) == ["long"]


def test_an_unknown_condition_that_cannot_change_the_plan_is_not_asked_for() -> None:
    dear = [deed("dear", "open", "c", cost=9.0), deed("elsewhere", "seen", "d", cost=0.0)]
    assert names(plan(problem([*ROUTES[1:], *dear], goal("c"), start=world(unknown="open seen")))) == ["long"]


def test_a_plan_may_stand_on_an_unknown_condition_being_false() -> None:
    asked = problem([deed("first time", "!seen", "c")], goal("c"), start=world(unknown="seen"))
    assert plan(asked) == Undecided(Holds("seen"))
    assert names(plan(replace(asked, start=world()))) == ["first time"]


def test_one_plan_cannot_stand_on_a_condition_both_ways() -> None:
    steps = [deed("if so", "seen", "a"), deed("if not", "!seen", "b")]
    asked = problem(steps, goal("a b"), start=world(unknown="seen"))
    assert isinstance(plan(asked), NoPlan)
    forgetting = problem([*steps, deed("forget", "", "!seen")], goal("a b"), start=world("seen"))
    assert names(plan(forgetting)) == ["if so", "forget", "if not"]


def test_a_condition_that_the_plan_sets_itself_is_not_asked_for() -> None:
    steps = [deed("open up", "a", "open"), deed("make a", "", "a b"), deed("go", "open a b", "c")]
    asked = problem(steps, goal("c"), start=world(unknown="d"))
    assert names(plan(asked)) == ["make a", "open up", "go"]
    assert plan(replace(asked, start=world(unknown="open"))) == Undecided(Holds("open"))
    assert names(plan(replace(asked, start=world(undecidable="open")))) == ["make a", "open up", "go"]


def test_conditions_are_asked_for_in_the_order_in_which_the_plan_needs_them() -> None:
    steps = [deed("last", "a third", "c"), deed("early", "first second", "a")]
    asked = problem(steps, goal("c fourth"), start=world(unknown="fourth third second first"))
    assert _order(asked) == ["first", "second", "third", "fourth"]


def test_the_goal_itself_may_ask_for_what_is_unknown() -> None:
    asked = problem([], goal("x"), start=world(unknown="x"))
    assert plan(asked) == Undecided(Holds("x"))
    assert names(plan(replace(asked, start=world("x")))) == []
    assert isinstance(plan(replace(asked, start=world(undecidable="x"))), NoPlan)


def test_asking_moves_on_to_the_next_best_goal_when_the_answer_is_no() -> None:
    best, second = goal("a", value=9.0), goal("b", value=1.0)
    steps = [deed("to a", "open", "a"), deed("to b", "", "b")]
    asked = problem(steps, best, second, start=world(unknown="open"))
    assert plan(asked) == Undecided(Holds("open"))
    found = plan(replace(asked, start=world()))
    assert isinstance(found, Plan)
    assert found.goal is second


def test_any_number_of_unknown_conditions_is_settled_one_by_one() -> None:
    letters = [f"u{number}" for number in range(50)]
    steps = [deed(f"by {letter}", letter, "c", cost=number) for number, letter in enumerate(letters)]
    asked = problem(steps, PlanGoal("c", {Holds("c"): True}), start=world(unknown=" ".join(letters)))
    assert _order(asked, answer=False) == letters


def _order(asked: Problem, *, answer: bool = True) -> list[str]:
    """The conditions that are asked for, each answered alike."""
    order: list[str] = []
    while isinstance(found := plan(asked), Undecided):
        assert isinstance(found.fact, Holds)
        order.append(found.fact.condition)
        fact: frozenset[Fact] = frozenset({found.fact})
        true = asked.start.true | fact if answer else asked.start.true
        asked = replace(asked, start=WorldState(true, asked.start.unknown - fact))
    return order
