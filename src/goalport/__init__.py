"""Goalport plans and runs typed agents and publishes their goals as MCP tools.

What an agent's author needs is here; everything else is imported by room.
"""

from goalport.blackboard import Blackboard
from goalport.domain import (
    Export,
    Named,
    Provided,
    SomeOf,
    UserInput,
    achieves_goal,
    action,
    agent,
    component,
    condition,
    cost,
)
from goalport.platform import AgentInvocation, AgentPlatform
from goalport.process import ActionContext, AgentProcess, Budget, OperationContext, ProcessOptions, ProcessStatus
from goalport.tools import McpToolExport, Tool, ToolGroup, ToolObject, tool

__version__ = "0.1.0"

__all__ = [
    "ActionContext",
    "AgentInvocation",
    "AgentPlatform",
    "AgentProcess",
    "Blackboard",
    "Budget",
    "Export",
    "McpToolExport",
    "Named",
    "OperationContext",
    "ProcessOptions",
    "ProcessStatus",
    "Provided",
    "SomeOf",
    "Tool",
    "ToolGroup",
    "ToolObject",
    "UserInput",
    "achieves_goal",
    "action",
    "agent",
    "component",
    "condition",
    "cost",
    "tool",
]
