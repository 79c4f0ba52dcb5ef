"""Formulates the plan of a process: observe facts, evaluate conditions, compute costs, search for a plan.

The search itself is pure; only the user's conditions, costs and values are awaited. Also here: pruning, which removes
actions that cannot help to reach the goals before a process begins. Below: the planners. Above: `tick`, the platform.
"""

import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from logging import getLogger

from goalport.agents.blackboard import Blackboard
from goalport.agents.domain import Action, Condition, Cost
from goalport.agents.plan import Fact, Holds, Plan, Problem, Undecided, WorldState, prune
from goalport.runtime.process.action_progress import in_words
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.context import ActionContext
from goalport.runtime.process.lifecycle import Outcome
from goalport.runtime.process.parameters import fill, missing
from goalport.runtime.process.planners import Planner
from goalport.runtime.process.scope import Scope
from goalport.tools import ToolGroupResolver

_log = getLogger(__name__)

_NO_FIGURES: tuple[dict[str, float], dict[str, float]] = ({}, {})
DEAREST = 1e9
"""What a cost counts as that cannot be computed: more than any real one, and small enough to be added up exactly."""
_LARGEST = sys.float_info.max


async def formulate(process: AgentProcess, planner: Planner) -> tuple[Plan | Outcome, WorldState]:
    """The plan from the current state, or the outcome of a process that has none; with the actual facts.

    Conditions are evaluated one by one, and only those that can change the plan.
    """
    costs, values = _NO_FIGURES
    if process.scope.with_computed_cost:
        costs, values = {}, {}
    for action in process.scope.with_computed_cost:  # anew for each plan; an infinite cost means never
        if action.cost is not None:
            declared = action.settings.cost
            costs[action.name] = await _figure(process, action, action.cost, declared, DEAREST, least=0.0)
        if action.value is not None:
            value = action.settings.value
            values[action.name] = await _figure(process, action, action.value, value, value)
    answers: dict[Fact, bool | None] = {}
    while True:
        actual = observe(process, answers)
        if planner.looks_ahead and len(goals := process.goals) == 1 and not process.pending:
            reached = process.scope.reached[goals[0]]  # no search would find another plan, if the only goal holds
            has_run = process.scope.goals[goals[0]].action in process.progress.has_run
            if has_run and reached.goal.requires.keys() <= actual.true:
                return reached, actual
        problem = _problem(process, actual, costs, values)
        if process.pending:
            problem = planner.while_waiting(process, problem)
        found = await planner.choose(process, problem)
        if not isinstance(found, Undecided):
            return found, actual
        assert isinstance(found.fact, Holds)
        answers[found.fact] = await _evaluate(process, process.scope.conditions[found.fact.condition])


def _problem(
    process: AgentProcess, start: WorldState, costs: Mapping[str, float], values: Mapping[str, float]
) -> Problem:
    """The problem from these facts to the goals of a process, with the actions left out that must not run."""
    scope, progress = process.scope, process.progress
    left_out = progress.skipped.union(progress.left_out) if progress.left_out else progress.skipped
    if never := [name for name, cost in costs.items() if cost == math.inf]:
        left_out = left_out.union(never)
        costs = {name: cost for name, cost in costs.items() if cost < math.inf}
    problem = scope.problem(scope.system_on(process.blackboard), start, process.goals, left_out)
    return replace(problem, costs=costs, values=values) if costs or values else problem


def observe(process: AgentProcess, answers: Mapping[Fact, bool | None]) -> WorldState:
    """The facts as they are now; conditions that were not evaluated yet are unknown."""
    scope = process.scope
    known = scope.world_on(process.blackboard, process.groups, process.progress.has_run)
    if not answers:
        return known
    return WorldState(
        known.true.union(fact for fact, answer in answers.items() if answer),
        known.unknown.difference(answers),
        frozenset(fact for fact, answer in answers.items() if answer is None),
    )


async def _evaluate(process: AgentProcess, condition: Condition) -> bool | None:
    """Whether a condition holds; None: nobody knows, so neither it nor its opposite lets an action run."""
    if missing(condition.parameters, process.blackboard):
        return False
    context = ActionContext(process, action=condition.name)
    try:
        answer = await context.call(condition.function, **await fill(condition.parameters, condition.owner, context))
        if answer not in (True, False) and not (answer is None and condition.may_be_unknown):
            raise TypeError(f"{condition.origin} gave {answer!r}, neither True nor False.")  # noqa: TRY301
    except Exception as error:
        _log.warning("Condition %s failed and is unknown: %s", condition.name, in_words(error))
        process.progress.note_condition(condition.name, process.words_for(error))
        return None
    process.progress.note_condition(condition.name, "")
    return None if answer is None else bool(answer)


async def _figure(
    process: AgentProcess, action: Action, cost: Cost, declared: float, faulty: float, least: float = -math.inf
) -> float:
    """A cost or value: `declared` while an input of its method is missing, and `faulty` if the method gives none."""
    if missing(cost.parameters, process.blackboard):
        return declared
    context = ActionContext(process, action=cost.name)
    try:
        figure = await context.call(cost.function, **await fill(cost.parameters, cost.owner, context))
    except Exception as error:
        problem = f"failed ({in_words(error)})"
    else:
        usable = usable_figure(figure, least)
        if usable is not None:
            return usable
        problem = f"gave {figure!r:.100}, not a number{' from 0 up' if least == 0 else ''}"
    text = "Cost %s of %s %s: it counts as %g."
    kind = f"{process.agent.name} {cost.name}"
    process.platform.rare_log.log(_log.warning, kind, text, cost.name, action.name, problem, faulty)
    return faulty


def usable_figure(figure: object, least: float) -> float | None:
    """A figure as a float, if it is a number of at least `least`; else None. Only a cost may be infinite."""
    if not isinstance(figure, (int, float, Decimal)) or (isinstance(figure, Decimal) and figure.is_nan()):
        return None  # a Decimal NaN cannot be compared
    if least == 0 and figure == math.inf:
        return math.inf
    return float(figure) if abs(figure) <= _LARGEST and figure >= least else None


def pruned(scope: Scope, blackboard: Blackboard, goals: Collection[str], groups: ToolGroupResolver) -> Scope:
    """A scope without the actions that cannot help to reach the goals, for a process that begins with a blackboard."""
    start = WorldState(frozenset(scope.facts_on(blackboard, groups)), scope.evaluated_conditions)
    wanted = tuple(map(scope.plan_goals.__getitem__, goals))
    useful = prune(Problem(scope.system_on(blackboard), start, wanted))
    agent = scope.agent
    kept_goals = tuple(each for each in agent.goals if each.action in useful or each.name in goals)
    kept = useful | {each.action for each in kept_goals}
    return Scope(replace(agent, goals=kept_goals, actions=tuple(each for each in agent.actions if each.name in kept)))
