"""What an action may ask for beside its inputs: its process, the blackboard, its tools, and a way to tell progress.

A context belongs to one attempt of one action. Once the attempt has been abandoned it refuses to touch the process.
"""

from asyncio import CancelledError, current_task
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from inspect import iscoroutinefunction
from typing import Self, TypeVar, cast

from anyio import CapacityLimiter, create_task_group, get_cancelled_exc_class, to_thread

from goalport.ai import Ai, Around, Interaction, Interruption, around, within
from goalport.blackboard import DEFAULT_BINDING, Blackboard
from goalport.caller import Caller
from goalport.errors import GoalportError, NonRetryable, UnknownName
from goalport.events import ProgressUpdated
from goalport.llm import TokenUsage
from goalport.process.agent_process import AgentProcess
from goalport.process.operation import ActionOperation
from goalport.process.outcome import Completed, Waiting
from goalport.tools import Tool

__all__ = ["ActionContext", "OperationContext", "Parked", "run_subagent"]

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")
_DEEPEST = 20
"""How many processes may be started within one another; what goes deeper starts itself."""
_current: "ContextVar[ActionContext | None]" = ContextVar("goalport_context", default=None)
_place: ContextVar[str] = ContextVar("goalport_place", default="")
"""Which of the items of `parallel_map` the calling code works on; empty outside."""


class Parked(Interruption):
    """An action cannot go on until a person has answered a process that it started."""

    def __init__(self, child: AgentProcess) -> None:
        super().__init__(child.id)
        self.child = child


