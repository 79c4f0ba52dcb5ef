"""Chatbots as MCP tools: a call says something to a chatbot, and is one turn of a conversation.

Like a goal, a chatbot may answer with questions, or with a handle when its reply takes long. Nothing runs here:
`doors.mcp.chat_calls` begins turns and waits for them. `publication` is above.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from mcp_types import Tool, ToolAnnotations
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from goalport.agents.domain import Agent, ChatbotMark
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.handle import CHAT_HANDLE, with_alternatives
from goalport.server.publish.published_arguments import PublishedArguments

_GOES_ON: Final = (
    "Gives its reply and a conversationId. Give that with the next message to go on with the same conversation, which"
    " the chatbot remembers; without it, a new conversation begins."
)


def _said(message: str) -> str:
    if not message.strip():
        raise ValueError("should not be empty")
    return message


class ChatCall(BaseModel):
    """The arguments of a call that says something to a chatbot."""

    model_config = ConfigDict(frozen=True)

    message: Annotated[str, AfterValidator(_said)] = Field(
        min_length=1, description="What to say to the chatbot, in the person's words"
    )
    conversation_id: str | None = Field(
        None,
        alias="conversationId",
        description="The conversationId of an earlier answer, to go on with that conversation",
    )


@dataclass(frozen=True, slots=True)
class ChatTool:
    """A tool that says something to a chatbot."""

    tool: Tool
    chatbot: str
    """The name of the chatbot."""
    mark: ChatbotMark
    arguments: PublishedArguments
    policy: CallPolicy

    @classmethod
    def of(cls, agent: Agent) -> "ChatTool":
        """The tool of the chatbot that an agent is."""
        policy, arguments = CallPolicy.of_chatbot(agent), PublishedArguments.of([ChatCall])
        # The name and the docstring of the model are no use to clients, as a tool has its own.
        schema = {key: value for key, value in arguments.schema.items() if key not in {"title", "description"}}
        tool = Tool(
            name=policy.name,
            description=f"{(agent.description.strip() or f'Talk to {agent.name}').rstrip('.')}. {_GOES_ON}",
            input_schema=schema,
            output_schema=with_alternatives(policy.output.schema, CHAT_HANDLE),
            annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=False),
        )
        return cls(tool, agent.name, agent.chat or ChatbotMark(), arguments, policy)

    @property
    def errand(self) -> str:
        """What a model is asked to do with it, in a prompt."""
        return f"Talk to the chatbot {self.chatbot} and show the person what it replies"

    def read(self, arguments: Mapping[str, Any]) -> ChatCall:
        """What a call says. Raises `BadInput` with one line for each mistake."""
        (call,) = self.arguments.read(arguments)
        assert isinstance(call, ChatCall)
        return call
