"""Elicitation: the questions of a process, asked through the client whose call waits for it.

Before revision 2026-07-28 a question is a request to the client in the middle of its call. Since then the call ends
with the questions and a state, and the client repeats the call with the answers; the server encrypts that state and
binds it to the caller, the tool and the arguments (`server`). A client gets the handle if it cannot be asked, or does
not answer in the time that its call may take. `publish.forms` says which parts of a form clients can show.
A client's direct call of an upstream tool has no process that could wait. It runs in an asyncio task of this program,
which goes on while the client answers the questions of the tool's server, and ends if the client does not return.
`calls` and `tasks` are above.
"""

import asyncio
import json
import logging
import math
import secrets
from collections import Counter
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

import anyio
import mcp_types as types
from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from goalport.base.errors import AlreadyAnswered, BadInput, HandedOver, StoreError, ToolError, UnknownName
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, first_line
from goalport.runtime.process import AgentProcess, Question, Waiting
from goalport.runtime.process.action_progress import OpenCall
from goalport.runtime.process.context import wait_for_server
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.notifications import ask_client, is_modern, progress_wanted
from goalport.server.doors.mcp.requests import Observer
from goalport.server.doors.mcp.state import Context, McpState
from goalport.server.publish.exported_tools import FunctionTool
from goalport.server.publish.forms import Form, form_of
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.limits import Place
from goalport.server.publish.output import WrittenResult
from goalport.server.publish.publisher import answer_question
from goalport.tools import ToolResult
from goalport.tools.schemas import UNREADABLE
from goalport.tools.upstream.active_calls import PREFERS_HANDLE, Asked, call_hooks, current_hooks

T = TypeVar("T")
MOST_ASKED: Final = 3
"""How often one call, or one task, may ask the same question, if the answers are not valid."""
_MOST_ROUNDS: Final = 10
"""How often one call may end with questions. Clients repeat a call no more often than that."""
_OPENED: Final = "Send this once it is done there."
_DECLINED: Final = "The person who was asked declined."
_REQUEST: Final = "goalport-question"
"""The prefix of the ids of requests that ask questions. The ids name process and question, so that any server of the
store can accept the answer, for the right question."""
_SEPARATOR: Final = ":"
_ADDRESSES: Final = "2025-11-25"
"""The first revision with the mode `url`; a client may declare it also in a session of an older one."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ElicitationState:
    """What a call and its repetitions have asked so far; between them the client stores it as `requestState`."""

    process_id: str
    number: int = 0
    """How many calls have ended with questions."""
    asked: Counter[str] = field(default_factory=Counter[str])
    """How often each question was asked, by its id; a dismissed question is not asked again."""
    opened: set[str] = field(default_factory=set[str])
    """The ids of questions whose URL the person has agreed to open, which alone does not answer them."""
    responses: types.InputResponses = field(default_factory=types.InputResponses)
    """The answers of the client, by the ids of the questions."""
    problems: dict[str, str] = field(default_factory=dict[str, str])
    """What was wrong with the last answer to a question, by its id."""


def earlier_elicitation(params: types.CallToolRequestParams) -> ElicitationState | None:
    """The state that a repeated call goes on with; None for a first call.

    Raises `MCPError` for answers without the state, since the call would begin anew.
    """
    if params.request_state is None:
        if params.input_responses:
            reason = "This call has inputResponses and no requestState: repeat the call with the state that came last."
            raise MCPError(types.INVALID_PARAMS, reason)
        return None
    process_id, number, asked, *opened = json.loads(params.request_state)
    return ElicitationState(process_id, number, Counter(asked), set(opened), params.input_responses or {})


async def answer_when_settled(
    observer: Observer, earlier: ElicitationState | None = None, patience: float | None = None
) -> HandlerResult | WrittenResult:
    """The answer to a call about a process: its result, the questions for its client, or the handle.

    It waits as long as the policy says; in a first call, `patience` seconds instead, until a question is asked.
    """
    policy, context = observer.policy, observer.context.sdk
    if not policy.may_give_handle:
        return observer.context.state.answers.of(policy, observer.process, await observer.outcome(None))
    assert context is not None
    elicitation = Elicitation(context, observer.process, policy, earlier)
    if earlier is not None:
        await elicitation.take(earlier.responses)
    seconds, patient_seconds = (policy.seconds(patient=each) for each in (progress_wanted(context), True))
    patient = math.inf if patient_seconds is None else anyio.current_time() + patient_seconds
    outcome = await observer.outcome(seconds if patience is None or earlier is not None else patience)
    while isinstance(outcome, Waiting):
        with anyio.CancelScope(deadline=patient) as scope:
            if not await elicitation.go_on(observer):
                break
        if scope.cancelled_caught:
            break
        outcome = await observer.outcome(patient - anyio.current_time())
    return elicitation.input_required() or await observer.answer(outcome)


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question with its form, and the request that shows it to the person."""

    question: Question
    form: Form
    request: types.ElicitRequest


