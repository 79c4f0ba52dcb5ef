"""One run of an agent: what it knows, what it has done, and its state.

A process is data, and it emits an event for each change. It does not plan and runs no action itself: `tick` does that.
Listeners do not influence it. Below: its lifecycle, its progress and its questions. Above: everything that runs agents.
"""

import math
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence, Set as AbstractSet
from datetime import UTC, datetime
from typing import Any, Protocol, Self, TypeVar, cast

from anyio import CancelScope, CapacityLimiter, current_time
from anyio.lowlevel import checkpoint_if_cancelled

from goalport.agents.blackboard import Blackboard, is_of
from goalport.agents.domain import Agent, Goal, RetryPolicy, WaitFor
from goalport.base.caller import Caller
from goalport.base.errors import AlreadyAnswered, GoalportError, ProcessEnded, leaves
from goalport.base.events import (
    ActionFinished,
    ActionStatus,
    Event,
    EventListener,
    ProcessFinished,
    QuestionAsked,
    QuestionSettled,
)
from goalport.base.observe import RareLog
from goalport.base.observe.spans import Trace, current_trace
from goalport.base.words import excerpt, type_name, with_article
from goalport.models.llm import AssistantMessage, TokenUsage
from goalport.runtime.ai import TOOL_CONTEXT, Engine, Operation, SentPrompts, ToolContext, tool_context
from goalport.runtime.process.action_progress import MOST_WORDS, ActionInvocation, ActionProgress, Failure, in_words
from goalport.runtime.process.contexts import Context
from goalport.runtime.process.ledger import FIRST_TURN, NOTHING, Ledger, Spending, SpendingHook, TurnStart
from goalport.runtime.process.lifecycle import (
    Completed,
    Failed,
    Killed,
    Lifecycle,
    Outcome,
    ProcessStatus,
    Stuck,
    Terminated,
    Waiting,
)
from goalport.runtime.process.listeners import Listeners
from goalport.runtime.process.process_options import ProcessOptions
from goalport.runtime.process.questions import Question, Questions, QuestionStatus
from goalport.runtime.process.scope import Scope
from goalport.tools import CALL_SITE, ContextValues, ToolGroupResolver

T = TypeVar("T")
_NONE = frozenset[str]()
_spending_lock = threading.Lock()
_TOLD = 15
"""How many of the things that a process was told before the last one are known by their tokens."""


class ProcessPlatform(Protocol):
    """What a process needs of the platform that runs it."""

    retry: RetryPolicy
    """How often an action that fails is tried again, unless the action says otherwise."""
    tells_errors: bool
    """Whether the message of an unexpected exception is shown to callers, and not only written to the log."""
    keep_journals: bool
    """Whether the history keeps what models replied and tools returned."""
    max_object_bytes: int
    """About how much memory the result of an action may take."""
    rare_log: RareLog
    """Logs which actions block the event loop, each once in a minute."""
    on_spending: SpendingHook
    prepare: "Callable[[Sequence[type], object], Awaitable[None]] | None"
    """Enters the services of these types, and makes what an agent waits for; None: there is nothing of the kind."""

    @property
    def limiter(self) -> CapacityLimiter:
        """How many `def` functions may run in worker threads at once."""
        ...

    def service(self, kind: type, /) -> object | None:
        """The platform's service of a type, or None."""
        ...

    def engine(self, operation: Operation, groups: ToolGroupResolver, /) -> Engine:
        """What carries out an action's requests of models."""
        ...

    def start_child(
        self, parent: "AgentProcess", action: str, agent: object, kind: type, inputs: Sequence[object], /
    ) -> "AgentProcess":
        """Start a process for an action that needs a result of the type `kind`."""
        ...

    def resume(self, process: "AgentProcess", /, *objects: object) -> None:
        """Continue a process that waits or is stuck, with more objects on its blackboard."""
        ...

    def ended_idle(self, process: "AgentProcess", /) -> None:
        """Store a process that was ended while nothing ran in it."""
        ...

    def unfollowed(self, process: "AgentProcess", /) -> None:
        """Note that the last follower of a process has left."""
        ...

    async def step(self, process: "AgentProcess", /) -> None:
        """Run one step of a process that is not running."""
        ...

    async def checkpoint(self, process: "AgentProcess", /) -> None:
        """Store a process between two of its actions."""
        ...

    async def store_steps(self, process: "AgentProcess", /) -> None:
        """Store what the running actions of a process have done so far."""
        ...

    async def send_message(
        self, process: "AgentProcess", message_id: str, message: AssistantMessage, /
    ) -> AssistantMessage:
        """Keep a message of an action before its event is told, in place of one of the same id; return it as kept."""
        ...


