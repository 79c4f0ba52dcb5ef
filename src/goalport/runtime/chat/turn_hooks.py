"""What happens to a conversation while its process runs: it is loaded, messages are stored, and it may be finished.

It does not matter who lets the process run: a session, an answer over any door, or a program that takes it over after a
crash. Below: conversations. Above: the platform, whose processes call this.
"""

import asyncio
from dataclasses import replace

from goalport.agents.domain import ChatbotMark
from goalport.models.llm import AssistantMessage
from goalport.runtime.chat.cheapest import CHEAPEST, cheapest
from goalport.runtime.chat.compaction import compact
from goalport.runtime.chat.conversation import Conversation, ConversationMessage
from goalport.runtime.chat.platform import Platform
from goalport.runtime.chat.project_context import save_context
from goalport.runtime.chat.titles import better_title, first_words
from goalport.runtime.process import AgentProcess, Completed


def conversation_of(process: AgentProcess) -> Conversation | None:
    """The conversation that a process has; None: it is no process of a chatbot."""
    return process.blackboard.get("conversation", Conversation)


class ConversationTurns:
    """Keeps conversations and their processes together."""

    def __init__(self, platform: Platform) -> None:
        self._platform, self._conversations = platform, platform.conversations
        self._titling: set[asyncio.Task[None]] = set()

    async def before_run(self, process: AgentProcess) -> None:
        """Load the conversation of a process that is going to run, and make it shorter for models if it is too long.

        Raises `StoreError`.
        """
        conversation = conversation_of(process)
        if conversation is None:
            return
        await self._conversations.load(conversation)
        mark = process.agent.chat or ChatbotMark()
        await compact(process, conversation, self._conversations, mark.max_history_tokens, self._platform.models.roles)

    async def after_run(self, process: AgentProcess) -> None:
        """Store what was added to the conversation of a process that rests now, if it is finished, and what it shares.

        Raises `StoreError`.
        """
        conversation = conversation_of(process)
        if conversation is None:
            return
        await self._conversations.append(conversation)
        if isinstance(process.outcome, Completed) and not conversation.finished:
            await self._conversations.change(conversation, lambda record: record._replace(finished=True))
        if not conversation.title:
            await self._give_title(conversation)
        await save_context(process, self._platform.contexts)

    async def _give_title(self, conversation: Conversation) -> None:
        """Give a conversation that was answered the first words as its title; then a model may find a better one."""
        words = first_words(conversation.entries)
        if not words:
            return
        await self._conversations.change(conversation, lambda record: record._replace(title=record.title or words))
        if CHEAPEST in self._platform.models.roles:
            ai = cheapest(self._platform.ai, self._platform.models.roles)
            work = better_title(conversation, words, self._conversations, ai)
            task = asyncio.get_running_loop().create_task(work)
            self._titling.add(task)
            task.add_done_callback(self._titling.discard)

    async def close(self) -> None:
        """End the work beside the conversations."""
        tasks = [*self._titling]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
