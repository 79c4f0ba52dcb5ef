"""`tools/call`: from a name and arguments to an answer.

A call gets a place among the concurrent calls, or is refused by a limit. Failures become answers here: the caller's
mistakes and the goal's failures are error results for the model; a bug is an error result with one sentence, and its
traceback goes to the log.
A call of a goal waits for its process. A call of a chatbot is a turn of a conversation, which the first call begins.
Turns of one conversation run one after another, so a call may have to wait for others. If the client disconnects, the
reply is finished and stored nevertheless, unless the chatbot is marked otherwise. The companion tools, which
`publish.handle` declares, follow, answer or end a process, or read its result.
"""

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, assert_never

from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, InputRequiredResult

from goalport.base.errors import AlreadyAnswered, BadInput, HandedOver, StoreError, UnknownName
from goalport.base.words import first_line
from goalport.models.llm import UserMessage
from goalport.runtime.chat import Turn
from goalport.runtime.platform.deployments import KEEPER, KeptResult
from goalport.runtime.platform.runs import IDEMPOTENCY_KEY, IdempotentCall
from goalport.runtime.process import AgentProcess, Completed, Failed, ProcessStatus, Question, Stuck, Terminated
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.elicitation import (
    ElicitationState,
    answer_when_settled,
    call_asking,
    earlier_elicitation,
)
from goalport.server.doors.mcp.notifications import is_modern
from goalport.server.doors.mcp.requests import CallContext, Observer, reply_of_task
from goalport.server.doors.mcp.state import CANCELLED_BY_CALLER, HandlerFailed, McpState, scopes_lacked
from goalport.server.doors.mcp.tasks import answer_or_task, gets_task
from goalport.server.publish.answers import error_result, reply_pages
from goalport.server.publish.calls import Call, unavailable_words
from goalport.server.publish.exported_tools import FunctionTool, RawTool
from goalport.server.publish.forms import form_of
from goalport.server.publish.goal_tools import CallPolicy, ChatCall, ChatTool, GoalTool
from goalport.server.publish.handle import (
    ANSWER,
    CANCEL,
    RESULT,
    STATUS,
    AnswerCall,
    CancelCall,
    Companion,
    ResultCall,
    StatusCall,
    page_call,
)
from goalport.server.publish.limits import LimitReached, Place
from goalport.server.publish.output import ChatReply, Pages, WrittenResult, document_of, last_reply, text_block
from goalport.server.publish.publisher import (
    Task,
    answer_question,
    counted_turn,
    deduplicated,
    note_turn,
    session_of_process,
    start_goal,
)

_log = logging.getLogger(__name__)
_LONGEST_NAME = 100
_GONE: Final = "Its caller went away."
_BETWEEN_TURNS: Final = {ProcessStatus.RESTING, ProcessStatus.STUCK}


async def call_tool(context: CallContext, params: CallToolRequestParams) -> HandlerResult | WrittenResult:
    """Answer one call. Raises `MCPError` with code -32602 for an unknown tool."""
    state = context.state
    with state.publisher.calls.of("mcp", params.name[:_LONGEST_NAME], current_caller()) as call:
        try:
            return await state.answer_of(params.name, _answer(context, params, call))
        except (StoreError, HandedOver) as error:
            call.status = "unavailable"
            return error_result(unavailable_words(error))
        except BadInput as error:
            call.status = "refused"
            _log.debug("%s was refused: %s", params.name, first_line(str(error).replace("\n", " ")))
            return error_result(str(error))
        except LimitReached as error:  # a model reads it and can try again later
            call.status = "refused"
            meta: dict[str, Any] = {"goalport/limit": error.kind, "goalport/retryAfterSeconds": error.retry_seconds}
            return error_result(str(error), meta)
        except HandlerFailed as failure:
            call.status = "error"
            return error_result(failure.message)


@dataclass(slots=True)
class _Admission:
    """A context in which a call has a place among the concurrent calls; while it waits, its client gets heartbeats.

    `begins`: the call begins something, and does not only continue it. Raises `LimitReached`, `StoreError`, and
    `BadInput` if the client disconnects while the call waits. `asynccontextmanager` would take longer than the rest.
    """

    context: CallContext
    begins: bool
    place: Place | None = None

    async def __aenter__(self) -> Place:
        self.place = place = await self.context.state.publisher.limits.admit(current_caller(), begins=self.begins)
        try:
            if not place.held:
                with self.context.waiting("waits for its turn"):
                    await place.wait()
        finally:
            if not place.held:
                place.leave()
        if not place.held:
            raise BadInput(_GONE)
        return place

    async def __aexit__(self, *_: object) -> None:
        if self.place is not None:
            self.place.leave()


