"""Ready-made forms of work: one function, concurrent functions, a repetition; each an agent, or part of an action.

`AgentBuilder` makes other agents from functions and prompts.

Below: `process`, in whose actions they run. Above: only the authors of agents use it.
"""

from goalport.runtime.workflow.agent_builder import AgentBuilder
from goalport.runtime.workflow.repeating import RepeatUntil, RepeatUntilAcceptable, Repetition
from goalport.runtime.workflow.scatter_gather import BranchFailure, ConsensusBuilder, ScatterGatherBuilder
from goalport.runtime.workflow.workflow import Attempt, Feedback, History, SimpleAgentBuilder, Workflow

__all__ = [
    "AgentBuilder",
    "Attempt",
    "BranchFailure",
    "ConsensusBuilder",
    "Feedback",
    "History",
    "RepeatUntil",
    "RepeatUntilAcceptable",
    "Repetition",
    "ScatterGatherBuilder",
    "SimpleAgentBuilder",
    "Workflow",
]
