"""What conversations of one context share: objects that are on the blackboard at the start, and saved after each turn.

Below: contexts and processes. Above: the hooks of turns. (User guide, section 3.2.5.)
"""

import logging
from collections.abc import Iterator
from typing import Final

from goalport.blackboard import DEFAULT_BINDING, Blackboard
from goalport.chat.conversation import Conversation
from goalport.domain import is_state
from goalport.errors import Unstorable
from goalport.llm import AssistantMessage, SystemMessage, ToolReply, UserMessage
from goalport.process import AgentProcess, Context, ContextRepository

__all__ = ["save_context"]

_log = logging.getLogger(__name__)
_OF_CONVERSATIONS: Final = (Conversation, UserMessage, AssistantMessage, SystemMessage, ToolReply)


async def save_context(process: AgentProcess, context_id: str, contexts: ContextRepository) -> None:
    """Save what a process knows besides what its context held: not messages, states, and what triggers actions.

    What others have saved meanwhile stays. Objects that cannot be written are not saved, and the log says so. Raises
    `StoreError`.
    """
    context = await contexts.find(context_id) or Context(context_id)
    known = [*context.objects, *context.names.values()]
    for name, value in _shared(process):
        if value not in known:
            known.append(value)
            context.bind(name, value) if name else context.add(value)
    if not context.changes:
        return
    try:
        await contexts.save(context)
    except Unstorable as error:
        _log.warning("Context %s does not get what process %s knows: %s", context_id, process.id, error)


def _shared(process: AgentProcess) -> Iterator[tuple[str, object]]:
    """What others may know, each with its name, if it has one of its own."""
    triggers = tuple({each.settings.trigger for each in process.scope.actions.values() if each.settings.trigger})
    names = {id(value): name for name, value in _named(process.blackboard)}
    for value in process.blackboard.objects:
        if not (isinstance(value, (*_OF_CONVERSATIONS, *triggers)) or is_state(type(value))):
            yield names.get(id(value), ""), value


def _named(blackboard: Blackboard) -> Iterator[tuple[str, object]]:
    return ((name, entry.value) for name, entry in blackboard.state.names.items() if name != DEFAULT_BINDING)
