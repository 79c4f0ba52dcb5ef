"""Which steps of a plan are taken now: the first that is possible, or all that do not depend on one another.

Below: the process. Above: the planners, each of which takes steps in its way, and `tick`.
"""

from collections.abc import Iterable

from goalport.agents.plan import Explanation, Fact, Operator, Plan, WorldState
from goalport.base.words import with_article
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.lifecycle import Failed, Stuck
from goalport.runtime.process.turns import turn_history


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


def failed(process: AgentProcess) -> Failed | None:
    """The outcome of a process that could not go on because actions failed; None: none did."""
    tried = tuple(process.progress.left_out.values())
    return Failed(". ".join(each.rstrip(".") for each in tried), tried) if tried else None


def stuck(process: AgentProcess, explanation: Explanation) -> Stuck:
    """The outcome of a process that lacks what an explanation says."""
    failed_conditions = process.progress.failed_conditions
    explanation = explanation.with_reasons(
        process.groups.why_unmet, lambda condition: failed_conditions.get(condition, "")
    )
    reason = declined_actions(process) + explanation.summary() + _hint(process, explanation)
    return Stuck(reason, input_may_help=not explanation.lacks_only_groups)


def _hint(process: AgentProcess, explanation: Explanation) -> str:
    """A hint for the agent's author, when actions are held back only because they, or their outputs, count as done."""
    gave_nothing = {each.action for each in turn_history(process) if each.status == "declined"}
    missing = [each for failure in explanation.failures[:1] for each in failure.missing]
    held_back = dict.fromkeys(each.held_back for each in missing)
    names = [each for each in held_back if each and each not in gave_nothing]
    if not names or not all(held_back):
        return ""
    return (
        f" If {' and '.join(names)} should run now all the same, write `can_rerun=True` there; in a loop, write"
        " `clear_blackboard=True` on the action that begins each round anew."
    )


def declined_actions(process: AgentProcess) -> str:
    """A sentence about the actions that gave nothing, with a space behind it; empty if there are none."""
    declined = dict.fromkeys(each.action for each in turn_history(process) if each.status == "declined")
    if not declined:
        return ""
    reasons = (reason for action, reason in process.progress.declined.items() if action in declined)
    why = "; ".join(reason.rstrip(".") for reason in reasons)
    declared = [
        f"{name} declares that it gives {with_article(action.outputs.type)}: perhaps a `return` is missing. "
        for name in declined
        if (action := process.scope.actions.get(name)) is not None and not action.outputs.may_decline
    ]
    return f"{', '.join(declined)} gave nothing{f' ({why})' if why else ''}. {''.join(declared)}"
