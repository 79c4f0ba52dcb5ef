"""The context of an action: gives it its process, the blackboard, its tools, and a way to report progress.

A context belongs to one attempt of one action. After the attempt was abandoned, it refuses to change the process.
"""

from asyncio import CancelledError
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextvars import ContextVar
from copy import copy
from functools import partial
from inspect import CO_COROUTINE, iscoroutinefunction
from logging import getLogger
from time import perf_counter
from typing import Any, Final, Generic, Self, TypeAlias, TypeGuard, TypeVar, cast, overload

from anyio import CapacityLimiter, create_task_group, get_cancelled_exc_class

from goalport.agents.blackboard import DEFAULT_BINDING, Blackboard
from goalport.agents.domain import SERVICES, Agent, WaitFor
from goalport.base.caller import Caller
from goalport.base.errors import Declined, GoalportError, NonRetryable, UnknownName, leaves
from goalport.base.events import MessageDelta, MessageSent, ProgressUpdated
from goalport.base.secrecy import SecretHider
from goalport.base.words import type_name
from goalport.models.llm import AssistantMessage, TextDelta, ThinkingDelta, TokenUsage
from goalport.runtime.ai import TOOL_CONTEXT, Ai, Interaction, ToolContext, to_be_awaited, tool_context
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.attempt import ActionCalls, ActionOperation, Attempt
from goalport.runtime.process.journal import (
    PLACE,
    Journal,
    Names,
    Parked,
    at_place,
    fingerprint_of_question,
    id_of_step,
)
from goalport.runtime.process.lifecycle import Completed, Waiting
from goalport.runtime.process.questions import SchemaSubmission
from goalport.tools import CALL_SITE, Contained, ContextValues, Tool, in_thread
from goalport.tools.functions import CURRENT, PREPARE

Sendable: TypeAlias = AssistantMessage | str | AsyncIterator[str] | AsyncIterator[TextDelta | ThinkingDelta]
"""A message, its text, or its pieces as they come."""


async def send_message(attempt: Attempt, message: Sendable) -> AssistantMessage:
    """Send a message, and return it as it is kept; one that an earlier run of the action has sent is not sent again."""
    name = attempt.names.next("message")
    known = attempt.journal.messages.get(name)
    if known is not None:
        await _close(message)
        return known
    process, message_id = attempt.process, id_of_step(name)
    whole = await _whole(attempt, message_id, message)
    sent = await process.platform.send_message(process, message_id, whole)
    attempt.journal.note_message(name, sent)
    process.emit(MessageSent(message_id, sent.content, action=attempt.action, process_id=process.id))
    return sent


async def _whole(attempt: Attempt, message_id: str, message: Sendable) -> AssistantMessage:
    """The message, after its pieces were told."""
    if isinstance(message, AssistantMessage):
        return message
    if isinstance(message, str):
        return AssistantMessage(message)
    text, thoughts = _Pieces(attempt, message_id), _Pieces(attempt, message_id, thinking=True)
    try:
        async for piece in message:
            now, before = (thoughts, text) if isinstance(piece, ThinkingDelta) else (text, thoughts)
            before.pause()
            now.add(piece if isinstance(piece, str) else piece.text)
    finally:
        await _close(message)
    text.pause()
    thoughts.pause()
    return AssistantMessage(text.whole, thinking=thoughts.whole)


class _Pieces:
    """The pieces of a message, or of the thoughts about it; each is told when it comes, without secrets."""

    def __init__(self, attempt: Attempt, message_id: str, *, thinking: bool = False) -> None:
        self._attempt, self._message_id, self._thinking = attempt, message_id, thinking
        self._came: list[str] = []
        self._hider = SecretHider()

    def add(self, piece: str) -> None:
        """Tell one more piece."""
        self._came.append(piece)
        self._tell(self._hider.next(piece))

    def pause(self) -> None:
        """Tell what was held back, since another text goes on now."""
        self._tell(self._hider.end())

    @property
    def whole(self) -> str:
        """All pieces as they came."""
        return "".join(self._came)

    def _tell(self, words: str) -> None:
        process, action = self._attempt.process, self._attempt.action
        if words:
            process.emit(MessageDelta(self._message_id, words, self._thinking, action, process_id=process.id))


async def _close(message: object) -> None:
    """End the request to a model whose answer nobody reads any further."""
    if isinstance(message, AsyncGenerator):
        await cast("AsyncGenerator[object]", message).aclose()