async def _answer(context: CallContext, params: CallToolRequestParams, call: Call) -> HandlerResult | WrittenResult:
    state, begins = context.state, params.request_state is None
    if state.access.challenges is not None:
        given = {"name": params.name, "arguments": params.arguments}
        if lacked := await scopes_lacked(state, "tools/call", given):
            raise BadInput(state.access.refusal(lacked))
    publication = state.publisher.publication
    published = publication.tools.get(params.name) or publication.of_groups.absent.get(params.name)
    if published is None:
        raise MCPError(INVALID_PARAMS, str(UnknownName("tool", call.name, state.publication.tools)))
    call.known, call.arguments = True, tuple(params.arguments or ())
    match published:
        case GoalTool():
            async with _Admission(context, begins) as place:
                return await _call_goal(context, published, params, call, place)
        case ChatTool():
            async with _Admission(context, begins) as place:
                return await _call_chatbot(context, published, params, call, place)
        case Companion():
            return await _call_companion(context, published, params, call)
        case FunctionTool():
            async with _Admission(context, begins) as place:
                with context.waiting(f"still at {params.name}"):
                    return await _call_function(context, published, params, call, place)
        case RawTool():
            async with _Admission(context, begins=True):
                with context.until_disconnect():
                    return await published.handler(context.sdk, params)
    call.status = "cancelled"
    return error_result(_GONE)


async def _call_function(
    context: CallContext, tool: FunctionTool, params: CallToolRequestParams, call: Call, place: Place
) -> HandlerResult | WrittenResult:
    state, sdk = context.state, context.sdk
    # The tool's server may ask, and the client can be asked.
    if tool.exported.server and sdk is not None and (is_modern(sdk) or sdk.session.can_send_request):
        result = await call_asking(sdk, tool, params, place)
        if isinstance(result, InputRequiredResult):
            call.status = "waiting"
            return result
    else:
        result = await tool.call(params.arguments or {}, state.call_site, tells_errors=state.settings.show_errors)
    call.status = "failed" if result.is_error else "completed"
    if (fitting := state.answers.fitting(result)) is not None:
        return fitting
    # It is too large for one answer. A result of another server cannot be read from there in pages: it is stored here.
    name, readable = tool.tool.name, isinstance(state.publication.tools.get(RESULT), Companion)
    if result.is_error or not (tool.exported.server and readable):
        return error_result(f"The result of {name} is larger than an answer may be. Ask for less.")
    process = await state.platform.run(KEEPER, KeptResult(document_of(result.wire)), caller=current_caller())
    return state.answers.link(name, process)


def _idempotent(params: CallToolRequestParams) -> IdempotentCall | None:
    key = (params.meta or {}).get(IDEMPOTENCY_KEY)
    return None if key is None else IdempotentCall.of(current_caller(), params.name, key, params.arguments or {})


async def _call_goal(
    context: CallContext, goal: GoalTool, params: CallToolRequestParams, call: Call, place: Place
) -> HandlerResult | WrittenResult:
    state, earlier = context.state, earlier_elicitation(params)
    as_task = gets_task(context.sdk, goal.policy)
    if earlier is None:
        once, objects = _idempotent(params), goal.arguments.start_objects(params.arguments or {})
        process = await start_goal(state.publisher, goal, objects, current_caller(), once=once, stored=as_task)
    else:
        process = await state.known_process(earlier.process_id)
    call.process = process
    observer = Observer(context, process, goal.policy, place)
    answer = await (answer_or_task(observer, earlier) if as_task else answer_when_settled(observer, earlier))
    outcome = process.outcome
    if isinstance(outcome, Stuck | Terminated) or (isinstance(outcome, Failed) and not outcome.caller_mistake):
        _log.warning("%s (process %s) %s: %s", goal.tool.name, process.id, outcome.status, outcome.reason)
    return answer


