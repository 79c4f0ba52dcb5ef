"""What a user's function is given: the context of its action, and its arguments.

A context belongs to one attempt of one action: it gives the action its process, the blackboard, its tools, and a way to
report progress. After the attempt was abandoned, it refuses to change the process. Arguments are objects from the
blackboard, and services of the process and the platform. Also here are models that are asked and tools that are called
outside of actions: the platform's `Ai`, called inside of an action, works for that action; elsewhere events go to the
platform's listeners, and costs are noted by `spending_outside`.
"""

import inspect
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
    Sequence,
)
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from functools import partial
from logging import getLogger
from time import perf_counter
from typing import Any, Final, Generic, Protocol, Self, TypeAlias, TypeGuard, TypeVar, cast, overload, runtime_checkable

from anyio import CapacityLimiter, create_task_group, get_cancelled_exc_class

from goalport.agents.blackboard import DEFAULT_BINDING, Blackboard
from goalport.agents.domain import (
    SERVICES,
    Agent,
    Injected,
    Input,
    Parameter,
    ProvidedInput,
    Resolved,
    Resolver,
    WaitFor,
    inputs_among,
)
from goalport.base.caller import Caller
from goalport.base.errors import Declined, DeploymentError, GoalportError, NonRetryable, UnknownName, leaves
from goalport.base.events import Event, EventListener, MessageDelta, MessageSent, ProgressUpdated, SourcesShown
from goalport.base.secrecy import SecretHider
from goalport.base.words import type_name
from goalport.models.llm import AssistantMessage, TextDelta, ThinkingDelta, TokenUsage
from goalport.runtime.ai import (
    TOOL_CONTEXT,
    Ai,
    Interaction,
    Operation,
    ToolContext,
    to_be_awaited,
    tool_context,
)
from goalport.runtime.process.action_progress import PLACE, Journal, Names, Parked, at_place, fingerprint
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.attempt import ActionCalls, ActionOperation, Attempt
from goalport.runtime.process.ledger import Spending
from goalport.runtime.process.lifecycle import Completed, Waiting
from goalport.runtime.process.questions import SchemaSubmission
from goalport.tools import CALL_SITE, Contained, ContextValue, ContextValues, Tool, ToolResult, in_thread
from goalport.tools.functions import CURRENT, PREPARE

_log = getLogger(__name__)
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")
Sendable: TypeAlias = AssistantMessage | str | AsyncIterator[str] | AsyncIterator[TextDelta | ThinkingDelta]
"""A message, its text, or its pieces as they come."""
_DEEPEST: Final = 20
"""How deep processes may start one another; a deeper nesting is taken for an endless recursion."""
_BLOCKING_SECONDS: Final = 0.5
"""The number of seconds for which a function may block the event loop before a warning is logged."""
_current: "ContextVar[ActionContext | None]" = ContextVar("goalport_context", default=None)


async def send_message(attempt: Attempt, message: Sendable) -> AssistantMessage:
    """Send a message, and return it as it is kept; one that an earlier run of the action has sent is not sent again."""
    name = attempt.names.next("message")
    known = attempt.journal.messages.get(name)
    if known is not None:
        await _close(message)
        return known
    process, message_id = attempt.process, fingerprint(name)
    if not isinstance(message, AssistantMessage):
        told = AssistantMessage(message) if isinstance(message, str) else await _gathered(attempt, message_id, message)
        message = told
    sent = await process.platform.send_message(process, message_id, message)
    attempt.journal.messages[name] = sent
    process.emit(MessageSent(message_id, sent.content, action=attempt.action, process_id=process.id))
    return sent


async def _gathered(
    attempt: Attempt, message_id: str, pieces: AsyncIterator[str] | AsyncIterator[TextDelta | ThinkingDelta]
) -> AssistantMessage:
    """The message of these pieces; each is told when it comes, without secrets."""
    process, hider, thinking = attempt.process, SecretHider(), False
    texts, thoughts = list[str](), list[str]()

    def tell(words: str) -> None:
        if words:
            process.emit(MessageDelta(message_id, words, thinking, attempt.action, process_id=process.id))

    try:
        async for piece in pieces:
            if isinstance(piece, ThinkingDelta) is not thinking:  # what is held back of the other text comes first
                tell(hider.end())
                thinking = not thinking
            text = piece if isinstance(piece, str) else piece.text
            (thoughts if thinking else texts).append(text)
            tell(hider.next(text))
    finally:
        await _close(pieces)
    tell(hider.end())
    return AssistantMessage("".join(texts), thinking="".join(thoughts))


