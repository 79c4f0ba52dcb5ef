"""Active calls of upstream tools: who is asked and who is told of progress meanwhile, and how long they may take.

`call_hooks` is for those above, who know the person behind a call; `ActiveCalls` belongs to one connection and answers
the questions (elicitations) that its server asks during a call. A question does not always say which call it belongs
to, and it must not reach the caller of another call. So it waits until it can belong to one call alone, and is declined
if that takes too long. A server may also be another goalport, whose answer names a process and the tool to call next:
a person's answer becomes the arguments of that call, and names of tools in its advice become those that callers know.
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
"""Characters of a server's question that a person is shown."""
_FIELD_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True)
class SignInAddress:
    """Where a person signs in to a server. The page itself says when it is done."""

    url: str


Asked = Mapping[str, object] | str | SignInAddress
"""What a person is asked for: an answer of this JSON Schema, to open an address, or to sign in."""


class Ask(Protocol):
    """Asks a person, given the server's message and what they are asked for.

    A question with a `key` is the same one when the call is made anew, and is not asked twice. Returns the answer,
    which is a mapping if there is a schema; None: the person declined. Raises `ToolError` when nobody can be asked. A
    `Signal` that it raises ends the call of the tool and is raised to its caller.
    """

    async def __call__(self, message: str, asked: Asked, key: str = "", /) -> object: ...


class CallRecord(Protocol):
    """What is kept of a call, for when it is made anew because the program had ended."""

    @property
    def key(self) -> str:
        """Identifies the call: the same when it is made anew."""
        ...

    @property
    def begun(self) -> str:
        """The id of what it has begun at the server; empty: nothing that is known."""
        ...

    async def note_begun(self, identity: str, /) -> None: ...

    @property
    def goes_on(self) -> bool:
        """Whether the call is made anew elsewhere or later, so that what it has begun is not to be ended."""
        ...


Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Is told of progress: how much is done, of how much (None: not known), and the server's message."""


@dataclass(frozen=True, slots=True)
class CallHooks:
    """Who is asked and who is told of progress during a call; None: nobody."""

    ask: Ask | None = None
    progress: Progress | None = None
    lasting: bool = True
    """Whether the call can wait for long, as one of a process can: for a sign-in, or a process of another goalport."""
    record: CallRecord | None = None
    """What is kept of the call; None: nothing."""


_HOOKS: ContextVar[CallHooks] = ContextVar("goalport_upstream_hooks", default=CallHooks())  # noqa: B039 - frozen


def call_hooks(
    *, ask: Ask | None = None, progress: Progress | None = None, lasting: bool = True, record: CallRecord | None = None
) -> ContextValues:
    """Ask and tell these during calls of upstream tools in this block: their handlers get nothing but arguments."""
    return ContextValues((_HOOKS, CallHooks(ask, progress, lasting, record)))


def current_hooks() -> CallHooks:
    """The hooks of the block that the calling code runs in; without one, hooks that do nothing."""
    return _HOOKS.get()


class Call:
    """One call. It is cancelled after its `seconds`; the clock stands still while a person is waited for.

    It has one of the server's `turns`, which it gives up while it waits, and takes again if one is left then.
    """

    def __init__(self, hooks: CallHooks, seconds: float, turns: anyio.Semaphore) -> None:
        self.hooks = hooks
        self.seconds = seconds
        self.signal: Signal | None = None
        """What `Ask` raised instead of an answer; the call is cancelled then."""
        self.unanswered = ""
        """Why a question of the server was declined without asking anybody; empty: none was."""
        self.sign_in_needed = False
        """Whether it was refused, as nobody has signed in; the server has done nothing then."""
        self.reached: bool | None = None
        """Whether anything answered where it was sent; if not, the server has done nothing. None: it is not known."""
        self.asked = False
        """Whether a person was asked a question of the server."""
        self.scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        self._turns, self._has_turn = turns, True
        self._left, self._over = seconds, False
        self._waits: list[anyio.CancelScope] = []
        """The waits for people."""

    def renew(self) -> None:
        """Start the clock again, as the server has answered and is sent the next request of the same work."""
        self.scope.deadline = anyio.current_time() + self.seconds

    def finish(self) -> None:
        """Stop waiting for people. Raises the signal when there is one, and `TimeoutError` when the time was over."""
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
        """Stop the clock while the block waits for a person; the block is cancelled when the call ends before."""
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
                # Without a turn it goes on too: the call that has the turn may be behind this one at the server.
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
        """Set when a call ends; another one takes its place then."""

    def __bool__(self) -> bool:
        return bool(self._running)

    @contextmanager
    def begin(self, seconds: float, turns: anyio.Semaphore) -> Generator[Call]:
        """A call that lasts as long as the block, and has a turn. Raises its `Signal`, or `TimeoutError`."""
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
        # Of several calls, one is waited for as long as they can do without it: half of the time is left to the server,
        # to go on without an answer.
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
            # The question of a call that asked somebody was most likely that one.
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
        # Who has opened an address says nothing more: what was done there, the server knows by itself.
        content = cast("Mapping[str, object]", answer) if isinstance(answer, Mapping) else None
        return ElicitResult.model_validate({"action": "accept", "content": None if content is None else dict(content)})


