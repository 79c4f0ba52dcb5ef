"""Active calls of upstream tools: their hooks for questions and progress, and their timeouts.

Packages above know the person behind a call, and pass hooks by `call_hooks`. `ActiveCalls` belongs to one connection
and answers the elicitations of its server. An elicitation does not always say which call it belongs to, and must not
reach the caller of another call. So it waits until only one call is left that it can belong to, and is declined if that
takes too long. A server may also be another goalport, whose result names a process and the tool to call next: a
person's answer becomes an argument of that call, and tool names in its text are replaced by those that callers know.
"""

import logging
import math
import re
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import anyio

from goalport.base.errors import Signal, ToolError
from goalport.base.words import cleaned
from goalport.tools import ContextValues

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_log = logging.getLogger(__name__)
MOST_ASKED: Final = 4_000
"""The most characters of a server's question that a person is shown."""
_FIELD_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True)
class SignInAddress:
    """The URL where a person signs in to a server. The page says when that is done."""

    url: str


Asked = Mapping[str, object] | str | SignInAddress
"""What a person is asked for: an answer that fits this JSON Schema, to open this URL, or to sign in."""


class Ask(Protocol):
    """Asks a person the server's message, for an answer as `asked` says.

    `key` identifies the question, so that it is not asked again when the call is repeated. Returns the answer, which is
    a mapping if there is a schema, or None if the person declined. Raises `ToolError` if nobody can be asked. A
    `Signal` that it raises ends the call of the tool and is raised to its caller.
    """

    async def __call__(self, message: str, asked: Asked, key: str = "", /) -> object: ...


class CallRecord(Protocol):
    """What is stored of a call, so that the call can be resumed after a restart of the program."""

    @property
    def key(self) -> str:
        """The id of the call: the same when the call is repeated."""
        ...

    @property
    def remote_task_id(self) -> str:
        """The id of the remote task that the call has started; empty: none that is known."""
        ...

    async def note_remote_task(self, identity: str, /) -> None: ...

    @property
    def will_be_repeated(self) -> bool:
        """Whether the call will be repeated, elsewhere or later, so that its remote task must not be cancelled."""
        ...


Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Called with progress notifications: progress, total (None: not known), and the server's message."""


@dataclass(frozen=True, slots=True)
class CallHooks:
    """The functions that handle questions and progress during a call; None: they are not handled."""

    ask: Ask | None = None
    progress: Progress | None = None
    lasting: bool = True
    """Whether the call can wait for long, as in a process: for a sign-in, or for a process of another goalport."""
    record: CallRecord | None = None
    """The stored record of the call; None: nothing is stored."""


_HOOKS: ContextVar[CallHooks] = ContextVar("goalport_upstream_hooks", default=CallHooks())  # noqa: B039 - frozen


def call_hooks(
    *, ask: Ask | None = None, progress: Progress | None = None, lasting: bool = True, record: CallRecord | None = None
) -> ContextValues:
    """A block in which calls of upstream tools use these hooks, since handlers of tools get only arguments."""
    return ContextValues((_HOOKS, CallHooks(ask, progress, lasting, record)))


def current_hooks() -> CallHooks:
    """The hooks of the current `call_hooks` block; outside of one, hooks that do nothing."""
    return _HOOKS.get()