async def _close(message: object) -> None:
    """End the request to a model whose answer nobody reads any further."""
    if isinstance(message, AsyncGenerator):
        await cast("AsyncGenerator[object]", message).aclose()


class OperationContext:
    """An action's or a condition's access to its process (user guide, section 3.6.4)."""

    def __init__(self, process: AgentProcess, tools: Iterable[Tool] = (), action: str = "") -> None:
        self.process = process
        self.action = action
        """The name of the action, condition or cost that the context was made for."""
        self.tools = tuple(tools)
        """The tools of the groups that the action requires."""
        self.journal = process.progress.journals.get(action) or Journal(f"{process.id}:{action}")
        """What the action has done since it first began; for a condition or a cost, only what this context has seen."""
        self.names = Names(self.journal.key)
        self._ai: Ai | None = None
        self.abandoned = False
        """Whether nothing that the attempt has begun may still change the process."""
        self._copy_of: OperationContext | None = None
        self._board: Blackboard | None = None
        self._place = ""

    @property
    def blackboard(self) -> Blackboard:
        """What the process knows so far."""
        return self.process.blackboard if self._board is None else self._board

    def on_copy(self, *objects: object, place: str = "") -> Self:
        """The same context on a copy of its blackboard, with these objects added; what is added there stays there.

        `place` names a part of the action, and precedes the progress that is reported by the copy.
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
        """Put an object on the blackboard under a name whose object `clear_blackboard` keeps."""
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
        """Report the progress of the work, in words, to all who follow the process."""
        self._refuse_when_abandoned()
        self.process.emit(ProgressUpdated(f"{self._place}{message}", process_id=self.process.id))

    def spend(self, *, cost: float = 0.0, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Add the cost of a model (in US dollars) and its tokens to the process, and so to its budget."""
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
                    return await Timed(function(**arguments), self._warn_of_blocking)
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
        self.process.platform.rare_log.log(_log.warning, name, text, name, seconds)

    def _report_full_limiter(self) -> None:
        words = (
            f"{self.action or 'A function'} waits for a thread: all {self.process.platform.limiter.total_tokens:g}"
            " run `def` functions, perhaps some that nobody waits for any more. max_threads sets how many may."
        )
        _log.info("Process %s: %s", self.process.id, words)
        self.process.emit(ProgressUpdated(words, process_id=self.process.id))

    async def asked(self, name: str, wait: WaitFor[Any], /, *, approval: bool = False) -> Any:
        """Return the answer to the question of that name; ask it if it was not asked yet. Raises what `ask` raises.

        `approval` says that the question is whether a tool may be called.
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
        """An idempotency key for effects outside: the same for each attempt of this action in this process."""
        progress = self.process.progress
        return f"{self.process.id}:{progress.numbers.get(self.action, progress.begun)}"

    @staticmethod
    def current() -> "ActionContext":
        """The context of the action that the calling code runs in. Raises `GoalportError` outside of one."""
        found = _current.get()
        if found is None:
            raise GoalportError("Expected to be called from an action, but none is running here. Call it in an action.")
        return found

    __goalport_current__ = current

    def active(self) -> ContextValues:
        """The block in which this is the current context."""
        return ContextValues(
            (_current, self),
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

        `kind` is the type of the answer, `bool` for a yes or no, or the JSON Schema of an object, which comes as a
        dict. A `WaitFor` such as `WaitFor.choice(…)` may take the place of the message and of `kind`. The action is
        parked: its code stops here, and starts from the beginning once there is an answer. What its models replied, its
        tools returned and people answered is then taken from the journal; other code before this line runs again. `key`
        identifies the question if its text changes each time. Without an answer within `expires_in` seconds the answer
        is a no. Raises `Declined` after a no, and `NonRetryable` outside of actions.
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
        """Send a message to the person that the process talks to, and return it as it is kept.

        The pieces of an iterator, such as `context.ai.streaming().respond(…)`, are told while they come, as
        `MessageDelta`; the whole message is, as `MessageSent`. If the iterator raises, so does this, and nothing is
        kept of what came. An action that begins again does not send again what it had sent. Raises `StoreError` when
        the message cannot be kept.
        """
        self._refuse_when_abandoned()
        return await send_message(self, message)

    @to_be_awaited
    async def as_sub_process(self, kind: type[T], agent: object, *inputs: object) -> T:
        """Run another agent on a copy of this blackboard, and return its result of type `kind`.

        `agent` is a name, an instance or an `Agent`; `inputs` are added to the copy. Objects of types that the agent's
        own actions make are not copied, nor are states, so that the agent makes them itself. Without `inputs`, objects
        that its actions take are copied nevertheless. Only the result is returned to this blackboard's process.
        When a person has to be asked, the action is parked: it begins again once there is an answer, and continues the
        process that it had started. Raises a subclass of `ProcessEnded` when there is no result.
        """
        name = agent.name if isinstance(agent, Agent) else (agent if isinstance(agent, type) else type(agent)).__name__
        entry = self.names.next("child", f"{agent if isinstance(agent, str) else name}-{type_name(kind)}")
        child = self.journal.children.get(entry)
        if child is None:
            self._refuse_ephemeral("start others")
            line = [self.process]
            while line[-1].parent is not None:
                line.append(line[-1].parent)
            if len(line) >= _DEEPEST:
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
    """Run another agent for the running action, as `ActionContext.as_sub_process` does, without having a context."""
    return await ActionContext.current().as_sub_process(kind, agent, *inputs)


for _each in (OperationContext, run_subagent):  # a tool that takes the one, or calls the other, works only in a process
    setattr(_each, CURRENT, ActionContext.current)


def is_async(function: Callable[..., object]) -> TypeGuard[Callable[..., Coroutine[Any, Any, object]]]:
    """Whether calling a function gives a coroutine; most say it themselves, and inspect looks for long."""
    code = getattr(function, "__code__", None)
    is_coroutine = code is not None and bool(code.co_flags & inspect.CO_COROUTINE)
    return is_coroutine or inspect.iscoroutinefunction(function)


class Timed(Generic[T]):
    """A coroutine to be awaited in place of another; `report` is given the seconds of each turn that took too long."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], report: Callable[[float], None]) -> None:
        self._coroutine = coroutine
        self._report = report

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine = self._coroutine
        error: BaseException | None = None
        while True:
            start = perf_counter()
            try:
                waits_for = coroutine.send(None) if error is None else coroutine.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                if (seconds := perf_counter() - start) >= _BLOCKING_SECONDS:
                    self._report(seconds)
            try:
                yield waits_for
                error = None
            except BaseException as thrown:
                error = thrown


