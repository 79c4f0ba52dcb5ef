"""Ready-made shapes of work: one function, several at once, a repetition; each an agent, or a part of an action.

`AgentBuilder` makes agents of other shapes out of functions and prompts.

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
