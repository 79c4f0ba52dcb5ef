"""The Tasks extension (`io.modelcontextprotocol/tasks`) of revision 2026-07-28: processes that clients follow as tasks.

A client that declares it gets a task from a goal that is long or may ask, and polls it; a task is a process, under the
process's id, so any server of the same store answers for it. From a chatbot it gets one for each turn.
Its questions are asked through the client by the rules of `elicitation`. If the client cannot be asked, the task is
completed with the handle, so that nobody polls for ever.
`calls` and `server` are above.
"""

import json
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from mcp.server.context import HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ClientCapabilities,
    ElicitRequest,
    ElicitResult,
    InputRequiredResult,
    RequestParams,
)
from pydantic import Field, ValidationError

from goalport.base.errors import BadInput, HandedOver, StoreError, Unreadable, Unstorable
from goalport.base.handshake import TASKS
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, first_line
from goalport.runtime.process import AgentProcess, Killed, Outcome, Stuck, Waiting
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.companion_calls import stop
from goalport.server.doors.mcp.elicitation import MOST_ASKED, Elicitation, Round, answer_when_settled
from goalport.server.doors.mcp.progress_notifications import Observer, reply_of_task
from goalport.server.doors.mcp.sessions import is_modern
from goalport.server.doors.mcp.state import Context, HandlerFailed, McpState
from goalport.server.publish.faults import unavailable_words
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.output import Wire, WrittenResult
from goalport.server.publish.turn_tasks import Task
from goalport.store import Codec, Sealed
from goalport.tools.upstream.active_calls import PREFERS_HANDLE

POLL_MS: Final = 1_000
"""The milliseconds that clients are asked to let pass between two polls."""
ENDED: Final = frozenset({"completed", "failed", "cancelled"})
"""The statuses of tasks that change no more."""
_DAY: Final = 24 * 3_600
_NOTHING: Final = ClientCapabilities()
_NO_PROBLEMS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_ANSWER: Final = "What came was not an answer: expected an action (accept, decline or cancel) and its content."


class _TaskParams(RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class _TaskUpdateParams(_TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any] = Field(default_factory=dict[str, Any])


def add_tasks(server: Server[McpState]) -> None:
    """Let a server answer requests about tasks, and declare that it does."""
    server.add_request_handler("tasks/get", _TaskParams, _get)
    server.add_request_handler("tasks/update", _TaskUpdateParams, _update)
    server.add_request_handler("tasks/cancel", _TaskParams, _cancel)
    server.extensions[TASKS] = {}


def gets_task(context: Context, policy: CallPolicy) -> bool:
    """Whether a call of a goal is answered with a task.

    Raises `MCPError` with code -32021 where the goal is for clients with tasks alone and this one has none.
    """
    if policy.task_required:
        refuse_without_tasks(context)
    return _declared(context) and policy.may_give_handle and not (context.meta or {}).get(PREFERS_HANDLE)


async def answer_or_task(
    observer: Observer, policy: CallPolicy, earlier: Round | None
) -> HandlerResult | WrittenResult:
    """The task of a process that a call started.

    If its goal says a `wait_budget`, the call first waits so long for the result or for questions. The questions end it
    as they end a call without a task; the repeated call, with the answers, is answered with the task.
    """
    context, process = observer.context.sdk, observer.process
    assert context is not None
    if earlier is not None:
        elicitation = Elicitation(context, process, policy, earlier)
        await elicitation.take(earlier.responses)
        await (await _Refusals.of(context.lifespan_context, process)).note(elicitation, earlier.responses)
    elif policy.wait_budget is not None:
        answer = await answer_when_settled(observer, policy)
        if process.status.ended or isinstance(answer, InputRequiredResult):
            return answer
    task = Task(process, observer.message_id)
    return {"resultType": "task", "status": "working", **_times(context.lifespan_context, task)}


async def _get(context: Context, params: _TaskParams) -> HandlerResult:
    """Answer `tasks/get`: the status of a task, with its questions, its result or its error."""
    task = await _task(context, params.task_id, "tasks/get")
    return {"resultType": "complete", **await state_of(context, task)}


async def _update(context: Context, params: _TaskUpdateParams) -> HandlerResult:
    """Answer `tasks/update`: take the answers to questions of a task; answers to others are left out."""
    task = await _task(context, params.task_id, "tasks/update")
    with _store_errors():
        taking = _take(context, task.process, params.input_responses)
        await context.lifespan_context.answer_of(f"task {task.id}", taking)
    return {"resultType": "complete"}


async def _cancel(context: Context, params: _TaskParams) -> HandlerResult:
    """Answer `tasks/cancel`: end what a task does; one that has ended stays as it is."""
    task = await _task(context, params.task_id, "tasks/cancel")
    if not task.process.status.ended and await _reply(context, task) is None:
        await stop(context.lifespan_context, task.process)
    return {"resultType": "complete"}


async def state_of(context: Context, task: Task) -> Wire:
    """What a client is told of a task: its status, and the questions, the result or the error. Raises `MCPError`."""
    state = context.lifespan_context
    with _store_errors():
        status = await state.answer_of(f"task {task.id}", _status(context, task))
    return {**_times(state, task), **status}


async def task_of(context: Context, task_id: str) -> Task | None:
    """The task of an id; None if there is none, or if it is another caller's. Raises `MCPError`."""
    process_id, _, message_id = task_id.partition(":")
    try:
        process = await context.lifespan_context.process(process_id, current_caller())
    except BadInput as error:
        raise MCPError(INTERNAL_ERROR, str(error)) from error
    return None if process is None or process.options.turns != bool(message_id) else Task(process, message_id)


def refuse_without_tasks(context: Context) -> None:
    """Raise `MCPError` with code -32021 for a client that does not declare tasks."""
    if not _declared(context):
        needed: Wire = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        reason = f"This needs a client that declares the extension {TASKS}."
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, reason, needed)