_RUN_SERVICES: Mapping[type, Callable[[ActionContext], object]] = {
    ActionContext: lambda context: context,
    OperationContext: lambda context: context,
    Blackboard: lambda context: context.blackboard,
    AgentProcess: lambda context: context.process,
    Ai: lambda context: context.ai,
}
SERVICE_TYPES: frozenset[type] = frozenset(_RUN_SERVICES)
"""The types that this package injects; they are not looked up on the blackboard."""


@runtime_checkable
class ArgumentResolver(Resolver, Protocol):
    """Fills parameters of its own choice; such parameters are no preconditions of the action.

    It is passed to the platform among its services. Several are asked in order, before goalport's own resolution;
    the blackboard is tried last.
    """

    def resolve(self, parameter: inspect.Parameter, context: ActionContext, /) -> object:
        """Return the argument of a supported parameter; called each time an action, condition or cost is called."""
        ...


def missing(parameters: Iterable[Parameter], blackboard: Blackboard) -> list[str]:
    """The types of required inputs that are missing on the blackboard."""
    wanted = (each for each in inputs_among(parameters) if each.required)
    return [type_name(each.type) for each in wanted if _find(each, blackboard) is None]


async def fill(parameters: Sequence[Parameter], owner: object, context: ActionContext) -> dict[str, object]:
    """An argument for each parameter, by name. What has to be entered for it is."""
    prepare = context.process.platform.prepare
    if prepare is not None:
        await prepare([each.type for each in parameters if isinstance(each, Injected | ProvidedInput)], owner)
    return {each.name: _argument(each, owner, context) for each in parameters}


