"""Running an agent: processes, the loop that plans and runs one action at a time, budgets and outcomes."""

from goalport.runtime.process.action_progress import ActionInvocation, Failure
from goalport.runtime.process.action_tools import Decider, agent_tool, require_type, with_awaiting
from goalport.runtime.process.agent_process import AgentProcess, ProcessPlatform
from goalport.runtime.process.context import ActionContext, OperationContext, run_subagent
from goalport.runtime.process.contexts import Context, ContextRepository, StoredContexts
from goalport.runtime.process.direct_calls import DirectCalls, current_operation, spending_outside
from goalport.runtime.process.execution import SERVICE_TYPES, ArgumentResolver, decline, find_question, settle
from goalport.runtime.process.follower import Follower, Heartbeat, Rested, follow
from goalport.runtime.process.ledger import Budget, Ledger, Spending
from goalport.runtime.process.lifecycle import (
    Completed,
    Failed,
    Killed,
    Outcome,
    ProcessStatus,
    Stuck,
    Terminated,
    Waiting,
    new_id,
)
from goalport.runtime.process.listeners import Alarm, Listeners, LoggedEvent
from goalport.runtime.process.planners import Planner, planner_for
from goalport.runtime.process.process_options import (
    Delay,
    EarlyTermination,
    FirstOf,
    MaxActions,
    MaxCost,
    MaxTokens,
    OnStuck,
    ProcessOptions,
    ProcessView,
    Schedule,
    StuckCode,
    StuckHandler,
    StuckResult,
    Verbosity,
)
from goalport.runtime.process.questions import Question
from goalport.runtime.process.recording import Definition, ProcessState, kill_unreadable
from goalport.runtime.process.repository import AgentProcessRepository, retried
from goalport.runtime.process.scope import PLANNING_SECONDS, Scope, asks_a_model, asks_models, blackboard_for_child
from goalport.runtime.process.tick import drive, pruned

__all__ = [
    "PLANNING_SECONDS",
    "SERVICE_TYPES",
    "ActionContext",
    "ActionInvocation",
    "AgentProcess",
    "AgentProcessRepository",
    "Alarm",
    "ArgumentResolver",
    "Budget",
    "Completed",
    "Context",
    "ContextRepository",
    "Decider",
    "Definition",
    "Delay",
    "DirectCalls",
    "EarlyTermination",
    "Failed",
    "Failure",
    "FirstOf",
    "Follower",
    "Heartbeat",
    "Killed",
    "Ledger",
    "Listeners",
    "LoggedEvent",
    "MaxActions",
    "MaxCost",
    "MaxTokens",
    "OnStuck",
    "OperationContext",
    "Outcome",
    "Planner",
    "ProcessOptions",
    "ProcessPlatform",
    "ProcessState",
    "ProcessStatus",
    "ProcessView",
    "Question",
    "Rested",
    "Schedule",
    "Scope",
    "Spending",
    "StoredContexts",
    "Stuck",
    "StuckCode",
    "StuckHandler",
    "StuckResult",
    "Terminated",
    "Verbosity",
    "Waiting",
    "agent_tool",
    "asks_a_model",
    "asks_models",
    "blackboard_for_child",
    "current_operation",
    "decline",
    "drive",
    "find_question",
    "follow",
    "kill_unreadable",
    "new_id",
    "planner_for",
    "pruned",
    "require_type",
    "retried",
    "run_subagent",
    "settle",
    "spending_outside",
    "with_awaiting",
]