def _form_fault(asked: Mapping[str, object] | str) -> str:
    """Why the answer to a form cannot be sent, whatever a person enters; empty: it can."""
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
"""The key of a call's `_meta` by which a client says that it follows handles by itself, and is not to be asked else.

A handle survives both servers; a question in the middle of a call does not.
"""
_PROCESS: Final = "goalport/processId"
_CANCEL: Final = "process_cancel"
_NAME: Final = r"[A-Za-z0-9_.-]+"
_ADVISED: Final = rf"(?<=\bcall ){_NAME}(?= with \{{)"
"""A call that a text advises to make."""
_REPEATED: Final = rf"(?<=\bcall )(?!it\b){_NAME}(?= again)"
"""A call that a text advises against."""
_IN_RESULTS: Final = re.compile(_ADVISED)
_IN_ADVICE: Final = re.compile(f"{_ADVISED}|{_REPEATED}")
_RESOURCES: Final = re.compile(r" A client that reads resources [^\n]*")
"""Advice to read a large result as a resource: resources are the other server's, and not published with its tools."""
_ABOUT: Final = frozenset({"processId", "questionId"})
"""The arguments of a call that answers a question which say what is answered; the one that is left is the answer."""


@dataclass(frozen=True, slots=True)
class RemoteProcess:
    """A process that runs, or waits for a person, on another goalport."""

    process_id: str
    tool: str
    """The tool of the same server that is to be called next."""
    arguments: Mapping[str, Any]
    question: Mapping[str, Any] | None
    """What a person is asked first; None: the process runs, and the next call waits for it."""

    @property
    def message(self) -> str:
        """What the person reads, with the address that they open, if there is one."""
        asked = self.question or {}
        return "\n".join(str(asked[each]) for each in ("message", "url") if asked.get(each))

    @property
    def form(self) -> Mapping[str, object]:
        """The JSON Schema of an object: of the answer, or of one whose only member is the answer, as a yes or no is."""
        schema, argument = self._asked()
        if schema.get("type") == "object":
            return schema
        return {"type": "object", "properties": {argument: schema}, "required": [argument]}

    def answered(self, answer: Mapping[str, object] | None) -> tuple[str, dict[str, Any]]:
        """The call (tool and arguments) that passes on the answer of a person; None: they declined."""
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
    """The process that a result stands for; None: it is another result."""
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
    # Questions of every kind are answered by their schema, in the one argument of the next call that is left for it.
    if question is not None and not (isinstance(question.get("schema"), dict) and len(call.keys() - _ABOUT) == 1):
        return None
    return RemoteProcess(content["processId"], following["tool"], call, question)


async def followed_process(
    result: "CallToolResult",
    call: Call,
    send: "Callable[[str, Mapping[str, object], Call], Awaitable[CallToolResult]]",
) -> "CallToolResult":
    """The result of a process on another goalport; its questions are put to the person behind the call.

    `send` makes a call. Where there is nobody to ask, the answer that names the process is the result: the caller can
    follow it.
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
    """A result of another goalport with the names in its advice changed by `rename`; any other result unchanged.

    `names` are those of the server's tools, which its errors may speak of.
    """
    if _PROCESS not in (result.meta or {}):
        return result
    content = _content_of(result)
    named = _IN_RESULTS if content is None else _IN_ADVICE
    if content is None and result.is_error:
        # The name of a tool that has small letters alone may be a word of the sentence.
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
    """The structured content, where it is about the process that answered and holds the next call; else None."""
    content: Any = result.structured_content
    process: object = (result.meta or {}).get(_PROCESS)
    if not isinstance(process, str) or not isinstance(content, dict):
        return None
    members = cast("dict[str, Any]", content)
    following = members.get("next")
    is_next = isinstance(following, dict) and isinstance(cast("dict[str, Any]", following).get("tool"), str)
    return members if members.get("processId") == process and is_next else None
