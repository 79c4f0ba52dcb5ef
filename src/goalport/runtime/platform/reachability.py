"""Reachability: whether a goal can be reached, from objects of which types, and why not, before anything runs.

A condition counts as open where it could be asked at the start; where an object that it looks at is made on the way
only, it counts as false, as it will when the plan is made. Costs and values that methods compute are estimated: those
methods are called that need no object and nothing of a process; the others count as what the action says, and a note
tells it. Nothing else is called. Below: the planner and scopes. Above: the platform and its inspection.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias, get_args, get_origin

from goalport.agents.blackboard import DEFAULT_BINDING, field_kinds, fits, related
from goalport.agents.domain import Agent, Aggregation, Cost, Goal, Input, ProvidedInput, inputs_among, unmarked_givers
from goalport.agents.plan import (
    Available,
    Explanation,
    Fact,
    Plan,
    Problem,
    WorldState,
    best_plan,
    explain,
    prune,
)
from goalport.base.words import type_name, with_article
from goalport.runtime.process import PLANNING_SECONDS, Scope, planner_for
from goalport.runtime.process.tick import DEAREST, usable_figure
from goalport.tools import ToolGroupResolver

Service: TypeAlias = Callable[[type], object | None]
"""The platform's service of a type, or None."""
_STARTS = 8
"""The number of starts of an agent that are cached."""


def explain_goal(
    scope: Scope,
    goal: Goal,
    given: Sequence[object],
    groups: ToolGroupResolver | None,
    service: Service = lambda _kind: None,
) -> Explanation:
    """How a goal would be reached from objects of the given types, or why it would not.

    `groups` are the tool groups that count as there; None: all of them. Costs and values are those that a process would
    begin with; `service` gives the services that the methods which compute them take.
    """
    problem, notes_by_action = _problem(scope, goal, given, groups, service)
    start, later = problem.start, scope.evaluated_conditions - problem.start.unknown
    opened = replace(problem, start=WorldState(start.true, start.unknown | later)) if later else problem
    concerned = prune(opened) if notes_by_action or later else ()
    notes = [note for action, note in notes_by_action.items() if action in concerned]
    operators = [each for each in scope.system.operators if each.action in concerned] if later else ()
    waiting = [each for each in later if any(operator.requires.get(each) for operator in operators)]
    notes += [
        f"The {each} counts as false here: it looks at what is made on the way, and is asked once that is there."
        for each in waiting
    ]
    found = explain(problem)
    missing = found.failures[0].missing if found.failures else ()
    wanted = [each.fact.type for each in missing if isinstance(each.fact, Available) and each.value]
    notes += near_givers(scope.agent, wanted)
    return replace(found, notes=tuple(notes), unforeseen=bool(waiting))


def _problem(
    scope: Scope, goal: Goal, given: Sequence[object], groups: ToolGroupResolver | None, service: Service
) -> tuple[Problem, Mapping[str, str]]:
    """What is planned for a goal from objects of the given types, and by action what is known at run time only."""
    available = frozenset(each for each in scope.groups if groups is None or groups.unmet(each) is None)
    start, goals = _start(scope, tuple(given), available), (scope.plan_goals[goal.name],)
    costs, values, notes = _estimates(scope, given, service)
    return Problem(scope.system, start, goals, costs=costs, values=values, deadline=PLANNING_SECONDS), notes


def _start(scope: Scope, given: tuple[object, ...], groups: frozenset[Fact]) -> WorldState:
    """What is known where there are objects of the given types and some tool groups.

    The latest are cached, because the goals of an agent are explained one after another, mostly from the same types.
    """
    question = (given, groups)
    start = scope.starts.get(question)
    if start is None:
        if len(scope.starts) >= _STARTS:
            scope.starts.clear()
        kinds = tuple(_with_parts(given))
        conditions = scope.evaluated_conditions
        if planner_for(scope.agent).looks_ahead:  # who takes one step at a time asks on the way
            inputs = {each: inputs_among(scope.conditions[each.condition].parameters) for each in conditions}
            needed = {each: [every.type for every in found if every.required] for each, found in inputs.items()}
            conditions = frozenset(
                each
                for each in conditions
                if all(any(related(kind, wanted) for kind in kinds) for wanted in needed[each])
            )
        start = scope.starts[question] = WorldState(groups.union(*map(scope.facts_given_by, kinds)), conditions)
    return start


def near_givers(agent: Agent, kinds: Iterable[object]) -> Iterator[str]:
    """A sentence for each method of an agent that would give an object of these types, but is written another way."""
    for kind in kinds:
        would = f"would give {with_article(kind)}, but"
        for method in unmarked_givers(agent, kind):
            yield f"{method} {would} is not marked as an action: put @action above it."
        for action in agent.actions:
            for given in chain(*action.outputs.exits):
                if get_origin(given) is tuple and any(fits(each, kind) for each in get_args(given)):
                    yield (
                        f"{action.name} {would} returns {type_name(given)}, which is one object to the planner:"
                        " return a SomeOf, a class with a field for each part."
                    )


