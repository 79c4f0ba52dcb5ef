"""Elicitation: the questions of a process, asked through the client whose call waits for it.

Before revision 2026-07-28 a question is a request to the client in the middle of its call. Since then the call ends
with the questions and a state, and the client repeats the call with the answers; the server encrypts that state and
binds it to the caller, the tool and the arguments (`server`). A client that cannot be asked gets the handle, and so
does one that fails to answer in the time that its call may take. `publish.forms` says what of a form clients can show.
A call of an upstream tool, made by the client itself, has no process that could wait: it runs in a task of this program
alone, which goes on while the client is asked what the tool's server asks, and ends if the client does not come back.
`calls`, `companion_calls` and `tasks` are above.
"""

import asyncio
import json
import logging
import math
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, cast

import anyio
from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
)
from pydantic import ValidationError

from goalport.base.errors import AlreadyAnswered, BadInput, HandedOver, StoreError, ToolError, UnknownName
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, first_line
from goalport.runtime.process import AgentProcess, DirectCalls, Question, Waiting
from goalport.runtime.process.attempt import wait_for_server
from goalport.runtime.process.journal import OpenCall
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.cancellations import disconnect_of
from goalport.server.doors.mcp.progress_notifications import Observer
from goalport.server.doors.mcp.sessions import ask_client, is_modern, progress_wanted
from goalport.server.doors.mcp.state import CallContext, Context, McpState
from goalport.server.publish.exported_tools import FunctionTool
from goalport.server.publish.forms import Form, form_of
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.limits import Place
from goalport.server.publish.output import Wire, WrittenResult
from goalport.tools import ToolResult
from goalport.tools.schemas import UNREADABLE
from goalport.tools.upstream.active_calls import PREFERS_HANDLE, Asked, call_hooks, current_hooks

MOST_ASKED: Final = 3
"""How often one call, or one task, asks a question whose answers are not valid."""
_MOST_ROUNDS: Final = 10
"""How often one call ends with questions. Clients repeat a call no more often than that."""
_OPENED: Final = "Send this once it is done there."
_DECLINED: Final = "The person who was asked declined."
_REQUEST: Final = "goalport-question"
"""Begins the ids of requests that ask questions. They name process and question, so that any server of the store can
take the answer, and none takes it for that to another question."""
_SEPARATOR: Final = ":"
_ADDRESSES: Final = "2025-11-25"
"""The first revision with the mode `url`; a client may declare it also in a session of an older one."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Round:
    """What a call and its repetitions have asked so far: the state that the client holds meanwhile."""

    process_id: str
    number: int = 0
    """How many calls have ended with questions."""
    asked: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often each question was asked, by its id."""
    responses: InputResponses = field(default_factory=InputResponses)
    """What the client answers."""
    opened: Collection[str] = ()
    """The questions whose address the person has agreed to open."""
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    """What was wrong with the last answer to each question, where it is known."""

    @property
    def state(self) -> str:
        """What the client holds, as a text."""
        return json.dumps([self.process_id, self.number, self.asked, *self.opened])


def earlier_round(params: CallToolRequestParams) -> Round | None:
    """The round that a repeated call goes on with; None for a first call.

    Raises `MCPError` for answers without the state, since the call would begin anew.
    """
    if params.request_state is None:
        if params.input_responses:
            reason = "This call has inputResponses and no requestState: repeat the call with the state that came last."
            raise MCPError(INVALID_PARAMS, reason)
        return None
    process_id, number, asked, *opened = json.loads(params.request_state)
    return Round(process_id, number, asked, params.input_responses or {}, opened)