async def _call_chatbot(
    context: CallContext, chat: ChatTool, params: CallToolRequestParams, call: Call, place: Place
) -> HandlerResult | WrittenResult:
    state, earlier = context.state, earlier_elicitation(params)
    as_task = gets_task(context.sdk, chat.policy)

    async def follow(task_id: str) -> Observer:
        """Observe the turn that an earlier call has begun, or without a message id the turn that runs."""
        process_id, _, message_id = task_id.partition(":")
        call.process = await state.known_process(process_id)
        return Observer(context, call.process, chat.policy, place, message_id=message_id)

    if earlier is None:
        said = chat.read(params.arguments or {})
        async with deduplicated(state.platform.store, _idempotent(params)) as once:
            if once.earlier:
                observer = await follow(once.earlier)
                task = Task(observer.process, observer.message_id)
                if not as_task and (reply := await reply_of_task(state, task)) is not None:
                    return reply
            else:
                observer = await _begin_turn(context, chat, said, call, place)
                once.begun = Task(observer.process, observer.message_id)
    else:
        observer = await follow(earlier.process_id)
    answer = await (answer_or_task(observer, earlier) if as_task else answer_when_settled(observer, earlier))
    if observer.result is not None:
        note_turn(call, observer.result)
    return answer


async def _begin_turn(context: CallContext, chat: ChatTool, said: ChatCall, call: Call, place: Place) -> Observer:
    """Begin a turn, once the earlier turns of the conversation have ended."""
    state = context.state
    unknown = BadInput(
        f"There is no conversation {str(said.conversation_id)[:100]!r} with {chat.chatbot}, or it is not yours. Give"
        " the conversationId of an earlier answer, or none to begin another conversation."
    )
    try:
        chatbot = state.platform.chatbots.named(chat.chatbot)
    except UnknownName as error:  # it was undeployed a moment ago
        raise BadInput(str(error)) from None
    if said.conversation_id:
        session = await chatbot.find_session(said.conversation_id, current_caller())
        if session is None:
            raise unknown
    else:
        session = await chatbot.create_session(current_caller())
    message, begun = UserMessage(said.message), list[Turn]()
    with context.waiting("waits for its turn"):
        try:
            begun.append(await counted_turn(state.publisher.limits, call, partial(session.begin_turn, message)))
        except LimitReached:
            if not said.conversation_id:  # it was created for this call, and nobody knows its id
                await state.platform.conversations.delete(session.conversation.id, call.caller)
            raise
        except UnknownName:  # it was deleted meanwhile
            raise unknown from None
    if not begun:
        raise BadInput(_GONE)
    message_id = next((each.id for each in session.conversation.entries if each.message is message), "")
    return Observer(context, begun[0].process, chat.policy, place, session, begun[0], message_id=message_id)


async def _call_companion(
    context: CallContext, companion: Companion, params: CallToolRequestParams, noted: Call
) -> HandlerResult | WrittenResult:
    """Answer a call of a companion tool. Raises `BadInput` for wrong arguments and an unknown process."""
    (call,) = companion.arguments.read(params.arguments or {})
    assert isinstance(call, StatusCall | AnswerCall | CancelCall | ResultCall)
    state, earlier = context.state, earlier_elicitation(params)
    try:
        process = await state.known_process(call.process_id)
    except BadInput:
        # A process that today's classes cannot read can be ended nevertheless.
        record = await state.platform.store.find(call.process_id) if isinstance(call, CancelCall) else None
        if record is None or record.final or not current_caller().may_follow(record.caller):
            raise
        await state.platform.processes.kill_unreadable(call.process_id, CANCELLED_BY_CALLER)
        state.publisher.audit_trail.ended(current_caller(), call.process_id)
        return _stopped(call.process_id, ProcessStatus.KILLED)
    noted.process = process
    try:
        match call:
            case StatusCall():
                observer = Observer(context, process, CallPolicy.of_process(process), watches=False)
                return await answer_when_settled(observer, earlier, call.wait_seconds)
            case AnswerCall():
                async with _Admission(context, begins=False) as place:
                    if earlier is None:
                        earlier = await _take_answer(state, process, call)
                    observer = Observer(context, process, CallPolicy.of_process(process), place)
                    return await answer_when_settled(observer, earlier)
            case CancelCall():
                return await _cancel(state, process)
            case ResultCall():
                return await _page(state, process, call.page)
            case _:
                assert_never(call)
    except BadInput as refusal:
        noted.status = "refused"
        # The id of the process shows another goalport server that this error comes from a companion tool.
        return error_result(str(refusal), {"goalport/processId": process.id})