def starting_types(
    scope: Scope, goal: Goal, groups: ToolGroupResolver, service: Service = lambda _kind: None
) -> tuple[object, ...]:
    """The types from which a goal can be started: declared, else what its plan needs and no action makes."""
    if goal.export.starting_input_types:
        return tuple(goal.export.starting_input_types)
    leaves = scope.unmade
    found = (best_plan(_problem(scope, goal, leaves, each, service)[0]) for each in (groups, None))
    plan = next((each for each in found if isinstance(each, Plan)), None)
    if plan is None:
        return ()
    needed = {fact for step in plan.steps for fact, value in step.requires.items() if value}
    kinds = {fact.type for fact in needed if isinstance(fact, Available) and fact.binding == DEFAULT_BINDING}
    return tuple(kind for kind in leaves if kind in kinds)


def possible_inputs(scope: Scope) -> tuple[object, ...]:
    """The types that a process may begin with: those that its goals name, and those that no action makes.

    Where each goal names its own starting types, only those count; but a chatbot is also told things while it runs.
    """
    goals = scope.goals.values()
    declared = dict.fromkeys(kind for goal in goals for kind in goal.export.starting_input_types)
    declared = dict.fromkeys(_with_parts(declared))
    if goals and scope.agent.chat is None and all(goal.export.starting_input_types for goal in goals):
        return tuple(declared)
    return tuple(declared | dict.fromkeys(scope.unmade))


def _with_parts(kinds: Iterable[object]) -> Iterator[object]:
    """Types, each followed by the types of its parts where it is an aggregation."""
    for kind in kinds:
        yield kind
        if isinstance(kind, type) and issubclass(kind, Aggregation):
            yield from field_kinds(kind).values()


class _OnlyAtRunTime(Exception):
    """Why a cost or value cannot be known before the process runs."""


class _Faulty(Exception):
    """What is wrong with a cost or value, at run time too."""


def _estimates(
    scope: Scope, given: Sequence[object], service: Service
) -> tuple[Mapping[str, float], Mapping[str, float], Mapping[str, str]]:
    """The costs and the values that methods compute, by action, where objects of the given types are there.

    With them, by action, a sentence on what is known at run time only.
    """
    costs: dict[str, float] = {}
    values: dict[str, float] = {}
    notes: dict[str, str] = {}
    given = tuple(_with_parts(given)) if scope.with_computed_cost else ()
    for action in scope.with_computed_cost:
        for what, cost, said, faulty, least, found in (
            ("cost", action.cost, action.settings.cost, DEAREST, 0.0, costs),
            ("value", action.value, action.settings.value, action.settings.value, float("-inf"), values),
        ):
            if cost is not None:
                try:
                    found[action.name] = _estimate(cost, given, service, least)
                except _OnlyAtRunTime as why:
                    notes[action.name] = (
                        f"The {what} of {action.name} is known at run time only: {cost.name} {why}."
                        f" It counts as {said:g} here."
                    )
                except _Faulty as why:
                    found[action.name] = faulty
                    dearest = ", dearer than any other" if what == "cost" else ""
                    notes[action.name] = (
                        f"The {what} of {action.name} cannot be computed: {cost.name} {why}."
                        f" It counts as {faulty:g}{dearest}, as it does at run time."
                    )
    return costs, values, notes


def _estimate(cost: Cost, given: Sequence[object], service: Service, least: float) -> float:
    arguments = {each.name: _argument(each, cost.owner, given, service) for each in cost.parameters}
    try:
        found = cost.function(**arguments)
        if inspect.isawaitable(found):  # the result of an async method, if that does not have to wait
            step: Any = found.__await__()
            next(step)
            step.close()
            raise _OnlyAtRunTime("waits for something")  # noqa: TRY301
    except _OnlyAtRunTime:
        raise
    except StopIteration as end:
        found = end.value
    except Exception as error:
        raise _Faulty(f"raised {type(error).__name__} when asked") from error
    usable = usable_figure(found, least)
    if usable is None:
        raise _Faulty(f"gave {found!r:.100}, which is no such figure")
    return min(usable, DEAREST)


def _argument(parameter: object, owner: object, given: Sequence[object], service: Service) -> object:
    match parameter:
        case Input():
            needed = [each.type for each in parameter.parts if each.required] or [parameter.type]
            if all(any(related(kind, each) for kind in given) for each in needed):
                raise _OnlyAtRunTime(f"looks at {Available(parameter.type)}")
            return parameter.default
        case ProvidedInput():
            found = owner if isinstance(owner, parameter.type) else service(parameter.type)
            return parameter.default if found is None else found
        case _:
            raise _OnlyAtRunTime("looks at the process")
