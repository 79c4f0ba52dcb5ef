"""Reading classes into agents: what users declare, as data, and what it means to the planner."""

from goalport.agents.domain.agents import Action, Agent, Condition, Cost, Goal
from goalport.agents.domain.chatbots import ChatbotMark, chatbot
from goalport.agents.domain.decorators import (
    ActionMark,
    GoalMark,
    GroupRequirement,
    achieves_goal,
    action,
    agent,
    component,
    condition,
    cost,
    is_marked,
    lacks_mark,
)
from goalport.agents.domain.encoding import operators_of, plan_goal
from goalport.agents.domain.export import Export
from goalport.agents.domain.formulas import When, conditions_of, names_known, needs_of, promises_of
from goalport.agents.domain.members import read_action, read_goal
from goalport.agents.domain.planner_type import PlannerType
from goalport.agents.domain.reader import read_agent, unmarked_givers
from goalport.agents.domain.retry import RetryPolicy, transient
from goalport.agents.domain.signature import (
    Injected,
    Input,
    Outputs,
    Parameter,
    ProvidedInput,
    Resolved,
    Resolver,
    inputs_among,
)
from goalport.agents.domain.values import (
    FRAMEWORK_FIELDS,
    SERVICES,
    Aggregation,
    Named,
    Provided,
    SomeOf,
    State,
    UserInput,
    inject,
    is_state,
    parts_of,
    state,
)
from goalport.agents.domain.wait_for import VisitedUrl, WaitFor, awaited

__all__ = [
    "FRAMEWORK_FIELDS",
    "SERVICES",
    "Action",
    "ActionMark",
    "Agent",
    "Aggregation",
    "ChatbotMark",
    "Condition",
    "Cost",
    "Export",
    "Goal",
    "GoalMark",
    "GroupRequirement",
    "Injected",
    "Input",
    "Named",
    "Outputs",
    "Parameter",
    "PlannerType",
    "Provided",
    "ProvidedInput",
    "Resolved",
    "Resolver",
    "RetryPolicy",
    "SomeOf",
    "State",
    "UserInput",
    "VisitedUrl",
    "WaitFor",
    "When",
    "achieves_goal",
    "action",
    "agent",
    "awaited",
    "chatbot",
    "component",
    "condition",
    "conditions_of",
    "cost",
    "inject",
    "inputs_among",
    "is_marked",
    "is_state",
    "lacks_mark",
    "names_known",
    "needs_of",
    "operators_of",
    "parts_of",
    "plan_goal",
    "promises_of",
    "read_action",
    "read_agent",
    "read_goal",
    "state",
    "transient",
    "unmarked_givers",
]
