"""What is said of a process whose planner finds nothing to do: what failed, what gave nothing, what is missing.

Below: the process. Above: the planners.
"""

from goalport.agents.plan import Explanation
from goalport.base.words import with_article
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.lifecycle import Failed, Stuck
from goalport.runtime.process.turns import turn_history


def failed(process: AgentProcess) -> Failed | None:
    """The outcome of a process that could not go on because actions failed; None: none did."""
    tried = tuple(process.progress.left_out.values())
    return Failed(". ".join(each.rstrip(".") for each in tried), tried) if tried else None


def stuck(process: AgentProcess, explanation: Explanation) -> Stuck:
    """The outcome of a process that lacks what an explanation says."""
    failed_conditions = process.progress.failed_conditions
    explanation = explanation.with_reasons(
        process.services.groups.why_unmet, lambda condition: failed_conditions.get(condition, "")
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
