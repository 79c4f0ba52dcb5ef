"""The Tasks extension (`io.modelcontextprotocol/tasks`) of revision 2026-07-28: processes that clients follow as tasks.

A client that declares it gets a task when it calls a goal that takes long or may ask, and polls the task. The task has
the id of its process, so any server of the same store can answer. A call of a chatbot gets a task for its turn.
The questions of a task are asked through the client by the rules of `elicitation`. If the client cannot be asked, the
task is completed with the handle, so that nobody polls for ever.
`calls` and `server` are above.
"""

import json
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import mcp_types as types
from mcp.server.context import HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from pydantic import Field, ValidationError

from goalport.base.errors import BadInput, HandedOver, StoreError, Unreadable, Unstorable
from goalport.base.handshake import TASKS
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, first_line
from goalport.runtime.process import AgentProcess, Killed, Stuck, Waiting
from goalport.server.doors.mcp.elicitation import MOST_ASKED, Elicitation, ElicitationState, answer_when_settled
from goalport.server.doors.mcp.notifications import is_modern
from goalport.server.doors.mcp.requests import Observer, reply_of_task
from goalport.server.doors.mcp.state import Context, HandlerFailed, McpState
from goalport.server.publish.calls import unavailable_words
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.output import Wire, WrittenResult
from goalport.server.publish.publisher import Task
from goalport.store import Sealed
from goalport.tools.upstream.active_calls import PREFERS_HANDLE

POLL_MS: Final = 1_000
"""The suggested milliseconds between two polls of a client."""
ENDED: Final = frozenset({"completed", "failed", "cancelled"})
"""The final statuses of tasks."""
_DAY: Final = 24 * 3_600
_KEPT: Final = "goalport/task/"
"""The prefix of the store's key for the answers that did not settle a question."""
_NO_ANSWER: Final = "What came was not an answer: expected an action (accept, decline or cancel) and its content."


class _TaskParams(types.RequestParams):
    task_id: str


class _TaskUpdateParams(_TaskParams):
    input_responses: dict[str, Any] = Field(default_factory=dict[str, Any])


def add_tasks(server: Server[McpState]) -> None:
    """Let a server answer requests about tasks, and declare that it does."""
    server.add_request_handler("tasks/get", _TaskParams, _get)
    server.add_request_handler("tasks/update", _TaskUpdateParams, _update)
    server.add_request_handler("tasks/cancel", _TaskParams, _cancel)
    server.extensions[TASKS] = {}


def _declared(context: Context) -> bool:
    capabilities = context.session.client_capabilities
    return is_modern(context) and capabilities is not None and TASKS in (capabilities.extensions or {})


def refuse_without_tasks(context: Context) -> None:
    """Raise `MCPError` with code -32021 for a client that does not declare tasks."""
    if not _declared(context):
        needed: Wire = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        reason = f"This needs a client that declares the extension {TASKS}."
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, reason, needed)


def gets_task(context: Context | None, policy: CallPolicy) -> bool:
    """Whether a call of a goal is answered with a task.

    Raises `MCPError` with code -32021 if the goal requires tasks and the client does not declare them.
    """
    if context is None:
        return False
    if policy.task_required:
        refuse_without_tasks(context)
    return _declared(context) and policy.may_give_handle and not (context.meta or {}).get(PREFERS_HANDLE)


async def answer_or_task(observer: Observer, earlier: ElicitationState | None) -> HandlerResult | WrittenResult:
    """The answer to a call of a client with tasks: usually the task of the process that the call started.

    If the goal has a `wait_budget`, the call first waits that long for the result or for questions. Questions end the
    call as without tasks; the client repeats the call with the answers, and gets the task.
    """
    context, process, policy = observer.context.sdk, observer.process, observer.policy
    assert context is not None
    if earlier is not None:
        await Elicitation(context, process, policy, earlier).take(earlier.responses)
        kept = await _stored_elicitation(context.lifespan_context, process)
        await _keep(context.lifespan_context, process, earlier, kept.asked, earlier.responses)
    elif policy.wait_budget is not None:
        answer = await answer_when_settled(observer)
        if process.status.ended or isinstance(answer, types.InputRequiredResult):
            return answer
    task = Task(process, observer.message_id)
    return {"resultType": "task", "status": "working", **_described(context.lifespan_context, task)}