def _argument(parameter: Parameter, owner: object, context: ActionContext) -> object:
    if isinstance(parameter, Input):
        found = _find(parameter, context.blackboard)
        return parameter.default if found is None else found
    if isinstance(parameter, Resolved):
        return cast("ArgumentResolver", parameter.resolver).resolve(parameter.parameter, context)
    if isinstance(parameter, ProvidedInput) and isinstance(owner, parameter.type):
        return owner
    of_run = _RUN_SERVICES.get(parameter.type)
    found = context.process.platform.service(parameter.type) if of_run is None else of_run(context)
    if found is None and isinstance(parameter, ProvidedInput):
        if parameter.required:
            raise DeploymentError(
                f"Expected the platform to have a service of type {parameter.type.__name__} for {parameter.name!r},"
                " but it has none. Give one: mark it with @service in a workspace; AgentPlatform(services=[…]) in a"
                " program."
            )
        return parameter.default
    return found


def _find(each: Input, blackboard: Blackboard) -> object | None:
    if each.parts:
        found: dict[str, object] = {}
        for part in each.parts:
            value = _find(part, blackboard)
            if value is None and part.required:
                return None
            if value is not None or part.default is None:
                found[part.name] = value
        return cast("type[object]", each.type)(**found)
    if each.binding == DEFAULT_BINDING:
        return blackboard.last(each.type)
    return blackboard.get(each.binding, cast("type[object]", each.type))


_noting: ContextVar[tuple[list[Spending], ...]] = ContextVar("goalport_spending", default=())


@contextmanager
def spending_outside() -> Generator[list[Spending]]:
    """A block in which the cost of models that are asked outside of processes is noted in the list that it gives."""
    noted: list[Spending] = []
    with ContextValue(_noting, (*_noting.get(), noted)):
        yield noted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outside(Operation):
    """The `Operation` outside of processes."""

    listener: EventListener

    def emit(self, event: Event, /) -> None:
        self.listener.on_event(event)

    def spend(self, model: str, usage: TokenUsage, seconds: float, /) -> None:
        _note(model, usage, seconds)


@dataclass(frozen=True, slots=True)
class DirectCalls:
    """Where a client calls tools by themselves, without a process: the `CallSite` of `goalport.tools`.

    Nobody can be asked for approval there, and nothing is recorded.
    """

    caller: Caller
    """The caller of the request."""
    listener: EventListener
    """Receives the events, which name no process."""

    def remembers(self, _tool: Tool, _arguments: Mapping[str, object], /) -> bool:
        return False

    async def call(self, tool: Tool, arguments: Mapping[str, object], /) -> ToolResult:
        """Return the result of the call; that of a tool whose calls a person has to approve is an error."""
        return await tool.run_unattended(arguments)

    async def call_once(self, tool: Tool, /) -> ToolResult:
        return await tool.run_unattended({})

    def emit(self, event: SourcesShown, /) -> None:
        self.listener.on_event(event)

    def before_request(self) -> None:
        """Refuse nothing: there is no budget."""

    def spend(self, model: str, tokens: int, cost: float, seconds: float, /) -> None:
        """Note one request that a tool made to a model in all blocks of `spending_outside`."""
        _note(model, TokenUsage(input_tokens=tokens, cost=cost), seconds)


def _note(model: str, usage: TokenUsage, seconds: float) -> None:
    for each in _noting.get():
        each.append(Spending("", "", model, usage, seconds))


def current_operation(listener: EventListener) -> Operation:
    """The operation of the running action, looked up at each use; elsewhere one whose events `listener` receives."""
    return cast("Operation", _Current(_Outside(listener=listener)))


class _Current:
    def __init__(self, outside: Operation) -> None:
        self._outside = outside

    def __getattr__(self, name: str) -> object:
        process = AgentProcess.current()
        if process is None:
            return getattr(self._outside, name)
        try:
            context = ActionContext.current()
        except GoalportError:
            context = ActionContext(process)
        # A process that was started by an action inherits the context variable of that action.
        return getattr(ActionOperation(context if context.process is process else ActionContext(process)), name)