class Call:
    """One call. It is cancelled after `seconds`, without the time in which it waits for a person.

    It holds one of `turns`, the semaphore of the server's concurrent calls. It releases that while it waits for a
    person, and acquires it again afterwards only if that needs no wait.
    """

    def __init__(self, hooks: CallHooks, seconds: float, turns: anyio.Semaphore) -> None:
        self.hooks = hooks
        self.seconds = seconds
        self.signal: Signal | None = None
        """The signal that `Ask` raised instead of answering; it cancels the call."""
        self.unanswered = ""
        """Why a question of the server was declined without asking anybody; empty: no question was."""
        self.sign_in_needed = False
        """Whether the call failed because nobody has signed in; then the server has done nothing."""
        self.reached: bool | None = None
        """Whether the server was reached; False: it has done nothing. None: not known."""
        self.asked = False
        """Whether a person was asked a question of the server."""
        self.scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        self._turns, self._has_turn = turns, True
        self._left, self._over = seconds, False
        self._waits: list[anyio.CancelScope] = []
        """The scopes of waits for people."""

    def renew(self) -> None:
        """Restart the timeout: the server has answered, and gets another request of the same work."""
        self.scope.deadline = anyio.current_time() + self.seconds

    def finish(self) -> None:
        """Cancel waits for people. Raises the `Signal` if there is one, and `TimeoutError` if the call timed out."""
        self._over = True
        for wait in self._waits:
            wait.cancel()
        self._give_up_turn()
        if self.signal is not None:
            raise self.signal
        if self.scope.cancelled_caught:
            raise TimeoutError

    @contextmanager
    def waiting(self) -> Generator[anyio.CancelScope]:
        """A block that waits for a person: it stops the call's timeout, and is cancelled if the call ends first."""
        if not self._waits:
            self._left = self.scope.deadline - anyio.current_time()
            self.scope.deadline = math.inf
            self._give_up_turn()
        scope = anyio.CancelScope()
        self._waits.append(scope)
        try:
            with scope:
                yield scope
        finally:
            self._waits.remove(scope)
            if not (self._waits or self._over):
                self.scope.deadline = anyio.current_time() + self._left
                # It continues without a turn too: the server may handle the calls that have turns only after this one.
                with suppress(anyio.WouldBlock):
                    self._turns.acquire_nowait()
                    self._has_turn = True

    def _give_up_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._turns.release()


_CALL: ContextVar[Call | None] = ContextVar("goalport_upstream_call", default=None)


def current_call() -> Call | None:
    """The call that the running code belongs to."""
    return _CALL.get()


class ActiveCalls:
    """The calls of one connection, and the answers to the questions that its server asks during them."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._running: dict[Call, None] = {}
        self._ended = anyio.Event()
        """Set when a call ends, and then replaced by a new event."""

    def __bool__(self) -> bool:
        return bool(self._running)

    @contextmanager
    def begin(self, seconds: float, turns: anyio.Semaphore) -> Generator[Call]:
        """A call that lasts as long as the block; the caller has acquired a turn. Raises `Signal` or `TimeoutError`."""
        call = Call(current_hooks(), seconds, turns)
        self._running[call] = None
        token = _CALL.set(call)
        try:
            with call.scope:
                yield call
        finally:
            _CALL.reset(token)
            del self._running[call]
            self._ended.set()
            self._ended = anyio.Event()
            call.finish()

    async def elicit(self, context: object, params: Any) -> Any:
        """Answer a question of the server (`elicitation/create`); called by the SDK."""
        from mcp_types import ElicitResult

        asked: Mapping[str, object] | str = params.url if params.mode == "url" else params.requested_schema
        own = _CALL.get()
        running = [*self._running] if own is None else [own]
        # With several calls, wait until one is left, but at most half of the time that the first of them has: the
        # server needs the other half to go on without an answer.
        candidates = [each for each in running if each in self._running]
        end = min((each.scope.deadline for each in candidates), default=0)
        with anyio.move_on_after((end - anyio.current_time()) / 2):
            while len(candidates) > 1 and any(each.hooks.ask for each in candidates):
                await self._ended.wait()
                candidates = [each for each in running if each in self._running]
        refusal = _form_fault(asked)
        if not candidates:
            refusal = "there is no call"
        elif not any(each.hooks.ask for each in candidates):
            refusal = "there is nobody to ask"
        elif len(candidates) > 1:
            refusal = "it does not say which of several calls it belongs to; `concurrency` 1 in its entry avoids that"
        if refusal:
            _log.info("%s asks something, which is declined: %s", self._server, refusal)
            # A call that asked a person before has most likely not asked this question.
            for each in [each for each in candidates if not each.asked] or candidates:
                each.unanswered = refusal
            return ElicitResult(action="decline")
        (call,) = candidates
        assert call.hooks.ask is not None
        call.asked = True
        try:
            with call.waiting() as scope:
                answer = await call.hooks.ask(cleaned(params.message, MOST_ASKED), asked)
            if scope.cancelled_caught:
                return ElicitResult(action="cancel")
        except Signal as signal:
            call.signal = call.signal or signal
            call.scope.cancel()
            return ElicitResult(action="cancel")
        except ToolError as error:
            call.unanswered = str(error)
            return ElicitResult(action="decline")
        if answer is None:
            return ElicitResult(action="decline")
        # For a URL there is no content: the server itself knows what the person did there.
        content = cast("Mapping[str, object]", answer) if isinstance(answer, Mapping) else None
        return ElicitResult.model_validate({"action": "accept", "content": None if content is None else dict(content)})


def _form_fault(asked: Mapping[str, object] | str) -> str:
    """Why no answer to this form can be sent in MCP; empty: an answer can."""
    fields = None if isinstance(asked, str) else asked.get("properties")
    for name, field in cast("Mapping[str, Any]", fields).items() if isinstance(fields, dict) else ():
        match field:
            case {"type": "object"} | {
                "type": "array",
                "items": {"type": "object" | "array" | "number" | "integer" | "boolean"},
            }:
                shown = repr(cleaned(name, _FIELD_CHARACTERS))
                return f"MCP has no answer for its field {shown}, which is an object or a list of no texts"
            case _:
                pass
    return ""


PREFERS_HANDLE: Final = "goalport/handle"
"""The key of a call's `_meta` with which a client says that it follows handles, and wants no elicitation instead.