class AgentProcess(Lifecycle):
    """A process of one agent, on behalf of one caller (user guide, section 3.2)."""

    __slots__ = (
        "_behind",
        "_prompts",
        "_runs_since",
        "_seconds_run",
        "_subscribers",
        "agent",
        "blackboard",
        "caller",
        "durable",
        "failure",
        "goal",
        "goals",
        "groups",
        "ledger",
        "listeners",
        "options",
        "plan",
        "platform",
        "progress",
        "questions",
        "scope",
        "started_by",
        "summarized",
        "trace",
        "traced",
        "turn_start",
        "usage",
    )

    def __init__(
        self,
        process_id: str,
        scope: Scope,
        options: ProcessOptions,
        caller: Caller,
        platform: ProcessPlatform,
        groups: ToolGroupResolver,
        *,
        goals: Sequence[str] | None = None,
        parent: Self | None = None,
        started_by: str = "",
    ) -> None:
        super().__init__(process_id, parent)
        self.traced = False
        """Whether spans are recorded of its work."""
        self.durable = False
        """Whether each of its steps is stored, so that it goes on when the program has ended in its middle."""
        self.summarized = False
        """Whether only its outcome and its history are kept, because it ended long ago."""
        self.started_by = started_by
        """The name of the action that started it."""
        self.trace = current_trace()
        """Where it was started in a trace, which its spans are parts of also when another program lets it go on."""
        self.scope, self.options, self.caller = scope, options, caller
        self.platform, self.groups = platform, groups
        self.agent: Agent = scope.agent  # with the actions of components
        self.goals = tuple(scope.goals if goals is None else goals)
        self.listeners = Listeners(options.listeners)  # where there are none, no events are made
        self.listeners.use_running_loop()
        self._subscribers: Listeners | None = None
        on_bound, begin = self.listeners.binding_listener(process_id), options.blackboard
        self.blackboard = Blackboard(on_bound) if begin is None else begin.spawn(on_bound)
        self.blackboard.infer_types_by(scope.infer_type)
        self.progress: ActionProgress[AgentProcess] = ActionProgress(process_id)
        self.questions = Questions(process_id)
        self.goal: Goal | None = None
        self.plan: tuple[str, ...] = ()
        """The names of the actions still to run to reach the goal, as planned last."""
        self.usage = NOTHING
        self.turn_start = FIRST_TURN
        """Where it stood when its turn began, for a process that goes on from turn to turn."""
        self.ledger = Ledger()
        """The cost of models in this process and in those that it started, by entry and in sums; `usage` is the sum."""
        self._prompts: SentPrompts | None = None
        self.failure: Failure | None = None  # the last one, whether or not another way was found afterwards
        self._seconds_run, self._runs_since = 0.0, cast("float | None", None)
        self._behind = False
        """Whether an action has ended since it was stored last."""

    @property
    def history(self) -> tuple[ActionInvocation, ...]:
        """The actions that ran, in order."""
        return tuple(self.progress.history)

    @property
    def prompts(self) -> SentPrompts:
        """What its models were sent so far."""
        if self._prompts is None:
            self._prompts = SentPrompts()
        return self._prompts

    @staticmethod
    def current() -> "AgentProcess | None":
        """The process that runs the calling code, inside actions, conditions and tools; None elsewhere."""
        process = tool_context().process
        return process if isinstance(process, AgentProcess) else None

    __goalport_current__ = current

    @property
    def turn_actions(self) -> int:
        """How many actions have run in its turn; without turns, in all."""
        return len(self.progress.history) - self.turn_start.actions

    @property
    def turn_usage(self) -> TokenUsage:
        """What models have cost in its turn, including the processes that it started; without turns, in all."""
        return self.usage if self.turn_start is FIRST_TURN else self.usage - self.turn_start.usage

    @property
    def turn_history(self) -> Sequence[ActionInvocation]:
        """The actions that ran in its turn, in order; without turns, all."""
        return self.progress.history[self.turn_start.actions :]

    def begin_turn(self, objects: Sequence[object], caller: Caller | None, token: str) -> bool:
        """Begin a turn, as nothing runs it: more objects are on its blackboard, and its budget is whole again.

        `token` identifies what it is told. Returns False, and nothing is changed, if it was told that before. Actions
        that failed may run again, and what was stopped in their middle is forgotten; those that wait for people wait
        on. `caller` is its caller with the scopes of today; None: as before.
        """
        told = self.turn_start.told
        if token in told:
            return False
        for action in [*self.progress.journals.keys() - self.pending]:
            self.progress.end(action).close(f"The turn in which {action} ran was stopped.")
        self.progress.begin_turn()
        told = (*told[-_TOLD:], token)
        self.turn_start = TurnStart(len(self.progress.history), self.usage, self.seconds_run, told)
        if caller is not None and caller.same_as(self.caller):
            self.caller = caller
        for each in objects:
            self.blackboard.add(each)
        return True

    def exceed(self, reason: str) -> None:
        """End it because it has exceeded a limit, as `terminate` does; or its turn, if it goes on from turn to turn.

        Processes that its actions started are terminated in any case.
        """
        if not self.options.turns:
            self.terminate(reason)
            return
        self.end_turn(reason)
        for child in self.children:
            child.terminate(reason)

    def stop_turn(self, reason: str = "The turn was stopped.") -> None:
        """End the running actions, and so the turn, but not the process. Callable from any thread.

        A process that nothing runs is not changed.
        """
        self.on_loop(lambda: self.cancel_turn(reason))

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
        """Make the requested end, if nothing else will: a process that runs checks for it between actions."""
        wanted = self.end_requested
        if wanted is None or self.over:
            return
        if not self.driven:
            self.settle(wanted)
            self.platform.ended_idle(self)
        elif self.cancel_scope is not None and (isinstance(wanted, Killed) or not self.acting):
            self.cancel_scope.cancel()

    def on_loop(self, change: Callable[[], None]) -> None:
        """Make a change on the event loop: at once if called there, soon if called from another thread."""
        self.listeners.on_loop(self.expect(change))

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

    def begin_with(self, context: Context) -> None:
        """Put what a context holds on the blackboard, as older than all that is there."""
        earlier = Blackboard(self.listeners.binding_listener(self.id))
        earlier.infer_types_by(self.scope.infer_type)
        context.populate(earlier)
        self.blackboard.begin_with(earlier)

    def narrow(self, scope: Scope) -> None:
        """Do without the actions that a narrower scope does not have, before it begins."""
        self.scope, self.agent = scope, scope.agent
        self.blackboard.infer_types_by(scope.infer_type)

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

    @property
    def followed(self) -> bool:
        """Whether anybody has subscribed to its events."""
        return self._subscribers is not None and self._subscribers.attentive

    def emit(self, event: Event) -> None:
        """Tell the listeners of an event; callable from a worker thread too, and the order is kept."""
        self.listeners.on_event(event)

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

    def spend(self, usage: TokenUsage, *, action: str = "", model: str = "", seconds: float = 0.0) -> None:
        """Add the cost of a model, and its `seconds`, to this process and those that started it; from any thread.

        The budget is checked before the next action, and before a model is asked again.
        """
        entry = Spending(self.id, action, model, usage, seconds)
        self.charge(entry)
        self.platform.on_spending.tell(entry)

    def charge(self, entry: Spending) -> None:
        """Add an entry to the ledgers of this process and those that started it."""
        process, name = self, entry.action
        with _spending_lock:
            while process is not None:
                process.usage += entry.usage
                process.ledger.note(entry, name)
                process, name = process.parent, process.started_by

    @property
    def open_questions(self) -> tuple[Question, ...]:
        """The questions that people have to answer, here and in processes that its actions started; none once ended."""
        if self.status.ended:
            return ()
        return self.questions.open + tuple(each for child in self.children for each in child.open_questions)

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

    @property
    def pending(self) -> AbstractSet[str]:
        """The names of the actions that wait for an answer."""
        if not self.questions.asked and not self.progress.parked:
            return _NONE
        return {*self.progress.parked, *(question.action for question in self.questions.open)}

    def pursue(self, goal: Goal | None, plan: tuple[str, ...]) -> None:
        """Note the goal that is pursued, and the actions of the plan."""
        self.goal, self.plan = goal, plan

    def ask(self, action: str, wait: WaitFor[Any], *, in_action: bool = False) -> Question:
        """Put a question of an action to people. `in_action` says that the action continues with the answer."""
        question = self.questions.ask(action, wait, in_action=in_action)
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

    def set_durable(self, *, durable: bool) -> None:
        """From now on, store each of its steps; or only how it is when nothing of its family runs."""
        self.durable = durable

    @property
    def seconds_run(self) -> float:
        """For how many seconds it has run, in this program and in others, without the time in which it waited."""
        return self._seconds_run + (0.0 if self._runs_since is None else time.monotonic() - self._runs_since)

    async def checkpoint(self, *, soon: bool = False, late: bool = False) -> None:
        """Store it between two actions, if its steps are stored.

        `soon`: not now, but before the next action or with its end; `late`: only if that was said after the last one.
        """
        due = self.durable and not soon and (self._behind or not late)
        self._behind = self.durable and soon
        if due:
            await self.platform.checkpoint(self)
            await checkpoint_if_cancelled()

    async def store_steps(self) -> None:
        """Store what the running actions have done so far, if its steps are stored."""
        if self.durable:
            await self.platform.store_steps(self)
            await checkpoint_if_cancelled()

    def release_frames(self) -> None:
        """Release the variables of what ran and failed; its traceback keeps the lines."""
        error = None if self.failure is None else self.failure.error
        traceback = None if error is None else error.__traceback__
        while traceback is not None:
            # Since Python 3.12 a frame keeps the frames of its callers, and those this process. On 3.12 the garbage
            # collector has to find them: to clear the frame of a caller that is suspended would end that coroutine.
            frame = traceback.tb_frame if sys.version_info >= (3, 13) else None
            while frame is not None:
                try:
                    frame.clear()
                except RuntimeError:  # it runs still, as the event loop does
                    break
                frame = frame.f_back
            traceback = traceback.tb_next

    def forget(self) -> None:
        """Forget everything, to be made of its records anew."""
        self.progress, self.questions = ActionProgress(self.id), Questions(self.id)
        self.usage, self.ledger = NOTHING, Ledger()
        self.children.clear()
        if self.parent is not None:
            self.parent.children.append(self)

    def emit_missed(self, known: int) -> None:
        """Tell who subscribed to it or waits what another program did after the first `known` actions."""
        if self._subscribers is not None:
            planned, tell = len(self.progress.history) + len(self.plan), self._subscribers.on_event
            for number, each in enumerate(self.progress.history[known:], start=known + 1):
                how = cast("ActionStatus", each.status)
                tell(ActionFinished(each.action, number, planned, how, each.seconds, each.error, process_id=self.id))
            if (end := self.outcome) is not None:
                tell(ProcessFinished(end.status, end.reason, process_id=self.id))
        self.notify_waiters()

    def restore(
        self,
        goal: str,
        plan: Sequence[str],
        failure: Failure | None,
        seconds_run: float,
        *,
        trace: Trace,
        turn_start: TurnStart | None,
        summarized: bool,
    ) -> None:
        """Pursue what a process pursued of which there are records; `summarized`: only its end and its history."""
        self.trace, self.turn_start = trace, turn_start or FIRST_TURN
        self.goal, self.plan, self.failure = self.scope.goals.get(goal), tuple(plan), failure
        self._seconds_run, self._behind = seconds_run, False
        self.summarized = summarized

    def fail(self, reason: str, action: str = "", error: BaseException | None = None) -> None:
        """Note a failure, of an action or of the process itself, whether or not there is another way.

        The exception is kept only where the platform's `tells_errors` is set.
        """
        self.failure = Failure(reason, action, error if self.platform.tells_errors else None)

    def follow_children(self) -> bool:
        """Update the state from the sub-processes that its actions wait for, while it is not running itself.

        The process counts as running while one of them runs, and as waiting when all of them wait. Returns whether its
        state has changed.
        """
        if self.driven or self.over or not self.progress.parked:
            return False
        if self._waits_for_running_child and isinstance(self.outcome, Waiting):
            self.reopen()
            return True
        if not self._waits_for_running_child and self.outcome is None:
            self.settle(Waiting(self.open_questions))
            return True
        return False

    @property
    def _waits_for_running_child(self) -> bool:
        """Whether anything runs in a process that an action waits for."""
        return any(
            not isinstance(child.outcome, Waiting)
            or any(each.outcome is None for each in self.progress.journals[action].waits_for)
            for action, child in self.progress.parked.items()
        )

    def as_current(self) -> ContextValues:
        """The block in which this is the current process."""
        return ContextValues((TOOL_CONTEXT, ToolContext(self, callers=tool_context().callers)), (CALL_SITE, None))

    def begin_run(self, *, traced: bool) -> CancelScope:
        """Note that a run begins. Returns the scope for it, which a kill cancels, and its deadline."""
        self.traced = traced
        self.begin()
        self._runs_since = time.monotonic()
        limit, run = self.options.deadline, self._seconds_run - self.turn_start.seconds
        deadline = math.inf if limit is None else current_time() + limit - run
        self.cancel_scope = CancelScope(deadline=deadline)
        return self.cancel_scope

    def end_run(self, scope: CancelScope) -> None:
        """Note that a run has ended, with its scope: perhaps because the deadline has passed."""
        if scope.cancelled_caught and self.end_requested is None and not self.remote:
            reason = f"The deadline of {self.options.deadline:g} s has passed."
            self.end_requested = Stuck(reason, turn_failed=True) if self.options.turns else Terminated(reason)
        self.cancel_scope = None
        self._seconds_run, self._runs_since = self.seconds_run, None

    def settle(self, outcome: Outcome) -> None:
        """Set the outcome of the process and wake those who wait for it. An outcome that is final is not replaced."""
        if self.over:
            return
        if isinstance(outcome, Waiting) and self._waits_for_running_child:
            self.release()
            return
        self.driven, self.outcome, self.status = False, outcome, outcome.status
        self.finished_at, self.plan = datetime.now(UTC), ()
        if isinstance(self.end_requested, Stuck):
            self.end_requested = None
        if self.over:
            self.progress.end_calls()
        if isinstance(outcome, Failed) and self.failure is None:
            self.fail(outcome.reason)
        if self.listeners.attentive:
            self.emit(ProcessFinished(outcome.status, outcome.reason, process_id=self.id))
        self.notify_waiters()