class OperationContext:
    """What an action or a condition sees of the run around it (user guide, section 3.6.4)."""

    def __init__(self, process: AgentProcess, tools: Iterable[Tool] = (), action: str = "") -> None:
        self.process = process
        self.action = action
        """The name of the action, condition or cost that it was made for."""
        self.tools = tuple(tools)
        """The tools of the groups that the action names."""
        self._ai: Ai | None = None
        self._abandoned = False

    @property
    def blackboard(self) -> Blackboard:
        """What the process knows so far."""
        return self.process.blackboard

    @property
    def caller(self) -> Caller:
        """On whose behalf the process runs."""
        return self.process.caller

    @property
    def ai(self) -> Ai:
        """The way to a model, which may call the tools of the groups that the action names.

        What it costs counts towards the process, and its budget is checked before each request.
        """
        if self._ai is None:
            lent = self.process.surroundings
            declared = self.process.scope.actions.get(self.action)
            roles = () if declared is None else declared.roles
            there = tuple(role for role in roles if lent.groups.find(role) is not None)
            self._ai = Ai(lent.engine(ActionOperation(self), lent.groups), Interaction(tool_groups=there))
        return self._ai

    @property
    def cancelled(self) -> bool:
        """Whether the result will be thrown away, so that a long `def` action can stop early."""
        return self._abandoned or self.process.outcome is not None

    def add(self, value: object) -> None:
        """Put an object on the blackboard."""
        self.bind(DEFAULT_BINDING, value)

    def bind(self, name: str, value: object) -> None:
        """Put an object on the blackboard under a name."""
        self._refuse_when_abandoned()
        self.blackboard.bind(name, value)

    __setitem__ = bind

    def __iadd__(self, value: object) -> Self:
        self.add(value)
        return self

    def last(self, kind: type[T]) -> T | None:
        """The newest object of a type on the blackboard, or None."""
        return self.blackboard.last(kind)

    def tool(self, name: str) -> Tool:
        """One of the action's tools. Raises `UnknownName`."""
        found = next((each for each in self.tools if each.name == name), None)
        if found is None:
            raise UnknownName("tool", name, [each.name for each in self.tools])
        return found

    def progress(self, message: str) -> None:
        """Tell whoever watches how far the work is."""
        self._refuse_when_abandoned()
        self.process.emit(ProgressUpdated(str(message), process_id=self.process.id))

    def spend(self, *, cost: float = 0.0, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Count a model's cost (in US dollars) and tokens towards the process's budget."""
        self._refuse_when_abandoned()
        spent = TokenUsage(cost=cost, input_tokens=input_tokens, output_tokens=output_tokens)
        self.process.spend(spent, action=self.action)

    async def call(self, function: Callable[..., object], /, **arguments: object) -> object:
        """Call a function as goalport calls actions: awaited when it is async, else in a worker thread of the platform.

        When the wait is cancelled, an async function is cancelled with it; one in a thread is abandoned, and may notice
        by `cancelled`.
        """
        try:
            return await self._called(partial(function, **arguments), is_async=iscoroutinefunction(function))
        except CancelledError:
            self._abandoned = True
            task = current_task()
            if task is not None and task.cancelling():
                raise
            raise NonRetryable("Something that it waited for was cancelled. Catch that where it is awaited.") from None
        except SystemExit as exit_:
            raise NonRetryable(f"It tried to exit the program ({exit_}). Raise an error instead.") from None

    async def _called(self, function: Callable[[], object], *, is_async: bool) -> object:
        if is_async:
            return await cast("Awaitable[object]", function())
        limiter = self.process.surroundings.limiter
        result = await to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)
        return await cast("Awaitable[object]", result) if hasattr(result, "__await__") else result

    def _refuse_when_abandoned(self) -> None:
        if self.cancelled:
            raise NonRetryable(
                f"Process {self.process.id} no longer waits for this action. Stop when context.cancelled is true."
            )


class ActionContext(OperationContext):
    """The context of an action: it can start processes of its own, and work through many items at once."""

    def __init__(self, process: AgentProcess, tools: Iterable[Tool] = (), action: str = "") -> None:
        super().__init__(process, tools, action)
        self._counted: Counter[str] = Counter()
        """How many processes, and how many runs over items, have begun at each place of the action."""

    @property
    def key(self) -> str:
        """The same for each attempt of this action in this process: what makes an outside effect happen once."""
        progress = self.process.progress
        return f"{self.process.id}:{progress.sequence.get(self.action, progress.begun)}"

    @staticmethod
    def current() -> "ActionContext":
        """The context of the action that the calling code runs in. Raises `GoalportError` outside of one."""
        found = _current.get()
        if found is None:
            raise GoalportError("Expected to be called from an action, but none is running here. Call it in an action.")
        return found

    @contextmanager
    def active(self) -> Generator[None]:
        """The time in which this is the current context."""
        token = _current.set(self)
        try:
            with within(Around(self.process, lambda: self.ai.engine, around().line)):
                yield
        finally:
            _current.reset(token)

    async def as_sub_process(self, kind: type[T], agent: object, *inputs: object) -> T:
        """Run another agent on a copy of this blackboard, and return its result of type `kind`.

        `agent` is a name, an instance or an `Agent`; `inputs` are added to the copy. Nothing but the result comes back.
        When a person has to be asked, the action is parked: it begins again once there is an answer, and finds what it
        had started. Raises `ProcessEnded`, by its kind, when there is no result.
        """
        entry = f"{self.action}:{self._next(_place.get())}"
        journal = self.process.progress.journal
        child = journal.get(entry)
        if child is None:
            _refuse_depth(self.process)
            child = journal[entry] = self.process.surroundings.start_child(self.process, agent, kind, inputs)
            child.started_by = self.action
        try:
            outcome = await child.wait()
        except get_cancelled_exc_class():
            child.kill("What it was started for was cancelled.")
            raise
        if isinstance(outcome, Waiting):
            raise Parked(child)
        if not isinstance(outcome, Completed):
            del journal[entry]
        return child.result_of_type(kind)

    async def parallel_map(
        self, items: Iterable[I], function: Callable[[I], Awaitable[R] | R], *, max_concurrency: int = 8
    ) -> list[R]:
        """The results of a function for every item, in their order, several at a time; `def` runs in threads.

        The first failure cancels the rest and is raised; where people have to be asked, all others are done before.
        Raises `ValueError` when not even one may run.
        """
        if max_concurrency < 1:
            raise ValueError(f"Expected max_concurrency to be 1 or more, but got {max_concurrency!r}.")
        given, here = list(items), self._next(_place.get())
        results: dict[int, R] = {}
        parked: list[Parked] = []
        limiter = CapacityLimiter(max_concurrency)

        async def one(index: int) -> None:
            _place.set(f"{here}[{index}]")
            async with limiter:
                try:
                    results[index] = cast("R", await self.call(partial(function, given[index])))
                except Parked as waiting:
                    parked.append(waiting)

        try:
            async with create_task_group() as tasks:
                for index in range(len(given)):
                    tasks.start_soon(one, index)
        except BaseExceptionGroup as group:
            raise _first(group) from None
        if parked:
            raise parked[0]
        return [results[index] for index in range(len(given))]

    def _next(self, place: str) -> str:
        """A name for what begins now, the same whenever the action does the same again, in whatever order."""
        self._counted[place] += 1
        return f"{place}.{self._counted[place]}"


async def run_subagent(agent: object, kind: type[T], *inputs: object) -> T:
    """Run another agent for the action that is running; what `ActionContext.as_sub_process` does, without a context."""
    return await ActionContext.current().as_sub_process(kind, agent, *inputs)


def _refuse_depth(process: AgentProcess) -> None:
    line = [process]
    while line[-1].parent is not None:
        line.append(line[-1].parent)
    if len(line) >= _DEEPEST:
        names = " → ".join(each.agent.name for each in reversed(line[-4:]))
        raise NonRetryable(f"Processes start one another more than {_DEEPEST} deep: {names}. Find the circle.")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that counts: waiting for a person before all others."""
    parked, rest = group.split(Parked)
    found: BaseException = parked or rest or group
    while isinstance(found, BaseExceptionGroup):
        found = cast("BaseExceptionGroup[BaseException]", found).exceptions[0]
    return found
