"""Goalport plans and runs typed agents and publishes their goals as MCP tools.

The wings, each of which imports only those below it:

    cli          the command line
    server       who may call, what is published, and a door for each protocol
    runtime      running agents: platform, processes, chat, and what actions ask of models
    workspace    a folder with agents, and its settings
    knowledge    what models may read: documents, references, skills
    store        keeping processes and conversations
    tools        what models may call, also on other servers
    agents       what people declare, and the planner
    models       language models and prompts
    base         what all use: errors, events, words, logs

The names that an agent's author needs are exported here; all others are imported from their packages. A name is loaded
when it is first used, so that code that needs one package only, such as the help of the command line, loads no other.
`__init__.pyi` beside this file tells type checkers the same names.
"""

# pyright: reportUnsupportedDunderAll=false
# The names are in __init__.pyi, which pyright does not read for the file beside it.

from goalport.base.lazy import lazy_exports

__version__ = "0.1.0"

__all__ = [
    "A2aAgent",
    "ActionContext",
    "AgentInvocation",
    "AgentPlatform",
    "AgentProcess",
    "Ai",
    "Blackboard",
    "Budget",
    "Export",
    "LlmOptions",
    "McpToolExport",
    "Named",
    "OperationContext",
    "Persona",
    "PlannerType",
    "ProcessOptions",
    "ProcessStatus",
    "Provided",
    "SomeOf",
    "State",
    "Tool",
    "ToolGroup",
    "ToolObject",
    "UserInput",
    "WaitFor",
    "achieves_goal",
    "action",
    "agent",
    "component",
    "condition",
    "cost",
    "run_subagent",
    "service",
    "settings",
    "state",
    "tool",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "runtime.ai": ["Ai"],
        "agents.blackboard": ["Blackboard"],
        "agents.domain": [
            "Export",
            "Named",
            "PlannerType",
            "Provided",
            "SomeOf",
            "State",
            "UserInput",
            "WaitFor",
            "achieves_goal",
            "action",
            "agent",
            "component",
            "condition",
            "cost",
            "state",
        ],
        "models.llm": ["LlmOptions"],
        "runtime.platform": ["AgentInvocation", "AgentPlatform"],
        "runtime.process": [
            "ActionContext",
            "AgentProcess",
            "Budget",
            "OperationContext",
            "ProcessOptions",
            "ProcessStatus",
            "run_subagent",
        ],
        "models.prompts": ["Persona"],
        "tools": ["McpToolExport", "Tool", "ToolGroup", "ToolObject", "tool"],
        "tools.upstream.a2a_agents": ["A2aAgent"],
        "workspace.declarations": ["service", "settings"],
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
