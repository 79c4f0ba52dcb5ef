"""The lifecycle of a process: its statuses, its outcomes, and the only ways in which its status changes.

Each transition has a name and checks first whether it is allowed, so that no process is left in a state in which
nothing runs it and nothing ever will. Below: questions. Above: `AgentProcess`, which adds what a process knows.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

import anyio

from goalport.base.errors import (
    GoalportError,
    HandedOver,
    ProcessFailed,
    ProcessKilled,
    ProcessStuck,
    ProcessTerminated,
    ProcessWaiting,
)
from goalport.runtime.process.questions import Question

_counting_lock = threading.Lock()
_working: set["asyncio.Task[None]"] = set()
"""The tasks that work beside processes; the event loop itself keeps no task alive."""


class ProcessStatus(StrEnum):
    """The status of a process (user guide, section 3.2.1)."""

    NOT_STARTED = "not_started"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TERMINATED = "terminated"
    KILLED = "killed"
    STUCK = "stuck"
    RESTING = "resting"
    """Nothing is wrong: a turn is over, and the next one begins when the process is told something more."""
    WAITING = "waiting"
    """The process waits for answers of people."""
    PAUSED = "paused"
    """The process continues by itself when its delay or schedule allows it."""

    @property
    def ended(self) -> bool:
        """Whether nothing more happens unless somebody acts from outside."""
        return self in _ENDED


_ENDED = frozenset(
    {
        ProcessStatus.COMPLETED,
        ProcessStatus.FAILED,
        ProcessStatus.TERMINATED,
        ProcessStatus.KILLED,
        ProcessStatus.STUCK,
        ProcessStatus.RESTING,
    }
)


@dataclass(frozen=True, slots=True)
class Completed:
    """The goal was reached."""

    value: object
    """The return value of the goal's action."""
    status = ProcessStatus.COMPLETED
    final = True
    reason = "The goal was reached."


@dataclass(frozen=True, slots=True)
class Stuck:
    """No action can bring the goal nearer in the current state."""

    reason: str
    input_may_help: bool = True
    """Whether other input may lead to the goal; False when only tool groups are missing."""
    turn_failed: bool = False
    """Whether it is stuck only until it is told something, since its last turn has failed."""
    rests: bool = False
    """Whether nothing is wrong: its turn is over, and the next one begins when it is told something."""
    final = False
    error = ProcessStuck

    @property
    def status(self) -> ProcessStatus:
        """Stuck, or resting between two turns."""
        return ProcessStatus.RESTING if self.rests else ProcessStatus.STUCK


@dataclass(frozen=True, slots=True)
class Failed:
    """Actions failed, or the input was invalid, and no other way to the goal is left."""

    reason: str
    tried: tuple[str, ...] = ()
    """One sentence for each action that failed."""
    caller_mistake: bool = False
    """Whether the caller can avoid the failure by other input."""
    not_begun: bool = False
    """Whether nothing was done, as the store was away, and the same start may succeed later."""
    status = ProcessStatus.FAILED
    final = True
    error = ProcessFailed


@dataclass(frozen=True, slots=True)
class Terminated:
    """A budget, a deadline or the program ended the process early."""

    reason: str
    status = ProcessStatus.TERMINATED
    final = True
    error = ProcessTerminated


@dataclass(frozen=True, slots=True)
class Killed:
    """Somebody ended the process from outside."""

    reason: str
    status = ProcessStatus.KILLED
    final = True
    error = ProcessKilled


@dataclass(frozen=True, slots=True)
class Waiting:
    """People have to answer before the process can continue. This is not final, but nothing else can be done now."""

    questions: tuple[Question, ...]
    status = ProcessStatus.WAITING
    final = False
    error = ProcessWaiting

    @property
    def reason(self) -> str:
        """The questions, as one text."""
        return f"It waits for an answer: {'; '.join(each.message for each in self.questions)}"


Outcome = Completed | Waiting | Stuck | Failed | Terminated | Killed


