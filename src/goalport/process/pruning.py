"""Leaving out of a run, from its beginning, what can have no part in reaching its goals.

Pure. Above: the platform, which starts runs.
"""

from dataclasses import replace

from goalport.domain import PlannerType
from goalport.plan import prune
from goalport.process.agent_process import AgentProcess
from goalport.process.pending import planner_of, problem_for
from goalport.process.scope import Scope
from goalport.process.tick import observe

__all__ = ["pruned"]


def pruned(process: AgentProcess) -> Scope:
    """The scope of a process without the actions that cannot help; the same where there is no goal to plan for."""
    if planner_of(process) is not PlannerType.GOAP:
        return process.scope
    useful = prune(problem_for(process, observe(process, {}), {}, {}, None))
    agent = process.agent
    goals = tuple(each for each in agent.goals if each.action in useful or each.name in process.goals)
    kept = useful | {each.action for each in goals}
    return Scope(replace(agent, goals=goals, actions=tuple(each for each in agent.actions if each.name in kept)))
