"""One request to call a tool: its notifications before the answer, and its wait for a process or a turn.

Waiting for a process does not change it; but an attached process is killed when the last request that waits for it ends
(`platform.runs`). Progress numbers only grow, and progress messages are for people. A client that asked for progress
gets heartbeats when there is none. The process of a conversation rests between turns, so a request waits for a turn.
`elicitation` and `calls` are above.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, get_args

import anyio
from mcp_types import LoggingLevel, RequestId
from starlette.requests import Request

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
from goalport.runtime.chat import ChatSession, ConversationMessage, Turn, TurnResult
from goalport.runtime.platform.runs import Disconnect, Watch
from goalport.runtime.process import AgentProcess, Follower, Heartbeat, Outcome, Rested, Waiting
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.jsonrpc import DISCONNECT
from goalport.server.doors.mcp.notifications import connection_of, log_level_of, progress_wanted, send_log
from goalport.server.doors.mcp.state import Context, McpState
from goalport.server.publish.answers import answer_with_reply
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.limits import Place
from goalport.server.publish.output import WrittenResult, last_reply
from goalport.server.publish.publisher import Task, end_of_turn, session_of_process
from goalport.tools.upstream.active_calls import call_hooks

_LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)
_EARLY: Final = 0.95
"""The fraction of the interval after which a heartbeat is sent, so that clients never wait a whole interval."""
_LITTLE: Final = 0.001
"""The most that heartbeats add to the progress that a tool reported: it must grow, but not overtake the tool."""
_MOST_EVENTS: Final = 500
"""The most events that wait to be reported; for a client that reads too slowly the oldest are dropped."""
_GAP: Final = 0.25
"""Seconds between two notifications with the text of a reply."""
_MOST_SHOWN: Final = 8_000
"""The most characters in one notification, of the text so far; the answer has the whole text."""


class Progress:
    """Sends the client of one request progress and log notifications before the answer.

    The progress of a process is the number of its finished actions; the progress of a tool is the number that the tool
    reports. Each message between two such steps adds a growing fraction, since progress must grow.
    """

    def __init__(
        self,
        report: Callable[[float, float | None, str | None], Awaitable[None]] | None,
        log: Callable[[LoggingLevel, str], Awaitable[None]],
        level: LoggingLevel | None,
        heartbeat_seconds: float,
    ) -> None:
        """`report` and `log` send one notification each; `report` or `level` is None: the client did not ask for it."""
        self.sends_text = False
        """Whether the text of a reply is sent too, while it is written."""
        self._report, self._log = report, log
        self._least = _LEVELS.index(level) if level else len(_LEVELS)
        self._heartbeat_seconds = heartbeat_seconds
        self._interval = 0.0
        """The seconds of silence after which a heartbeat is sent."""
        self._began = self._sent_at = anyio.current_time()
        self._sent = self._base = self._done = 0.0
        """The number sent last, the number where a process or tool began to count, and the number at its last step."""
        self._total: float | None = None
        self._steps = 0
        """The number of messages since the last step."""
        self._unit = 0.0
        """The messages between two steps add less than this in sum; 0: there are no steps yet, and each adds 1."""
        self._doing = self._action = ""
        self._text = self._sent_text = self._last_sent_text = ""
        """The text of a reply so far, the text of its complete messages, and the text that was sent last."""
        self._more_text = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self, message: str = "") -> None:
        """Count the actions of a process from now on, and send `message`, if any; further calls do nothing."""
        if not self._unit:
            self._unit, self._base = 1.0, self._sent and self._sent + _LITTLE
            self._done, self._steps = self._base, 0
            if message:
                await self._send(self._done, message)

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Send the progress that a tool reports; a number that does not grow, or is not finite, is dropped."""
        if not self._unit:
            self._unit, self._base = _LITTLE, self._sent
            self._done, self._steps = self._base, 0
        if self._sent < self._base + progress < math.inf:
            of = None if total is None or not math.isfinite(total) else total
            await self._send_step(progress, of, first_line(message or ""))

    async def event(self, event: Event) -> None:
        """Send the progress and the log message of an event, if the client asked for them."""
        level: LoggingLevel = "debug"
        match event:
            case ActionStarted(action=action, planned=planned):
                self._action, self._total = _short(action), self._base + planned
            case ActionFinished(action=action, number=number, planned=planned, status=status):
                level = "warning" if status == "failed" else "info"
                how = "" if status == "succeeded" else f" {status}"
                await self._send_step(number, planned, f"{number}/{planned} {_short(action)}{how}")
            case ActionRetried(action=action, attempt=attempt, delay_seconds=delay):
                level = "warning"
                await self.send_message(f"{_short(action)} failed at attempt {attempt}, trying again in {delay:g} s")
            case ModelCalled(model=model, turn=1, action=action):
                await self.send_message(f"{_short(action)} asks {model}")
            case ToolCalled(tool=tool, action=action):
                await self.send_message(f"{_short(action)} calls {tool}")
            case ProgressUpdated(message=message):
                level = "info"
                await self.send_message(message)
            case ProcessFinished():
                level = "info"
            case MessageDelta(thinking=False, text=text) if self.sends_text:
                self._write(self._text + text)
            case MessageSent(text=text) if self.sends_text:
                self._write(f"{self._sent_text}{text}\n\n")
                self._sent_text = self._text
            case _:
                pass
        if _LEVELS.index(level) >= self._least and (words := in_words(event)):
            await self._log(level, first_line(words))

    @contextmanager
    def heartbeats(self, doing: str = "") -> Generator[None]:
        """A context in which the text of a reply is sent, and a heartbeat whenever nothing was sent for an interval.

        Heartbeats say what is done: `doing`, or else the current action of the process.
        """
        if self._report is None:
            yield
            return
        self._doing, self._interval = doing, _EARLY * self._heartbeat_seconds
        # Most calls end before the first heartbeat is due, and need no task.
        timer = asyncio.get_running_loop().call_at(self._sent_at + self._interval, self._begin_heartbeats)
        try:
            yield
        finally:
            timer.cancel()
            if self._task is not None:
                self._task.cancel()
                self._task = None

    def _begin_heartbeats(self) -> None:
        self._task = self._task or asyncio.create_task(self._send_heartbeats())

    async def _send_heartbeats(self) -> None:
        while True:
            with anyio.CancelScope(deadline=self._sent_at + self._interval):
                await self._more_text.wait()
            if self._more_text.is_set():
                self._more_text.clear()
                text = hide_known(visible(self._text).strip())  # a secret may have come in two pieces
                if text != self._last_sent_text:
                    self._last_sent_text = text
                    await self.send_message(text, whole=True)
                    await asyncio.sleep(_GAP)
            elif (now := anyio.current_time()) >= self._sent_at + self._interval:
                doing = self._doing or (f"still at {self._action}" if self._action else "still planning")
                await self.send_message(f"{doing} after {now - self._began:.0f} s")

    def _write(self, text: str) -> None:
        self._text = text if len(text) <= _MOST_SHOWN else f"…{text[1 - _MOST_SHOWN :]}"
        self._more_text.set()
        if self._report is not None:
            self._begin_heartbeats()

    async def send_message(self, message: str, *, whole: bool = False) -> None:
        """Send a message between two steps: its first line, or with `whole` all of it."""
        self._steps += 1
        more = self._unit * self._steps / (self._steps + 1) if self._unit else self._steps
        await self._send(self._done + more, message if whole else first_line(message))

    async def _send_step(self, progress: float, total: float | None, message: str) -> None:
        """Send a step: `progress` of `total` is done."""
        self._done, self._steps = self._base + progress, 0
        self._total = None if total is None else self._base + total
        await self._send(self._done, message)

    async def _send(self, number: float, message: str) -> None:
        if self._report is not None:
            self._sent_at, self._sent = anyio.current_time(), number
            await self._report(number, self._total, message or None)


