"""What a client follows as a task: a process, or one turn of a conversation.

A task that has ended changes no more, but the process of a conversation goes on with the next message. So the task of a
turn names the process and the message that began the turn, and its reply is read from the conversation, on any server
of the store. `tasks` is above, and so is `scope_check`, which reads ids.
"""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio
from mcp_types import CallToolRequestParams

from goalport.base.errors import BadInput
from goalport.runtime.platform.runs import IdempotentCall
from goalport.runtime.process import AgentProcess, Waiting
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.chat_observer import session_of_process
from goalport.server.doors.mcp.state import McpState
from goalport.server.publish.chat_answers import answer_with_reply
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.output import WrittenResult

_NO_REPLY: Final = "The conversation has gone on, and nothing was replied to this message."


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


async def reply_of_task(state: McpState, task: Task) -> WrittenResult | None:
    """The answer to the call that began a turn; None while the turn goes on, or if its conversation is gone.

    Raises `HandedOver` if this program ends first, and `StoreError`.
    """
    process, session = task.process, await session_of_process(state, task.process)
    if session is None:
        return None
    entries = session.conversation.entries
    begin = next((place for place, each in enumerate(entries) if each.id == task.message_id), len(entries))
    end = next((place for place, each in enumerate(entries) if place > begin and each.role == "user"), None)
    said, failure = [each for each in entries[begin:end] if each.role == "assistant"], ""
    if end is None:
        if process.outcome is None or isinstance(process.outcome, Waiting) or process.untold or process.active:
            return None
        turn = await session.last_turn()
        failure = "" if turn is None else (await turn.result()).failure
    elif not said:
        failure = _NO_REPLY
    policy, most = CallPolicy.of_process(process), state.settings.max_result_bytes
    return answer_with_reply(policy, process, session.conversation, said, failure, max_bytes=most)


KEY: Final = "goalport/idempotencyKey"
_FREE: Final = "free"
_HELD: Final = "held "
"""Begins what is kept while a message is being said."""


class SaidOnce:
    """A call that may be a repetition: `earlier` is the id of the task that the first one has begun, or empty."""

    def __init__(self, earlier: str = "") -> None:
        self.earlier = earlier
        self.begun: Task | None = None
        """To be set to what this call has begun."""


@asynccontextmanager
async def said_once(state: McpState, params: CallToolRequestParams) -> AsyncGenerator[SaidOnce]:
    """A context in which a call says its message, unless it was said before under the same key.

    Raises `BadInput` for a key that is not valid, was used with other arguments, or is held, and `StoreError`.
    """
    key = (params.meta or {}).get(KEY)
    if key is None:
        yield SaidOnce()
        return
    call, store = IdempotentCall.of(current_caller(), params.name, key, params.arguments or {}), state.platform.store
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
