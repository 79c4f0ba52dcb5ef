"""Calls that say something to a chatbot: each is a turn of a conversation, which begins with its first call.

Turns of one conversation run one after another, so a call may have to wait for others. Its client may leave: the reply
is finished and kept nevertheless, unless the chatbot is marked otherwise. `progress_notifications` waits for the reply;
`calls` is above.
"""

from functools import partial

from mcp.server.context import HandlerResult
from mcp_types import CallToolRequestParams

from goalport.base.errors import BadInput, UnknownName
from goalport.models.llm import UserMessage
from goalport.runtime.chat import ChatSession, Turn
from goalport.runtime.platform.runs import IDEMPOTENCY_KEY, IdempotentCall
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.admission import GONE
from goalport.server.doors.mcp.cancellations import ended_by
from goalport.server.doors.mcp.elicitation import answer_when_settled, earlier_round
from goalport.server.doors.mcp.progress_notifications import (
    ChatObserver,
    Observer,
    heartbeat,
    observer_of,
    reply_of_task,
)
from goalport.server.doors.mcp.state import CallContext, McpState
from goalport.server.doors.mcp.tasks import answer_or_task, gets_task
from goalport.server.publish.calls import Call
from goalport.server.publish.goal_tools import ChatCall, ChatTool
from goalport.server.publish.limits import LimitReached, Place
from goalport.server.publish.output import WrittenResult
from goalport.server.publish.publisher import counted_turn, note_turn
from goalport.server.publish.turn_tasks import Task, said_once


async def call_chatbot(
    context: CallContext, chat: ChatTool, params: CallToolRequestParams, call: Call, place: Place
) -> HandlerResult | WrittenResult:
    """Answer one call. Raises `BadInput`, `LimitReached`, and `StoreError`."""
    state, earlier = context.state, earlier_round(params)
    as_task = context.sdk is not None and gets_task(context.sdk, chat.policy)
    if earlier is None:
        said = chat.read(params.arguments or {})
        arguments, key = params.arguments or {}, (params.meta or {}).get(IDEMPOTENCY_KEY)
        repeated = None if key is None else IdempotentCall.of(current_caller(), params.name, key, arguments)
        async with said_once(state.platform.store, repeated) as once:
            if once.earlier:
                task = await _task(state, once.earlier)
                if not as_task and (reply := await reply_of_task(state, task)) is not None:
                    call.process = task.process
                    return reply
                observer = await _follow(context, chat, task, call, place)
            else:
                observer = await _begin(context, chat, said, call, place)
                once.begun = Task(observer.process, observer.message_id)
    else:
        task = await _task(state, earlier.process_id)
        observer = await _follow(context, chat, task, call, place)
    answering = answer_or_task if as_task else answer_when_settled
    answer = await answering(observer, chat.policy, earlier)
    if isinstance(observer, ChatObserver) and observer.result is not None:
        note_turn(call, observer.result)
    return answer


async def _task(state: McpState, task_id: str) -> Task:
    """The turn of an id, or, without a message, the turn that runs in a process. Raises `BadInput`."""
    process_id, _, message_id = task_id.partition(":")
    return Task(await state.known_process(process_id, current_caller()), message_id)


async def _follow(context: CallContext, chat: ChatTool, task: Task, call: Call, place: Place) -> Observer:
    """Wait for a turn that an earlier call has begun."""
    call.process = task.process
    run = context.state.runs.of(task.process, detached=chat.policy.detached)
    observer = await observer_of(context, task.process, run, place)
    observer.message_id = task.message_id
    return observer


async def _begin(context: CallContext, chat: ChatTool, said: ChatCall, call: Call, place: Place) -> ChatObserver:
    """Begin a turn, once it is its turn in the conversation."""
    state = context.state
    session, message = await _session(state, chat, said.conversation_id), UserMessage(said.message)
    begun: Turn | None = None
    with heartbeat(context, place), ended_by(context.disconnect):
        try:
            begin = partial(session.begin_turn, message)
            begun = await counted_turn(state.publisher.limits, call, begin)
        except LimitReached:
            if not said.conversation_id:  # it was made for this call, and nobody knows its id
                await state.platform.conversations.delete(session.conversation.id, call.caller)
            raise
        except UnknownName:  # it was deleted meanwhile
            raise _unknown(chat, session.conversation.id) from None
    if begun is None:
        raise BadInput(GONE)
    run = state.runs.of(begun.process, detached=chat.policy.detached)
    observer = ChatObserver(context, begun.process, session, run, place, turn=begun)
    observer.message_id = next((each.id for each in session.conversation.entries if each.message is message), "")
    return observer


async def _session(state: McpState, chat: ChatTool, conversation_id: str | None) -> ChatSession:
    try:
        chatbot = state.platform.chatbots.named(chat.chatbot)
    except UnknownName as error:  # it was undeployed a moment ago
        raise BadInput(str(error)) from None
    if not conversation_id:
        return await chatbot.create_session(current_caller())
    session = await chatbot.find_session(conversation_id, current_caller())
    if session is None:
        raise _unknown(chat, conversation_id)
    return session


def _unknown(chat: ChatTool, conversation_id: str) -> BadInput:
    return BadInput(
        f"There is no conversation {conversation_id[:100]!r} with {chat.chatbot}, or it is not yours. Give the"
        " conversationId of an earlier answer, or none to begin another conversation."
    )