def _short(action: str) -> str:
    return action.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class CallContext:
    """The server and the request of one call."""

    state: McpState
    disconnect: Disconnect | None = None
    """Whether the client has disconnected; None where the SDK or the transport cancels the handler."""
    session: bytes | None = None
    """The ticket of the request's session, which all servers know; None if only this program knows the session."""
    request_id: RequestId | None = None
    progress: Progress | None = None
    """Sends the notifications that the client asked for; None if it asked for none."""
    sdk: Context | None = None
    """The SDK's context, to send the client requests before the answer; None for calls answered without the SDK."""

    @classmethod
    def of(cls, context: Context) -> "CallContext":
        """The context of a call that the SDK received."""
        state, session_id, request = context.lifespan_context, connection_of(context).session_id, context.request
        report = context.session.report_progress if progress_wanted(context) else None
        level, progress = log_level_of(context), None
        if report is not None or level is not None:
            progress = Progress(report, partial(send_log, context), level, state.settings.heartbeat_seconds)
        session = None if session_id is None else session_id.encode()
        disconnect = request.scope.get(DISCONNECT) if isinstance(request, Request) else None
        return cls(state, disconnect, session, context.request_id, progress, context)

    @contextmanager
    def waiting(self, doing: str) -> Generator[None]:
        """A context in which a call waits, or a tool runs without a process; sends heartbeats and the tool's progress.

        It is cancelled when the client of the call disconnects. Heartbeats have the text `doing`.
        """
        with self.until_disconnect():
            if self.progress is None:
                yield
                return
            with self.progress.heartbeats(doing), call_hooks(progress=self.progress.report):
                yield

    def until_disconnect(self) -> anyio.CancelScope:
        """A cancel scope for a handler; it is cancelled when the client of its request disconnects."""
        scope = anyio.CancelScope()
        if self.disconnect is not None:
            self.disconnect.add_callback(scope.cancel)
        return scope


