"""Loops that can go round once only: after some exit of an action no goal can be reached, because what it leads back to
counts as done. For `goalport check`.

Pure: every exit of every action on the way to the goals is followed, once each. Above: the inspection.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from goalport.errors import DeclarationError
from goalport.plan import Available, Explanation, Fact, Operator, Plan, Problem, WorldState, explain
from goalport.process import PLANNING_SECONDS, Scope, planner_for

__all__ = ["broken_loops"]

_MOST_WORLDS: Final = 100
"""How many ways to stand are looked at; each takes a plan."""


def broken_loops(scope: Scope, starts: Iterable[WorldState]) -> Iterator[DeclarationError]:
    """An error for each action that an exit leads back to and that cannot run again."""
    if not planner_for(scope.agent).looks_ahead:
        return
    worlds: dict[WorldState, Operator | None] = dict.fromkeys(starts)
    looked_at: set[WorldState] = set()
    while worlds and len(looked_at) < _MOST_WORLDS:
        world, by = worlds.popitem()
        looked_at.add(world)
        goals = tuple(scope.plan_goals.values())
        found = explain(Problem(scope.system, world, goals, deadline=PLANNING_SECONDS))
        if found.plan is not None:
            worlds |= {each: exit_ for each, exit_ in _other_exits(scope, world, found.plan) if each not in looked_at}
        elif by is not None:
            yield from _held_back(scope, found, by)


def _other_exits(scope: Scope, world: WorldState, found: Plan) -> Iterator[tuple[WorldState, Operator]]:
    """How things stand after each exit that a plan does not count on."""
    for step in found.steps:
        for other in scope.system.operators:
            if other.action == step.action and other.name != step.name:
                yield _after(scope, world, other), other
        world = _after(scope, world, step)


def _after(scope: Scope, world: WorldState, step: Operator) -> WorldState:
    given = {fact for fact, value in step.effects.items() if value}
    true = world.true.difference(step.effects) | given
    return WorldState(true, scope.questions.difference(step.effects, true))


def _held_back(scope: Scope, found: Explanation, by: Operator) -> Iterator[DeclarationError]:
    """The actions that only their having run, or their output, keeps from leading on from an exit."""
    missing = found.failures[0].missing
    if not missing or not all(each.held_back for each in missing):
        return
    for name in dict.fromkeys(each.held_back for each in missing):
        if _leads_to(scope, by, name):
            yield scope.actions[name].origin.error(
                expected=f"to run again when it is reached by way of {by.name}",
                came="it runs once only, and that leads back to it",
                fix="Write `can_rerun=True` here, or `clear_blackboard=True` where each round begins anew.",
            )


def _leads_to(scope: Scope, by: Operator, action: str) -> bool:
    """Whether what an exit gives, or what is made of that, is needed by an action."""
    reached: set[Fact] = set()
    fresh = _gifts(by)
    while fresh:
        reached |= fresh
        users = [each for each in scope.system.operators if any(each.requires.get(fact) for fact in fresh)]
        if any(each.action == action for each in users):
            return True
        fresh = {fact for each in users for fact in _gifts(each)} - reached
    return False


def _gifts(step: Operator) -> set[Fact]:
    return {fact for fact, value in step.effects.items() if value and isinstance(fact, Available)}