async def answer_when_settled(
    observer: Observer, policy: CallPolicy, earlier: Round | None = None, patience: float | None = None
) -> HandlerResult | WrittenResult:
    """The answer to a call about a process: its result, the questions for its client, or the handle.

    It waits as long as the policy says, but for `patience` seconds only as long as nobody is asked and no page is open.
    """
    process, answers, context = observer.process, observer.context.state.answers, observer.context.sdk
    if not policy.may_give_handle:
        return answers.of(policy, process, await observer.outcome(None))
    assert context is not None
    elicitation = Elicitation(context, process, policy, earlier)
    if earlier is not None:
        await elicitation.take(earlier.responses)
    seconds = policy.seconds(patient=progress_wanted(context))
    deadline = _after(seconds)
    patient = _after(policy.seconds(patient=True))
    outcome = await observer.outcome(seconds if patience is None or earlier is not None else patience)
    while isinstance(outcome, Waiting):
        deadline = patient
        with anyio.CancelScope(deadline=deadline) as scope:
            if not await elicitation.go_on(observer):
                break
        if scope.cancelled_caught:
            break
        outcome = await observer.outcome(deadline - anyio.current_time())
    return elicitation.input_required() or await observer.answer(policy, outcome)


def _after(seconds: float | None) -> float:
    """The time after these seconds, on anyio's clock; None: never."""
    return math.inf if seconds is None else anyio.current_time() + seconds


