"""What a client follows as a task: a process, or one turn of a conversation.

A task that has ended changes no more, but the process of a conversation goes on with the next message. So the task of a
turn names the process and the message that began the turn, and its reply is read from the conversation, on any server
of the store. Above: the doors whose protocol has tasks.
"""

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio

from goalport.base.caller import Caller
from goalport.base.errors import BadInput
from goalport.runtime.chat import AgentProcessChatbot, ChatSession, ConversationMessage, conversation_of
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.runs import IdempotentCall
from goalport.runtime.process import AgentProcess, Waiting
from goalport.store import ProcessStore

_NO_REPLY: Final = "The conversation has gone on, and nothing was replied to this message."
_FREE: Final = "free"
_HELD: Final = "held "
"""Begins what is kept while a message is being said."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a client follows by an id."""

    process: AgentProcess
    message_id: str = ""
    """Of a turn: the id of the message that began it; empty for the task of a whole process."""

    @property
    def id(self) -> str:
        """The id by which clients name it."""
        return f"{self.process.id}:{self.message_id}" if self.message_id else self.process.id


async def session_of_process(platform: AgentPlatform, process: AgentProcess, caller: Caller) -> ChatSession | None:
    """The session that a process belongs to; None for one of a goal, or of a conversation that is not there any more.

    Raises `StoreError`.
    """
    conversation = conversation_of(process) if process.options.turns else None
    if conversation is None:
        return None
    session = await AgentProcessChatbot(platform, process.agent.name).find_session(conversation.id, caller)
    return session if session is not None and session.process_id == process.id else None


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """What came of a turn that is over."""

    said: Sequence[ConversationMessage]
    failure: str
    """Why there is no reply, or only a part of one; empty: nothing has failed."""


async def end_of_turn(session: ChatSession, task: Task) -> TurnEnd | None:
    """What came of the turn that a task is; None while it goes on, or waits for a person.

    Raises `HandedOver` if this program ends first, and `StoreError`.
    """
    process, entries = task.process, session.conversation.entries
    begin = next((place for place, each in enumerate(entries) if each.id == task.message_id), len(entries))
    end = next((place for place, each in enumerate(entries) if place > begin and each.role == "user"), None)
    said, failure = [each for each in entries[begin:end] if each.role == "assistant"], ""
    if end is None:
        if process.outcome is None or isinstance(process.outcome, Waiting) or process.withheld or process.active:
            return None
        turn = await session.last_turn()
        failure = "" if turn is None else (await turn.result()).failure
    elif not said:
        failure = _NO_REPLY
    return TurnEnd(said, failure)


class SaidOnce:
    """A call that may be a repetition: `earlier` is the id of the task that the first one has begun, or empty."""

    def __init__(self, earlier: str = "") -> None:
        self.earlier = earlier
        self.begun: Task | None = None
        """To be set to what this call has begun."""


@asynccontextmanager
async def said_once(store: ProcessStore, call: IdempotentCall | None) -> AsyncGenerator[SaidOnce]:
    """A context in which a call says its message, unless it was said before under the same key; None: it has no key.

    Raises `BadInput` for a key that was used with other arguments, or is held, and `StoreError`.
    """
    if call is None:
        yield SaidOnce()
        return
    held = f"{_HELD}{secrets.token_hex(8)}"
    digest, kept = await store.join(call.name, call.digest, held)
    if digest != call.digest:
        call.refuse()
    if kept == _FREE:
        _, kept = await store.join(call.name, call.digest, held, instead_of=_FREE)
    if kept != held:
        if kept.startswith(_HELD):
            raise BadInput(
                "Another call with this idempotency key is just saying its message, or its server ended meanwhile. Call"
                " again in a moment; if that does not help, look at what the conversation has."
            )
        yield SaidOnce(kept)
        return
    said = SaidOnce()
    try:
        yield said
    finally:
        with anyio.CancelScope(shield=True):
            told = _FREE if said.begun is None else said.begun.id
            await store.join(call.name, call.digest, told, instead_of=held)