async def _get(context: Context, params: _TaskParams) -> HandlerResult:
    """Answer `tasks/get`: the status of a task, with its questions, its result or its error."""
    task = await _task(context, params.task_id, "tasks/get")
    return {"resultType": "complete", **await state_of(context, task)}


async def _update(context: Context, params: _TaskUpdateParams) -> HandlerResult:
    """Answer `tasks/update`: accept the answers to questions of a task; answers to other questions are ignored."""
    task, state = await _task(context, params.task_id, "tasks/update"), context.lifespan_context
    process = task.process

    async def take() -> None:
        now = await _stored_elicitation(state, process)
        before, now.problems = Counter(now.asked), {}
        responses: dict[str, types.ElicitResult | None] = {}
        for each, count in before.items():
            if (key := _key(each, count)) in params.input_responses:
                try:
                    responses[each] = types.ElicitResult.model_validate(params.input_responses[key])
                except ValidationError:
                    responses[each] = None
        now.asked.update(responses.keys())
        elicitation = Elicitation(context, process, CallPolicy.of_process(process), now)
        await elicitation.take({each: answer for each, answer in responses.items() if answer is not None})
        now.problems.update((each, _NO_ANSWER) for each, answer in responses.items() if answer is None)
        await _keep(state, process, now, before, responses)

    with _store_errors():
        await state.answer_of(f"task {task.id}", take())
    return {"resultType": "complete"}


async def _cancel(context: Context, params: _TaskParams) -> HandlerResult:
    """Answer `tasks/cancel`: end the process of a task; a task that has ended stays as it is."""
    task, state = await _task(context, params.task_id, "tasks/cancel"), context.lifespan_context
    if not (task.process.status.ended or (task.message_id and await reply_of_task(state, task) is not None)):
        await state.stop(task.process)
    return {"resultType": "complete"}


async def state_of(context: Context, task: Task) -> Wire:
    """A task as its client sees it: its status, and the questions, the result or the error. Raises `MCPError`."""
    state = context.lifespan_context
    try:
        with _store_errors():
            status = await state.answer_of(f"task {task.id}", _status(context, task))
    except HandlerFailed as failure:  # such as a result that this server cannot serialize
        message = failure.error.message
        error = {"code": failure.error.code, "message": message}
        status = {"status": "failed", "statusMessage": message, "error": error}
    return {**_described(state, task), **status}


async def task_of(context: Context, task_id: str) -> Task | None:
    """The task of an id; None if there is none, or if it is another caller's. Raises `MCPError`."""
    process_id, _, message_id = task_id.partition(":")
    try:
        process = await context.lifespan_context.process(process_id)
    except BadInput as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error
    return None if process is None or process.options.turns != bool(message_id) else Task(process, message_id)


async def _task(context: Context, task_id: str, method: str) -> Task:
    """The task that a request names. Raises `MCPError`."""
    if not is_modern(context):
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
    refuse_without_tasks(context)
    said = None if context.request is None else context.request.headers.get(MCP_NAME_HEADER)
    if said is not None and decode_header_value(said) != task_id:
        raise MCPError(types.HEADER_MISMATCH, f"The header {MCP_NAME_HEADER} is not the taskId of the request.")
    task = await task_of(context, task_id)
    if task is None:
        raise MCPError(types.INVALID_PARAMS, f"There is no task {task_id[:100]!r}, or it is not yours.")
    return task