class Lifecycle:
    """The state of a process from its beginning to its end, with the process that started it and those it started."""

    # Without slots, a run of one action in memory takes a tenth longer.
    __slots__ = (
        "__weakref__",
        "_closing",
        "_due",
        "_storing",
        "_storing_ends",
        "_tasks",
        "_waiters",
        "acting",
        "cancel_scope",
        "children",
        "created_at",
        "driven",
        "end_requested",
        "finished_at",
        "id",
        "outcome",
        "parent",
        "remote",
        "status",
        "stepped",
        "version",
    )

    def __init__(self, process_id: str, parent: Self | None) -> None:
        self.id = process_id
        self.parent = parent
        """The process whose action started this one."""
        self.children: list[Self] = []
        """The processes that its actions started."""
        self.end_requested: Outcome | None = None
        """The outcome that `kill` or `terminate` asked for; the process ends with it as soon as it can."""
        self.created_at = datetime.now(UTC)
        self.stepped = False
        """Whether only `tick` continues it; an answer alone does not."""
        self.version: int | None = None
        """Of a root: how often its family was saved, as far as this program knows; None: it does not know."""
        self.cancel_scope: anyio.CancelScope | None = None
        """Cancels the running actions; None while nothing runs."""
        self.acting = 0
        """The number of actions that run now."""
        self.status = ProcessStatus.NOT_STARTED
        self.outcome: Outcome | None = None
        """How it ended, or what it waits for; None while it can go on by itself."""
        self.finished_at: datetime | None = None
        """When it got its outcome; None while it has none."""
        self.driven = False
        """Whether a task runs it. A process that only waits for its sub-processes counts as running without one."""
        self.remote = False
        """Whether another program runs it, or is going to: here it shows what the store knows of it."""
        self._tasks = 0
        """The number of tasks that run it, or have run it and whose callbacks have not been called yet."""
        self._storing = False
        """Whether its outcome is not told yet, because it is not stored yet."""
        self._storing_ends = False
        """Whether that is so also if it has ended, and can be run again from its beginning otherwise."""
        self._closing = False
        """Whether this program ends and follows it no longer."""
        self._due = 0
        """The number of changes that were requested, perhaps by other threads, and are not made yet."""
        self._waiters: list[asyncio.Future[None]] = []
        """One for each who waits for a change."""
        if parent is not None:
            parent.children.append(self)

    @property
    def root(self) -> Self:
        """The process that a caller started: this one, or the one above all those that started it."""
        root = self
        while root.parent is not None:
            root = root.parent
        return root

    @property
    def over(self) -> bool:
        """Whether it has ended and can never continue."""
        return self.outcome is not None and self.outcome.final

    @property
    def watched(self) -> bool:
        """Whether anybody waits for it."""
        return bool(self._waiters)

    @property
    def idle(self) -> bool:
        """Whether it may be run now: nothing runs it, and nothing forbids it."""
        return not (self.driven or self.over or self.end_requested)

    async def wait(self) -> Outcome:
        """Wait until the process has an outcome, and return it: its end, its questions, or why it is stuck.

        After an answer the outcome that follows from the answer is returned. Cancelling the wait does not change the
        process. Raises `HandedOver` when this program ends first, and `GoalportError` if nothing has started it.
        """
        if self.status is ProcessStatus.NOT_STARTED and self.root.version is None and not (self.active or self.remote):
            raise GoalportError(f"Process {self.id} has not been started. Call run(), resume() or tick() first.")
        while self.outcome is None or self.withheld or (not self.over and self.changing):
            if self._closing:
                raise HandedOver(self.id)
            await self._change()
        return self.outcome

    async def rest(self) -> Outcome | None:
        """Wait until nothing runs any more in this process and in those that it started, and return its outcome.

        A process rests when it has ended, waits for people, is stuck, has not started, or is driven by `tick` and is
        between two ticks. In the last two cases the outcome is None. Cancelling the wait does not change the process.
        """
        while self.active:
            await self._change()
        return self.outcome

    @property
    def active(self) -> bool:
        """Whether anything runs in it, or in a process that it started."""
        return self.driven or self._tasks > 0 or self.changing or any(each.active for each in self.children)

    @property
    def changing(self) -> bool:
        """Whether a change of it, or of a process that it started, was requested and is not made yet."""
        own = not self.over and (self._due > 0 or self.end_requested is not None)
        return own or any(each.changing for each in self.children)

    async def changed(self) -> None:
        """Wait until anything about it changes. Raises `HandedOver` when this program ends first."""
        if not self._closing:
            await self._change()
        if self._closing:
            raise HandedOver(self.id)

    def begin_action(self) -> None:
        self.acting += 1

    def end_action(self) -> None:
        self.acting -= 1

    async def pause(self, seconds: float) -> None:
        """Wait, but not longer than until its end is requested."""
        with anyio.move_on_after(seconds):
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

    def expect(self, change: Callable[[], None]) -> Callable[[], None]:
        """The same change, to be made on the event loop. Until it is made, `rest` does not return."""

        def make() -> None:
            try:
                change()
            finally:
                with _counting_lock:
                    self._due -= 1
                self.notify_waiters()

        with _counting_lock:
            self._due += 1
        return make

    def launch(
        self,
        drive: Callable[[Self], Coroutine[Any, Any, None]],
        after: "Callable[[asyncio.Task[None]], None]",
        *,
        stepped: bool = False,
    ) -> "asyncio.Task[None]":
        """Let `drive` bring it to its next outcome, in a task that begins with the event loop's next turn.

        `after` is called with the task when that has ended, before `rest` returns. `stepped` says that only further
        steps continue the process, and an answer does not. Raises `GoalportError` unless the process is idle.
        """
        if not self.idle:
            raise GoalportError(
                f"Expected a process that nobody drives and that may go on: {self.id} is {self.status}."
            )
        if self.status is not ProcessStatus.NOT_STARTED:
            self.reopen()
        self.driven, self.stepped = True, stepped
        self._tasks += 1

        def ended(task: "asyncio.Task[None]") -> None:
            self._tasks -= 1
            after(task)
            self.notify_waiters()

        task = asyncio.get_running_loop().create_task(drive(self), name=self.id)
        task.add_done_callback(ended)
        return task

    def withhold_outcome(self, *, ends: bool) -> None:
        """Tell nobody that it waits or is stuck before `publish_outcome` is called; nor its end, with `ends`."""
        self._storing, self._storing_ends = True, ends

    @property
    def withheld(self) -> bool:
        """Whether its outcome is not told yet, because it is not stored yet."""
        return self._storing and (self._storing_ends or not self.over)

    @property
    def storing(self) -> bool:
        """Whether this program is going to store its outcome."""
        return self._storing and not self.remote

    def publish_outcome(self) -> None:
        """Tell its outcome: it is stored, or cannot be."""
        if self._storing:
            self._storing = False
            self.notify_waiters()

    def in_background(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Do something for it in a task of its own, while nothing runs it; `rest` waits for that."""
        self._tasks += 1

        def leave(_: "asyncio.Task[None]") -> None:
            _working.discard(task)
            self._tasks -= 1
            self.notify_waiters()

        task = asyncio.get_running_loop().create_task(work, name=self.id)
        _working.add(task)
        task.add_done_callback(leave)
        return task

    def begin(self) -> None:
        """Note that a run has begun; a process with an outcome is not changed."""
        if self.outcome is None:
            self.status, self.driven = ProcessStatus.RUNNING, True

    @contextmanager
    def pausing(self) -> Generator[None]:
        """The block in which it is paused until a known time."""
        self.status = ProcessStatus.PAUSED
        try:
            yield
        finally:
            if self.status is ProcessStatus.PAUSED:
                self.status = ProcessStatus.RUNNING

    def restore_status(
        self,
        status: ProcessStatus,
        outcome: Outcome | None,
        *,
        created_at: datetime,
        finished_at: datetime | None,
        end_requested: Outcome | None,
        stepped: bool,
    ) -> None:
        """Stand where a process stood that nothing ran, of which there are records."""
        self.status, self.outcome = status, outcome
        self.created_at, self.finished_at = created_at, finished_at
        self.end_requested, self.stepped, self._closing = end_requested, stepped, False

    def end_turn(self, reason: str) -> None:
        """End the turn that runs, which has failed, as soon as it can; an end that was requested before counts.

        While only processes that it started run, nothing happens: it goes on, and ends its turn, when those have ended.
        """
        if self.driven:
            self.end_requested = self.end_requested or Stuck(reason, turn_failed=True)

    def cancel_turn(self, reason: str) -> None:
        """Cancel what runs, and so end the turn; nothing happens if nothing runs, or an end was requested before."""
        if self.driven and self.end_requested is None and not self.over:
            self.end_turn(reason)
            if self.cancel_scope is not None:
                self.cancel_scope.cancel()

    def reopen(self) -> None:
        """Return a process that waits or is stuck to a state in which it can continue."""
        self.outcome, self.finished_at = None, None
        self.status = ProcessStatus.RUNNING

    def detach(self, *, closing: bool = False) -> None:
        """Stop running it here, since another program runs it or is going to; `closing`: this program ends."""
        self.remote, self._closing = True, closing
        if self.cancel_scope is not None:
            self.cancel_scope.cancel()
        if closing:
            self.notify_waiters()

    def note_version(self, version: int | None) -> None:
        """Note how often its family was saved; None: this program does not know it any more."""
        self.version = version

    def attach(self) -> None:
        """Note that this program may run it."""
        self.remote = False

    def release(self) -> None:
        """Note that the task has stopped: its sub-processes go on without it, or it continues step by step."""
        self.driven = False
        if isinstance(self.end_requested, Stuck):
            self.end_requested = None
