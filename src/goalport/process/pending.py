"""Which steps of a plan can be taken while some actions wait for people to answer.

Everything that needs no answer is done meanwhile, several questions may be open at once, and the process waits only
when nothing else can be done. What an open question counts as is the planner's affair. Pure; the planners and `tick`
are above.
"""

from collections.abc import Iterable

from goalport.plan import Fact, Operator, Plan, WorldState
from goalport.process.agent_process import AgentProcess

__all__ = ["next_steps", "pending", "waits"]


def pending(process: AgentProcess) -> set[str]:
    """The names of the actions that have asked and wait for the answer."""
    asked = {question.action for question in process.questions.open}
    return asked | process.progress.parked.keys() if process.progress.parked else asked


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


def next_steps(process: AgentProcess, found: Plan, actual: WorldState, *, at_once: bool) -> list[Operator]:
    """The steps to take now: one, or `at_once` all that can be taken and do not touch one another."""
    first = next_step(process, found, actual)
    if first is None:
        return []
    steps = [first]
    if at_once and _shares(process, first):
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
