"""Leaving out of a run, from its beginning, what can have no part in reaching its goals.

Pure. Above: the platform, which starts runs.
"""

from dataclasses import replace

from goalport.plan import prune
from goalport.process.agent_process import AgentProcess
from goalport.process.planners import planner_for
from goalport.process.scope import Scope
from goalport.process.tick import observe

__all__ = ["pruned"]


def pruned(process: AgentProcess) -> Scope:
    """The scope of a process without the actions that cannot help; the same where each step is chosen by itself."""
    planner = planner_for(process.agent, process.options)
    if not planner.looks_ahead:
        return process.scope
    useful = prune(planner.problem(process, observe(process, {}), {}, {}, None))
    agent = process.agent
    goals = tuple(each for each in agent.goals if each.action in useful or each.name in process.goals)
    kept = useful | {each.action for each in goals}
    return Scope(replace(agent, goals=goals, actions=tuple(each for each in agent.actions if each.name in kept)))