class Observer:
    """One request that waits for a process, perhaps several times; in a conversation it waits for a turn.

    If the request is cancelled or its client disconnects while it waits, it no longer watches the process
    (`Watch.leave`); with `watches=False` the process runs on in any case. `turn` is the turn that the request has begun
    in `session`; None: it waits for the last turn of the conversation.
    """

    def __init__(
        self,
        context: CallContext,
        process: AgentProcess,
        policy: CallPolicy,
        place: Place | None = None,
        session: ChatSession | None = None,
        turn: Turn | None = None,
        *,
        message_id: str = "",
        watches: bool = True,
    ) -> None:
        self.context, self.process, self.policy, self.place = context, process, policy, place
        self.message_id = message_id
        """The id of the message that began the turn; empty if there is none, or it is not known."""
        self.result: TurnResult | None = None
        """The result of the last turn that the request has waited for; None if no turn has ended yet."""
        self._run = context.state.runs.of(process, detached=policy.detached) if watches else None
        self._session, self._turn, self._has_begun = session, turn, turn is not None
        self._messages: dict[str, ConversationMessage] = {}
        """The messages of the turns that have ended while this request waited, by their ids."""

    async def outcome(self, patience: float | None) -> Outcome | None:
        """The outcome of the process, or of the turn; None if it still runs after `patience` seconds.

        Raises `StoreError`.
        """
        context = self.context
        if self._session is None and self.process.options.turns:
            self._session = await session_of_process(context.state.platform, self.process, current_caller())
        wait = self._of_process if self._session is None else self._of_turn
        if self._run is None:
            return await wait(patience)
        watch = Watch(self._run)
        if context.disconnect is not None:
            context.disconnect.add_callback(watch.leave)
        with watch, context.state.cancellations.reachable(context.session, context.request_id, watch):
            return await wait(patience)

    async def _of_process(self, patience: float | None) -> Outcome | None:
        progress, process = self.context.progress, self.process
        with nullcontext() if patience is None else anyio.move_on_after(patience):
            if progress is None:
                return await process.wait()
            follower = Follower(_MOST_EVENTS)
            unsubscribe = process.subscribe(follower)
            try:
                with progress.heartbeats():
                    await progress.begin(f"process {process.id} begins")
                    async with aclosing(follower.follow(process)) as items:
                        async for each in items:
                            match each:
                                case Rested(outcome):
                                    return outcome
                                case Heartbeat():
                                    pass  # `progress.heartbeats` sends them, only after silence
                                case event:
                                    await progress.event(event)
            finally:
                unsubscribe()
        return process.outcome

    async def _of_turn(self, patience: float | None) -> Outcome | None:
        progress, process, session = self.context.progress, self.process, self._session
        assert session is not None
        turn = self._turn = self._turn or await session.last_turn()
        if turn is None:
            return process.outcome
        if process.outcome is not None and not process.active:
            patience = None  # the turn is over
        with nullcontext() if patience is None else anyio.move_on_after(patience):
            if progress is not None:
                progress.sends_text = True
                await progress.begin()
                # If the events break off, `turn.result` raises the reason.
                with suppress(GoalportError), progress.heartbeats():
                    async with aclosing(turn.events()) as events:
                        async for event in events:
                            await progress.event(event)
            self.result, self._turn = await turn.result(), None
            self._messages.update((each.id, each) for each in self.result.messages)
            return self.result.outcome
        return None

    async def answer(self, outcome: Outcome | None) -> WrittenResult:
        """The answer to the request: the result, the reply, or the handle if the process still runs or waits.

        Raises `StoreError`.
        """
        state, process = self.context.state, self.process
        if self._session is None or self.result is None or outcome is None or isinstance(outcome, Waiting):
            return state.answers.of(self.policy, process, outcome)
        conversation, by_id = self._session.conversation, dict(self._messages)
        if not self._has_begun:
            await state.platform.conversations.load(conversation)
            by_id = {each.id: each for each in last_reply(conversation)} | by_id
        most, messages = state.settings.max_result_bytes, [*by_id.values()]
        return answer_with_reply(self.policy, process, conversation, messages, self.result.failure, max_bytes=most)


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