async def _task(context: Context, task_id: str, method: str) -> Task:
    """The task that a request names. Raises `MCPError`."""
    if not is_modern(context):
        raise MCPError(METHOD_NOT_FOUND, "Method not found", method)
    refuse_without_tasks(context)
    said = None if context.request is None else context.request.headers.get(MCP_NAME_HEADER)
    if said is not None and decode_header_value(said) != task_id:
        raise MCPError(HEADER_MISMATCH, f"The header {MCP_NAME_HEADER} is not the taskId of the request.")
    task = await task_of(context, task_id)
    if task is None:
        raise MCPError(INVALID_PARAMS, f"There is no task {task_id[:100]!r}, or it is not yours.")
    return task


async def _take(context: Context, process: AgentProcess, given: Mapping[str, object]) -> None:
    refusals = await _Refusals.of(context.lifespan_context, process)
    responses = refusals.by_question(given)
    asked = Counter(refusals.counts) + Counter(responses.keys())
    elicitation = Elicitation(context, process, CallPolicy.of_process(process), refusals.round(asked))
    await elicitation.take({each: answer for each, answer in responses.items() if answer is not None})
    elicitation.problems.update((each, _NO_ANSWER) for each, answer in responses.items() if answer is None)
    await refusals.note(elicitation, responses)


async def _reply(context: Context, task: Task) -> WrittenResult | None:
    return await reply_of_task(context.lifespan_context, task) if task.message_id else None


async def _status(context: Context, task: Task) -> Wire:
    state, process = context.lifespan_context, task.process
    if (reply := await _reply(context, task)) is not None:
        return {"status": "completed", "result": reply.wire}
    # A turn whose process is stuck, and that has no reply yet, is about to end.
    ends = task.message_id and isinstance(process.outcome, Stuck)
    outcome = None if process.withheld or ends else process.outcome
    if isinstance(outcome, Killed):
        return {"status": "cancelled", "statusMessage": _words(outcome.reason)}
    if outcome is None or isinstance(outcome, Waiting):
        refusals = await _Refusals.of(state, process)
        last = refusals.round(refusals.counts, refusals.problems)
        elicitation = Elicitation(context, process, CallPolicy.of_process(process), last)
        requests = elicitation.requests
        if known := refusals.by_key(requests):
            asked = "; ".join(first_line(each.message) for each in process.open_questions if each.id in requests)
            return {"status": "input_required", "statusMessage": _words(asked), "inputRequests": known}
        # Between an answer and what follows from it a process still waits, but for nothing; or it has just asked again.
        if outcome is None or requests or elicitation.page or not process.open_questions:
            done = len(process.history)
            return {"status": "working", "statusMessage": f"{done} of {done + len(process.plan)} actions are done"}
    return await _ended(state, process, outcome)


async def _ended(state: McpState, process: AgentProcess, outcome: Outcome) -> Wire:
    """The end of a task: what a call would have answered, or the error of a server that cannot write the answer."""

    async def answer() -> Wire:
        return state.answers.of(CallPolicy.of_process(process), process, outcome).wire

    try:
        return {"status": "completed", "result": await state.answer_of(f"task {process.id}", answer())}
    except HandlerFailed as failure:
        error = failure.error
        told = {"code": error.code, "message": error.message}
        return {"status": "failed", "statusMessage": error.message, "error": told}