_log = getLogger(__name__)
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")
_DEEPEST = 20
"""How deep processes may start one another; a deeper nesting is taken for an endless recursion."""
_current: "ContextVar[ActionContext | None]" = ContextVar("goalport_context", default=None)


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
        self._abandoned = False
        self._copy_of: OperationContext | None = None
        self._board: Blackboard | None = None
        self._place = ""

    @property
    def blackboard(self) -> Blackboard:
        """What the process knows so far."""
        return self.process.blackboard if self._board is None else self._board

    def on_copy(self, *objects: object, place: str = "") -> Self:
        """The same context on a copy of its blackboard, with these objects added; what is added there stays there.

        `place` says in progress where in the action it is reported.
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
        ended = self._abandoned or self.process.outcome is not None
        return ended or (self._copy_of is not None and self._copy_of.cancelled)

    def take_tools(self, tools: Iterable[Tool]) -> None:
        """Have these as the tools of the action, before it begins."""
        self.tools = tuple(tools)

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
                self._abandoned = True
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
        return f"{self.process.id}:{self.process.progress.number_of(self.action)}"

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
        dict. A question that says all of it may stand in place of the message, such as `WaitFor.choice(…)`. The action
        is parked: its code stops here, and starts from the beginning once there is an answer. What its models replied,
        its tools returned and people answered is then taken from the journal; other code before this line runs again.
        `key` identifies the question if its text changes each time. Without an answer within `expires_in` seconds the
        answer is a no. Raises `Declined` after a no, and `NonRetryable` outside of actions.
        """
        wait: WaitFor[Any]
        if isinstance(message, WaitFor):
            wait = message
        elif isinstance(kind, Mapping):
            wait = SchemaSubmission(message, cast("Mapping[str, object]", kind), expires_in)
        else:
            wait = WaitFor[Any].form_submission(message, kind, expires_in=expires_in)
        name = f"{self.journal.key}/{key}" if key else self.names.next("ask", fingerprint_of_question(wait.message))
        return await self.asked(name, wait)

    async def asked(self, name: str, wait: WaitFor[Any], /, *, approval: bool = False) -> Any:
        """Return the answer to the question of that name; ask it if that was not done. Raises what `ask` raises.

        `approval` says that the question is whether a tool may be called.
        """
        self._refuse_when_abandoned()
        self._refuse_to_wait_in_vain()
        question = self.journal.questions.get(name)
        if question is None:
            _refuse_ephemeral(self.process, "ask people")
            question = self.process.ask(self.action, wait, in_action=True)
            self.journal.note_question(name, question, approval=approval)
        match question.status:
            case "open":
                self.journal.park()
                raise Parked
            case "answered":
                return question.answer
            case _:
                raise Declined(question.message, question.reason)

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
        entry = self.names.next("child", f"{_name_of(agent)}-{type_name(kind)}")
        child = self.journal.children.get(entry)
        if child is None:
            _refuse_ephemeral(self.process, "start others")
            _refuse_depth(self.process)
            child = self.process.platform.start_child(self.process, self.action, agent, kind, inputs)
            self.journal.note_child(entry, child)
        try:
            outcome = await child.wait()
        except get_cancelled_exc_class():
            if not self.process.remote:
                child.kill("What it was started for was cancelled.")
            raise
        if isinstance(outcome, Waiting):
            self._refuse_to_wait_in_vain()
            self.journal.park(child)
            raise Parked
        if not isinstance(outcome, Completed):
            self.journal.forget_child(entry)
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

    def abandon(self) -> None:
        """Make sure that nothing this attempt has begun can still change the process."""
        self._abandoned = True

    def _refuse_to_wait_in_vain(self) -> None:
        if self.process.progress.journals.get(self.action) is not self.journal:
            raise NonRetryable("Only an action can wait for a person, not a condition or a cost. Ask in an action.")


@to_be_awaited
async def run_subagent(agent: object, kind: type[T], *inputs: object) -> T:
    """Run another agent for the running action, as `ActionContext.as_sub_process` does, without having a context."""
    return await ActionContext.current().as_sub_process(kind, agent, *inputs)


for _each in (OperationContext, run_subagent):  # a tool that takes the one, or calls the other, works only in a process
    setattr(_each, CURRENT, ActionContext.current)


def _refuse_ephemeral(process: AgentProcess, wanted: str) -> None:
    if process.options.ephemeral:
        raise NonRetryable(f"An ephemeral process cannot {wanted}: nobody would find it. Run it without ephemeral.")


def _refuse_depth(process: AgentProcess) -> None:
    line = [process]
    while line[-1].parent is not None:
        line.append(line[-1].parent)
    if len(line) >= _DEEPEST:
        names = " → ".join(each.agent.name for each in reversed(line[-4:]))
        raise NonRetryable(f"Processes start one another more than {_DEEPEST} deep: {names}. Find the circle.")


def _name_of(agent: object) -> str:
    if isinstance(agent, str):
        return agent
    return agent.name if isinstance(agent, Agent) else (agent if isinstance(agent, type) else type(agent)).__name__


_BLOCKING_SECONDS: Final = 0.5
"""The number of seconds for which a function may block the event loop before a warning is logged."""


def is_async(function: Callable[..., object]) -> TypeGuard[Callable[..., Coroutine[Any, Any, object]]]:
    """Whether calling a function gives a coroutine; most say it themselves, and inspect looks for long."""
    code = getattr(function, "__code__", None)
    return (code is not None and bool(code.co_flags & CO_COROUTINE)) or iscoroutinefunction(function)


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
