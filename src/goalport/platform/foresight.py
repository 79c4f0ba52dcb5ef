"""Questions about plans that nobody has started yet: whether a goal can be reached, from what, and why not.

Pure: conditions count as open, nothing is asked and nothing runs.
"""

from collections.abc import Sequence
from typing import TypeGuard

from goalport.blackboard import DEFAULT_BINDING
from goalport.domain import Goal, fits
from goalport.plan import Available, Explanation, Fact, LastResult, Problem, WorldState, explain
from goalport.process import Scope
from goalport.tools import ToolGroupResolver

__all__ = ["foresee", "starting_types"]


def foresee(scope: Scope, goal: Goal, given: Sequence[object], groups: ToolGroupResolver) -> Explanation:
    """How the goal would be reached from objects of the given types, or why it would not."""
    facts = frozenset(fact for fact in scope.facts if _given_by(fact, given))
    facts |= {each for each in scope.groups if groups.unmet(each) is None}
    start = WorldState(facts, scope.questions, frozenset())
    return explain(Problem(scope.system, start, (scope.plan_goals[goal.name],)))


def starting_types(scope: Scope, goal: Goal, groups: ToolGroupResolver) -> tuple[object, ...]:
    """The types from which a goal can be started: declared, else what its plan needs and no action makes."""
    if goal.export.starting_input_types:
        return tuple(goal.export.starting_input_types)
    made = {fact for operator in scope.system.operators for fact, value in operator.effects.items() if value}
    leaves = [fact for fact in scope.facts if _unnamed(fact) and fact not in made]
    found = foresee(scope, goal, [fact.type for fact in leaves], groups)
    if found.plan is None:
        return ()
    needed = {fact for step in found.plan.steps for fact, value in step.requires.items() if value}
    return tuple(dict.fromkeys(fact.type for fact in leaves if fact in needed))


def _unnamed(fact: Fact) -> TypeGuard[Available]:
    """Whether an input that nobody names can make the fact true."""
    return isinstance(fact, Available) and fact.binding == DEFAULT_BINDING


def _given_by(fact: Fact, given: Sequence[object]) -> bool:
    match fact:
        case Available(kind, binding) if binding == DEFAULT_BINDING:
            return any(fits(each, kind) for each in given)
        case LastResult(kind):
            return any(fits(each, kind) for each in given)
        case _:
            return False