@dataclass(frozen=True, slots=True)
class _Refusals:
    """How often answers to the open questions of a task were refused, and the mistakes in the last ones.

    They are kept in the store, for all its servers; encrypted, as mistakes quote what a person typed. A client answers
    a key once, so a question that is asked again has another one.
    """

    state: McpState
    process_id: str
    counts: Mapping[str, int]
    problems: Mapping[str, str]
    opened: Collection[str]
    """The questions whose address the person has agreed to open."""

    @classmethod
    async def of(cls, state: McpState, process: AgentProcess) -> "_Refusals":
        """What is kept of the questions that are open."""
        counts: dict[str, int] = {}
        problems: dict[str, str] = {}
        opened: set[str] = set()
        codec = state.platform.processes.codec(process.id)
        for question in process.open_questions:
            kept, count = await state.platform.store.join(_kept_as(question.id), "", "0")
            counts[question.id] = int(count)
            problems[question.id], is_open = _unsealed(codec, kept) if kept else ("", False)
            opened |= {question.id} if is_open else set()
        return cls(state, process.id, counts, problems, opened)

    def round(self, asked: Mapping[str, int], problems: Mapping[str, str] = _NO_PROBLEMS) -> Round:
        """What was asked so far, as a call without tasks would have it."""
        return Round(self.process_id, 0, asked, opened=self.opened, problems=problems)

    async def note(self, elicitation: Elicitation, answered: Iterable[str]) -> None:
        """Keep what became of answers that left their questions open, unless something was kept meanwhile."""
        for question in self.counts.keys() & answered:
            times, problems = elicitation.asked[question], elicitation.problems.get(question, "")
            opened = question in elicitation.opened
            if problems or opened or times == MOST_ASKED:
                kept = _sealed(self.state.platform.processes.codec(self.process_id), _words(problems), opened)
                before = str(self.counts[question])
                await self.state.platform.store.join(_kept_as(question), kept, str(times), instead_of=before)

    def by_key(self, requests: Mapping[str, ElicitRequest]) -> Wire:
        """The request of each question that was open when this was read, under its key."""
        return {
            self._key(each): request.model_dump(by_alias=True, mode="json", exclude_none=True)
            for each, request in requests.items()
            if each in self.counts
        }

    def by_question(self, responses: Mapping[str, object]) -> dict[str, ElicitResult | None]:
        """The responses by the ids of the questions that they answer; None for what is none."""
        return {each: _read(responses[key]) for each in self.counts if (key := self._key(each)) in responses}

    def _key(self, question: str) -> str:
        count = self.counts[question]
        return f"{question}.{count}" if count else question


def _read(response: object) -> ElicitResult | None:
    try:
        return ElicitResult.model_validate(response)
    except ValidationError:
        return None


def _sealed(codec: Codec, problems: str, opened: bool) -> str:  # noqa: FBT001 - a pair
    """What is kept of a question, encrypted; without a key not the problems, since they may quote a secret."""
    try:
        return json.dumps(codec.encode(Sealed([problems, opened])))
    except Unstorable:
        return json.dumps(["", opened])


def _unsealed(codec: Codec, kept: str) -> tuple[str, bool]:
    try:
        match codec.decode(json.loads(kept)):
            case [str() as problems, bool() as opened]:
                return problems, opened
            case _:
                return "", False
    except (Unreadable, ValueError):
        return "", False


def _kept_as(question: str) -> str:
    return f"goalport/task/{question}"


def _declared(context: Context) -> bool:
    return is_modern(context) and TASKS in ((context.session.client_capabilities or _NOTHING).extensions or {})


@contextmanager
def _store_errors() -> Generator[None]:
    """Tell the client of a store that does not answer; it may poll again."""
    try:
        yield
    except (StoreError, HandedOver) as error:
        raise MCPError(INTERNAL_ERROR, _words(unavailable_words(error))) from error


def _times(state: McpState, task: Task) -> Wire:
    """What a client is told of a task besides its status."""
    process = task.process
    last = (each.started_at + timedelta(seconds=each.seconds) for each in process.history[-1:])
    asked = (each.asked_at for each in process.open_questions)
    updated = max(process.finished_at or process.created_at, process.created_at, *last, *asked)
    return {
        "taskId": task.id,
        "createdAt": process.created_at.isoformat(),
        "lastUpdatedAt": updated.isoformat(),
        "ttlMs": _kept_ms(state, process),
        "pollIntervalMs": POLL_MS,
    }


def _kept_ms(state: McpState, process: AgentProcess) -> int | None:
    """The milliseconds from its beginning for which a task is kept; None while it goes on, or if kept for ever."""
    settings = state.settings
    kept = settings.retention_days * _DAY if state.platform.store.durable else settings.result_seconds
    if not (process.status.ended and process.finished_at and kept):
        return None
    return int((process.finished_at - process.created_at + timedelta(seconds=kept)).total_seconds() * 1_000)


def _words(text: str) -> str:
    return cleaned(hide_known(text))
