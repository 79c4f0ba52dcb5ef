"""Requests that wait for a process, a turn of a chatbot or an exported tool: the progress they tell, and the outcome.

Waiting for a process does not change it; but an attached process is killed when the last request that waits for it is
gone (`platform.runs`). The numbers of progress only grow, and its messages are for people. Whoever asked for progress
gets a heartbeat when there is none. The process of a conversation rests between turns, so a request waits for a turn.
`calls` and `companion_calls` are above.
"""

import asyncio
import math
from collections import deque
from collections.abc import Generator
from contextlib import aclosing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final, get_args

import anyio
from mcp_types import LoggingLevel

from goalport.base.errors import GoalportError
from goalport.base.events import (
    ActionFinished,
    ActionRetried,
    ActionStarted,
    Event,
    MessageDelta,
    MessageSent,
    ModelCalled,
    ProcessFinished,
    ProgressUpdated,
    ToolCalled,
)
from goalport.base.observe import in_words
from goalport.base.secrecy import hide_known
from goalport.base.words import first_line, visible
from goalport.runtime.chat import (
    ChatSession,
    ConversationMessage,
    Turn,
    TurnResult,
)
from goalport.runtime.platform.runs import Run, Watch
from goalport.runtime.process import AgentProcess, Outcome, Waiting
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.notifications import Notifier
from goalport.server.doors.mcp.state import CallContext, McpState
from goalport.server.publish.answers import answer_with_reply
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.limits import Place
from goalport.server.publish.output import WrittenResult, last_reply
from goalport.server.publish.turn_tasks import Task, end_of_turn, session_of_process
from goalport.tools.upstream.active_calls import call_hooks

_LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
_EARLY: Final = 0.95
"""The part of the interval after which a notification is sent, so that clients never wait for a whole interval."""
_LITTLE: Final = 0.001
"""What a heartbeat adds to the progress that a tool reported: progress must grow, but not overtake the tool."""
_LONGEST_DELAY: Final = 0.1
"""The most seconds for which what was reported waits to be sent together with what follows it."""
_MOST_EVENTS: Final = 500
"""The most events that wait to be reported; for a client that reads too slowly the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """One progress notification."""

    progress: float
    total: float | None
    message: str


class Meter:
    """The progress of one process: the number of its finished actions, plus a growing fraction between two actions."""

    def __init__(self) -> None:
        self._done = 0
        self._steps = 0
        self._planned: int | None = None
        self._action = ""

    def after(self, event: Event) -> ProgressStep | None:
        """The progress after an event; None if the event is none of progress."""
        match event:
            case ActionStarted(action=action, planned=planned):
                self._action, self._planned = _short(action), planned
                return None
            case ActionFinished(action=action, number=number, planned=planned, status=status):
                self._done, self._steps, self._planned = number, 0, planned
                how = "" if status == "succeeded" else f" {status}"
                return ProgressStep(number, planned, f"{number}/{planned} {_short(action)}{how}")
            case ActionRetried(action=action, attempt=attempt, delay_seconds=delay):
                return self.says(f"{_short(action)} failed at attempt {attempt}, trying again in {delay:g} s")
            case ModelCalled(model=model, turn=1, action=action):
                return self.says(f"{_short(action)} asks {model}")
            case ToolCalled(tool=tool, action=action):
                return self.says(f"{_short(action)} calls {tool}")
            case ProgressUpdated(message=message):
                return self.says(message)
            case _:
                return None

    def beat(self, seconds: float, doing: str = "") -> ProgressStep:
        """The heartbeat after this many seconds; `doing` says what is done, if that is not the current action."""
        doing = doing or (f"still at {self._action}" if self._action else "still planning")
        return self.says(f"{doing} after {seconds:.0f} s")

    def says(self, message: str) -> ProgressStep:
        """The progress that comes with a message between two actions."""
        self._steps += 1
        return ProgressStep(self._done + self._steps / (self._steps + 1), self._planned, message)


def _short(action: str) -> str:
    return action.rpartition(".")[2]


class Observer:
    """One request that waits for a process, perhaps several times; the numbers of its progress only grow.

    With a `run` it watches that: if the request is cancelled or its client disconnects while it waits, its watch ends
    (`Watch.leave`). Without one the process runs on in any case.
    """

    def __init__(
        self, context: CallContext, process: AgentProcess, run: Run | None = None, place: Place | None = None
    ) -> None:
        self.context, self.process, self.place = context, process, place
        self.message_id = ""
        """The message that began the turn it waits for, of a conversation."""
        self._run = run
        self.progress: ProcessProgress | None = None
        """What the client was sent so far, if it wants anything."""

    async def outcome(self, patience: float | None) -> Outcome | None:
        """The outcome of the process; None if it still runs after `patience` seconds."""
        if self._run is None:
            return await self.observed(patience)
        watch, context = Watch(self._run), self.context
        if context.disconnect is not None:
            context.disconnect.then(watch.leave)
        try:
            with context.state.cancellations.reachable(context.session, context.request_id, watch):
                outcome = await self.observed(patience)
            watch.end()
        finally:
            # After `end` this does nothing; after a cancellation or an error this request watches the run no more.
            watch.leave()
        return outcome

    async def beat(self, doing: str) -> None:
        """Send heartbeats that say what is done meanwhile, until cancelled; none to a client that wants no progress."""
        if self.progress is not None:
            await self.progress.beat(doing)

    async def answer(self, policy: CallPolicy, outcome: Outcome | None) -> WrittenResult:
        """The answer to the request; an outcome of None means that the process still runs."""
        return self.context.state.answers.of(policy, self.process, outcome)

    async def observed(self, patience: float | None) -> Outcome | None:
        """What `outcome` gives, without a watch."""
        with nullcontext() if patience is None else anyio.move_on_after(patience):
            notifier, beats = self.context.notifier, self.context.heartbeat_seconds
            if notifier is not None and (notifier.progress_wanted or notifier.log_level):
                self.progress = self.progress or ProcessProgress(notifier, self.progress_before, beats)
                await self.progress.follow(self.process)
            return await self.process.wait()
        return self.process.outcome

    @property
    def progress_before(self) -> float:
        """The progress that the client was told while the call waited for its place."""
        return 0.0 if self.place is None else self.place.progress


class ProcessProgress:
    """The progress and log notifications to one request while it waits for a process."""

    def __init__(self, notifier: Notifier, begin: float, heartbeat_seconds: float) -> None:
        self._notifier = notifier
        self._begin = begin
        self._progress = notifier.progress_wanted
        self._interval = _EARLY * heartbeat_seconds
        level = notifier.log_level
        self._least = _LEVELS.index(level) if level else len(_LEVELS)
        self._meter = Meter()
        self._unreported: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self._arrived = asyncio.Event()
        self._began = self._reported_at = self._flushed_at = anyio.current_time()
        """The times of the first and the last progress notification, and of the last flush, on anyio's clock."""
        self._following = False

    def on_event(self, event: Event, /) -> None:
        """Store the event; `follow` reports it."""
        self._unreported.append(event)
        self._arrived.set()

    async def follow(self, process: AgentProcess) -> None:
        """Report all events until the process has ended or waits for a person."""
        unsubscribe = process.subscribe(self)
        try:
            if not self._following:
                self._following = True
                await self._report(ProgressStep(0, None, f"process {process.id} begins"))
            while process.outcome is None or self._unreported:
                await self._until_more()
                while self._unreported:
                    await self.report_event(self._unreported.popleft())
                # Events that are no progress also set `_arrived`, so the clock decides whether a heartbeat is due.
                if process.outcome is None and anyio.current_time() >= self._reported_at + self._interval:
                    await self._report(self._meter.beat(anyio.current_time() - self._began))
        finally:
            unsubscribe()

    async def _until_more(self) -> None:
        """Wait for events, or until a heartbeat is due; what was reported before is sent first."""
        await asyncio.sleep(0)  # what a quick process has to report is sent together with its answer
        waits = not self._arrived.is_set()
        if waits or anyio.current_time() >= self._flushed_at + _LONGEST_DELAY:
            await self.flush()
        if waits:
            with anyio.CancelScope(deadline=self._reported_at + self._interval if self._progress else math.inf):
                await self._arrived.wait()
        self._arrived.clear()

    async def flush(self) -> None:
        """Send what was reported and still waits."""
        await self._notifier.flush()
        self._flushed_at = anyio.current_time()

    async def beat(self, doing: str) -> None:
        """Send a heartbeat whenever nothing was sent for an interval, until cancelled."""
        while self._progress:
            await anyio.sleep_until(self._reported_at + self._interval)
            if anyio.current_time() >= self._reported_at + self._interval:
                await self._report(self._meter.beat(anyio.current_time() - self._began, doing))
                await self.flush()

    async def report_words(self, words: str) -> None:
        """Send progress with a text of several lines."""
        await self._report(self._meter.says(words), words)

    async def _report(self, step: ProgressStep, words: str | None = None) -> None:
        if self._progress:
            self._reported_at = anyio.current_time()
            total, message = None if step.total is None else step.total + self._begin, words or first_line(step.message)
            await self._notifier.report_progress(step.progress + self._begin, total, message)

    async def report_event(self, event: Event) -> None:
        """Send what a client that asked for it is told of an event."""
        step = self._meter.after(event)
        if step is not None:
            await self._report(step)
        level = _level_of(event)
        if _LEVELS.index(level) >= self._least and (words := in_words(event)):
            await self._notifier.log(level, first_line(words))


