"""One run of an agent: what it knows, what it has done, its status and its outcome.

A process is data, and it emits an event for each change. It does not plan and runs no action itself: `tick` does that.
Listeners do not influence it. Its fields are set by the modules that run, store and restore it. Methods that end or
continue it first check whether that is allowed, so that no process is left unfinished with nothing to run it. Above:
everything that runs agents.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence, Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar, cast

from anyio import CancelScope, CapacityLimiter, move_on_after
from anyio.lowlevel import checkpoint_if_cancelled

from goalport.agents.blackboard import Blackboard, is_of
from goalport.agents.domain import Agent, Goal, RetryPolicy, WaitFor
from goalport.base.caller import Caller
from goalport.base.errors import AlreadyAnswered, GoalportError, HandedOver, ProcessEnded, leaves
from goalport.base.events import (
    ActionFinished,
    ActionStatus,
    Event,
    EventListener,
    ProcessFinished,
    QuestionAsked,
    QuestionSettled,
)
from goalport.base.observe import RateLimitedLog
from goalport.base.observe.spans import Trace, current_trace
from goalport.base.words import excerpt, type_name, with_article
from goalport.models.llm import AssistantMessage, TokenUsage
from goalport.runtime.ai import Engine, Operation, SentPrompts, tool_context
from goalport.runtime.process.action_progress import MOST_WORDS, ActionInvocation, ActionProgress, Failure, in_words
from goalport.runtime.process.ledger import FIRST_TURN, NOTHING, Ledger, Spending, TurnStart
from goalport.runtime.process.lifecycle import (
    Completed,
    Failed,
    Killed,
    Outcome,
    ProcessStatus,
    Stuck,
    Terminated,
    Waiting,
)
from goalport.runtime.process.listeners import EventLog, Listeners
from goalport.runtime.process.process_options import ProcessOptions
from goalport.runtime.process.questions import Question, Questions, QuestionStatus
from goalport.runtime.process.scope import Scope
from goalport.tools import ToolGroupResolver

T = TypeVar("T")
_NONE = frozenset[str]()
_counting_lock = threading.Lock()
"""Guards the counting of costs and of requested changes, which worker threads do too."""
_working: set["asyncio.Task[None]"] = set()
"""Strong references to the tasks of processes; the event loop itself keeps only weak ones."""
_REMEMBERED_INPUTS = 15
"""The number of earlier inputs whose tokens a process remembers in addition to the last one."""


class ProcessPlatform(Protocol):
    """What a process needs of the platform that runs it."""

    retry: RetryPolicy
    """The retry policy for actions that declare none."""
    tells_errors: bool
    """Whether callers see the message of an unexpected exception; otherwise only the log has it."""
    keep_journals: bool
    """Whether the history stores the replies of models and the results of tools."""
    max_object_bytes: int
    """The most memory that the result of an action may take, in bytes (estimated)."""
    rate_limited_log: RateLimitedLog
    """Logs which actions block the event loop, each at most once a minute."""
    on_spending: Callable[[Spending], None]
    """Called with the cost of each request to a model, from any thread; it must not raise."""
    prepare: "Callable[[Sequence[type], object], Awaitable[None]] | None"
    """Enters the services of these types, and completes an agent whose constructor needs them; None: nothing to do."""

    @property
    def limiter(self) -> CapacityLimiter:
        """How many `def` functions may run in worker threads at once."""
        ...

    def service(self, kind: type, /) -> object | None: ...

    def engine(self, operation: Operation, groups: ToolGroupResolver, /) -> Engine:
        """The engine that runs an action's requests to models."""
        ...

    def start_child(
        self, parent: "AgentProcess", action: str, agent: object, kind: type, inputs: Sequence[object], /
    ) -> "AgentProcess":
        """Start a process for an action that needs a result of the type `kind`."""
        ...

    def resume(self, process: "AgentProcess", /, *objects: object) -> None:
        """Continue a process that waits or is stuck, with more objects on its blackboard."""

    def ended_idle(self, process: "AgentProcess", /) -> None:
        """Store a process that was ended while nothing ran in it."""

    def unfollowed(self, process: "AgentProcess", /) -> None:
        """Note that the last follower of a process has left."""

    async def step(self, process: "AgentProcess", /) -> None: ...

    async def checkpoint(self, process: "AgentProcess", /) -> None:
        """Store a process between two of its actions."""

    async def store_steps(self, process: "AgentProcess", /) -> None:
        """Store what the running actions of a process have done so far."""

    async def send_message(
        self, process: "AgentProcess", message_id: str, message: AssistantMessage, /
    ) -> AssistantMessage:
        """Store a message before its event is emitted, in place of one of the same id; return it as stored."""
        ...


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class AgentProcess:
    """A process of one agent, on behalf of one caller (user guide, section 3.2)."""

    id: str
    scope: Scope
    options: ProcessOptions
    caller: Caller
    platform: ProcessPlatform
    groups: ToolGroupResolver
    _: KW_ONLY
    goals: tuple[str, ...] = ()
    """The names of the goals that it may pursue."""
    parent: "AgentProcess | None" = None
    """The process whose action started this one."""
    started_by: str = ""
    """The name of the action that started it."""
    children: "list[AgentProcess]" = field(default_factory=list["AgentProcess"], init=False)
    """The processes that its actions started."""
    agent: Agent = field(init=False)
    """Its agent, including the actions of components."""
    blackboard: Blackboard = field(init=False)
    listeners: Listeners = field(init=False)
    emit: Callable[[Event], None] = field(init=False)
    """Sends an event to the listeners, in order; callable from a worker thread too."""
    goal: Goal | None = field(default=None, init=False)
    plan: tuple[str, ...] = field(default=(), init=False)
    """The names of the actions still to run to reach the goal, as planned last."""
    status: ProcessStatus = field(default=ProcessStatus.NOT_STARTED, init=False)
    outcome: Outcome | None = field(default=None, init=False)
    """How it ended, or what it waits for; None while it can continue by itself."""
    end_requested: Outcome | None = field(default=None, init=False)
    """The outcome that `kill` or `terminate` asked for; the process ends with it as soon as it can."""
    created_at: datetime = field(init=False)
    finished_at: datetime | None = field(default=None, init=False)
    """The time of its outcome; None while it has none."""
    seconds_before: float = field(default=0.0, init=False)
    """Seconds that it ran before the current run, in this program and in others."""
    runs_since: float | None = field(default=None, init=False)
    progress: "ActionProgress[AgentProcess]" = field(init=False)
    questions: Questions = field(default_factory=Questions, init=False)
    failure: Failure | None = field(default=None, init=False)
    """The last failure, whether or not another way was found afterwards."""
    usage: TokenUsage = field(default=NOTHING, init=False)
    ledger: Ledger = field(default_factory=Ledger, init=False)
    """The model costs of this process and its sub-processes, by entry and in sums; `usage` is the total."""
    turn_start: TurnStart = field(default=FIRST_TURN, init=False)
    """Its progress and costs at the beginning of its current turn, if it has turns."""
    prompts: SentPrompts | None = field(default=None, init=False)
    """The prompts that its models were sent so far; None: none."""
    trace: Trace = field(init=False)
    """The trace context in which it was started; all its spans belong to that trace, in later programs too."""
    traced: bool = field(default=False, init=False)
    """Whether spans are recorded for it."""
    driven: bool = field(default=False, init=False)
    """Whether a task runs it now. A process that waits only for its sub-processes counts as running without a task."""
    stepped: bool = field(default=False, init=False)
    """Whether only `tick` continues it; an answer alone does not."""
    acting: int = field(default=0, init=False)
    """The number of actions that run now."""
    cancel_scope: CancelScope | None = field(default=None, init=False)
    """Cancels the running actions; None while nothing runs."""
    remote: bool = field(default=False, init=False)
    """Whether another program runs it, or will: then this object only shows what the store has of it."""
    closing: bool = field(default=False, init=False)
    """Whether this program is shutting down and no longer follows it."""
    durable: bool = field(default=False, init=False)
    """Whether each of its steps is stored, so that it can go on after a crash of the program."""
    action_end_unsaved: bool = field(default=False, init=False)
    """Whether the last action's end is not stored yet; it is stored with the next action or the process's end."""
    withholds_outcome: bool = field(default=False, init=False)
    """Whether its outcome is withheld until it is stored; see `withheld`."""
    withholds_final: bool = field(default=False, init=False)
    """Whether a final outcome is withheld too, because an unstored process would be run again from its beginning."""
    summarized: bool = field(default=False, init=False)
    """Whether only its outcome and its history are kept, because it ended long ago."""
    version: int | None = field(default=None, init=False)
    """For a root: how often its family was saved, as far as this program knows; None: unknown."""
    log: EventLog | None = field(default=None, init=False)
    """For a root: the events of its family that are to be stored; None: they are not stored."""
    not_stored: str = field(default="", init=False)
    """The reason why its last save failed, as reported; empty: it did not fail."""
    _subscribers: Listeners | None = field(default=None, init=False)
    _tasks: int = field(default=0, init=False)
    """The number of its tasks that run, or whose callbacks have not been called yet."""
    _requested_changes: int = field(default=0, init=False)
    """The number of requested changes, perhaps from other threads, that are not made yet."""
    _waiters: list[asyncio.Future[None]] = field(default_factory=list[asyncio.Future[None]], init=False)
    """One future for each coroutine that waits for a change."""

    def __post_init__(self) -> None:
        if self.parent is not None:
            self.parent.children.append(self)
        self.agent, self.progress = self.scope.agent, ActionProgress(self.id)
        self.created_at, self.trace = datetime.now(UTC), current_trace()
        self.listeners = Listeners(self.options.listeners, on_running_loop=True)
        self.emit = self.listeners.on_event
        on_bound, begin = self.listeners.binding_listener(self.id), self.options.blackboard
        self.blackboard = Blackboard(on_bound) if begin is None else begin.spawn(on_bound)
        self.blackboard.infer_types_by(self.scope.infer_type)

    @staticmethod
    def current() -> "AgentProcess | None":
        """The process that runs the calling code, inside actions, conditions and tools; None elsewhere."""
        process = tool_context().process
        return process if isinstance(process, AgentProcess) else None

    __goalport_current__ = current

    # Its state.

    @property
    def ancestry(self) -> "Sequence[AgentProcess]":
        """This process, the one that started it, and so on up to the root."""
        line: list[AgentProcess] = [self]
        while line[-1].parent is not None:
            line.append(line[-1].parent)
        return line

    @property
    def root(self) -> "AgentProcess":
        """The process that a caller started: this one, or its topmost ancestor."""
        root = self
        while root.parent is not None:
            root = root.parent
        return root

    @property
    def subtree(self) -> "Sequence[AgentProcess]":
        """This process and its sub-processes at all levels, each parent before its children."""
        found = [self]
        for each in found:
            found += each.children
        return found

    @property
    def family(self) -> "Sequence[AgentProcess]":
        """The root and its sub-processes at all levels, each parent before its children."""
        return self.root.subtree

    @property
    def over(self) -> bool:
        """Whether it has ended and can never continue."""
        return self.outcome is not None and self.outcome.final

    @property
    def idle(self) -> bool:
        """Whether it may be run now: nothing runs it, it is not over, and no end was requested."""
        return not (self.driven or self.over or self.end_requested)

    @property
    def ready(self) -> bool:
        """Whether it has begun, and can continue by itself."""
        waits = self.outcome is not None or self.stepped or self.progress.parked
        return not waits and self.status is not ProcessStatus.NOT_STARTED

    @property
    def busy(self) -> bool:
        """Whether something runs it, changes it, or is going to run it."""
        return self.driven or self.changing or self.ready

    @property
    def active(self) -> bool:
        """Whether anything runs in it, or in a process that it started."""
        return self.driven or self._tasks > 0 or self.changing or any(each.active for each in self.children)

    @property
    def changing(self) -> bool:
        """Whether a requested change of it, or of a process that it started, is not made yet."""
        own = not self.over and (self._requested_changes > 0 or self.end_requested is not None)
        return own or any(each.changing for each in self.children)

    @property
    def withheld(self) -> bool:
        """Whether its outcome is not shown to anybody yet, because it is not stored yet."""
        return self.withholds_outcome and (self.withholds_final or not self.over)

    @property
    def followed(self) -> bool:
        """Whether anybody has subscribed to its events."""
        return self._subscribers is not None and self._subscribers.attentive

    @property
    def watched(self) -> bool:
        """Whether anybody waits for it or follows it."""
        return bool(self._waiters) or self.followed

    @property
    def pending(self) -> AbstractSet[str]:
        """The names of the actions that wait for an answer."""
        if not self.questions and not self.progress.parked:
            return _NONE
        return {*self.progress.parked, *(question.action for question in self.questions.open)}

    @property
    def open_questions(self) -> tuple[Question, ...]:
        """The questions that people have to answer, here and in processes that its actions started; none once ended."""
        if self.status.ended:
            return ()
        return self.questions.open + tuple(each for child in self.children for each in child.open_questions)

    @property
    def history(self) -> tuple[ActionInvocation, ...]:
        """The actions that ran, in order."""
        return tuple(self.progress.history)

    @property
    def seconds_run(self) -> float:
        """Seconds that it has run, in this program and in others, without the time in which it waited."""
        return self.seconds_before + (0.0 if self.runs_since is None else time.monotonic() - self.runs_since)

    @property
    def turn_actions(self) -> int:
        """The number of actions that have run in its current turn; without turns, in all."""
        return len(self.progress.history) - self.turn_start.actions

    @property
    def turn_usage(self) -> TokenUsage:
        """The model costs of its current turn, including those of sub-processes; without turns, in all."""
        return self.usage if self.turn_start is FIRST_TURN else self.usage - self.turn_start.usage

    @property
    def turn_history(self) -> Sequence[ActionInvocation]:
        """The actions that ran in its current turn, in order; without turns, all."""
        return self.progress.history[self.turn_start.actions :]

    # Its result.

    async def wait(self) -> Outcome:
        """Wait until the process has an outcome, and return it: its end, its questions, or why it is stuck.

        After an answer the outcome that follows from the answer is returned. Cancelling the wait does not change the
        process. Raises `HandedOver` when this program ends first, and `GoalportError` if nothing has started it.
        """
        if self.status is ProcessStatus.NOT_STARTED and self.root.version is None and not (self.active or self.remote):
            raise GoalportError(f"Process {self.id} has not been started. Call run(), resume() or tick() first.")
        while self.outcome is None or self.withheld or (not self.over and self.changing):
            if self.closing:
                raise HandedOver(self.id)
            await self._change()
        return self.outcome

    async def rest(self) -> Outcome | None:
        """Wait until nothing runs any more in this process and its sub-processes, and return its outcome.

        A process rests when it has ended, waits for people, is stuck, has not started, or is driven by `tick` and is
        between two ticks. In the last two cases the outcome is None. Cancelling the wait does not change the process.
        """
        while self.active:
            await self._change()
        return self.outcome

    async def changed(self) -> None:
        """Wait until anything about it changes. Raises `HandedOver` when this program ends first."""
        if not self.closing:
            await self._change()
        if self.closing:
            raise HandedOver(self.id)

    async def pause(self, seconds: float) -> None:
        """Wait for so many seconds, or until its end is requested."""
        with move_on_after(seconds):
            while self.end_requested is None:
                await self._change()

    async def _change(self) -> None:
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(changed)
        try:
            await changed
        except asyncio.CancelledError:
            if changed in self._waiters:
                self._waiters.remove(changed)
            raise

    def notify_waiters(self) -> None:
        """Wake everybody who waits for this process, or for the process that started it."""
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for each in waiters:
                if not each.done():
                    each.set_result(None)
        if self.parent is not None:
            self.parent.notify_waiters()

    def result_of_type(self, kind: type[T]) -> T:
        """The result of a completed process: the goal's output if it has that type, else the newest object of it.

        Raises a subclass of `ProcessEnded` when the process has not reached its goal.
        """
        if self.outcome is None:
            raise ProcessEnded(self.id, "The process has not ended yet.")
        if not isinstance(self.outcome, Completed):
            raise self.outcome.error(self.id, self.outcome.reason) from (self.failure and self.failure.error)
        if is_of(self.outcome.value, self.goal and self.goal.output, kind):
            return self.outcome.value  # type: ignore[return-value]
        found = self.last(kind)
        if found is None:
            raise ProcessEnded(self.id, f"The goal was reached, but there is no {type_name(kind)}.")
        return found

    def last(self, kind: type[T]) -> T | None:
        """The newest visible object of a type, or None. Raises `ProcessEnded` when the blackboard is no longer kept."""
        if self.summarized:
            what = f"Whether there was {with_article(kind)} is not known any more: of what ended long ago, only the"
            raise ProcessEnded(
                self.id, f"{what} outcome and the history are kept. Hold on to the process to keep what it knew."
            )
        return self.blackboard.last(kind)

    # What continues it.

    def resume(self, *objects: object) -> None:
        """Continue a process that waits, is stuck or is between two ticks, with more objects on its blackboard.

        In any other state this does nothing. Callable from any thread.
        """
        self.platform.resume(self, *objects)

    async def tick(self) -> ProcessStatus:
        """Take one step: plan, and run the first action of the plan. Returns the new status.

        After that only `tick`, `run` or `resume` continue the process; an answer does not. A process that has ended is
        not changed. Raises `GoalportError` while something else runs it.
        """
        if not self.over:
            await self.platform.step(self)
        return self.status

    async def run(self) -> Outcome:
        """Run to the end, or until a person has to answer, and return the outcome."""
        self.resume()
        return await self.wait()

    def begin_turn(self, objects: Sequence[object], caller: Caller | None, token: str) -> bool:
        """Begin a turn of a process that rests: add objects to its blackboard, and start a new budget.

        `token` identifies these objects. Returns False, and changes nothing, if they were added before. Actions that
        failed may run again, and actions that were stopped while running start from the beginning; actions that wait
        for people keep waiting. `caller` is the caller of the process with its current scopes; None: unchanged.
        """
        seen, progress = self.turn_start.told, self.progress
        if token in seen:
            return False
        for action in [*progress.journals.keys() - self.pending]:
            progress.end(action, f"The turn in which {action} ran was stopped.")
        progress.left_out.clear()
        progress.declined.clear()
        progress.impasse_after = -1
        seen = (*seen[-_REMEMBERED_INPUTS:], token)
        self.turn_start = TurnStart(len(progress.history), self.usage, self.seconds_run, seen)
        if caller is not None and caller.same_as(self.caller):
            self.caller = caller
        for each in objects:
            self.blackboard.add(each)
        return True

    def on_loop(self, change: Callable[[], None]) -> None:
        """Make a change on the event loop: at once if called there, soon if called from another thread."""
        self.listeners.on_loop(self.expect(change))

    def expect(self, change: Callable[[], None]) -> Callable[[], None]:
        """A function that makes the change, to be called on the event loop. Until then `rest` does not return."""

        def make() -> None:
            try:
                change()
            finally:
                with _counting_lock:
                    self._requested_changes -= 1
                self.notify_waiters()

        with _counting_lock:
            self._requested_changes += 1
        return make

    def in_background(
        self, work: Coroutine[Any, Any, None], then: "Callable[[asyncio.Task[None]], None] | None" = None
    ) -> "asyncio.Task[None]":
        """Run work for it in a task of its own, which begins with the event loop's next turn; `rest` waits for it.

        `then` is called with the task when that has ended.
        """
        self._tasks += 1

        def ended(task: "asyncio.Task[None]") -> None:
            _working.discard(task)
            self._tasks -= 1
            if then is not None:
                then(task)
            self.notify_waiters()

        task = asyncio.get_running_loop().create_task(work, name=self.id)
        _working.add(task)
        task.add_done_callback(ended)
        return task

    def reopen(self) -> None:
        """Return a process that waits or is stuck to a state in which it can continue."""
        self.outcome, self.finished_at = None, None
        self.status = ProcessStatus.RUNNING

    def release(self) -> None:
        """Note that no task runs it any more: it waits for its sub-processes, or continues step by step."""
        self.driven = False
        if isinstance(self.end_requested, Stuck):
            self.end_requested = None

    def detach(self, *, closing: bool = False) -> None:
        """Stop running it here, since another program runs it or will; `closing`: this program is shutting down."""
        self.remote, self.closing = True, closing
        if self.cancel_scope is not None:
            self.cancel_scope.cancel()
        if closing:
            self.notify_waiters()

    def follow_children(self) -> None:
        """Update the state from the sub-processes that its actions wait for, and then that of the processes above.

        A process that is not running itself counts as running while one of them runs, and as waiting when all of them
        wait.
        """
        process: AgentProcess | None = self
        while process is not None and process.progress.parked and not (process.driven or process.over):
            waits = _child_runs(process)
            if waits and isinstance(process.outcome, Waiting):
                process.reopen()
            elif not waits and process.outcome is None:
                process.settle(Waiting(process.open_questions))
            else:
                return
            process = process.parent

    # What ends it.

    def kill(self, reason: str = "It was killed.") -> None:
        """End this process and those that it started at once: running actions are cancelled. Callable from any thread.

        A process that has ended is not changed; one that is stuck or waits is killed.
        """
        self.end(Killed(reason))

    def terminate(self, reason: str = "It was terminated.") -> None:
        """End the process after the running action, or as soon as that wants to ask a model or call a tool again.

        Callable from any thread. A process that has ended is not changed; one that is stuck or waits ends at once.
        """
        self.end(Terminated(reason))

    def end(self, wanted: Killed | Terminated) -> None:
        """End it as `kill` or `terminate` does."""
        before = self.end_requested
        if not self.over and (before is None or (isinstance(wanted, Killed) and not isinstance(before, Killed))):
            self.end_requested = wanted
        for child in self.children:
            child.end(wanted)
        if not self.over:
            self.on_loop(self.end_as_requested)

    def end_as_requested(self) -> None:
        """End it as requested, unless its task will do so: that checks for it between actions."""
        wanted = self.end_requested
        if wanted is None or self.over:
            return
        if not self.driven:
            self.settle(wanted)
            self.platform.ended_idle(self)
        elif self.cancel_scope is not None and (isinstance(wanted, Killed) or not self.acting):
            self.cancel_scope.cancel()

    def exceed(self, reason: str) -> None:
        """Terminate it because it has exceeded a limit; if it has turns, end only its turn.

        Processes that its actions started are terminated in any case.
        """
        if not self.options.turns:
            self.terminate(reason)
            return
        if self.driven:  # otherwise it continues when its sub-processes have ended, and then its turn ends
            self.end_requested = self.end_requested or Stuck(reason, turn_failed=True)
        for child in self.children:
            child.terminate(reason)

    def stop_turn(self, reason: str = "The turn was stopped.") -> None:
        """End the running actions, and so the turn, but not the process. Callable from any thread.

        A process that nothing runs is not changed.
        """

        def stop() -> None:
            if self.driven and self.end_requested is None and not self.over:
                self.end_requested = Stuck(reason, turn_failed=True)
                if self.cancel_scope is not None:
                    self.cancel_scope.cancel()

        self.on_loop(stop)

    def settle(self, outcome: Outcome) -> None:
        """Set the outcome of the process and wake all waiting callers. A final outcome is not replaced."""
        if self.over:
            return
        self.release()
        if isinstance(outcome, Waiting) and _child_runs(self):
            return
        self.outcome, self.status = outcome, outcome.status
        self.finished_at, self.plan = datetime.now(UTC), ()
        if self.over:
            for journal in self.progress.journals.values():
                journal.end_calls()
            self.progress.journals.clear()
        if isinstance(outcome, Failed) and self.failure is None:
            self.fail(outcome.reason)
        if self.listeners.attentive:
            self.emit(ProcessFinished(outcome.status, outcome.reason, process_id=self.id))
        self.notify_waiters()

    def publish_outcome(self) -> None:
        """Announce the outcome, now that it is stored, or cannot be."""
        if self.withholds_outcome:
            self.withholds_outcome = False
            self.notify_waiters()

    def fail(self, reason: str, action: str = "", error: BaseException | None = None) -> None:
        """Note a failure, of an action or of the process itself, whether or not there is another way.

        The exception is kept only where the platform's `tells_errors` is set.
        """
        self.failure = Failure(reason, action, error if self.platform.tells_errors else None)

    def words_for(self, error: BaseException) -> str:
        """The description of a failure for everybody who does not read the log.

        Messages of goalport's own errors are made for people. The message of any other error is included only where the
        platform's `tells_errors` is set; otherwise the text names its class and says that the log has it.
        """
        if self.platform.tells_errors or isinstance(error, GoalportError):
            return in_words(error)
        if isinstance(error, BaseExceptionGroup):
            return excerpt("; ".join(map(self.words_for, leaves(cast("BaseException", error)))), MOST_WORDS)
        return f"{type(error).__name__} (the server's log has it, under process {self.id})"

    def release_frames(self) -> None:
        """Release the local variables of the code that failed; the traceback keeps its lines."""
        error = None if self.failure is None else self.failure.error
        traceback = None if error is None else error.__traceback__
        while traceback is not None:
            # Since Python 3.12 a frame keeps the frames of its callers, and those this process. On 3.12 the garbage
            # collector has to find them: to clear the frame of a caller that is suspended would end that coroutine.
            frame = traceback.tb_frame if sys.version_info >= (3, 13) else None
            while frame is not None:
                try:
                    frame.clear()
                except RuntimeError:  # a frame that still runs, such as the event loop's
                    break
                frame = frame.f_back
            traceback = traceback.tb_next

    # Its events, questions and costs.

    def subscribe(self, listener: EventListener) -> Callable[[], None]:
        """Add a listener for all events from now on; the returned function removes it."""
        if self._subscribers is None:
            self._subscribers = Listeners()
            self.listeners.add(self._subscribers)
        remove = self._subscribers.add(listener)

        def unsubscribe() -> None:
            remove()
            if not self.followed:
                self.platform.unfollowed(self)

        return unsubscribe

    def emit_missed(self, known: int) -> None:
        """Emit events for what another program did after the first `known` actions, and wake all waiting callers."""
        if self._subscribers is not None:
            planned, tell = len(self.progress.history) + len(self.plan), self._subscribers.on_event
            for number, each in enumerate(self.progress.history[known:], start=known + 1):
                how = cast("ActionStatus", each.status)
                tell(ActionFinished(each.action, number, planned, how, each.seconds, each.error, process_id=self.id))
            if (end := self.outcome) is not None:
                tell(ProcessFinished(end.status, end.reason, process_id=self.id))
        self.notify_waiters()

    def ask(self, action: str, wait: WaitFor[Any], *, in_action: bool = False) -> Question:
        """Put a question of an action to people. `in_action`: the action waits and continues with the answer."""
        question = Question.of(self.id, action, wait, in_action=in_action)
        self.questions.append(question)
        self.emit(QuestionAsked(question.id, action, question.message, process_id=self.id))
        return question

    def settle_question(
        self, question: Question, status: QuestionStatus, *, answer: object = None, reason: str = ""
    ) -> None:
        """Settle a question of this process. Raises `AlreadyAnswered` if it was settled before."""
        question.settle(status, answer=answer, reason=reason)
        self.emit(QuestionSettled(question.id, status, process_id=self.id))

    def withdraw_question(self, question: Question) -> bool:
        """Settle a question whose answer is no longer needed. Returns False if it was settled already."""
        try:
            self.settle_question(question, "withdrawn", reason="Nobody needs the answer any more.")
        except AlreadyAnswered:
            return False
        return True

    def spend(self, usage: TokenUsage, *, action: str = "", model: str = "", seconds: float = 0.0) -> None:
        """Add the cost of a model, and its `seconds`, to this process and its ancestors; callable from any thread.

        The budget is checked before the next action, and before a model is asked again.
        """
        entry = Spending(self.id, action, model, usage, seconds)
        self.charge(entry)
        self.platform.on_spending(entry)

    def charge(self, entry: Spending) -> None:
        """Add an entry to the ledgers of this process and its ancestors."""
        process, name = self, entry.action
        with _counting_lock:
            while process is not None:
                process.usage += entry.usage
                process.ledger.note(entry, name)
                process, name = process.parent, process.started_by

    # What is stored of it.

    async def checkpoint(self) -> None:
        """Store it between two actions, if its steps are stored."""
        self.action_end_unsaved = False
        if self.durable:
            await self.platform.checkpoint(self)
            await checkpoint_if_cancelled()

    async def store_steps(self) -> None:
        """Store what the running actions have done so far, if its steps are stored."""
        if self.durable:
            await self.platform.store_steps(self)
            await checkpoint_if_cancelled()


def _child_runs(process: AgentProcess) -> bool:
    """Whether any sub-process that an action waits for is running."""
    return any(
        not isinstance(child.outcome, Waiting)
        or any(each.outcome is None for each in process.progress.journals[action].waits_for)
        for action, child in process.progress.parked.items()
    )