class Elicitation:
    """The questions that one call asks its client about a process, each at most `MOST_ASKED` times."""

    def __init__(self, context: Context, process: AgentProcess, policy: CallPolicy, earlier: Round | None) -> None:
        self._context, self._process = context, process
        self._round = earlier or Round(process.id)
        self.asked = Counter(self._round.asked)
        """How often each question was asked; one that was dismissed is not asked again."""
        self.problems = dict(self._round.problems)
        """What was wrong with the last answer to each question."""
        self.opened = set(self._round.opened)
        """The questions whose address the person has agreed to open: that alone does not answer them."""
        self._pages: set[str] = set()
        """Those that were opened in this call and are not done, of a client that is told when they are."""
        meta = context.meta or {}
        may_answer = context.lifespan_context.access.may_change(process)
        self._asks = may_answer and policy.may_give_handle and not meta.get(PREFERS_HANDLE)

    @property
    def in_mid_call(self) -> bool:
        """Whether the client can be sent requests before its call is answered."""
        return self._asks and not is_modern(self._context) and self._context.session.can_send_request

    @property
    def next(self) -> "AskedQuestion | None":
        """The question to ask now: the first that the client can be asked, and no other call asks just now."""
        shown = self._context.lifespan_context.asked
        return next((each for each in self._questions() if each.question.id not in shown), None)

    @property
    def requests(self) -> dict[str, ElicitRequest]:
        """The questions that the client can be asked, by their ids."""
        return {each.question.id: each.request for each in self._questions()}

    @property
    def page(self) -> str | None:
        """The id of a question whose page the person has opened and which calls back, if there is nothing to ask."""
        if not self._asks or self.requests:
            return None
        pages = (each.id for each in self._process.open_questions if each.id in self.opened and _calls_back(each))
        return next(pages, None)

    async def go_on(self, observer: Observer) -> bool:
        """Ask one question in the middle of the call, or wait for a page, until it is settled in any way.

        If it is not settled, nothing more is asked in this call. Returns False if there is nothing to do.
        """
        if self.in_mid_call and (asked := self.next):
            await self._ask(asked, observer)
        elif page := self.page:
            await self._until_settled_or(anyio.sleep_forever, page, observer, "a person is at a page")
            self._asks = self._asks and not self._is_open(page)
        else:
            return False
        await self._take_place(observer)
        await self._complete()
        return True

    async def _ask(self, asked: "AskedQuestion", observer: Observer) -> None:
        shown, identity = self._context.lifespan_context.asked, asked.question.id
        self.asked[identity] += 1
        results: list[ElicitResult] = []

        async def send() -> None:
            results.extend(await self._send(asked))

        shown.add(identity)
        try:
            await self._until_settled_or(send, identity, observer, "a person is asked")
        finally:
            shown.discard(identity)
        for each in results:
            await self._take(asked, each)
        self._asks = self._asks and (bool(results) or not self._is_open(identity))

    async def _until_settled_or(
        self, work: Callable[[], Awaitable[None]], question_id: str, observer: Observer, doing: str
    ) -> None:
        """Do something until it is done, the question is settled elsewhere, the client leaves or this server ends."""
        if observer.place is not None:
            observer.place.leave()
        async with anyio.create_task_group() as tasks:
            disconnect = disconnect_of(self._context)
            if disconnect is not None:
                disconnect.then(tasks.cancel_scope.cancel)
            tasks.start_soon(self._until_settled, question_id, tasks.cancel_scope)
            tasks.start_soon(self._until_closing, tasks.cancel_scope)
            tasks.start_soon(observer.beat, doing)
            await work()
            tasks.cancel_scope.cancel()

    async def _take_place(self, observer: Observer) -> None:
        """Wait until it is the call's turn again, which others had while a person was asked, or its client leaves."""
        if observer.place is None:
            return
        async with anyio.create_task_group() as tasks:
            disconnect = disconnect_of(self._context)
            if disconnect is not None:
                disconnect.then(tasks.cancel_scope.cancel)
            tasks.start_soon(observer.beat, "waits for its turn")
            await observer.place.wait()
            tasks.cancel_scope.cancel()

    async def _complete(self) -> None:
        """Tell a client of a revision with such a notification which of the pages that it has opened are done."""
        for identity in [each for each in self._pages if not self._is_open(each)]:
            self._pages.discard(identity)
            await self._context.session.send_elicit_complete(identity, self._context.request_id)

    async def take(self, responses: Mapping[str, object]) -> None:
        """Take the answers of the round before; a question that has none is asked again."""
        for asked in self._questions(repeated=True):
            result = responses.get(asked.question.id)
            if isinstance(result, ElicitResult):
                await self._take(asked, result)

    def input_required(self) -> InputRequiredResult | None:
        """The questions as the end of the call; None if there are none, or the client is not asked in this way."""
        if not (self._asks and is_modern(self._context)) or self._round.number >= _MOST_ROUNDS:
            return None
        questions = self.requests
        if not questions:
            return None
        self.asked.update(questions.keys())
        state = Round(self._process.id, self._round.number + 1, self.asked, opened=self.opened).state
        return InputRequiredResult(input_requests={**questions}, request_state=state)

    def _questions(self, *, repeated: bool = False) -> Iterator["AskedQuestion"]:
        """The open questions that the client can be asked; with `repeated` only those that it was asked before."""
        for question in self._process.open_questions if self._asks else ():
            times = self.asked[question.id]
            if (0 < times <= MOST_ASKED) if repeated else times < MOST_ASKED:
                problems, opened = self.problems.get(question.id, ""), question.id in self.opened
                asked = asked_question(self._context, question, problems, opened=opened)
                if asked is not None:
                    yield asked

    async def _send(self, asked: "AskedQuestion") -> Sequence[ElicitResult]:
        """What the client answers; nothing if it answers with an error, or with something else than an answer."""
        parts = (_REQUEST, self._process.id, asked.question.id, secrets.token_hex(4))
        try:
            return [await ask_client(self._context, asked.request, _SEPARATOR.join(parts))]
        except (MCPError, ValidationError):
            return []

    async def _take(self, asked: "AskedQuestion", result: ElicitResult) -> None:
        identity = asked.question.id
        if result.action == "accept" and isinstance(asked.request.params, ElicitRequestURLParams):
            self.opened.add(identity)
            if not is_modern(self._context):
                self._pages.add(identity)
            return
        try:
            await _settle(self._context.lifespan_context, asked.question, asked.form, result)
        except BadInput as refusal:
            self.problems[identity] = str(refusal)
        except (AlreadyAnswered, UnknownName):
            return  # The first answer counts, and this is a later one.
        if result.action == "cancel":
            self.asked[identity] = MOST_ASKED

    async def _until_settled(self, question_id: str, scope: anyio.CancelScope) -> None:
        """Cancel the scope when somebody else answers the question, or this program ends."""
        try:
            while self._is_open(question_id):
                await self._process.changed()
        except HandedOver:
            self._asks = False
        scope.cancel()

    async def _until_closing(self, scope: anyio.CancelScope) -> None:
        """Cancel the scope when the server shuts down: it may not get the answer any more."""
        await self._context.lifespan_context.publisher.calls.closing.wait()
        scope.cancel()

    def _is_open(self, question_id: str) -> bool:
        return any(each.id == question_id for each in self._process.open_questions)


