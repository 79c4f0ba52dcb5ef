"""Calls of upstream tools that clients make themselves: what the tool's server asks meanwhile, the client is asked.

Such a call has no process that could wait. It runs in a task of its own. Before revision 2026-07-28 the client is asked
in the middle of its call; since then its call ends with the questions, the task goes on, and the client repeats the
call with the answers. The task is in this program only, and ends if the client does not come back.
`elicitation` says how a client is asked; `calls` is above.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, ElicitRequestURLParams, ElicitResult, InputRequiredResult
from pydantic import ValidationError

from goalport.base.errors import BadInput, ToolError
from goalport.runtime.process import DirectCalls, Question
from goalport.runtime.process.attempt import wait_for_server
from goalport.runtime.process.journal import OpenCall
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.call_context import CallContext
from goalport.server.doors.mcp.elicitation import MOST_ASKED, AskedQuestion, asked_question
from goalport.server.doors.mcp.sessions import ask_client, is_modern
from goalport.server.doors.mcp.state import Context
from goalport.server.publish.exported_tools import FunctionTool
from goalport.server.publish.limits import Place
from goalport.server.publish.output import Wire
from goalport.tools import ToolResult
from goalport.tools.upstream.active_calls import Asked, call_hooks, current_hooks

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

    def ask(self, message: str, asked: Asked, /) -> Question:
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
