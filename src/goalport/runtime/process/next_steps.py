"""Which steps of a plan are taken now: the first that is possible, or all that do not depend on one another.

Below: the process. Above: the planners, each of which takes steps in its way, and `tick`.
"""

from collections.abc import Iterable

from goalport.agents.plan import Fact, Operator, Plan, WorldState
from goalport.runtime.process.agent_process import AgentProcess


def next_steps(process: AgentProcess, found: Plan, actual: WorldState, *, at_once: bool) -> list[Operator]:
    """The steps to take now: one, or with `at_once` all that are possible and independent of one another."""
    first = _next_step(process, found, actual)
    if first is None:
        return []
    steps = [first]
    if at_once and may_run_concurrently(process, first):
        for each in found.steps:
            possible = may_run_concurrently(process, each) and holds(each.requires.items(), actual)
            if possible and all(independent(each, other) for other in steps):
                steps.append(each)
    return steps


def _next_step(process: AgentProcess, found: Plan, actual: WorldState) -> Operator | None:
    """The first step of a plan that is possible with the actual facts; None: none is possible or needed."""
    if not process.pending:
        return found.steps[0] if found.steps else None
    for step in found.steps:
        if holds(step.requires.items(), actual):
            return step
        if process.scope.actions[step.action].settings.clear_blackboard:
            return None
    return None


def may_run_concurrently(process: AgentProcess, step: Operator) -> bool:
    """Whether a step may run together with others; not if it clears the blackboard, or has conditions or a trigger."""
    settings = process.scope.actions[step.action].settings
    return not (settings.clear_blackboard or settings.post or settings.trigger)


def independent(step: Operator, other: Operator) -> bool:
    """Whether two steps are of different actions, and neither changes what the other requires."""
    return step.action != other.action and not any(
        fact in second.requires and second.requires[fact] is not value
        for first, second in ((step, other), (other, step))
        for fact, value in first.effects.items()
    )


def holds(requires: Iterable[tuple[Fact, bool]], actual: WorldState) -> bool:
    """Whether all of these needs are met, or may be met by what is unknown."""
    return all(actual.allows(fact, value=value) for fact, value in requires)
