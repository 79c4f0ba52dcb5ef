"""What the code of an action works with: its context, and the handling of its calls of tools and models.

A context belongs to one attempt of one action: it gives the action its process, the blackboard, its tools, and a way to
report progress. After the attempt was abandoned, it refuses to change the process. Tool calls of the action (by a
model, by its own code, by another tool) are recorded in its journal. Before a call that needs approval a person is
asked; calls of upstream servers continue while their action is parked. Before each turn of a model the process may
pause, or end the action. Above: `execution`, which creates a context for each attempt.
"""

import inspect
import json
from asyncio import CancelledError
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
)
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from logging import getLogger
from time import perf_counter
from types import coroutine
from typing import Any, Final, Self, TypeAlias, TypeGuard, TypeVar, cast, overload

import anyio
from anyio import CapacityLimiter, create_task_group, get_cancelled_exc_class

from goalport.agents.blackboard import DEFAULT_BINDING, Blackboard
from goalport.agents.domain import SERVICES, Agent, WaitFor
from goalport.base.caller import Caller
from goalport.base.errors import (
    Declined,
    GoalportError,
    NonRetryable,
    TerminateAction,
    ToolError,
    UnknownName,
    leaves,
)
from goalport.base.events import (
    Event,
    MessageDelta,
    MessageSent,
    ModelReplied,
    ModelRetried,
    ProgressUpdated,
    SourcesShown,
)
from goalport.base.secrecy import SecretHider
from goalport.base.words import excerpt, one_line, type_name
from goalport.models.llm import AssistantMessage, ModelCall, ModelReply, TextDelta, ThinkingDelta, TokenUsage
from goalport.runtime.ai import (
    TOOL_CONTEXT,
    Ai,
    Interaction,
    Operation,
    ReplyRecord,
    SentPrompts,
    ToolContext,
    to_be_awaited,
    tool_context,
)
from goalport.runtime.process.action_progress import (
    PLACE,
    Journal,
    Names,
    OpenCall,
    Parked,
    at_place,
    fingerprint,
    fingerprint_of_model_call,
    fingerprint_of_tool_call,
)
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.lifecycle import Completed, ProcessStatus, Waiting
from goalport.runtime.process.questions import Question, SchemaSubmission
from goalport.tools import CALL_SITE, Contained, ContextValues, Tool, ToolResult, in_thread
from goalport.tools.functions import CURRENT, PREPARE
from goalport.tools.upstream.active_calls import Asked, SignInAddress

_log = getLogger(__name__)
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")
Sendable: TypeAlias = AssistantMessage | str | AsyncIterator[str] | AsyncIterator[TextDelta | ThinkingDelta]
"""A message, its text, or an iterator over the pieces of its text."""
_DEEPEST: Final = 20
"""The deepest nesting of sub-processes; deeper nesting is taken for an endless recursion."""
_BLOCKING_SECONDS: Final = 0.5
"""The number of seconds for which a function may block the event loop before a warning is logged."""
_SHOWN: Final = 2_000
"""The most characters of arguments that a person is shown."""
_LONGEST_REASON: Final = 300
"""The most characters of a model's reason for declining that people are shown."""
CONTEXT: "ContextVar[ActionContext | None]" = ContextVar("goalport_context", default=None)
"""The context of the action in which the calling code runs; None: outside of actions."""


