"""What conversations of one context share: objects that are on the blackboard at the start, and saved after each turn.

Below: contexts and processes. Above: the hooks of turns. (User guide, section 3.2.5.)
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from goalport.agents.blackboard import DEFAULT_BINDING, Blackboard
from goalport.agents.domain import is_state
from goalport.base.errors import Unstorable
from goalport.models.llm import AssistantMessage, SystemMessage, ToolReply, UserMessage
from goalport.runtime.chat.conversation import Conversation
from goalport.runtime.chat.front_end import FrontEnd
from goalport.runtime.process import AgentProcess, Context, ContextRepository

_log = logging.getLogger(__name__)
Named = tuple[str, object]
"""An object with its name; without one, that is empty."""
_OF_CONVERSATIONS: Final = (Conversation, FrontEnd, UserMessage, AssistantMessage, SystemMessage, ToolReply)


async def save_context(process: AgentProcess, contexts: ContextRepository) -> None:
    """Save what a process knows besides what its context held: not messages, front ends, states and triggers.

    What others have saved meanwhile stays. Objects that cannot be written are not saved, and the log says so. Nothing
    happens without a context, or if it is shared by a scope that the caller lacks. Raises `StoreError`.
    """
    if not process.options.context_id or not _empty(process).open_to(process.caller):
        return
    found = await _news(process, contexts)
    try:
        await _save(found, process, contexts)
    except Unstorable:
        for each in found:  # others may be writable
            try:
                await _save([each], process, contexts)
            except Unstorable as error:
                told = "Context %s does not get what process %s knows: %s"
                _log.warning(told, process.options.context_id, process.id, error)


def _empty(process: AgentProcess) -> Context:
    """The context of a process before anything is saved in it."""
    return Context(process.options.context_id, process.caller, scope=process.options.context_scope)


async def _context_of(process: AgentProcess, contexts: ContextRepository) -> Context:
    options = process.options
    found = await contexts.find(options.context_id, process.caller, scope=options.context_scope)
    return found or _empty(process)


async def _news(process: AgentProcess, contexts: ContextRepository) -> Sequence[Named]:
    """What a process knows and its context does not, each once."""
    context = await _context_of(process, contexts)
    known, news = [*context.objects, *context.names.values()], list[Named]()
    for name, value in _shared(process):
        if not _is_among(known, value):
            known.append(value)
            news.append((name, value))
    return news


def _is_among(known: Sequence[object], value: object) -> bool:
    """Whether an object is known. One that cannot be compared as a whole, such as a table, is only known as itself."""
    for each in known:
        try:
            if each is value or (type(each) is type(value) and (each == value) is True):
                return True
        except (TypeError, ValueError):
            continue
    return False


async def _save(news: Sequence[Named], process: AgentProcess, contexts: ContextRepository) -> None:
    """Add objects to a context. Raises `Unstorable` and `StoreError`."""
    if not news:
        return
    context = await _context_of(process, contexts)
    for name, value in news:
        context.bind(name, value) if name else context.add(value)
    await contexts.save(context)


def _shared(process: AgentProcess) -> Iterator[Named]:
    """What others may know, each with its name, if it has one of its own."""
    triggers = tuple({each.settings.trigger for each in process.scope.actions.values() if each.settings.trigger})
    names = {id(value): name for name, value in _named(process.blackboard)}
    for value in process.blackboard.objects:
        if not (isinstance(value, (*_OF_CONVERSATIONS, *triggers)) or is_state(type(value))):
            yield names.get(id(value), ""), value


def _named(blackboard: Blackboard) -> Iterator[Named]:
    return ((name, entry.value) for name, entry in blackboard.state.names.items() if name != DEFAULT_BINDING)
