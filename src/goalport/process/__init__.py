"""Running an agent: the tick, one action at a time, budgets and ends. Floor 5."""

from goalport.process.agent_process import ActionInvocation, AgentProcess, Surroundings
from goalport.process.answering import answer, asking, decline
from goalport.process.arguments import SERVICE_TYPES
from goalport.process.audience import Audience
from goalport.process.context import ActionContext, OperationContext, run_subagent
from goalport.process.contexts import Context, ContextRepository, InMemoryContextRepository
from goalport.process.names import new_id
from goalport.process.options import Budget, ProcessOptions, Usage
from goalport.process.outcome import Completed, Failed, Killed, Outcome, ProcessStatus, Stuck, Terminated, Waiting
from goalport.process.questions import Question
from goalport.process.repository import AgentProcessRepository, InMemoryProcessRepository
from goalport.process.scope import Scope
from goalport.process.tick import drive

__all__ = [
    "SERVICE_TYPES",
    "ActionContext",
    "ActionInvocation",
    "AgentProcess",
    "AgentProcessRepository",
    "Audience",
    "Budget",
    "Completed",
    "Context",
    "ContextRepository",
    "Failed",
    "InMemoryContextRepository",
    "InMemoryProcessRepository",
    "Killed",
    "OperationContext",
    "Outcome",
    "ProcessOptions",
    "ProcessStatus",
    "Question",
    "Scope",
    "Stuck",
    "Surroundings",
    "Terminated",
    "Usage",
    "Waiting",
    "answer",
    "asking",
    "decline",
    "drive",
    "new_id",
    "run_subagent",
]