async def _cancel(state: McpState, process: AgentProcess) -> WrittenResult:
    if process.status.ended:
        how = "is" if process.status is ProcessStatus.RESTING else "has ended already:"
        raise BadInput(f"Process {process.id} {how} {process.status}. {_next_step(process)}")
    await state.stop(process)
    return _stopped(process.id, process.status)


def _stopped(process_id: str, status: ProcessStatus) -> WrittenResult:
    after = "Its conversation goes on with the next message." if status in _BETWEEN_TURNS else "Nothing goes on."
    text = f"Process {process_id} was stopped. {after}"
    return WrittenResult.of([text_block(text)], {"processId": process_id, "status": str(status), "questions": []})


async def _page(state: McpState, process: AgentProcess, number: int) -> WrittenResult:
    result, most = None, state.settings.max_result_bytes
    session = await session_of_process(state.platform, process, current_caller())
    if session is None:
        result = Pages.of(process, most)
    elif reply := last_reply(session.conversation):
        result = reply_pages(ChatReply.of(session.conversation, reply), most)
    if result is None:
        raise BadInput(f"Process {process.id} has no result to read. {_next_step(process)}")
    if number > (last := len(result.pages)):
        raise BadInput(f"The result of process {process.id} has the pages 1 to {last}; came {number}.")
    more = f"For the next, {page_call(process.id, number + 1)}"
    text = f"Page {number} of {last} of the result of process {process.id} ({result.media})."
    text = f"{text} {'It is the last.' if number == last else more}"
    meta = {"goalport/processId": process.id, "goalport/page": number, "goalport/pages": last}
    return WrittenResult.of([text_block(text), text_block(result.pages[number - 1])], meta=meta)


async def _take_answer(state: McpState, process: AgentProcess, call: AnswerCall) -> ElicitationState | None:
    """Answer a question. Agreeing to open a page that calls back is no answer: the call waits for the callback.

    Raises `BadInput` if no question has this id, or it is settled; without an id, if not exactly one is open.
    """

    def refuse_settled(question: Question) -> NoReturn:
        reason = f"Question {question.id} is {question.status} already: the first answer counts."
        raise BadInput(f"{reason} {_next_step(process)}")

    question, opened = None, process.open_questions
    if call.question_id is None:
        question = next(iter(opened), None)
        if question is None:
            raise BadInput(f"Process {process.id} asks nothing. {_next_step(process)}")
        if len(opened) > 1:
            asked = f"Process {process.id} asks several things. Give the questionId of the one you answer"
            raise BadInput(f"{asked}: {_asked_by(process)}")
    else:
        families = [process]
        for each in families:  # and the processes that each has started
            families += each.children
        question = next((each for one in families for each in one.questions if each.id == call.question_id), None)
        if question is None:
            asked = f"Process {process.id} has asked no question {call.question_id[:100]!r}."
            raise BadInput(f"{asked} {_next_step(process)}")
        if question.status != "open":
            refuse_settled(question)
    form = form_of(question)
    answer = form.sent(call.answer)
    if form.calls_back and answer is True:
        return ElicitationState(process.id, opened={question.id})
    try:
        await answer_question(state.publisher, current_caller(), question, form.read(answer))
    except AlreadyAnswered:
        refuse_settled(question)
    return None


def _asked_by(process: AgentProcess) -> str:
    return "; ".join(f"{each.id}: {each.message}" for each in process.open_questions)


def _next_step(process: AgentProcess) -> str:
    """The state of a process, and which companion tool can be called next."""
    if process.open_questions:
        return f"It waits for an answer, which {ANSWER} gives, to {_asked_by(process)}"
    if process.outcome is None:
        return f"It is running: {STATUS} tells how it goes on, {CANCEL} ends it."
    if process.status is ProcessStatus.RESTING:
        return "It goes on with the next message of its conversation."
    if isinstance(process.outcome, Completed):
        return f"It is done: {STATUS} gives its result."
    return f"It has ended: {STATUS} says why. Nothing more can be answered."
