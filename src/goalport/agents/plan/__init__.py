"""The planners: facts, operators and goals in; the best plan, or why there is none, out.

Pure and of the standard library alone: no input or output, no knowledge of agents, types or processes. The
rooms above turn classes into operators and blackboards into world states, and run what is planned.
"""

from goalport.agents.plan.explain import Alternative, Branch, Explanation, explain
from goalport.agents.plan.missing import prune, unusable
from goalport.agents.plan.problem import (
    Available,
    BadAmount,
    ContradictoryState,
    Fact,
    GroupAvailable,
    HasRun,
    Holds,
    LastResult,
    Operator,
    PlanGoal,
    PlanningSystem,
    Problem,
    WorldState,
)
from goalport.agents.plan.reasons import (
    Circular,
    Clash,
    Consumer,
    Excluded,
    Missing,
    NoAnswer,
    Reliance,
    StepReason,
    Supply,
    Unproduced,
    UnreachableGoal,
    in_words,
    needed,
)
from goalport.agents.plan.search import NoPlan, Plan, Undecided, best_plan, plan
from goalport.agents.plan.utility import NIRVANA, best_step, idleness

__all__ = [
    "NIRVANA",
    "Alternative",
    "Available",
    "BadAmount",
    "Branch",
    "Circular",
    "Clash",
    "Consumer",
    "ContradictoryState",
    "Excluded",
    "Explanation",
    "Fact",
    "GroupAvailable",
    "HasRun",
    "Holds",
    "LastResult",
    "Missing",
    "NoAnswer",
    "NoPlan",
    "Operator",
    "Plan",
    "PlanGoal",
    "PlanningSystem",
    "Problem",
    "Reliance",
    "StepReason",
    "Supply",
    "Undecided",
    "Unproduced",
    "UnreachableGoal",
    "WorldState",
    "best_plan",
    "best_step",
    "explain",
    "idleness",
    "in_words",
    "needed",
    "plan",
    "prune",
    "unusable",
]
