"""`tools/call`: from a name and arguments to an answer.

Failures become answers here: the caller's mistakes and the goal's failures are error results for the model; a bug is
an error result with one sentence, and its traceback goes to the log.
"""

import logging

from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, InputRequiredResult

from goalport.base.errors import BadInput, HandedOver, StoreError, UnknownName
from goalport.base.words import first_line
from goalport.runtime.platform.runs import IDEMPOTENCY_KEY, IdempotentCall
from goalport.runtime.platform.tool_agents import KEEPER, KeptResult
from goalport.runtime.process import DirectCalls, Failed, Stuck, Terminated
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.admission import GONE, Admission, limit_wire
from goalport.server.doors.mcp.cancellations import ended_by
from goalport.server.doors.mcp.chat_calls import call_chatbot
from goalport.server.doors.mcp.companion_calls import call_companion
from goalport.server.doors.mcp.elicitation import answer_when_settled, asks_client, call_asking, earlier_round
from goalport.server.doors.mcp.progress_notifications import Observer, heartbeat
from goalport.server.doors.mcp.scope_check import refuse_call
from goalport.server.doors.mcp.state import CallContext, HandlerFailed, McpState
from goalport.server.doors.mcp.tasks import answer_or_task, gets_task
from goalport.server.publish.answers import error_result, error_wire
from goalport.server.publish.calls import Call
from goalport.server.publish.exported_tools import FunctionTool, RawTool
from goalport.server.publish.faults import unavailable_words
from goalport.server.publish.goal_tools import ChatTool, GoalTool
from goalport.server.publish.handle import RESULT, Companion
from goalport.server.publish.limits import LimitReached, Place
from goalport.server.publish.output import Wire, WrittenResult, document_of
from goalport.server.publish.publication import PublishedTool
from goalport.server.publish.publisher import start_goal

_log = logging.getLogger(__name__)
_LONGEST_NAME = 100


async def call_tool(context: CallContext, params: CallToolRequestParams) -> HandlerResult | WrittenResult:
    """Answer one call. Raises `MCPError` with code -32602 for an unknown tool."""
    state = context.state
    publication = state.publisher.publication
    name = params.name[:_LONGEST_NAME]
    with state.publisher.calls.of("mcp", name, current_caller()) as call:
        try:
            await refuse_call(state, params)
            published = publication.tools.get(params.name) or publication.of_groups.absent.get(params.name)
            if published is None:
                raise MCPError(INVALID_PARAMS, str(UnknownName("tool", name, state.publication.tools)))
            call.known, call.arguments = True, tuple(params.arguments or ())
            return await state.answer_of(params.name, _answer(context, published, params, call))
        except (StoreError, HandedOver) as error:
            call.status = "unavailable"
            return error_wire(unavailable_words(error))
        except BadInput as error:
            call.status = "refused"
            _log.debug("%s was refused: %s", params.name, first_line(str(error).replace("\n", " ")))
            return error_wire(str(error))
        except LimitReached as error:
            call.status = "refused"
            return limit_wire(error)
        except HandlerFailed as failure:
            call.status = "error"
            return error_wire(failure.message)


async def _answer(
    context: CallContext, published: PublishedTool, params: CallToolRequestParams, call: Call
) -> HandlerResult | WrittenResult:
    match published:
        case GoalTool():
            async with Admission(context, begins=params.request_state is None) as place:
                return await _call_goal(context, published, params, call, place)
        case ChatTool():
            async with Admission(context, begins=params.request_state is None) as place:
                return await call_chatbot(context, published, params, call, place)
        case Companion():
            return await call_companion(context, published, params, call)
        case FunctionTool():
            state = context.state
            site = DirectCalls(current_caller(), state.platform.processes.listeners)
            async with Admission(context, begins=params.request_state is None) as place:
                with heartbeat(context, place, params.name), ended_by(context.disconnect):
                    if asks_client(context, published):
                        wire = await call_asking(context, published, params, place)
                        if isinstance(wire, InputRequiredResult):
                            call.status = "waiting"
                            return wire
                    else:
                        arguments = params.arguments or {}
                        wire = await published.call(arguments, site, tells_errors=state.settings.show_errors)
                    call.status = "failed" if wire.get("isError") else "completed"
                    return state.answers.fitting(params.name, wire) or await _kept(state, published, wire)
        case RawTool():
            async with Admission(context, begins=True):
                with ended_by(context.disconnect):
                    return await published.handler(context.sdk, params)
    call.status = "cancelled"
    return error_wire(GONE)


async def _kept(state: McpState, tool: FunctionTool, wire: Wire) -> WrittenResult:
    """A link to a result that is too large for one answer, if the tool is another server's; otherwise an error."""
    name = tool.tool.name
    readable = isinstance(state.publication.tools.get(RESULT), Companion)
    if wire["isError"] or not (tool.exported.server and readable):
        return error_result(f"The result of {name} is larger than an answer may be. Ask for less.")
    kept = KeptResult(document_of(wire))
    process = await state.platform.run(KEEPER, kept, caller=current_caller())
    return state.answers.link(name, process)


async def _call_goal(
    context: CallContext, goal: GoalTool, params: CallToolRequestParams, call: Call, place: Place
) -> HandlerResult | WrittenResult:
    state = context.state
    earlier, as_task = earlier_round(params), context.sdk is not None and gets_task(context.sdk, goal.policy)
    if earlier is None:
        arguments, caller = params.arguments or {}, current_caller()
        key = (params.meta or {}).get(IDEMPOTENCY_KEY)
        once = None if key is None else IdempotentCall.of(caller, goal.tool.name, key, arguments)
        objects = goal.arguments.begin(arguments)
        process = await start_goal(state.publisher, goal, objects, caller, once=once, stored=as_task)
    else:
        process = await state.known_process(earlier.process_id, current_caller())
    call.process = process
    run = state.runs.of(process, detached=goal.policy.detached)
    answering = answer_or_task if as_task else answer_when_settled
    answer = await answering(Observer(context, process, run, place), goal.policy, earlier)
    outcome = process.outcome
    if isinstance(outcome, Stuck | Terminated) or (isinstance(outcome, Failed) and not outcome.caller_mistake):
        _log.warning("%s (process %s) %s: %s", goal.tool.name, process.id, outcome.status, outcome.reason)
    return answer