def asked_question(context: Context, question: Question, problems: str, *, opened: bool) -> AskedQuestion | None:
    """The question in a form that this client can show; None if it cannot. `opened`: the person has opened its URL."""
    declared = (context.session.client_capabilities or types.ClientCapabilities()).elicitation
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
        params = types.ElicitRequestURLParams(message=message, url=form.url, elicitation_id=identity)
    # A client of the first revision with elicitation declares no mode, and can show forms alone.
    elif schema is None or (declared.form is None and declared.url is not None):
        return None
    else:
        params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return AskedQuestion(question, form, types.ElicitRequest(params=params))


async def _answer_to(context: Context, asked: AskedQuestion, *beginning: str) -> types.ElicitResult | None:
    """The answer of the client in the middle of its call; None if it is an error, or invalid."""
    try:
        return await ask_client(context, asked.request, _SEPARATOR.join((*beginning, secrets.token_hex(4))))
    except (MCPError, ValidationError):
        return None


class Elicitation:
    """The questions that one call asks its client about a process, each at most `MOST_ASKED` times."""

    def __init__(
        self, context: Context, process: AgentProcess, policy: CallPolicy, earlier: ElicitationState | None
    ) -> None:
        self._context, self._process = context, process
        self.so_far = earlier or ElicitationState(process.id)
        self._pages: set[str] = set()
        """The questions whose pages were opened in this call and are not done."""
        may_answer = context.lifespan_context.access.may_change(process)
        self._asks = may_answer and policy.may_give_handle and not (context.meta or {}).get(PREFERS_HANDLE)

    @property
    def requests(self) -> dict[str, types.ElicitRequest]:
        """The questions that the client can be asked, by their ids."""
        return {each.question.id: each.request for each in self._questions()}

    @property
    def page(self) -> str | None:
        """The id of a question that waits for the callback of an opened page; None if there is none, or more to ask."""
        if self._asks and not self.requests:
            for each in self._process.open_questions:
                try:
                    if each.id in self.so_far.opened and form_of(each).calls_back:
                        return each.id
                except UNREADABLE:
                    continue
        return None

    async def go_on(self, observer: Observer) -> bool:
        """Ask one question in the middle of the call, or wait for a page, until the question is settled in any way.

        If the question is not settled, nothing more is asked in this call. Returns False if there is nothing to do.
        """
        context, shown = self._context, self._context.lifespan_context.asked
        in_mid_call = self._asks and not is_modern(context) and context.session.can_send_request
        # Questions that another call is asking now are skipped.
        asked = (
            next((each for each in self._questions() if each.question.id not in shown), None) if in_mid_call else None
        )
        answer = None
        if asked is not None:
            identity = asked.question.id
            self.so_far.asked[identity] += 1
            shown.add(identity)
            try:
                asking = _answer_to(context, asked, _REQUEST, self._process.id, identity)
                answer = await self._unless_settled(identity, asking, observer, "a person is asked")
            finally:
                shown.discard(identity)
            if answer is not None:
                await self._take(asked, answer)
        elif page := self.page:
            identity = page
            await self._unless_settled(page, anyio.sleep_forever(), observer, "a person is at a page")
        else:
            return False
        self._asks = self._asks and (answer is not None or not self._is_open(identity))
        if observer.place is not None:  # the call had given up its place meanwhile
            with observer.context.waiting("waits for its turn"):
                await observer.place.wait()
        # Notify the client, if its revision has that notification, which of its opened pages are done.
        for done in [each for each in self._pages if not self._is_open(each)]:
            self._pages.discard(done)
            await context.session.send_elicit_complete(done, context.request_id)
        return True

    async def _unless_settled(self, question_id: str, work: Awaitable[T], observer: Observer, doing: str) -> T | None:
        """The result of `work`; None if before that, the question is settled, the client leaves or this server ends."""
        result = None

        async def until_settled() -> None:
            try:
                while self._is_open(question_id):
                    await self._process.changed()
            except HandedOver:
                self._asks = False
            tasks.cancel_scope.cancel()

        async def until_closing() -> None:  # the server may not get the answer any more
            await self._context.lifespan_context.publisher.calls.closing.wait()
            tasks.cancel_scope.cancel()

        if observer.place is not None:
            observer.place.leave()
        with observer.context.waiting(doing):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(until_settled)
                tasks.start_soon(until_closing)
                result = await work
                tasks.cancel_scope.cancel()
        return result

    async def take(self, responses: Mapping[str, object]) -> None:
        """Process the answers to the previous round; a question without an answer is asked again."""
        for asked in self._questions(repeated=True):
            result = responses.get(asked.question.id)
            if isinstance(result, types.ElicitResult):
                await self._take(asked, result)

    def input_required(self) -> types.InputRequiredResult | None:
        """The result that ends the call with questions; None if there are none, or it is asked in another way."""
        now = self.so_far
        if not (self._asks and is_modern(self._context)) or now.number >= _MOST_ROUNDS:
            return None
        questions = self.requests
        if not questions:
            return None
        now.asked.update(questions.keys())
        state = json.dumps([now.process_id, now.number + 1, now.asked, *now.opened])
        return types.InputRequiredResult(input_requests={**questions}, request_state=state)

    def _questions(self, *, repeated: bool = False) -> Iterator[AskedQuestion]:
        """The open questions that the client can be asked; with `repeated` only questions that it was asked before."""
        for question in self._process.open_questions if self._asks else ():
            times = self.so_far.asked[question.id]
            if (0 < times <= MOST_ASKED) if repeated else times < MOST_ASKED:
                problems, opened = self.so_far.problems.get(question.id, ""), question.id in self.so_far.opened
                if asked := asked_question(self._context, question, problems, opened=opened):
                    yield asked

    async def _take(self, asked: AskedQuestion, result: types.ElicitResult) -> None:
        identity = asked.question.id
        if result.action == "accept" and isinstance(asked.request.params, types.ElicitRequestURLParams):
            self.so_far.opened.add(identity)
            if not is_modern(self._context):
                self._pages.add(identity)
            return
        try:
            await _settle(self._context.lifespan_context, asked.question, asked.form, result)
        except BadInput as refusal:
            self.so_far.problems[identity] = str(refusal)
        except (AlreadyAnswered, UnknownName):
            return  # The first answer counts, and this is a later one.
        if result.action == "cancel":
            self.so_far.asked[identity] = MOST_ASKED

    def _is_open(self, question_id: str) -> bool:
        return any(each.id == question_id for each in self._process.open_questions)


