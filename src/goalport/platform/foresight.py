"""Questions about plans that nobody has started yet: whether a goal can be reached, from what, and why not.

Nothing is asked and nothing runs but methods that compute costs and values, where they can be known before. A condition
counts as open where it could be asked at the start; where an object that it looks at is made on the way only, it counts
as false, as it will when the plan is made.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from goalport.blackboard import DEFAULT_BINDING, field_kinds, fits, related
from goalport.domain import Agent, Aggregation, Goal, inputs_among, unmarked_givers
from goalport.plan import Available, Explanation, Fact, Holds, LastResult, Problem, WorldState, explain, prune
from goalport.platform.figures import Service, figures_of
from goalport.process import PLANNING_SECONDS, Scope, planner_for
from goalport.tools import ToolGroupResolver
from goalport.words import with_article

__all__ = ["foresee", "forgotten", "inputs_of", "starting_types"]


def foresee(
    scope: Scope,
    goal: Goal,
    given: Sequence[object],
    groups: ToolGroupResolver | None,
    service: Service = lambda _kind: None,
) -> Explanation:
    """How the goal would be reached from objects of the given types, or why it would not; None: with every group.

    Costs are those that a process would begin with, by the methods that compute them; `service` is what they are lent.
    """
    given = tuple(_with_parts(given))
    facts = frozenset(fact for fact in scope.facts if _given_by(fact, given))
    facts |= {each for each in scope.groups if groups is None or groups.unmet(each) is None}
    start = WorldState(facts, frozenset(each for each in scope.questions if _can_be_asked(scope, each, given)))
    goals, figures = (scope.plan_goals[goal.name],), figures_of(scope, given, service)
    problem = Problem(scope.system, start, goals, costs=figures.costs, values=figures.values, deadline=PLANNING_SECONDS)
    later = scope.questions - start.unknown
    concerned = prune(replace(problem, start=_with_open(start, later))) if figures.notes or later else ()
    notes = [note for action, note in figures.notes.items() if action in concerned]
    waiting = [each for each in later if any(_speaks_of(scope, action, each) for action in concerned)]
    notes += [
        f"The {each} counts as false here: it looks at what is made on the way, and is asked once that is there."
        for each in waiting
    ]
    found = explain(problem)
    notes += forgotten(scope.agent, _wanting(found))
    return replace(found, notes=tuple(notes), unforeseen=bool(waiting))


def forgotten(agent: Agent, kinds: Iterable[object]) -> Iterator[str]:
    """A sentence for each method of an agent that would give an object of these types if it were marked."""
    for kind in kinds:
        for method in unmarked_givers(agent, kind):
            yield f"{method} would give {with_article(kind)}, but has no mark: if it is a step, put @action above it."


def _wanting(found: Explanation) -> list[object]:
    """The types of the objects for want of which the goal that lacks least has no plan."""
    missing = found.failures[0].missing if found.failures else ()
    return [each.fact.type for each in missing if isinstance(each.fact, Available) and each.value]


def _with_open(start: WorldState, questions: frozenset[Holds]) -> WorldState:
    return WorldState(start.true, start.unknown | questions, start.undecidable)


def _speaks_of(scope: Scope, action: str, question: Holds) -> bool:
    return any(each.requires.get(question) for each in scope.system.operators if each.action == action)


def starting_types(
    scope: Scope, goal: Goal, groups: ToolGroupResolver, service: Service = lambda _kind: None
) -> tuple[object, ...]:
    """The types from which a goal can be started: declared, else what its plan needs and no action makes."""
    if goal.export.starting_input_types:
        return tuple(goal.export.starting_input_types)
    leaves = scope.unmade
    plan = next(filter(None, (foresee(scope, goal, leaves, each, service).plan for each in (groups, None))), None)
    if plan is None:
        return ()
    needed = {fact for step in plan.steps for fact, value in step.requires.items() if value}
    return tuple(kind for kind in leaves if Available(kind) in needed)


def inputs_of(scope: Scope) -> tuple[object, ...]:
    """The types that a process may begin with: those that its goals name, and what no action makes.

    Where each goal names its own, nothing else is an input.
    """
    goals = scope.goals.values()
    declared = dict.fromkeys(kind for goal in goals for kind in goal.export.starting_input_types)
    declared = dict.fromkeys(_with_parts(declared))
    if goals and all(goal.export.starting_input_types for goal in goals):
        return tuple(declared)
    return tuple(declared | dict.fromkeys(scope.unmade))


def _with_parts(kinds: Iterable[object]) -> Iterator[object]:
    """Types, and those of what comes with an object that is put together of others."""
    for kind in kinds:
        yield kind
        if isinstance(kind, type) and issubclass(kind, Aggregation):
            yield from field_kinds(kind).values()


def _can_be_asked(scope: Scope, question: Holds, given: Sequence[object]) -> bool:
    # Who takes one step at a time asks on the way.
    if not planner_for(scope.agent).looks_ahead:
        return True
    parameters = scope.conditions[question.condition].parameters
    needed = [each for each in inputs_among(parameters) if each.required]
    return all(any(related(kind, each.type) for kind in given) for each in needed)


def _given_by(fact: Fact, given: Sequence[object]) -> bool:
    match fact:
        case Available(kind, binding) if binding == DEFAULT_BINDING:
            return any(fits(each, kind) for each in given)
        case LastResult(kind):
            return any(fits(each, kind) for each in given)
        case _:
            return False