async def _status(context: Context, task: Task) -> Wire:
    state, process = context.lifespan_context, task.process
    if task.message_id and (reply := await reply_of_task(state, task)) is not None:
        return {"status": "completed", "result": reply.wire}
    # A turn whose process is stuck, and that has no reply yet, is about to end.
    ends = task.message_id and isinstance(process.outcome, Stuck)
    outcome = None if process.withheld or ends else process.outcome
    if isinstance(outcome, Killed):
        return {"status": "cancelled", "statusMessage": _words(outcome.reason)}
    if outcome is None or isinstance(outcome, Waiting):
        last = await _stored_elicitation(state, process)
        elicitation = Elicitation(context, process, CallPolicy.of_process(process), last)
        requests = elicitation.requests
        known: Wire = {
            _key(each, last.asked[each]): request.model_dump(by_alias=True, mode="json", exclude_none=True)
            for each, request in requests.items()
            if each in last.asked
        }
        if known:
            asked = "; ".join(first_line(each.message) for each in process.open_questions if each.id in requests)
            return {"status": "input_required", "statusMessage": _words(asked), "inputRequests": known}
        # Right after an answer the process still counts as waiting, without open questions; or it has just asked again.
        if outcome is None or requests or elicitation.page or not process.open_questions:
            done = len(process.history)
            return {"status": "working", "statusMessage": f"{done} of {done + len(process.plan)} actions are done"}
    return {"status": "completed", "result": state.answers.of(CallPolicy.of_process(process), process, outcome).wire}


# The store has, for all its servers, how often the answers to an open question of a task were refused, and the mistakes
# in the last one. Mistakes quote what a person typed: they are encrypted, and without a key they are not stored.


async def _stored_elicitation(state: McpState, process: AgentProcess) -> ElicitationState:
    """What was asked so far about the open questions of a process, as an `ElicitationState` from the store."""
    kept, codec = ElicitationState(process.id), state.platform.processes.codec(process.id)
    for question in process.open_questions:
        sealed, count = await state.platform.store.join(f"{_KEPT}{question.id}", "", "0")
        kept.asked[question.id] = int(count)
        try:
            match codec.decode(json.loads(sealed or "null")):
                case [str() as problems, bool() as opened]:
                    kept.problems[question.id] = problems
                    kept.opened |= {question.id} if opened else set()
                case _:
                    pass
        except (Unreadable, ValueError):
            continue
    return kept


async def _keep(
    state: McpState, process: AgentProcess, now: ElicitationState, before: Mapping[str, int], answered: Iterable[str]
) -> None:
    """Store the effects of answers that left their questions open, unless another server has stored some meanwhile."""
    for question in before.keys() & answered:
        times, problems = now.asked[question], _words(now.problems.get(question, ""))
        opened = question in now.opened
        if problems or opened or times == MOST_ASKED:
            try:
                kept = json.dumps(state.platform.processes.codec(process.id).encode(Sealed([problems, opened])))
            except Unstorable:
                kept = json.dumps(["", opened])
            before_it = str(before[question])
            await state.platform.store.join(f"{_KEPT}{question}", kept, str(times), instead_of=before_it)


def _key(question: str, count: int) -> str:
    """The key of a question for clients: they answer each key once, so a repeated question gets a new one."""
    return f"{question}.{count}" if count else question


@contextmanager
def _store_errors() -> Generator[None]:
    """Raise `MCPError` if the store does not answer; the client may poll again."""
    try:
        yield
    except (StoreError, HandedOver) as error:
        raise MCPError(types.INTERNAL_ERROR, _words(unavailable_words(error))) from error


def _described(state: McpState, task: Task) -> Wire:
    """The id, times and poll interval of a task; `ttlMs`, for how long it is stored, is set once it has ended."""
    process, settings = task.process, state.settings
    last = (each.started_at + timedelta(seconds=each.seconds) for each in process.history[-1:])
    asked = (each.asked_at for each in process.open_questions)
    updated = max(process.finished_at or process.created_at, process.created_at, *last, *asked)
    kept, ttl = settings.retention_days * _DAY if state.platform.store.durable else settings.result_seconds, None
    if process.status.ended and process.finished_at and kept:
        ttl = int((process.finished_at - process.created_at + timedelta(seconds=kept)).total_seconds() * 1_000)
    return {
        "taskId": task.id,
        "createdAt": process.created_at.isoformat(),
        "lastUpdatedAt": updated.isoformat(),
        "ttlMs": ttl,
        "pollIntervalMs": POLL_MS,
    }


def _words(text: str) -> str:
    return cleaned(hide_known(text))
