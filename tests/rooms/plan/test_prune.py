from dataclasses import replace

from goalport.agents.plan import prune
from tests.rooms.plan.toys import deed, goal, problem, world

OPERATORS = [
    deed("to a", "", "a"),
    deed("to b", "a", "b"),
    deed("dear way to b", "a", "b", cost=99.0),
    deed("to c", "b", "c"),
    deed("out of reach", "z", "c"),
    deed("beside the point", "", "x"),
]


def test_actions_that_cannot_help_any_goal_are_pruned_and_other_ways_are_kept() -> None:
    assert prune(problem(OPERATORS, goal("b"))) == {"to a", "to b", "dear way to b"}
    assert prune(problem(OPERATORS, goal("b"), goal("x"))) == {"to a", "to b", "dear way to b", "beside the point"}


def test_actions_whose_work_is_done_are_pruned() -> None:
    assert prune(problem(OPERATORS, goal("c"), start=world("b"))) == {"to c"}


def test_what_only_helps_once_an_unknown_condition_is_known_is_kept() -> None:
    assert prune(problem(OPERATORS, goal("c"), start=world("b", unknown="z"))) == {"to c", "out of reach"}


def test_nothing_is_kept_for_a_goal_out_of_reach() -> None:
    assert prune(problem(OPERATORS, goal("c z"))) == frozenset()
    assert prune(problem(OPERATORS, goal("nobody mentions this"))) == frozenset()


def test_an_excluded_action_takes_with_it_what_only_it_makes_useful() -> None:
    asked = replace(problem(OPERATORS, goal("c")), excluded=frozenset({"to a"}))
    assert prune(asked) == frozenset()
