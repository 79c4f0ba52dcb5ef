"""The planners: what chooses the next action of a process. One class for each kind, and the table of them.

Whoever must know how a kind behaves looks it up here, by `planner_for`, and asks it; nobody compares kinds. A new kind
is a class and an entry in `PLANNERS`, beside its name in `goalport.domain.PlannerType`. It stands on this floor and not
beside the searches of `goalport.plan`, because a planner reads a process (what is pending, what failed), and because it
may have to wait, for a model for instance: `choose` is asynchronous. Below: the process. Above: `tick`, the platform.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

from goalport.domain import Agent, PlannerType
from goalport.plan import Explanation, NoPlan, Plan, Problem, Undecided, WorldState, best_step, explain, idleness, plan
from goalport.process.agent_process import AgentProcess
from goalport.process.options import ProcessOptions
from goalport.process.outcome import Failed, Outcome, Stuck, Waiting

__all__ = ["Planner", "planner_for"]


class Planner(Protocol):
    """A way to choose what a process does next. It has no state: one object serves all processes."""

    looks_ahead: bool
    """Whether it plans the whole way to a goal, and not just one step at a time.

    Only of a whole way can it be said which actions it cannot need (pruning), which of its steps may run at once, where
    a loop ends, and which conditions would be asked too late: one step at a time asks them on the way.
    """
    remark: str
    """What `goalport plan` adds to an explanation, in a sentence; empty: nothing."""

    def problem(
        self,
        process: AgentProcess,
        actual: WorldState,
        costs: Mapping[str, float],
        values: Mapping[str, float],
        seconds: float | None,
    ) -> Problem:
        """What is to be planned, as things are and at what actions cost and are worth now.

        It says what counts as done of what is pending. `seconds`: how long the search may take; None: as long as it
        needs.
        """
        ...

    async def choose(self, process: AgentProcess, problem: Problem) -> Plan | Undecided | NoPlan:
        """The steps to take, or the condition that has to be asked first, or that there is nothing to do.

        After an `Undecided` it is called again with the answer, for the same step: what is left to chance has to fall
        as it did before.
        """
        ...

    def nothing_left(self, process: AgentProcess, problem: Problem, found: NoPlan) -> Outcome:
        """How the process stands where `choose` found nothing to do."""
        ...


class Goap:
    """The cheapest plan to a goal; its first step is taken (user guide, section 3.18)."""

    looks_ahead = True
    remark = ""

    def problem(
        self,
        process: AgentProcess,
        actual: WorldState,
        costs: Mapping[str, float],
        values: Mapping[str, float],
        seconds: float | None,
    ) -> Problem:
        """The plan counts on a good answer to every open question."""
        if asked := process.pending:
            promises = {fact for name in asked for fact in process.scope.gifts[name]}
            actual = replace(
                actual,
                true=actual.true | promises,
                unknown=actual.unknown - promises,
                undecidable=actual.undecidable - promises,
            )
        return _problem(process, actual, costs, values, seconds)

    async def choose(self, process: AgentProcess, problem: Problem) -> Plan | Undecided | NoPlan:
        return process.scope.answer(problem, plan)

    def nothing_left(self, process: AgentProcess, problem: Problem, found: NoPlan) -> Outcome:
        if not problem.goals:
            return Failed(f"{process.agent.name} has no goal to plan for. Give it one, or run it with planner=UTILITY.")
        return _failed(process) or _stuck(process, explain(problem, found))


class Utility:
    """Of all that can be done now, what is worth most; needs no goal (user guide, section 3.18)."""

    looks_ahead = False
    remark = "A utility agent takes the best step of the moment: this is the cheapest way, and it may take another."

    def problem(
        self,
        process: AgentProcess,
        actual: WorldState,
        costs: Mapping[str, float],
        values: Mapping[str, float],
        seconds: float | None,
    ) -> Problem:
        """Actions that wait for an answer are left out; what they will give does not count yet."""
        problem = _problem(process, actual, costs, values, seconds)
        asked = process.pending
        return replace(problem, excluded=problem.excluded | asked) if asked else problem

    async def choose(self, process: AgentProcess, problem: Problem) -> Plan | Undecided | NoPlan:
        return process.scope.answer(problem, best_step)

    def nothing_left(self, process: AgentProcess, problem: Problem, found: NoPlan) -> Outcome:
        if process.pending:
            return Waiting(process.open_questions)
        ran = dict.fromkeys(each.action for each in process.progress.history if each.status == "succeeded")
        done = f"Nothing is left to do after {', '.join(ran)}" if ran else "There is nothing to do"
        return _failed(process) or Stuck(f"{_declined(process)}{done}: {idleness(problem)}.")


PLANNERS: Final[Mapping[PlannerType, Planner]] = {PlannerType.GOAP: Goap(), PlannerType.UTILITY: Utility()}


def planner_for(agent: Agent, options: ProcessOptions | None = None) -> Planner:
    """The planner of a run with these options, or else of the agent's runs."""
    return PLANNERS[(options.planner if options else None) or agent.planner]


def _problem(
    process: AgentProcess,
    start: WorldState,
    costs: Mapping[str, float],
    values: Mapping[str, float],
    seconds: float | None,
) -> Problem:
    goals = tuple(map(process.scope.plan_goals.__getitem__, process.goals))
    left_out = frozenset(process.progress.left_out) | process.progress.skipped
    return Problem(process.scope.system_on(process.blackboard), start, goals, left_out, costs, values, seconds)


def _failed(process: AgentProcess) -> Failed | None:
    tried = tuple(process.progress.left_out.values())
    return Failed(". ".join(each.rstrip(".") for each in tried), tried) if tried else None


def _stuck(process: AgentProcess, explanation: Explanation) -> Stuck:
    explanation = explanation.with_reasons(process.services.groups.why_missing)
    reason = _declined(process) + explanation.summary() + _way_out(process, explanation)
    return Stuck(reason, input_may_help=not explanation.lacks_only_groups)


def _way_out(process: AgentProcess, explanation: Explanation) -> str:
    """What to write where an action is only held back because it, or its output, counts as done."""
    gave_nothing = {each.action for each in process.progress.history if each.status == "declined"}
    missing = [each for failure in explanation.failures[:1] for each in failure.missing]
    held_back = dict.fromkeys(each.held_back for each in missing)
    names = [each for each in held_back if each and each not in gave_nothing]
    if not names or not all(held_back):
        return ""
    return (
        f" If {' and '.join(names)} should run now all the same, write `can_rerun=True` there; in a loop, write"
        " `clear_blackboard=True` on the action that begins each round anew."
    )


def _declined(process: AgentProcess) -> str:
    declined = dict.fromkeys(each.action for each in process.progress.history if each.status == "declined")
    if not declined:
        return ""
    why = (reason for action, reason in process.progress.declined.items() if action in declined)
    told = "; ".join(reason.rstrip(".") for reason in why)
    return f"{', '.join(declined)} gave nothing{f' ({told})' if told else ''}. "
