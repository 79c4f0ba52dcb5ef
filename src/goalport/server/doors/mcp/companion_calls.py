"""Calls of the companion tools: a client follows, answers or ends a process that it started, or reads its result.

A call that answers a question then waits for the process and is answered as a call of the goal's tool is.
`publish.handle` declares the tools; `calls` and `tasks` are above.
"""

from typing import Final, NoReturn, assert_never

import anyio
from mcp.server.context import HandlerResult
from mcp_types import CallToolRequestParams

from goalport.base.errors import AlreadyAnswered, BadInput
from goalport.runtime.platform.runs import end_for_caller
from goalport.runtime.process import AgentProcess, Completed, ProcessStatus, Question
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.admission import Admission
from goalport.server.doors.mcp.elicitation import Round, answer_when_settled, earlier_round
from goalport.server.doors.mcp.progress_notifications import observer_of
from goalport.server.doors.mcp.state import CallContext, McpState
from goalport.server.publish.answers import error_wire, reply_pages
from goalport.server.publish.calls import Call
from goalport.server.publish.forms import form_of
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.handle import (
    ANSWER,
    CANCEL,
    STATUS,
    AnswerCall,
    CancelCall,
    Companion,
    LargeResult,
    ResultCall,
    StatusCall,
)
from goalport.server.publish.output import ChatReply, Pages, Wire, WrittenResult, done, last_reply, text_block
from goalport.server.publish.turn_tasks import session_of_process

_CANCELLED: Final = "Its caller cancelled it."
_BETWEEN_TURNS: Final = {ProcessStatus.RESTING, ProcessStatus.STUCK}
_END_SECONDS: Final = 5.0
"""The most seconds that a cancellation waits for the process to stop before it is answered."""


async def call_companion(
    context: CallContext, companion: Companion, params: CallToolRequestParams, noted: Call
) -> HandlerResult | WrittenResult:
    """Answer a call of a companion tool. Raises `BadInput` for wrong arguments and an unknown process."""
    (call,) = companion.arguments.read(params.arguments or {})
    assert isinstance(call, StatusCall | AnswerCall | CancelCall | ResultCall)
    state, earlier = context.state, earlier_round(params)
    try:
        process = await state.known_process(call.process_id, current_caller())
    except BadInput:
        if isinstance(call, CancelCall) and await state.kill_unreadable(call.process_id, current_caller(), _CANCELLED):
            state.publisher.audit_trail.ended(current_caller(), call.process_id)
            return _stopped(call.process_id, ProcessStatus.KILLED)
        raise
    noted.process = process
    try:
        match call:
            case StatusCall():
                policy = CallPolicy.of_process(process)
                observer = await observer_of(context, process)
                return await answer_when_settled(observer, policy, earlier, call.wait_seconds)
            case AnswerCall():
                async with Admission(context, begins=False) as place:
                    policy = CallPolicy.of_process(process)
                    if earlier is None:
                        earlier = await _answer(context, process, call)
                    run = state.runs.of(process, detached=policy.detached)
                    observer = await observer_of(context, process, run, place)
                    return await answer_when_settled(observer, policy, earlier)
            case CancelCall():
                return await _cancel(state, process)
            case ResultCall():
                return await _page(context.state, process, call.page)
            case _:
                assert_never(call)
    except BadInput as refusal:
        noted.status = "refused"
        # The id of the process shows another goalport server that this error comes from a companion tool.
        return {**error_wire(str(refusal)), "_meta": {"goalport/processId": process.id}}


async def _answer(context: CallContext, process: AgentProcess, call: AnswerCall) -> Round | None:
    """Answer a question. A yes to open a page that calls back is no answer: the call waits for that page."""
    question = _question(process, call.question_id)
    form = form_of(question)
    answer = form.sent(call.answer)
    if form.calls_back and answer is True:
        return Round(process.id, opened=[question.id])
    response = form.read(answer)
    try:
        await context.state.platform.answer(process.id, question.id, response)
    except AlreadyAnswered:
        _refuse_settled(process, question)
    context.state.publisher.audit_trail.answered(current_caller(), question, response)
    return None


async def _cancel(state: McpState, process: AgentProcess) -> Wire:
    if process.status.ended:
        how = "is" if process.status is ProcessStatus.RESTING else "has ended already:"
        raise BadInput(f"Process {process.id} {how} {process.status}. {_next_step(process)}")
    await stop(state, process)
    return _stopped(process.id, process.status)


async def stop(state: McpState, process: AgentProcess) -> None:
    """End a process because its caller wants that, and wait a moment until it has stopped."""
    end_for_caller(state.platform, process, _CANCELLED)
    state.publisher.audit_trail.ended(current_caller(), process.id)
    with anyio.move_on_after(_END_SECONDS):
        await process.rest()


def _stopped(process_id: str, status: ProcessStatus) -> Wire:
    after = "Its conversation goes on with the next message." if status in _BETWEEN_TURNS else "Nothing goes on."
    text = f"Process {process_id} was stopped. {after}"
    return done([text_block(text)], {"processId": process_id, "status": str(status), "questions": []})


async def _page(state: McpState, process: AgentProcess, number: int) -> Wire:
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
    more = f"For the next, {LargeResult(process.id, '', last).page_call(number + 1)}"
    text = f"Page {number} of {last} of the result of process {process.id} ({result.media})."
    text = f"{text} {'It is the last.' if number == last else more}"
    wire = done([text_block(text), text_block(result.pages[number - 1])])
    wire["_meta"] = {"goalport/processId": process.id, "goalport/page": number, "goalport/pages": last}
    return wire


def _question(process: AgentProcess, question_id: str | None) -> Question:
    """The open question of this id. Raises `BadInput` for none, and for several without an id."""
    if question_id is None:
        if len(process.open_questions) == 1:
            return process.open_questions[0]
        if process.open_questions:
            named = "; ".join(f"{each.id}: {each.message}" for each in process.open_questions)
            raise BadInput(
                f"Process {process.id} asks several things. Give the questionId of the one you answer: {named}"
            )
        raise BadInput(f"Process {process.id} asks nothing. {_next_step(process)}")
    question = next((each for each in _questions(process) if each.id == question_id), None)
    if question is None:
        raise BadInput(f"Process {process.id} has asked no question {question_id[:100]!r}. {_next_step(process)}")
    if question.status != "open":
        _refuse_settled(process, question)
    return question


def _refuse_settled(process: AgentProcess, question: Question) -> NoReturn:
    raise BadInput(
        f"Question {question.id} is {question.status} already: the first answer counts. {_next_step(process)}"
    )


def _next_step(process: AgentProcess) -> str:
    """The state of a process, and which companion tool can be called next."""
    if process.open_questions:
        asked = "; ".join(f"{each.id}: {each.message}" for each in process.open_questions)
        return f"It waits for an answer, which {ANSWER} gives, to {asked}"
    if process.outcome is None:
        return f"It is running: {STATUS} tells how it goes on, {CANCEL} ends it."
    if process.status is ProcessStatus.RESTING:
        return "It goes on with the next message of its conversation."
    if isinstance(process.outcome, Completed):
        return f"It is done: {STATUS} gives its result."
    return f"It has ended: {STATUS} says why. Nothing more can be answered."


def _questions(process: AgentProcess) -> list[Question]:
    """All questions of a process and of those that it started."""
    return [*process.questions, *(each for child in process.children for each in _questions(child))]
