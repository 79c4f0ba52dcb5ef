"""The planners: what chooses the next action of a process. One class for each kind, and the table of them.

Code that depends on the kind of a planner calls `planner_for` and asks the planner; it never compares kinds. A new kind
is a class and an entry in `PLANNERS`, beside its name in `goalport.domain.PlannerType`. Planners are in this package
and not in `goalport.plan`, because they read a process (what is pending, what failed), and because they may have to
wait, for a model for instance: `choose` is asynchronous. Below: the process. Above: `tick`, the platform.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

from goalport.domain import Agent, PlannerType
from goalport.plan import Explanation, NoPlan, Plan, Problem, Undecided, WorldState, best_step, explain, idleness, plan
from goalport.process.agent_process import AgentProcess
from goalport.process.lifecycle import Failed, Outcome, Stuck, Waiting
from goalport.process.process_options import ProcessOptions

__all__ = ["Planner", "planner_for"]


class Planner(Protocol):
    """A way to choose what a process does next. It has no state: one object serves all processes."""

    looks_ahead: bool
    """Whether it plans the whole way to a goal, or just one step at a time.

    Several features need the whole way: pruning of actions, running steps concurrently, finding the end of a loop,
    and evaluating conditions ahead. A planner of single steps evaluates conditions when it reaches them.
    """
    remark: str
    """A sentence that `goalport plan` adds to an explanation; empty: none."""

    def problem(
        self,
        process: AgentProcess,
        actual: WorldState,
        costs: Mapping[str, float],
        values: Mapping[str, float],
        seconds: float | None,
    ) -> Problem:
        """Return the planning problem, with the current facts, costs and values.

        The planner decides which pending results count as done. `seconds` limits the search; None: there is no
        limit.
        """
        ...

    async def choose(self, process: AgentProcess, problem: Problem) -> Plan | Undecided | NoPlan:
        """Return the steps to take, or the condition to evaluate first, or that there is nothing to do.

        After an `Undecided` it is called again with the answer, for the same step; a random choice has to be repeated
        with the same result.
        """
        ...

    def nothing_left(self, process: AgentProcess, problem: Problem, found: NoPlan) -> Outcome:
        """Return the outcome of a process for which `choose` found nothing to do."""
        ...


class Goap:
    """Plans the cheapest way to a goal and takes its first step (user guide, section 3.18)."""

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
        """The planning problem; open questions count as if they were answered well."""
        if asked := process.pending:
            promises = {fact for name in asked for fact in process.scope.add_effects[name]}
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
            fix = f"Give it one, or run it with planner={PlannerType.written(goals=0)}."
            return Failed(f"{process.agent.name} has no goal to plan for. {fix}")
        return _failed(process) or _stuck(process, explain(problem, found))


class Utility:
    """Takes the most valuable action that is possible now; it needs no goal (user guide, section 3.18)."""

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
        """The planning problem; actions that wait for an answer are left out, and their results do not count yet."""
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
    """The planner that the options name, else that of the agent."""
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
    reason = _declined(process) + explanation.summary() + _hint(process, explanation)
    return Stuck(reason, input_may_help=not explanation.lacks_only_groups)


def _hint(process: AgentProcess, explanation: Explanation) -> str:
    """A hint for the agent's author, when actions are held back only because they, or their outputs, count as done."""
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
    reasons = (reason for action, reason in process.progress.declined.items() if action in declined)
    why = "; ".join(reason.rstrip(".") for reason in reasons)
    return f"{', '.join(declined)} gave nothing{f' ({why})' if why else ''}. "