async def _settle(state: McpState, question: Question, form: Form, result: ElicitResult) -> None:
    """Answer a question with what a client answered. Raises what `AgentPlatform.answer` raises."""
    if result.action == "accept":
        response = form.read(form.elicited(result.content or {}))
        await state.platform.answer(question.process_id, question.id, response)
        state.publisher.audit_trail.answered(current_caller(), question, response)
    elif result.action == "decline":
        await state.platform.answer(question.process_id, question.id, declined=_DECLINED)
        state.publisher.audit_trail.answered(current_caller(), question, declined=True)


async def take_from_elsewhere(state: McpState, message: object) -> None:
    """Take a client's answer to a question that no call of this server asks just now.

    The messages of a session may reach any server of a store, so another server may ask; or the call has ended by now.
    An answer that is not valid is dropped: a call that waits for it ends with the handle, when its time is over.
    """
    fields = cast("Mapping[str, object]", message)
    match str(fields.get("id")).split(_SEPARATOR):
        case [begin, process_id, question_id, _] if begin == _REQUEST and question_id not in state.asked:
            pass
        case _:
            return
    try:
        process = await state.process(process_id, current_caller())
        questions = process.open_questions if process is not None and state.access.may_change(process) else ()
        for question in (each for each in questions if each.id == question_id):
            result = ElicitResult.model_validate(fields["result"], by_name=False)
            await _settle(state, question, form_of(question), result)
    except (AlreadyAnswered, BadInput, StoreError, UnknownName, ValidationError, *UNREADABLE) as error:
        _log.warning("The answer to a question that is not asked here is dropped: %s", first_line(str(error)))


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with its form, and the request that shows it to the person."""

    question: Question
    form: Form
    request: ElicitRequest


def _calls_back(question: Question) -> bool:
    try:
        return form_of(question).calls_back
    except UNREADABLE:
        return False


def asked_question(context: Context, question: Question, problems: str, *, opened: bool) -> AskedQuestion | None:
    """The question as this client can be asked; None: it cannot. `opened`: the person has opened its address."""
    declared = (context.session.client_capabilities or ClientCapabilities()).elicitation
    if declared is None:
        return None
    try:
        form = form_of(question)
        schema = form.elicitation(context.protocol_version)
    except UNREADABLE:
        return None
    parts = (problems, question.message, _OPENED if opened else "")
    message = cleaned(hide_known("\n\n".join(filter(None, parts))))
    if form.url is not None and not opened:
        if declared.url is None or context.protocol_version < _ADDRESSES:
            return None
        identity = None if is_modern(context) else question.id
        url = ElicitRequestURLParams(message=message, url=form.url, elicitation_id=identity)
        return AskedQuestion(question, form, ElicitRequest(params=url))
    # A client of the first revision with elicitation declares no mode, and can show forms alone.
    if schema is None or (declared.form is None and declared.url is not None):
        return None
    params = ElicitRequestFormParams(message=message, requested_schema=schema)
    return AskedQuestion(question, form, ElicitRequest(params=params))


_KEPT: Final = 3_600
"""Seconds that a call waits for its client to come back, if the state that the client holds does not expire before."""
_MOST_KEPT: Final = 1_000
"""Calls that wait at once for their clients to come back."""


def asks_client(context: CallContext, tool: FunctionTool) -> bool:
    """Whether the client can be asked during a call of a tool, and the tool is one whose server may ask."""
    sdk = context.sdk
    return bool(tool.exported.server) and sdk is not None and (is_modern(sdk) or sdk.session.can_send_request)


async def call_asking(
    context: CallContext, tool: FunctionTool, params: CallToolRequestParams, place: Place
) -> Wire | InputRequiredResult:
    """Answer a call, or end it with questions. Raises `BadInput` if it goes on with one that is not here any more."""
    state, sdk = context.state, context.sdk
    assert sdk is not None
    if params.request_state is None:
        call = AskingCall(sdk, tool, params.arguments or {})
    else:
        call = state.asking_calls.pop(params.request_state, None)
        if not isinstance(call, AskingCall):
            raise BadInput("The call that asked this has ended, or was made by another server: call the tool again.")
        call.go_on(sdk)
        for question in call.open_questions:
            call.take(question, (params.input_responses or {}).get(question.id))
    kept = False
    try:
        while (result := await call.running.result()) is None:
            if is_modern(sdk):
                kept = True
                return _kept(context, call)
            place.leave()
            for question in call.open_questions:
                call.take(question, await _answer(sdk, call.shown(question)))
            await place.wait()
    finally:
        if not kept:
            call.running.cancel()
    return tool.wire(result, tells_errors=state.settings.show_errors)


def _kept(context: CallContext, call: "AskingCall") -> InputRequiredResult:
    """The questions as the end of the client's call, while the call of the tool goes on."""
    state = context.state
    key = secrets.token_hex(16)
    state.asking_calls[key] = call
    call.pause()

    def expire() -> None:
        if state.asking_calls.pop(key, None) is not None:
            call.running.cancel()

    asyncio.get_running_loop().call_later(min(_KEPT, state.settings.state_ttl_seconds), expire)
    requests = {question.id: call.shown(question).request for question in call.open_questions}
    return InputRequiredResult(input_requests={**requests}, request_state=key)