class OperationContext:
    """An action's or a condition's access to its process (user guide, section 3.6.4)."""

    def __init__(self, process: AgentProcess, tools: Iterable[Tool] = (), action: str = "") -> None:
        self.process = process
        self.action = action
        """The name of the action, condition or cost that the context was made for."""
        self.tools = tuple(tools)
        """The tools of the groups that the action requires."""
        self.journal = process.progress.journals.get(action) or Journal(f"{process.id}:{action}")
        """The action's journal. For a condition or a cost it is a new one, which only this context uses."""
        self.names = Names(self.journal.key)
        self._ai: Ai | None = None
        self.abandoned = False
        """Whether the attempt has failed, was cancelled or is parked: code that it started may not change the
        process."""
        self._copy_of: OperationContext | None = None
        self._board: Blackboard | None = None
        self._place = ""

    @property
    def blackboard(self) -> Blackboard:
        """What the process knows so far."""
        return self.process.blackboard if self._board is None else self._board

    def on_copy(self, *objects: object, place: str = "") -> Self:
        """The same context on a copy of its blackboard, to which these objects are added; the original does not change.

        `place` names a part of the action; progress messages of the copy begin with it.
        """
        board = self.blackboard.spawn()
        for value in objects:
            board.add(value)
        again = copy(self)
        again._copy_of, again._board = self, board  # noqa: SLF001 - of its own class
        again._place = f"{self._place}{place}: " if place else self._place  # noqa: SLF001
        return again

    @property
    def caller(self) -> Caller:
        """The caller on whose behalf the process runs."""
        return self.process.caller

    @property
    def ai(self) -> Ai:
        """Access to models, which may call the tools of the groups that the action requires.

        Its cost is added to the process, and the budget is checked before each request.
        """
        if self._ai is None:
            declared = self.process.scope.actions.get(self.action)
            roles = () if declared is None else declared.roles
            engine = self.process.platform.engine(ActionOperation(self), self.process.groups)
            self._ai = Ai(engine, Interaction(tool_groups=roles))
        return self._ai

    @property
    def cancelled(self) -> bool:
        """Whether the result will be discarded; a long `def` action can check this and stop early."""
        ended = self.abandoned or self.process.outcome is not None
        return ended or (self._copy_of is not None and self._copy_of.cancelled)

    def add(self, value: object) -> None:
        """Put an object on the blackboard."""
        self.bind(DEFAULT_BINDING, value)

    def bind(self, name: str, value: object) -> None:
        """Put an object on the blackboard under a name."""
        self._refuse_when_abandoned()
        self.blackboard.bind(name, value)

    __setitem__ = bind

    def __getitem__(self, name: str) -> Any:
        """The object bound to a name on the blackboard. Raises `UnknownName`."""
        return self.blackboard[name]

    def bind_protected(self, name: str, value: object) -> None:
        """Bind an object on the blackboard to a name; `clear_blackboard` does not remove it."""
        self._refuse_when_abandoned()
        self.blackboard.bind_protected(name, value)

    def __iadd__(self, value: object) -> Self:
        self.add(value)
        return self

    def last(self, kind: type[T]) -> T | None:
        """The newest object of a type on the blackboard, or None."""
        return self.blackboard.last(kind)

    def tool(self, name: str) -> Tool:
        """The tool of that name among the action's tools. Raises `UnknownName`."""
        found = next((each for each in self.tools if each.name == name), None)
        if found is None:
            raise UnknownName("tool", name, [each.name for each in self.tools])
        return found

    def progress(self, message: str) -> None:
        """Report progress, in words, to everybody who follows the process."""
        self._refuse_when_abandoned()
        self.process.emit(ProgressUpdated(f"{self._place}{message}", process_id=self.process.id))

    def spend(self, *, cost: float = 0.0, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Add model costs (in US dollars) and tokens to the process; they count for its budget."""
        self._refuse_when_abandoned()
        spent = TokenUsage(cost=cost, input_tokens=input_tokens, output_tokens=output_tokens)
        self.process.spend(spent, action=self.action)

    async def call(self, function: Callable[..., object], /, **arguments: object) -> object:
        """Call a function as actions are called: awaited if it is async, else in a worker thread of the platform.

        When the wait is cancelled, an async function is cancelled with it. A function in a thread is abandoned; it can
        check `cancelled`.
        """
        with Contained():
            try:
                if is_async(function):
                    return await _timed(function(**arguments), self._warn_of_blocking)
                call, limiter = partial(function, **arguments), self.process.platform.limiter
                result = await in_thread(call, limiter, self._report_full_limiter)
                return await cast("Awaitable[object]", result) if hasattr(result, "__await__") else result
            except CancelledError:
                self.abandoned = True
                raise

    def _warn_of_blocking(self, seconds: float) -> None:
        text = (
            "%s held the event loop for %.1f s, in which nothing else could run. Write it as `def`, so that it runs in"
            " a thread, or await what takes long."
        )
        name = self.action or "A function"
        self.process.platform.rate_limited_log.log(_log.warning, name, text, name, seconds)

    def _report_full_limiter(self) -> None:
        words = (
            f"{self.action or 'A function'} waits for a thread: all {self.process.platform.limiter.total_tokens:g}"
            " run `def` functions, perhaps some that nobody waits for any more. max_threads sets how many may."
        )
        _log.info("Process %s: %s", self.process.id, words)
        self.process.emit(ProgressUpdated(words, process_id=self.process.id))

    async def asked(self, name: str, wait: WaitFor[Any], /, *, approval: bool = False) -> Any:
        """Return the answer to the question of that name; ask it if it was not asked yet.

        `approval` marks a question whether a tool may be called. Raises `Parked` while there is no answer, `Declined`
        after a no, and `NonRetryable` outside of actions.
        """
        self._refuse_when_abandoned()
        self._refuse_to_wait_in_vain()
        journal = self.journal
        question = journal.questions.get(name)
        if question is None:
            self._refuse_ephemeral("ask people")
            question = journal.questions[name] = self.process.ask(self.action, wait, in_action=True)
            if approval:
                journal.approvals.append(name)
        if question.status == "open":
            journal.parked = True
            raise Parked
        if question.status == "answered":
            return question.answer
        raise Declined(question.message, question.reason)

    def _refuse_ephemeral(self, wanted: str) -> None:
        if self.process.options.ephemeral:
            raise NonRetryable(f"An ephemeral process cannot {wanted}: nobody would find it. Run it without ephemeral.")

    def _refuse_to_wait_in_vain(self) -> None:
        if self.process.progress.journals.get(self.action) is not self.journal:
            raise NonRetryable("Only an action can wait for a person, not a condition or a cost. Ask in an action.")

    def _refuse_when_abandoned(self) -> None:
        if self.cancelled:
            raise NonRetryable(
                f"Process {self.process.id} no longer waits for this action. Stop when context.cancelled is true."
            )


class ActionContext(OperationContext):
    """The context of an action: it can also ask people, start sub-processes, and process many items concurrently."""

    @property
    def key(self) -> str:
        """An idempotency key for outside effects: the same for each attempt of this action in this process."""
        progress = self.process.progress
        return f"{self.process.id}:{progress.numbers.get(self.action, progress.begun)}"

    @staticmethod
    def current() -> "ActionContext":
        """The context of the action that the calling code runs in. Raises `GoalportError` outside of one."""
        found = CONTEXT.get()
        if found is None:
            raise GoalportError("Expected to be called from an action, but none is running here. Call it in an action.")
        return found

    __goalport_current__ = current

    def active(self) -> ContextValues:
        """A block in which this is the current context."""
        return ContextValues(
            (CONTEXT, self),
            (TOOL_CONTEXT, ToolContext(self.process, lambda: self.ai.engine, tool_context().callers)),
            (PLACE, ""),
            (CALL_SITE, ActionCalls(self)),
            (SERVICES, self.process.platform.service),
            (PREPARE, self.process.platform.prepare),
        )

    @overload
    async def ask(self, message: str, kind: type[T], /, *, key: str = "", expires_in: float | None = None) -> T: ...
    @overload
    async def ask(
        self, message: str, schema: Mapping[str, object], /, *, key: str = "", expires_in: float | None = None
    ) -> dict[str, Any]: ...
    @overload
    async def ask(self, wait: WaitFor[T], /, *, key: str = "") -> T: ...
    @to_be_awaited
    async def ask(
        self, message: str | WaitFor[Any], kind: Any = None, /, *, key: str = "", expires_in: float | None = None
    ) -> Any:
        """Ask a person in the middle of the action, and return the answer.

        `kind` is the type of the answer: `bool` for a yes or no, or the JSON Schema of an object, which is returned as
        a dict. A `WaitFor` such as `WaitFor.choice(…)` may replace the message and `kind`. The action is parked: its
        code stops here, and starts from the beginning once there is an answer. Then replies of models, results of tools
        and answers of people come from the journal; other code before this line runs again. `key` identifies the
        question if its text changes each time. Without an answer within `expires_in` seconds the answer is a no. Raises
        `Declined` after a no, and `NonRetryable` outside of actions.
        """
        wait: WaitFor[Any]
        if isinstance(message, WaitFor):
            wait = message
        elif isinstance(kind, Mapping):
            wait = SchemaSubmission(message, cast("Mapping[str, object]", kind), expires_in)
        else:
            wait = WaitFor[Any].form_submission(message, kind, expires_in=expires_in)
        name = f"{self.journal.key}/{key}" if key else self.names.next("ask", fingerprint(wait.message))
        return await self.asked(name, wait)

    @to_be_awaited
    async def send_message(self, message: Sendable, /) -> AssistantMessage:
        """Send a message to the person that the process talks to, and return it as it is stored.

        The pieces of an iterator, such as `context.ai.streaming().respond(…)`, are emitted as `MessageDelta` when they
        arrive, and then the whole message as `MessageSent`. If the iterator raises, so does this method, and nothing is
        stored. An action that begins again does not send its earlier messages again. Raises `StoreError` when the
        message cannot be stored.
        """
        self._refuse_when_abandoned()
        name = self.names.next("message")
        known = self.journal.messages.get(name)
        if known is not None:
            await _close(message)
            return known
        process, message_id = self.process, fingerprint(name)
        if isinstance(message, str):
            message = AssistantMessage(message)
        elif not isinstance(message, AssistantMessage):
            message = await self._gathered(message_id, message)
        sent = await process.platform.send_message(process, message_id, message)
        self.journal.messages[name] = sent
        process.emit(MessageSent(message_id, sent.content, action=self.action, process_id=process.id))
        return sent

    async def _gathered(
        self, message_id: str, pieces: AsyncIterator[str] | AsyncIterator[TextDelta | ThinkingDelta]
    ) -> AssistantMessage:
        """The message made of these pieces; each piece is emitted when it arrives, without secrets."""
        process, hider, thinking = self.process, SecretHider(), False
        texts, thoughts = list[str](), list[str]()

        def tell(words: str) -> None:
            if words:
                process.emit(MessageDelta(message_id, words, thinking, self.action, process_id=process.id))

        try:
            async for piece in pieces:
                if isinstance(piece, ThinkingDelta) is not thinking:  # first emit what was held back of the other text
                    tell(hider.end())
                    thinking = not thinking
                text = piece if isinstance(piece, str) else piece.text
                (thoughts if thinking else texts).append(text)
                tell(hider.next(text))
        finally:
            await _close(pieces)
        tell(hider.end())
        return AssistantMessage("".join(texts), thinking="".join(thoughts))

    @to_be_awaited
    async def as_sub_process(self, kind: type[T], agent: object, *inputs: object) -> T:
        """Run another agent on a copy of this blackboard, and return its result of type `kind`.

        `agent` is a name, an instance or an `Agent`; `inputs` are added to the copy. States, and objects of types that
        the agent's own actions produce, are not copied, so that the agent produces them itself. Without `inputs`,
        objects that its actions take are copied nevertheless. Only the result is returned to the calling process. When
        a person has to be asked, the action is parked: it begins again once there is an answer, and continues the same
        sub-process. Raises a subclass of `ProcessEnded` when there is no result.
        """
        name = agent.name if isinstance(agent, Agent) else (agent if isinstance(agent, type) else type(agent)).__name__
        entry = self.names.next("child", f"{agent if isinstance(agent, str) else name}-{type_name(kind)}")
        child = self.journal.children.get(entry)
        if child is None:
            self._refuse_ephemeral("start others")
            if len(line := self.process.ancestry) >= _DEEPEST:
                names = " → ".join(each.agent.name for each in reversed(line[-4:]))
                raise NonRetryable(f"Processes start one another more than {_DEEPEST} deep: {names}. Find the circle.")
            child = self.process.platform.start_child(self.process, self.action, agent, kind, inputs)
            self.journal.children[entry] = child
        try:
            outcome = await child.wait()
        except get_cancelled_exc_class():
            if not self.process.remote:
                child.kill("What it was started for was cancelled.")
            raise
        if isinstance(outcome, Waiting):
            self._refuse_to_wait_in_vain()
            self.journal.parked = True
            self.journal.waits_for.append(child)
            raise Parked
        if not isinstance(outcome, Completed):
            del self.journal.children[entry]  # the next run of the action starts another
        return child.result_of_type(kind)

    @to_be_awaited
    async def parallel_map(
        self, items: Iterable[I], function: Callable[[I], Awaitable[R] | R], *, max_concurrency: int = 8
    ) -> list[R]:
        """Call a function for every item, several at a time, and return the results in order; `def` runs in threads.

        The first failure cancels the rest and is raised; if people have to be asked, all other items finish first.
        Raises `ValueError` when `max_concurrency` is less than 1.
        """
        if max_concurrency < 1:
            raise ValueError(f"Expected max_concurrency to be 1 or more, but got {max_concurrency!r}.")
        given, here = list(items), self.names.next("map")
        results: dict[int, R] = {}
        parked: list[Parked] = []
        limiter, finished = CapacityLimiter(max_concurrency), self.journal.finished

        async def one(index: int) -> None:
            place = f"{here}[{index}]"
            if place in finished:
                results[index] = cast("R", finished[place])
                return
            async with limiter:
                try:
                    with at_place(place):
                        results[index] = cast("R", await copy(self).call(partial(function, given[index])))
                except Parked as waiting:
                    parked.append(waiting)

        try:
            async with create_task_group() as tasks:
                for index in range(len(given)):
                    tasks.start_soon(one, index)
        except BaseExceptionGroup as group:
            failures = list(leaves(group))  # waiting for a person is more important than all others
            raise next((each for each in failures if isinstance(each, Parked)), failures[0]) from None
        if parked:
            finished.update((f"{here}[{index}]", result) for index, result in results.items())
            raise parked[0]
        return [results[index] for index in range(len(given))]


@to_be_awaited
async def run_subagent(agent: object, kind: type[T], *inputs: object) -> T:
    """Run another agent for the running action, as `ActionContext.as_sub_process` does; no context is needed."""
    return await ActionContext.current().as_sub_process(kind, agent, *inputs)


for _each in (OperationContext, run_subagent):  # tools that use one of them work only in a process
    setattr(_each, CURRENT, ActionContext.current)


async def _close(message: object) -> None:
    """Close the iterator of a message, which ends a model's request whose reply nobody reads any further."""
    if isinstance(message, AsyncGenerator):
        await cast("AsyncGenerator[object]", message).aclose()


def is_async(function: Callable[..., object]) -> TypeGuard[Callable[..., Coroutine[Any, Any, object]]]:
    """Whether calling a function returns a coroutine. The flag is checked first, since `inspect` is slow."""
    code = getattr(function, "__code__", None)
    is_coroutine = code is not None and bool(code.co_flags & inspect.CO_COROUTINE)
    return is_coroutine or inspect.iscoroutinefunction(function)


@coroutine
def _timed(wrapped: Coroutine[Any, Any, T], report: Callable[[float], None]) -> Generator[Any, Any, T]:
    """Await a coroutine; `report` gets the seconds of each turn in which it blocked the event loop too long."""
    error: BaseException | None = None
    while True:
        start = perf_counter()
        try:
            waits_for = wrapped.send(None) if error is None else wrapped.throw(error)
        except StopIteration as end:
            return end.value
        finally:
            if (seconds := perf_counter() - start) >= _BLOCKING_SECONDS:
                report(seconds)
        try:
            yield waits_for
            error = None
        except BaseException as thrown:
            error = thrown


def _refuse_to_go_on(context: OperationContext) -> None:
    """Raise `TerminateAction` if the process is to end or its budget is spent, and `NonRetryable` if nobody waits.

    So an abandoned attempt asks no further model.
    """
    if context.cancelled:
        raise NonRetryable(f"Process {context.process.id} no longer waits for this: no model and no tool is called.")
    for each in reversed(context.process.ancestry):  # a parent whose budget is spent ends, or its turn does
        if each.end_requested is not None:
            raise TerminateAction(each.end_requested.reason)
        if overspent := each.options.overspent(each):
            each.exceed(overspent)
            raise TerminateAction(overspent)


@dataclass(frozen=True, slots=True)
class ActionCalls:
    """The `CallSite` of `goalport.tools` for an attempt of an action."""

    context: OperationContext

    @property
    def caller(self) -> Caller:
        return self.context.process.caller

    def emit(self, event: SourcesShown, /) -> None:
        process = self.context.process
        process.emit(replace(event, process_id=process.id, action=self.context.action))

    def before_request(self) -> None:
        _refuse_to_go_on(self.context)

    def spend(self, model: str, tokens: int, cost: float, seconds: float, /) -> None:
        usage = TokenUsage(input_tokens=tokens, cost=cost)
        self.context.process.spend(usage, action=self.context.action, model=model, seconds=seconds)

    def has_result(self, tool: Tool, arguments: Mapping[str, object], /) -> bool:
        what = fingerprint_of_tool_call(tool.name, arguments)
        return self.context.names.next("tool", what, peek=True) in self.context.journal.results

    async def call(self, tool: Tool, arguments: Mapping[str, object], /) -> ToolResult:
        """Return the result of a call, new or from the journal. Raises `Parked` when a person has to be asked first."""
        journal = self.context.journal
        name = self.context.names.next("tool", fingerprint_of_tool_call(tool.name, arguments))
        if name in journal.results:
            return journal.results[name]
        if tool.needs_approval and (refusal := await self._refusal(name, tool, arguments)):
            return ToolResult.of_error(refusal)
        with at_place(name):
            try:
                result = await (self._open_call(name, tool, arguments) if tool.server else tool.run(arguments))
            except BaseExceptionGroup:
                if journal.parked:
                    raise Parked from None
                raise
            except get_cancelled_exc_class():
                # Parking another part of the action may cancel this wait, but an open call must not end with it.
                if not journal.parked:
                    journal.end_calls(name)
                raise
        journal.results[name] = result
        journal.calls.pop(name, None)
        await self.context.process.store_steps()
        return result

    async def call_once(self, tool: Tool, /) -> ToolResult:
        """Return the result of calling a tool without arguments; only an error is recorded.

        Concurrent callers share one call, which goes on when one of them is cancelled.
        """
        journal = self.context.journal
        name = f"{journal.key}/once:{tool.name}"
        if name in journal.results:
            return journal.results[name]
        result = await self._open_call(name, tool, {})
        journal.end_calls(name)
        if result.is_error:
            journal.results[name] = result
            await self.context.process.store_steps()
        return result

    async def _refusal(self, name: str, tool: Tool, arguments: Mapping[str, object]) -> str:
        """The message for the model if a person refused the call; empty when the call may be made."""
        if tool.confirmation is None:
            written = json.dumps(dict(arguments), ensure_ascii=False, default=str)
            of = f" of the server {tool.server!r}" if tool.server else ""
            words = f"May the tool {tool.name!r}{of} be called with {excerpt(written, _SHOWN)}?"
        else:
            words = tool.confirmation(arguments)
        try:
            wait = WaitFor[bool].form_submission(words, bool)
            reason = "" if await self.context.asked(name, wait, approval=True) else "The answer was no."
        except Declined as declined:
            reason = declined.reason
        refusal = f"A person was asked whether {tool.name!r} may be called, and it was not: {reason}"
        return f"{refusal} Do without this call." if reason else ""

    async def _open_call(self, name: str, tool: Tool, arguments: Mapping[str, object]) -> ToolResult:
        """Return the result of a call that stays open while a person is asked; start the call if it is not open yet."""
        journal = self.context.journal
        if name not in journal.calls:
            key = fingerprint(f"{name}/{journal.attempts}")
            server = _ServerCall(self.context, tool.server, name, key)
            run = partial(tool.run, arguments)
            journal.calls[name] = OpenCall(run, server.ask, server.withdraw, server.progress, server)
        result = await journal.calls[name].result()
        if result is None:
            journal.parked = True
            raise Parked
        return result


@dataclass(frozen=True, slots=True)
class _ServerCall:
    """A call of an upstream server: asks people the server's questions, and stores what the call has begun there."""

    context: OperationContext
    server: str
    name: str
    """The name of the call in the journal."""
    key: str

    @property
    def remote_task_id(self) -> str:
        found = self.context.journal.results.get(f"{self.name}/begun")
        return "" if found is None else found.text

    async def note_remote_task(self, identity: str, /) -> None:
        if identity != self.remote_task_id:
            self.context.journal.results[f"{self.name}/begun"] = ToolResult.of_text(identity)
            await self.context.process.store_steps()

    @property
    def will_be_repeated(self) -> bool:
        # A call is removed from the journal before it is cancelled.
        return self.context.process.remote or self.name in self.context.journal.calls

    def ask(self, message: str, asked: Asked, key: str, /) -> Question:
        questions, name = self.context.journal.questions, f"{self.name}/{key}"
        if key and (earlier := questions.get(name)) is not None and earlier.status != "withdrawn":
            return earlier
        wait = wait_for_server(self.server, message, asked)
        question = self.context.process.ask(self.context.action, wait, in_action=True)
        if key:
            questions[name] = question
        return question

    def withdraw(self, question: Question, /) -> None:
        process = self.context.process
        if process.withdraw_question(question) and process.status is ProcessStatus.WAITING:
            process.platform.resume(process)

    async def progress(self, done: float, of: float | None, message: str | None, /) -> None:
        words = message or (f"{done:g}" if of is None else f"{done:g}/{of:g}")
        self.context.process.emit(ProgressUpdated(f"{self.server}: {words}", process_id=self.context.process.id))


def wait_for_server(server: str, message: str, asked: Asked) -> WaitFor[Any]:
    """The question to a person for an upstream server. Raises `ToolError` if it can be no form and no link."""
    words = f"{server} asks: {message}"
    try:
        if isinstance(asked, SignInAddress | str):
            url = asked.url if isinstance(asked, SignInAddress) else asked
            # Only the addresses of our own actions have placeholders for our ids.
            unfilled = url.replace("{", "%7B").replace("}", "%7D")
            return WaitFor.url(words, unfilled, calls_back=isinstance(asked, SignInAddress))
        if not isinstance(asked.get("properties"), Mapping) or "$ref" in json.dumps(asked, default=str):
            raise TypeError("Expected fields, each described where it stands.")  # noqa: TRY301
        return SchemaSubmission(words, asked)
    except TypeError as error:
        raise ToolError(f"The server {server!r} asked for something that is no form: {error}") from None


@dataclass(slots=True)
class _JournaledReply:
    """The place in a journal for a model's reply: the `ReplyRecord` of `goalport.runtime`."""

    context: OperationContext
    name: str
    reply: ModelReply | None
    """The reply from an earlier run of the action; None: there is none yet."""

    async def keep(self, reply: ModelReply, /) -> None:
        self.context.journal.replies[self.name] = reply
        await self.context.process.store_steps()


class ActionOperation(Operation):
    """The `Operation` of `goalport.runtime` for an attempt of an action."""

    def __init__(self, context: OperationContext) -> None:
        self._context, self._process = context, context.process
        self.place = context.process.id, context.action
        self.prompts = context.process.prompts = context.process.prompts or SentPrompts()

    def record(self, model: str, call: ModelCall, /) -> ReplyRecord:
        """The record for the reply to a request; it has the reply already if the action began again."""
        name = self._context.names.next("model", fingerprint_of_model_call(model, call))
        return _JournaledReply(self._context, name, self._context.journal.replies.get(name))

    def emit(self, event: Event, /) -> None:
        """Emit an event of the process, and note whether a provider has to be asked again."""
        if isinstance(event, ModelRetried):
            self._process.progress.waits[event.action] = event.message
        elif isinstance(event, ModelReplied):
            self._process.progress.waits.pop(event.action, None)
        self._process.emit(event)

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        self._process.spend(usage, action=self._context.action, model=model, seconds=seconds)

    def decline(self, reason: str, /) -> None:
        """Note a model's reason for returning no object; it is shown if no other way leads to the goal."""
        declined, action = self._process.progress.declined, self._context.action
        declined.pop(action, None)
        if words := one_line(reason, _LONGEST_REASON):
            declined[action] = words

    def note_missing(self, role: str, why: str, /) -> None:
        """Log what is missing in a tool group and add it to the history, once in a run of the action."""
        missing = self._context.journal.missing
        if role not in missing:
            missing[role] = why
            _log.warning("%s runs without some of its tools. %s", self._context.action or "A condition", why)

    async def before_turn(self, tool: str, /) -> None:
        """Before a call of a tool, pause for the option `tool_delay`. `tool` is empty before a request to a model.

        Raises `TerminateAction` if the process is to end or its budget is spent, and `NonRetryable` if nobody waits.
        """
        _refuse_to_go_on(self._context)
        pause = self._process.options.tool_delay if tool else 0.0
        if pause > 0:
            await anyio.sleep(pause)
            _refuse_to_go_on(self._context)