async def _settle(state: McpState, question: Question, form: Form, result: types.ElicitResult) -> None:
    """Settle a question by the answer of a client. Raises `BadInput`, and what `answer_question` raises."""
    if result.action == "accept":
        await answer_question(
            state.publisher, current_caller(), question, form.read(form.elicited(result.content or {}))
        )
    elif result.action == "decline":
        await answer_question(state.publisher, current_caller(), question, declined=_DECLINED)


async def take_from_elsewhere(state: McpState, message: object) -> None:
    """Process a client's answer to a question that no open call of this server has asked.

    The messages of a session may reach any server of a store: another server has asked, or the call has ended by now.
    An invalid answer is dropped: a call that waits for it ends with the handle, when its time is over.
    """
    fields = cast("Mapping[str, object]", message)
    match str(fields.get("id")).split(_SEPARATOR):
        case [begin, process_id, question_id, _] if begin == _REQUEST and question_id not in state.asked:
            pass
        case _:
            return
    try:
        process = await state.process(process_id)
        questions = process.open_questions if process is not None and state.access.may_change(process) else ()
        for question in (each for each in questions if each.id == question_id):
            result = types.ElicitResult.model_validate(fields["result"], by_name=False)
            await _settle(state, question, form_of(question), result)
    except (AlreadyAnswered, BadInput, StoreError, UnknownName, ValidationError, *UNREADABLE) as error:
        _log.warning("The answer to a question that is not asked here is dropped: %s", first_line(str(error)))


