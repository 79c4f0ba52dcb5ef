"""The planners: what chooses the next action of a process. One class for each kind, and the table of them.

Code that depends on the kind of a planner calls `planner_for` and asks the planner; it never compares kinds. A new kind
is a class and an entry in `PLANNERS`, beside its name in `goalport.agents.PlannerType`. Planners are in this package
and not in `goalport.agents.plan`, because they read a process (what is pending, what failed), and because they may have
to wait, for a model for instance: `choose` is asynchronous. Below: the process. Above: `tick`, the platform.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

from goalport.agents.domain import Agent, PlannerType
from goalport.agents.plan import (
    NoPlan,
    Operator,
    Plan,
    Problem,
    Undecided,
    WorldState,
    best_step,
    explain,
    idleness,
    plan,
)
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.lifecycle import Failed, Outcome, Stuck, Waiting
from goalport.runtime.process.next_steps import declined_actions, failed, next_steps, stuck
from goalport.runtime.process.process_options import ProcessOptions
from goalport.runtime.process.supervisor import Supervisor
from goalport.runtime.process.turns import turn_history


class Planner(Protocol):
    """A way to choose what a process does next. It has no state: one object serves all processes."""

    looks_ahead: bool
    """Whether it plans the whole way to a goal, or just one step at a time.

    Several features need the whole way: pruning of actions, running steps concurrently, finding the end of a loop,
    and evaluating conditions ahead. A planner of single steps evaluates conditions when it reaches them.
    """
    remark: str
    """A sentence that `goalport plan` adds to an explanation; empty: none."""

    def while_waiting(self, process: AgentProcess, problem: Problem) -> Problem:
        """Return the planning problem as it is while people are asked: which results that are pending count as done."""
        ...

    async def choose(self, process: AgentProcess, problem: Problem) -> Plan | Undecided | Outcome:
        """Return the steps to take, or the condition to evaluate first, or the outcome if there is nothing to do.

        After an `Undecided` it is called again with the answer, for the same step; a random choice has to be repeated
        with the same result.
        """
        ...

    def steps(self, process: AgentProcess, found: Plan, actual: WorldState) -> list[Operator]:
        """Return the steps of a plan to take now, several of them at once; none if the plan has to wait or has none.

        `actual` are the facts that the plan was made of.
        """
        ...


class Goap:
    """Plans the cheapest way to a goal and takes its first step (user guide, section 3.18)."""

    looks_ahead = True
    remark = ""

    def while_waiting(self, process: AgentProcess, problem: Problem) -> Problem:
        """The planning problem; open questions count as if they were answered well."""
        promises = {fact for name in process.pending for fact in process.scope.add_effects[name]}
        start = replace(
            problem.start,
            true=problem.start.true | promises,
            unknown=problem.start.unknown - promises,
            undecidable=problem.start.undecidable - promises,
        )
        return replace(problem, start=start)

    async def choose(self, process: AgentProcess, problem: Problem) -> Plan | Undecided | Outcome:
        found = process.scope.answer(problem, plan)
        return self._nothing_left(process, problem, found) if isinstance(found, NoPlan) else found

    def steps(self, process: AgentProcess, found: Plan, actual: WorldState) -> list[Operator]:
        return next_steps(process, found, actual, at_once=process.options.concurrent)

    def _nothing_left(self, process: AgentProcess, problem: Problem, found: NoPlan) -> Outcome:
        if not problem.goals:
            fix = f"Give it one, or run it with planner={PlannerType.written(goals=0)}."
            return Failed(f"{process.agent.name} has no goal to plan for. {fix}")
        return failed(process) or stuck(process, explain(problem, found))


class Utility:
    """Takes the most valuable action that is possible now; it needs no goal (user guide, section 3.18)."""

    looks_ahead = False
    remark = "A utility agent takes the best step of the moment: this is the cheapest way, and it may take another."

    def while_waiting(self, process: AgentProcess, problem: Problem) -> Problem:
        """The planning problem; actions that wait for an answer are left out, and their results do not count yet."""
        return replace(problem, excluded=problem.excluded | process.pending)

    async def choose(self, process: AgentProcess, problem: Problem) -> Plan | Undecided | Outcome:
        found = process.scope.answer(problem, best_step)
        return self._nothing_left(process, problem) if isinstance(found, NoPlan) else found

    def steps(self, process: AgentProcess, found: Plan, actual: WorldState) -> list[Operator]:
        return next_steps(process, found, actual, at_once=False)

    def _nothing_left(self, process: AgentProcess, problem: Problem) -> Outcome:
        if process.pending:
            return Waiting(process.open_questions)
        ran = dict.fromkeys(each.action for each in turn_history(process) if each.status == "succeeded")
        done = f"Nothing is left to do after {', '.join(ran)}" if ran else "There is nothing to do"
        failure = None if _answered(process) else failed(process)
        return failure or Stuck(f"{declined_actions(process)}{done}: {idleness(problem)}.")


def _answered(process: AgentProcess) -> bool:
    """Whether, in a turn in which actions have failed, another one has done the work in their place."""
    history = process.progress.history
    return process.options.turns and bool(history) and history[-1].status == "succeeded"


PLANNERS: Final[Mapping[PlannerType, Planner]] = {
    PlannerType.GOAP: Goap(),
    PlannerType.UTILITY: Utility(),
    PlannerType.SUPERVISOR: Supervisor(),
}


def planner_for(agent: Agent, options: ProcessOptions | None = None) -> Planner:
    """The planner that the options name, else that of the agent."""
    return PLANNERS[(options.planner if options else None) or agent.planner]
