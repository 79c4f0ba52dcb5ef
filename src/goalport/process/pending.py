"""Planning while people are being asked: what their answers will bring counts as if it were there already.

So everything that does not need an answer is done meanwhile, several questions may be open at once, and the process
waits only when nothing else can be done. Pure; `tick` is above.
"""

from collections.abc import Iterable
from dataclasses import replace

from goalport.plan import Fact, Operator, Plan, WorldState
from goalport.process.agent_process import AgentProcess

__all__ = ["as_promised", "next_step", "pending", "waits"]


def pending(process: AgentProcess) -> set[str]:
    """The names of the actions that have asked and wait for the answer."""
    return {question.action for question in process.questions.open} | process.progress.parked.keys()


def as_promised(process: AgentProcess, actual: WorldState) -> WorldState:
    """How things will be when every open question has been answered well."""
    asked = pending(process)
    if not asked:
        return actual
    promises = {fact for name in asked for fact in process.scope.gifts[name]}
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


def waits(process: AgentProcess, found: Plan, actual: WorldState) -> bool:
    """Whether the goal is out of reach until somebody answers."""
    return bool(pending(process)) and (bool(found.steps) or not _holds(found.goal.requires.items(), actual))


def _holds(requires: Iterable[tuple[Fact, bool]], actual: WorldState) -> bool:
    return all(actual.allows(fact, value=value) for fact, value in requires)
