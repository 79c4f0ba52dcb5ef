"""Running an agent: the tick, one action at a time, budgets and ends. Floor 5."""

from goalport.process.agent_process import AgentProcess, PlatformServices
from goalport.process.agent_tool import agent_tool
from goalport.process.ambient import CurrentOperation
from goalport.process.answering import answer, asking, decline
from goalport.process.arguments import SERVICE_TYPES, ArgumentResolver
from goalport.process.awaiting import Decider, require_type, with_awaiting
from goalport.process.context import ActionContext, OperationContext, run_subagent
from goalport.process.contexts import Context, ContextRepository, InMemoryContextRepository
from goalport.process.early_termination import (
    EarlyTermination,
    FirstOf,
    MaxActions,
    MaxCost,
    MaxTokens,
    OnStuck,
    Underway,
)
from goalport.process.ledger import Ledger, Spending
from goalport.process.lending import lent
from goalport.process.listeners import Listeners
from goalport.process.names import new_id
from goalport.process.options import Budget, Delay, ProcessOptions, Schedule, Verbosity
from goalport.process.outcome import Completed, Failed, Killed, Outcome, ProcessStatus, Stuck, Terminated, Waiting
from goalport.process.planners import Planner, planner_for
from goalport.process.progress import ActionInvocation, Failure
from goalport.process.pruning import pruned
from goalport.process.questions import Question
from goalport.process.repository import AgentProcessRepository, InMemoryProcessRepository
from goalport.process.scope import Scope
from goalport.process.stuck import StuckCode, StuckHandler, StuckResult
from goalport.process.tick import PLANNING_SECONDS, drive, step

__all__ = [
    "PLANNING_SECONDS",
    "SERVICE_TYPES",
    "ActionContext",
    "ActionInvocation",
    "AgentProcess",
    "AgentProcessRepository",
    "ArgumentResolver",
    "Budget",
    "Completed",
    "Context",
    "ContextRepository",
    "CurrentOperation",
    "Decider",
    "Delay",
    "EarlyTermination",
    "Failed",
    "Failure",
    "FirstOf",
    "InMemoryContextRepository",
    "InMemoryProcessRepository",
    "Killed",
    "Ledger",
    "Listeners",
    "MaxActions",
    "MaxCost",
    "MaxTokens",
    "OnStuck",
    "OperationContext",
    "Outcome",
    "Planner",
    "PlatformServices",
    "ProcessOptions",
    "ProcessStatus",
    "Question",
    "Schedule",
    "Scope",
    "Spending",
    "Stuck",
    "StuckCode",
    "StuckHandler",
    "StuckResult",
    "Terminated",
    "Underway",
    "Verbosity",
    "Waiting",
    "agent_tool",
    "answer",
    "asking",
    "decline",
    "drive",
    "lent",
    "new_id",
    "planner_for",
    "pruned",
    "require_type",
    "run_subagent",
    "step",
    "with_awaiting",
]