async def _answer(context: Context, asked: AskedQuestion) -> object:
    """What the client answers; None if that is an error, or nonsense."""
    try:
        return await ask_client(context, asked.request, f"goalport-call:{asked.question.id}:{secrets.token_hex(4)}")
    except (MCPError, ValidationError):
        return None


class AskingCall:
    """One call of a tool, and its questions: the `Asker` of the open call."""

    def __init__(self, context: Context, tool: FunctionTool, arguments: Mapping[str, object]) -> None:
        self._server = tool.exported.server
        self._questions: list[Question] = []
        self._asked: Counter[str] = Counter()
        self._problems: dict[str, str] = {}
        self.record = None
        self.go_on(context)
        site = DirectCalls(current_caller(), context.lifespan_context.platform.processes.listeners)
        self.running = OpenCall(partial(_call, tool, dict(arguments), site), self)

    def go_on(self, context: Context) -> None:
        """Ask, and tell of progress, in this request of the client."""
        self._context = context
        self._progress = current_hooks().progress

    def pause(self) -> None:
        """Tell of no progress until the client goes on."""
        self._progress = None

    @property
    def open_questions(self) -> list[Question]:
        return [each for each in self._questions if each.status == "open"]

    def shown(self, question: Question) -> AskedQuestion:
        """A question as the client is asked it."""
        asked = asked_question(self._context, question, self._problems.get(question.id, ""), opened=False)
        if asked is None:
            raise ToolError("there is nobody to ask")
        return asked

    def ask(self, message: str, asked: Asked, _: str, /) -> Question:
        if len(self._context.lifespan_context.asking_calls) >= _MOST_KEPT:
            raise ToolError("too many people are being asked already")
        wait = wait_for_server(self._server, message, asked)
        question = Question(f"q-{secrets.token_hex(6)}", "", self._server, wait, in_action=True)
        self.shown(question)
        self._questions.append(question)
        return question

    def take(self, question: Question, result: object) -> None:
        """Take an answer. One that is not valid is asked for again, up to `MOST_ASKED` times."""
        asked = self.shown(question)
        self._asked[question.id] += 1
        if not isinstance(result, ElicitResult) or result.action != "accept":
            question.settle("declined")
            return
        try:
            # Who agrees to open an address has answered: what is done there, the server knows by itself.
            is_page = isinstance(asked.request.params, ElicitRequestURLParams)
            given = True if is_page else asked.form.read(asked.form.elicited(result.content or {}))
            question.settle("answered", answer=question.validated(given))
        except BadInput as refusal:
            self._problems[question.id] = str(refusal)
            if self._asked[question.id] >= MOST_ASKED:
                question.settle("declined")

    def withdraw(self, question: Question, /) -> None:
        if question.status == "open":
            question.settle("withdrawn")

    async def progress(self, done: float, of: float | None, message: str | None, /) -> None:
        if self._progress is not None:
            await self._progress(done, of, message)


async def _call(tool: FunctionTool, arguments: Mapping[str, object], site: DirectCalls) -> ToolResult:
    hooks = current_hooks()
    with call_hooks(ask=hooks.ask, progress=hooks.progress, lasting=False):
        return await tool.result(arguments, site)