_KEPT: Final = 3_600
"""The most seconds that a call waits for its client to repeat it; fewer if the `requestState` expires before."""
_MOST_KEPT: Final = 1_000
"""The most calls that wait at once for their clients to repeat them."""


async def call_asking(
    sdk: Context, tool: FunctionTool, params: types.CallToolRequestParams, place: Place
) -> WrittenResult | types.InputRequiredResult:
    """Answer a call, or end it with questions. Raises `BadInput` if the call that it repeats is no longer here."""
    state = sdk.lifespan_context
    if params.request_state is None:
        call = _InteractiveCall(sdk, tool, params.arguments or {})
    else:
        call = state.suspended_calls.pop(params.request_state, None)
        if not isinstance(call, _InteractiveCall):
            raise BadInput("The call that asked this has ended, or was made by another server: call the tool again.")
        call.context, call.report = sdk, current_hooks().progress
        for question in call.open_questions:
            call.take(question, (params.input_responses or {}).get(question.id))
    suspended = False
    try:
        while (result := await call.running.result()) is None:
            if is_modern(sdk):
                suspended = True
                return call.suspend(state)
            place.leave()
            for question in call.open_questions:
                call.take(question, await _answer_to(sdk, call.shown(question), "goalport-call", question.id))
            await place.wait()
    finally:
        if not suspended:
            call.running.cancel()
    return tool.written(result, tells_errors=state.settings.show_errors)


class _InteractiveCall:
    """One call of a tool, and its questions. Questions and progress are sent with the latest request of the client."""

    def __init__(self, context: Context, tool: FunctionTool, arguments: Mapping[str, object]) -> None:
        self.context, self.report = context, current_hooks().progress
        self._server, call_site = tool.exported.server, context.lifespan_context.call_site
        self._questions: list[Question] = []
        self._asked: Counter[str] = Counter()
        self._problems: dict[str, str] = {}

        async def run() -> ToolResult:
            hooks = current_hooks()
            with call_hooks(ask=hooks.ask, progress=hooks.progress, lasting=False):
                return await tool.result(dict(arguments), call_site)

        self.running = OpenCall(run, self.ask, self.withdraw, self.progress)

    def suspend(self, state: McpState) -> types.InputRequiredResult:
        """The result that ends the client's call with questions, while the call of the tool goes on."""
        key = secrets.token_hex(16)
        state.suspended_calls[key] = self
        self.report = None  # until the client goes on

        def expire() -> None:
            if state.suspended_calls.pop(key, None) is not None:
                self.running.cancel()

        asyncio.get_running_loop().call_later(min(_KEPT, state.settings.state_ttl_seconds), expire)
        requests = {question.id: self.shown(question).request for question in self.open_questions}
        return types.InputRequiredResult(input_requests={**requests}, request_state=key)

    @property
    def open_questions(self) -> list[Question]:
        return [each for each in self._questions if each.status == "open"]

    def shown(self, question: Question) -> AskedQuestion:
        """A question in a form that the client can show. Raises `ToolError` if it cannot show the question."""
        asked = asked_question(self.context, question, self._problems.get(question.id, ""), opened=False)
        if asked is None:
            raise ToolError("there is nobody to ask")
        return asked

    def ask(self, message: str, asked: Asked, _: str, /) -> Question:
        if len(self.context.lifespan_context.suspended_calls) >= _MOST_KEPT:
            raise ToolError("too many people are being asked already")
        wait = wait_for_server(self._server, message, asked)
        question = Question(f"q-{secrets.token_hex(6)}", "", self._server, wait, in_action=True)
        self.shown(question)
        self._questions.append(question)
        return question

    def take(self, question: Question, result: object) -> None:
        """Settle a question by an answer. After an invalid one it is asked again, up to `MOST_ASKED` times."""
        asked = self.shown(question)
        self._asked[question.id] += 1
        if not isinstance(result, types.ElicitResult) or result.action != "accept":
            question.settle("declined")
            return
        try:
            # Agreeing to open a URL is the answer: the tool's server knows by itself what is done there.
            is_page = isinstance(asked.request.params, types.ElicitRequestURLParams)
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
        if self.report is not None:
            await self.report(done, of, message)