A handle survives a restart of either server; an elicitation in the middle of a call does not.
"""
_PROCESS: Final = "goalport/processId"
_CANCEL: Final = "process_cancel"
_NAME: Final = r"[A-Za-z0-9_.-]+"
_ADVISED: Final = rf"(?<=\bcall ){_NAME}(?= with \{{)"
"""Matches the tool in a text that advises to call it."""
_REPEATED: Final = rf"(?<=\bcall )(?!it\b){_NAME}(?= again)"
"""Matches the tool in a text that advises against calling it again."""
_IN_RESULTS: Final = re.compile(_ADVISED)
_IN_ADVICE: Final = re.compile(f"{_ADVISED}|{_REPEATED}")
_RESOURCES: Final = re.compile(r" A client that reads resources [^\n]*")
"""Matches advice to read a large result as a resource: our clients cannot read resources of the other server."""
_ABOUT: Final = frozenset({"processId", "questionId"})
"""The arguments that identify a question when it is answered; the one other argument is the answer."""


@dataclass(frozen=True, slots=True)
class RemoteProcess:
    """A process that runs, or waits for a person, on another goalport."""

    process_id: str
    tool: str
    """The tool of the same server to call next."""
    arguments: Mapping[str, Any]
    question: Mapping[str, Any] | None
    """The first question for a person; None: the process runs, and the next call waits for it."""

    @property
    def message(self) -> str:
        """The text for the person, with the URL to open, if there is one."""
        asked = self.question or {}
        return "\n".join(str(asked[each]) for each in ("message", "url") if asked.get(each))

    @property
    def form(self) -> Mapping[str, object]:
        """The JSON Schema of the answer; if that is no object, as a yes or no, of an object with the answer in it."""
        schema, argument = self._asked()
        if schema.get("type") == "object":
            return schema
        return {"type": "object", "properties": {argument: schema}, "required": [argument]}

    def answered(self, answer: Mapping[str, object] | None) -> tuple[str, dict[str, Any]]:
        """The call (tool and arguments) that sends a person's answer; `answer` is None if they declined."""
        schema, argument = self._asked()
        given: object = dict(answer) if answer else answer
        if schema.get("type") != "object":
            given = answer.get(argument) if answer else None
        if schema.get("type") == "boolean":
            given = bool(given)
        elif answer is None:
            return _CANCEL, {"processId": self.process_id}
        return self.tool, {**self.arguments, argument: given}

    def _asked(self) -> tuple[Mapping[str, object], str]:
        """The JSON Schema of the answer, and the name of the argument that holds it."""
        schema: Any = self.question["schema"] if self.question else {}
        return schema, next(each for each in self.arguments if each not in _ABOUT)


