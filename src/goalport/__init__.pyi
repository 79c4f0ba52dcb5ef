from goalport.agents.blackboard import Blackboard as Blackboard
from goalport.agents.domain import (
    Export as Export,
    Named as Named,
    PlannerType as PlannerType,
    Provided as Provided,
    SomeOf as SomeOf,
    State as State,
    UserInput as UserInput,
    WaitFor as WaitFor,
    achieves_goal as achieves_goal,
    action as action,
    agent as agent,
    component as component,
    condition as condition,
    cost as cost,
    state as state,
)
from goalport.models.llm import LlmOptions as LlmOptions
from goalport.models.prompts import Persona as Persona
from goalport.runtime.ai import Ai as Ai
from goalport.runtime.platform import AgentInvocation as AgentInvocation, AgentPlatform as AgentPlatform
from goalport.runtime.process import (
    ActionContext as ActionContext,
    AgentProcess as AgentProcess,
    Budget as Budget,
    OperationContext as OperationContext,
    ProcessOptions as ProcessOptions,
    ProcessStatus as ProcessStatus,
    run_subagent as run_subagent,
)
from goalport.tools import (
    McpToolExport as McpToolExport,
    Tool as Tool,
    ToolGroup as ToolGroup,
    ToolObject as ToolObject,
    tool as tool,
)
from goalport.tools.upstream.a2a_agents import A2aAgent as A2aAgent
from goalport.workspace.declarations import service as service, settings as settings

__version__: str
