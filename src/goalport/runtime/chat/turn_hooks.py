"""What happens to a conversation while its process runs: it is loaded, messages are stored, and it may be finished.

It does not matter who lets the process run: a session, an answer over any door, or a program that takes it over after a
crash. Below: conversations, and `compaction`, which shortens what models are shown. Above: the platform, whose
processes call this.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import Final

from goalport.agents.blackboard import DEFAULT_BINDING
from goalport.agents.domain import ChatbotMark, is_state
from goalport.base.errors import GoalportError, Unstorable
from goalport.base.words import excerpt, one_line
from goalport.models.llm import AssistantMessage, SystemMessage, ToolReply, UserMessage
from goalport.runtime.chat.compaction import CHEAPEST, cheapest, compact
from goalport.runtime.chat.conversation import Conversation, ConversationMessage
from goalport.runtime.chat.front_end import FrontEnd
from goalport.runtime.chat.session import Platform
from goalport.runtime.process import AgentProcess, Completed, Context

_log = logging.getLogger(__name__)
_LONGEST: Final = 60
"""The most characters of a title."""
_SHOWN: Final = 2_000
"""The most characters of a message that the model is shown."""
_INSTRUCTIONS: Final = (
    "You name conversations. Write a title of at most six words for the one below, in its language, without quotes and"
    " without a full stop. Write only the title."
)
_OF_CONVERSATIONS: Final = (Conversation, FrontEnd, UserMessage, AssistantMessage, SystemMessage, ToolReply)


def conversation_of(process: AgentProcess) -> Conversation | None:
    """The conversation that a process has; None: it is no process of a chatbot."""
    return process.blackboard.get("conversation", Conversation)


class ConversationTurns:
    """Loads and stores conversations before and after their processes run. Raises `StoreError` if the store fails."""

    def __init__(self, platform: Platform) -> None:
        self._platform, self._conversations = platform, platform.conversations
        self._titling: set[asyncio.Task[None]] = set()

    async def before_run(self, process: AgentProcess) -> None:
        """Load the conversation of a process that is going to run, and make it shorter for models if it is too long."""
        conversation = conversation_of(process)
        if conversation is None:
            return
        await self._conversations.load(conversation)
        mark = process.agent.chat or ChatbotMark()
        await compact(process, conversation, self._conversations, mark.max_history_tokens, self._platform.models.roles)

    async def after_run(self, process: AgentProcess) -> None:
        """Store what a process at rest has added to its conversation and context, and whether its goal is reached."""
        conversation = conversation_of(process)
        if conversation is None:
            return
        await self._conversations.append(conversation)
        if isinstance(process.outcome, Completed) and not conversation.record.finished:
            await self._conversations.change(conversation, lambda record: record._replace(finished=True))
        if not conversation.title:
            await self._give_title(conversation)
        await self._save_context(process)

    async def _give_title(self, conversation: Conversation) -> None:
        """Give a conversation that was answered the first words as its title; then a model may find a better one."""
        entries = conversation.entries
        said = (each.text for each in entries if each.role == "user" and each.text.strip())
        words = excerpt(one_line(next(said, "")), _LONGEST)
        if not words or not any(each.role == "assistant" for each in entries):
            return
        await self._conversations.change(conversation, lambda record: record._replace(title=record.title or words))
        if CHEAPEST in self._platform.models.roles:
            task = asyncio.get_running_loop().create_task(self._better_title(conversation, words))
            self._titling.add(task)
            task.add_done_callback(self._titling.discard)

    async def _better_title(self, conversation: Conversation, words: str) -> None:
        """Let a model find a title, in place of one that was made of the first words. A failure is only logged."""
        ai = cheapest(self._platform.ai, self._platform.models.roles).with_id("title")
        said = "\n\n".join(f"{each.role}: {excerpt(each.text, _SHOWN)}" for each in conversation.entries[:4])
        try:
            told = await ai.with_system_prompt(_INSTRUCTIONS).generate_text(said)
            if title := excerpt(one_line(told).strip("\"'“” .#*"), _LONGEST):
                await self._conversations.change(
                    conversation, lambda record: record._replace(title=title) if record.title == words else record
                )
        except GoalportError as error:
            _log.info("Conversation %s keeps the title %r: %s", conversation.id, words, error)

    async def _save_context(self, process: AgentProcess) -> None:
        """Add the new objects of a process to its context, except messages, front ends, states and triggers.

        Objects that others saved meanwhile stay. Objects that cannot be stored are not saved, and the log says so.
        Nothing happens without a context, or if it is shared by a scope that the caller lacks.
        """
        context_id, caller, scope = process.options.context_id, process.caller, process.options.context_scope
        if not context_id or not Context(context_id, caller, scope=scope).open_to(caller):
            return
        contexts = self._platform.contexts
        known = await contexts.find(context_id, caller, scope=scope)
        news = _news(process, [*known.objects, *known.names.values()] if known else [])
        batches = [news] if news else []
        while batches:
            context = await contexts.find(context_id, caller, scope=scope) or Context(context_id, caller, scope=scope)
            batch = batches.pop(0)
            for name, value in batch:
                context.bind(name, value) if name else context.add(value)
            try:
                await contexts.save(context)
            except Unstorable as error:
                if len(batch) > 1:
                    batches = [[each] for each in batch]  # others may be writable
                else:
                    text = "Context %s does not get what process %s knows: %s"
                    _log.warning(text, context_id, process.id, error)

    async def close(self) -> None:
        """Cancel the tasks that find titles, and wait for their end."""
        tasks = [*self._titling]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def send(self, process: AgentProcess, message_id: str, message: AssistantMessage) -> AssistantMessage:
        """Store a message that an action sends, once, and return it.

        If a message of that id was stored before, because the action begins again, that message is returned. A message
        that was added to the conversation, but not stored yet, gets this id.
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


def _news(process: AgentProcess, known: list[object]) -> list[tuple[str, object]]:
    """The objects of a process that its context may keep and that are not `known`, each once, with its name or "".

    An object whose `==` gives no bool, such as a table, is compared by identity only.
    """
    triggers = tuple({each.settings.trigger for each in process.scope.actions.values() if each.settings.trigger})
    named = process.blackboard.state.names.items()
    names = {id(entry.value): name for name, entry in named if name != DEFAULT_BINDING}
    news: list[tuple[str, object]] = []
    for value in process.blackboard.objects:
        found = isinstance(value, (*_OF_CONVERSATIONS, *triggers)) or is_state(type(value))
        for each in () if found else known:
            with suppress(TypeError, ValueError):
                found = found or each is value or (type(each) is type(value) and (each == value) is True)
        if not found:
            known.append(value)
            news.append((names.get(id(value), ""), value))
    return news