def remote_process(result: "CallToolResult") -> RemoteProcess | None:
    """The process that a result is a handle of; None: it is an ordinary result."""
    content = _content_of(result)
    if content is None or content.get("status") not in {"running", "waiting"}:
        return None
    following, questions = content["next"], content.get("questions")
    first: Any = cast("Sequence[Any]", questions)[0] if isinstance(questions, list) and questions else None
    arguments = following.get("arguments")
    if not isinstance(arguments, dict) or not isinstance(first, dict | None):
        return None
    question = cast("dict[str, Any] | None", first)
    call = cast("dict[str, Any]", arguments)
    # The answer fits the schema of its question, and is the one argument of the next call that is not in `_ABOUT`.
    if question is not None and not (isinstance(question.get("schema"), dict) and len(call.keys() - _ABOUT) == 1):
        return None
    return RemoteProcess(content["processId"], following["tool"], call, question)


async def followed_process(
    result: "CallToolResult",
    call: Call,
    send: "Callable[[str, Mapping[str, object], Call], Awaitable[CallToolResult]]",
) -> "CallToolResult":
    """The final result of a process on another goalport; the person behind the call answers its questions.

    `send` makes a call. If nobody can be asked, the handle of the process is the result: the caller can follow it.
    """
    ask = call.hooks.ask if call.hooks.lasting else None
    while ask is not None and (process := remote_process(result)) is not None:
        tool, arguments = process.tool, process.arguments
        if process.question is not None:
            try:
                with call.waiting():
                    answer = await ask(cleaned(process.message, MOST_ASKED), process.form)
            except ToolError as error:
                call.unanswered = str(error)
                return result
            tool, arguments = process.answered(cast("Mapping[str, object] | None", answer))
        call.renew()
        result = await send(tool, arguments, call)
    return result


def with_renamed_tools(
    result: "CallToolResult", rename: Callable[[str], str], names: Sequence[str]
) -> "CallToolResult":
    """A result of another goalport, with the tools in its texts renamed by `rename`; any other result unchanged.

    `names` are the server's names of its tools, which its error messages may contain.
    """
    if _PROCESS not in (result.meta or {}):
        return result
    content = _content_of(result)
    named = _IN_RESULTS if content is None else _IN_ADVICE
    if content is None and result.is_error:
        # A name of small letters only may be a word of the sentence.
        compound = "|".join(re.escape(each) for each in names if not (each.isalpha() and each.islower()))
        named = re.compile(rf"{_ADVISED}|(?<![\w.-])(?:{compound})(?![\w-])" if compound else _ADVISED)

    def renamed(text: str) -> str:
        return named.sub(lambda found: rename(found[0]), text if content is None else _RESOURCES.sub("", text))

    blocks = [
        each.model_copy(update={"text": renamed(each.text)}) if each.type == "text" else each
        for each in result.content
        if content is None or each.type != "resource_link"
    ]
    if content is None:
        return result.model_copy(update={"content": blocks})
    following = {**content["next"], "tool": rename(content["next"]["tool"])}
    if isinstance(instruction := following.get("instruction"), str):
        following["instruction"] = renamed(instruction)
    return result.model_copy(update={"content": blocks, "structured_content": {**content, "next": following}})


def _content_of(result: "CallToolResult") -> dict[str, Any] | None:
    """The structured content, if the result is a handle of a process with the next call; else None."""
    content: Any = result.structured_content
    process: object = (result.meta or {}).get(_PROCESS)
    if not isinstance(process, str) or not isinstance(content, dict):
        return None
    members = cast("dict[str, Any]", content)
    following = members.get("next")
    is_next = isinstance(following, dict) and isinstance(cast("dict[str, Any]", following).get("tool"), str)
    return members if members.get("processId") == process and is_next else None