def _level_of(event: Event) -> LoggingLevel:
    match event:
        case ActionRetried() | ActionFinished(status="failed"):
            return "warning"
        case ProgressUpdated() | ActionFinished() | ProcessFinished():
            return "info"
        case _:
            return "debug"


@contextmanager
def heartbeat(context: CallContext, place: Place, tool: str = "") -> Generator[None]:
    """A context for one call of an exported tool, which has no process: a client that asked for progress gets it.

    It is sent what the tool reports, and a heartbeat at least every `heartbeat_seconds`. Without a tool, the context is
    for a call of anything that waits for its turn.
    """
    if context.notifier is None or not context.notifier.progress_wanted:
        yield
        return
    progress = _ToolProgress(context.notifier, place.progress, context.heartbeat_seconds, tool)
    try:
        with call_hooks(progress=progress.report):
            yield
    finally:
        progress.end()
        if progress.sent > place.progress:
            place.progress = progress.sent + _LITTLE


class _ToolProgress:
    """The progress notifications of one call of a tool, whose numbers only grow."""

    def __init__(self, notifier: Notifier, begin: float, heartbeat_seconds: float, tool: str) -> None:
        self._notifier = notifier
        self._doing = f"still at {tool}" if tool else "waits for its turn"
        self._interval = _EARLY * heartbeat_seconds
        self._began = self._sent_at = anyio.current_time()
        self.sent = begin
        """The number that was sent last."""
        self._total: float | None = None
        self._base: float | None = None
        """The progress sent before the tool's first report; None while the tool has reported nothing."""
        # Most calls end before the first heartbeat is due, and need no task.
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._begin_to_beat)
        self._beating: asyncio.Task[None] | None = None

    def end(self) -> None:
        """Send no more heartbeats."""
        self._timer.cancel()
        if self._beating is not None:
            self._beating.cancel()

    def _begin_to_beat(self) -> None:
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        """Send a heartbeat whenever nothing was sent for an interval, until cancelled."""
        while True:
            await anyio.sleep_until(self._sent_at + self._interval)
            now = anyio.current_time()
            if now >= self._sent_at + self._interval:
                more = 1 if self._base is None else _LITTLE
                await self._send(self.sent + more, f"{self._doing} after {now - self._began:.0f} s")

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Send progress that the tool reports; a number that does not grow, or is none in JSON, is left out."""
        if self._base is None:
            self._base = self.sent
        if self.sent < self._base + progress < math.inf:
            self._total = None if total is None or not math.isfinite(total) else self._base + total
            await self._send(self._base + progress, message or "")

    async def _send(self, progress: float, message: str) -> None:
        self._sent_at, self.sent = anyio.current_time(), progress
        await self._notifier.report_progress(progress, self._total, first_line(message) or None)
        await self._notifier.flush()


async def reply_of_task(state: McpState, task: Task) -> WrittenResult | None:
    """The answer to the call that began a turn; None while the turn goes on, or if its conversation is gone.

    Raises `HandedOver` if this program ends first, and `StoreError`.
    """
    session = await session_of_process(state.platform, task.process, current_caller())
    end = None if session is None else await end_of_turn(session, task)
    if session is None or end is None:
        return None
    policy, most = CallPolicy.of_process(task.process), state.settings.max_result_bytes
    return answer_with_reply(policy, task.process, session.conversation, end.said, end.failure, max_bytes=most)


async def observer_of(
    context: CallContext, process: AgentProcess, run: Run | None = None, place: Place | None = None
) -> Observer:
    """A request that waits for a process, or for the turn of it that runs now. Raises `StoreError`."""
    session = await session_of_process(context.state.platform, process, current_caller())
    if session is None:
        return Observer(context, process, run, place)
    return ChatObserver(context, process, session, run, place)


class ChatObserver(Observer):
    """One request that waits for a turn; `turn` is the one that it has begun, otherwise it waits for what runs."""

    def __init__(
        self,
        context: CallContext,
        process: AgentProcess,
        session: ChatSession,
        run: Run | None = None,
        place: Place | None = None,
        *,
        turn: Turn | None = None,
    ) -> None:
        super().__init__(context, process, run, place)
        self._session, self._turn = session, turn
        self._begun = turn is not None
        self._said: dict[str, ConversationMessage] = {}
        """The messages of the turns that this request has seen to their ends."""
        self.result: TurnResult | None = None
        """How the last of these turns has ended."""

    async def observed(self, patience: float | None) -> Outcome | None:
        """The outcome of the turn that runs; None if it still runs after `patience` seconds."""
        turn = self._turn = self._turn or await self._session.last_turn()
        if turn is None:
            return self.process.outcome
        rests = self.process.outcome is not None and not self.process.active
        with nullcontext() if patience is None or rests else anyio.move_on_after(patience):
            await self._follow_turn(turn)
            self.result, self._turn = await turn.result(), None
            self._said.update((each.id, each) for each in self.result.messages)
            return self.result.outcome
        return None

    async def _follow_turn(self, turn: Turn) -> None:
        notifier = self.context.notifier
        if notifier is not None and (notifier.progress_wanted or notifier.log_level):
            progress = self.progress
            if not isinstance(progress, ChatProgress):
                progress = ChatProgress(notifier, self.progress_before, self.context.heartbeat_seconds)
                self.progress = progress
            await progress.follow_turn(turn)

    async def answer(self, policy: CallPolicy, outcome: Outcome | None) -> WrittenResult:
        """The reply, or the handle if the turn still runs or waits for a person. Raises `StoreError`."""
        if outcome is None or isinstance(outcome, Waiting) or self.result is None:
            return await super().answer(policy, outcome)
        conversation, state = self._session.conversation, self.context.state
        said = dict(self._said)
        if not self._begun:
            await state.platform.conversations.load(conversation)
            said = {each.id: each for each in last_reply(conversation)} | said
        most = state.settings.max_result_bytes
        messages = [*said.values()]
        return answer_with_reply(policy, self.process, conversation, messages, self.result.failure, max_bytes=most)


_GAP: Final = 0.25
"""Seconds between two notifications with text."""
_MOST_SHOWN: Final = 8_000
"""The most characters of one notification: each has the text so far, and the answer has the whole of it."""


class ChatProgress(ProcessProgress):
    """The progress and log notifications to one request while it waits for a turn."""

    def __init__(self, notifier: Notifier, begin: float, heartbeat_seconds: float) -> None:
        super().__init__(notifier, begin, heartbeat_seconds)
        self._sent = ""
        """The messages that are complete, or their end."""
        self._text = ""
        """The same with what was written since."""
        self._told = ""
        self._more = anyio.Event()

    async def follow_turn(self, turn: Turn) -> None:
        """Report all events of a turn, from its beginning to its end, and the text that is written in it.

        Why a turn was not followed to its end is raised by its `result`: a task group would raise it in another form.
        """
        async with anyio.create_task_group() as tasks, aclosing(turn.events()) as events:
            tasks.start_soon(self.beat, "")
            tasks.start_soon(self._report_text)
            with suppress(GoalportError):
                async for event in events:
                    self._note(event)
                    await self.report_event(event)
            tasks.cancel_scope.cancel()

    def _note(self, event: Event) -> None:
        match event:
            case MessageDelta(thinking=False, text=text):
                self._text = _end_of(self._text + text)
            case MessageSent(text=text):
                self._sent = self._text = _end_of(f"{self._sent}{text}\n\n")
            case _:
                return
        self._more.set()

    async def _report_text(self) -> None:
        """Report the text so far whenever there is more of it, not more often than every `_GAP` seconds."""
        while True:
            await self._more.wait()
            self._more = anyio.Event()
            text = hide_known(visible(self._text).strip())  # a secret may have come in two pieces
            if text != self._told:
                self._told = text
                await self.report_words(text)
                await self.flush()
                await anyio.sleep(_GAP)


def _end_of(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"…{text[1 - _MOST_SHOWN :]}"
