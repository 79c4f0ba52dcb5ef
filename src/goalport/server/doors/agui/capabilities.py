"""What chatbots and goals can do, as AG-UI declares it. Above: `runs`."""

from ag_ui.core.capabilities import (
    AgentCapabilities,
    HumanInTheLoopCapabilities,
    IdentityCapabilities,
    MultimodalCapabilities,
    MultimodalInputCapabilities,
    OutputCapabilities,
    ReasoningCapabilities,
    StateCapabilities,
    ToolsCapabilities,
    TransportCapabilities,
)

from goalport.runtime.chat import AgentProcessChatbot
from goalport.server.publish.goal_tools import GoalTool

_FRAMEWORK = "goalport"


def of_chatbot(chatbot: AgentProcessChatbot, *, calls_tools: bool) -> AgentCapabilities:
    """What a chatbot can do. `calls_tools`: also those that the front end offers."""
    identity = IdentityCapabilities(name=chatbot.name, type=_FRAMEWORK, description=chatbot.description)
    seen = MultimodalInputCapabilities(image=True, audio=False, video=False, pdf=False, file=False)
    return _capabilities(identity, memory=True).model_copy(
        update={
            "tools": ToolsCapabilities(supported=True, client_provided=calls_tools),
            "multimodal": MultimodalCapabilities(input=seen),
            "reasoning": ReasoningCapabilities(supported=True, streaming=True, encrypted=False),
        }
    )


def of_goal(tool: GoalTool) -> AgentCapabilities:
    """What a goal can do, and under `custom` the JSON Schemas of its input and its result."""
    name, about = tool.tool.name, tool.tool.description
    identity = IdentityCapabilities(name=name, type=_FRAMEWORK, description=about, version=tool.agent.version)
    return _capabilities(identity, memory=False).model_copy(
        update={
            "output": OutputCapabilities(structured_output=True),
            "custom": {"inputSchema": tool.tool.input_schema, "outputSchema": tool.policy.output.value_schema},
        }
    )


def _capabilities(identity: IdentityCapabilities, *, memory: bool) -> AgentCapabilities:
    return AgentCapabilities(
        identity=identity,
        transport=TransportCapabilities(streaming=True, websocket=False, http_binary=False, resumable=False),
        tools=ToolsCapabilities(supported=True, client_provided=False),
        state=StateCapabilities(snapshots=True, deltas=True, memory=memory, persistent_state=False),
        human_in_the_loop=HumanInTheLoopCapabilities(supported=True, approvals=True, interrupts=True),
    )
