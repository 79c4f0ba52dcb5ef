"""What there is to plan for a process, also while people are being asked.

To the goal planner, what their answers will bring counts as if it were there already; to the utility planner, who asks
has nothing to do. So everything that does not need an answer is done meanwhile, several questions may be open at once,
and the process waits only when nothing else can be done. Pure; `tick` is above.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from goalport.domain import PlannerType
from goalport.plan import Fact, Operator, Plan, Problem, WorldState
from goalport.process.agent_process import AgentProcess

__all__ = ["next_steps", "pending", "planner_of", "problem_for", "waits"]


def planner_of(process: AgentProcess) -> PlannerType:
    """What chooses the next action: as the run was asked for, else as the agent says."""
    return process.options.planner or process.agent.planner


def problem_for(
    process: AgentProcess,
    actual: WorldState,
    costs: Mapping[str, float],
    values: Mapping[str, float],
    seconds: float | None,
) -> Problem:
    """What is to be planned, in how many seconds at most, as things are and at what actions cost and give now."""
    goals = tuple(map(process.scope.plan_goals.__getitem__, process.goals))
    left_out = frozenset(process.progress.left_out) | process.progress.skipped
    asked, system = pending(process), process.scope.system_on(process.blackboard)
    if planner_of(process) is PlannerType.UTILITY:
        return Problem(system, actual, goals, left_out | asked, costs, values, seconds)
    start = as_promised(process, actual) if asked else actual
    return Problem(system, start, goals, left_out, costs, values, seconds)


def pending(process: AgentProcess) -> set[str]:
    """The names of the actions that have asked and wait for the answer."""
    asked = {question.action for question in process.questions.open}
    return asked | process.progress.parked.keys() if process.progress.parked else asked


def as_promised(process: AgentProcess, actual: WorldState) -> WorldState:
    """How things will be when every open question has been answered well."""
    promises = {fact for name in pending(process) for fact in process.scope.gifts[name]}
    return replace(
        actual,
        true=actual.true | promises,
        unknown=actual.unknown - promises,
        undecidable=actual.undecidable - promises,
    )


def next_step(process: AgentProcess, found: Plan, actual: WorldState) -> Operator | None:
    """The first step of a plan that can be taken as things really are; None: none, or none is needed."""
    if not pending(process):
        return found.steps[0] if found.steps else None
    for step in found.steps:
        if _holds(step.requires.items(), actual):
            return step
        if process.scope.actions[step.action].settings.clear_blackboard:
            return None
    return None


def next_steps(process: AgentProcess, found: Plan, actual: WorldState) -> list[Operator]:
    """The steps to take now: one, or with the option `concurrent` all that can be and do not touch one another."""
    first = next_step(process, found, actual)
    if first is None:
        return []
    steps = [first]
    if process.options.concurrent and planner_of(process) is not PlannerType.UTILITY and _shares(process, first):
        for each in found.steps:
            if _shares(process, each) and _holds(each.requires.items(), actual) and _apart(each, steps):
                steps.append(each)
    return steps


def _shares(process: AgentProcess, step: Operator) -> bool:
    """Whether others may run beside an action: not beside one that clears the board, or speaks of conditions."""
    settings = process.scope.actions[step.action].settings
    return not (settings.clear_blackboard or settings.post or settings.trigger)


def _apart(step: Operator, others: Iterable[Operator]) -> bool:
    return all(
        step.action != other.action and not _disturbs(step, other) and not _disturbs(other, step) for other in others
    )


def _disturbs(step: Operator, other: Operator) -> bool:
    return any(fact in other.requires and other.requires[fact] is not value for fact, value in step.effects.items())


def waits(process: AgentProcess, found: Plan, actual: WorldState) -> bool:
    """Whether the goal is out of reach until somebody answers."""
    return bool(pending(process)) and (bool(found.steps) or not _holds(found.goal.requires.items(), actual))


def _holds(requires: Iterable[tuple[Fact, bool]], actual: WorldState) -> bool:
    return all(actual.allows(fact, value=value) for fact, value in requires)
