"""The utility planner: of all that can be done now, what is worth most; and nothing more once a goal is reached.

It looks one step ahead, so there is nothing to search. `NIRVANA` is the goal that is never reached: a step that reaches
no other goal is a step towards it. Below: problems, and the plans that the search gives too. Above: whoever runs them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from goalport.agents.plan.problem import Fact, HasRun, Holds, Operator, PlanGoal, Problem, total
from goalport.agents.plan.reasons import needed
from goalport.agents.plan.search import NoPlan, Plan, Undecided

NIRVANA = PlanGoal("Nirvana", {Holds("nirvana"): True})
"""Never reached, so that a process goes on as long as there is something to do."""

_TOLD = 5
"""How many actions that cannot run are told of, at most."""

T = TypeVar("T", PlanGoal, Operator)


def best_step(problem: Problem) -> Plan | Undecided | NoPlan:
    """No step where one of the goals is reached, else the step of greatest value less cost; or none can be taken.

    Of steps of equal worth the one with more preconditions is taken, then the one that was declared first. A fact that
    is unknown is asked for when the choice depends on it.
    """
    goals = (goal for goal in problem.goals if _lacking(problem, goal.requires) is None)
    reached = _best(problem, goals, lambda goal: goal.value)
    if isinstance(reached, Undecided):
        return reached
    if reached is not None:
        return Plan(reached, (), 0.0, reached.value)
    step = _best(problem, _applicable(problem), lambda step: total((problem.value(step), -problem.cost(step))))
    if isinstance(step, Undecided):
        return step
    return NoPlan(problem.goals, expansions=1) if step is None else _towards_best_goal(problem, step)


def idleness(problem: Problem) -> str:
    """Why no step can be taken: what actions that have not run lack, in one sentence."""
    lacks = {each.action: _lacking(problem, each.requires) for each in problem.system.operators}
    waiting = [(name, fact) for name, fact in lacks.items() if fact and fact[0] != HasRun(name)]
    if not waiting:
        return "every action has run, or is left out"
    told = "; ".join(f"{name} needs {needed(fact, value=value)}" for name, (fact, value) in waiting[:_TOLD])
    more = len(waiting) - _TOLD
    return f"{told}{f'; and {more} more cannot run either' if more > 0 else ''}"


def _best(problem: Problem, candidates: Iterable[T], worth: Callable[[T], float]) -> T | Undecided | None:
    """The candidate worth most, the first of equals; or the unknown fact that it needs and that takes least to ask."""
    best = max(candidates, key=worth, default=None)
    unknown = (fact for fact in best.requires if fact in problem.start.unknown) if best else iter(())
    asked = problem.system.cheapest(unknown)
    return best if asked is None else Undecided(asked, expansions=1)


def _applicable(problem: Problem) -> Iterator[Operator]:
    """The operators that may be taken if what is unknown turns out well, in the order in which ties are decided."""
    holding = problem.system.literals_allowed_by(problem.start)
    for move in problem.system.moves:
        if all(map(holding.__getitem__, move.needs)) and move.operator.action not in problem.excluded:
            yield move.operator


def _towards_best_goal(problem: Problem, step: Operator) -> Plan:
    cost, value = problem.cost(step), problem.value(step)
    reached = [goal for goal in problem.goals if _reaches(problem, step, goal)]
    plans = [Plan(goal, (step,), cost, total((goal.value, value)), expansions=1) for goal in (*reached, NIRVANA)]
    return max(plans, key=lambda plan: plan.net_value)


def _reaches(problem: Problem, step: Operator, goal: PlanGoal) -> bool:
    left = {fact: value for fact, value in goal.requires.items() if fact not in step.effects}
    given = all(step.effects.get(fact, value) is value for fact, value in goal.requires.items())
    return given and _lacking(problem, left) is None


def _lacking(problem: Problem, requires: Mapping[Fact, bool]) -> tuple[Fact, bool] | None:
    """The first of the needs that cannot be taken to be met."""
    needs = requires.items()
    return next(((fact, value) for fact, value in needs if not problem.start.allows(fact, value=value)), None)
