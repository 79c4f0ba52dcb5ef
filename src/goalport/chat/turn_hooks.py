"""What happens to a conversation while its process runs: it is loaded, messages are stored, and it may be finished.

It does not matter who lets the process run: a session, an answer over any door, or a program that takes it over after a
crash. Below: conversations. Above: the platform, whose processes call this.
"""

from dataclasses import replace

from goalport.chat.conversation import Conversation
from goalport.chat.conversations import Conversations
from goalport.chat.messages import ConversationMessage
from goalport.llm import AssistantMessage
from goalport.process import AgentProcess, Completed

__all__ = ["ConversationTurns", "conversation_of"]


def conversation_of(process: AgentProcess) -> Conversation | None:
    """The conversation that a process has; None: it is no process of a chatbot."""
    return process.blackboard.get("conversation", Conversation)


class ConversationTurns:
    """Keeps conversations and their processes together."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    async def before_run(self, process: AgentProcess) -> None:
        """Load the conversation of a process that is going to run. Raises `StoreError`."""
        conversation = conversation_of(process)
        if conversation is not None:
            await self._conversations.load(conversation)

    async def after_run(self, process: AgentProcess) -> None:
        """Store what was added to the conversation of a process that rests now, and whether it is finished."""
        conversation = conversation_of(process)
        if conversation is None:
            return
        await self._conversations.append(conversation)
        if isinstance(process.outcome, Completed) and not conversation.finished:
            await self._conversations.change(conversation, lambda record: record._replace(finished=True))

    async def send(self, process: AgentProcess, message_id: str, message: AssistantMessage) -> AssistantMessage:
        """Store a message that an action sends, once, and return it.

        If there is a message of that id already, because the action begins again, that one is returned. One that was
        added to the conversation before gets this id. Raises `StoreError`.
        """
        conversation = conversation_of(process)
        if conversation is None:
            return message
        loaded = conversation.loaded
        place = next((place for place, each in enumerate(loaded.pending) if each.message is message), None)
        added = ConversationMessage(role="assistant", message=message) if place is None else loaded.pending.pop(place)
        sent = loaded.messages.get(message_id)
        if sent is None:
            await self._conversations.append(conversation, replace(added, id=message_id))
            return message
        return sent.message if isinstance(sent.message, AssistantMessage) else message
