"""A request that waits for the reply of a chatbot, and the answer to it.

The process of a conversation rests between turns and goes on with the next one, which may begin as soon as this one is
over. So a request waits for a turn, and not for the process as one of a goal does. Below: turns, and what is common to
all requests that wait. `chat_calls` and `companion_calls` are above.
"""

from contextlib import aclosing, nullcontext, suppress
from typing import Final

import anyio

from goalport.base.errors import GoalportError
from goalport.base.events import Event, MessageDelta, MessageSent
from goalport.base.secrecy import hide_known
from goalport.base.words import visible
from goalport.runtime.chat import (
    ChatSession,
    ConversationMessage,
    Turn,
    TurnResult,
)
from goalport.runtime.platform.runs import Run
from goalport.runtime.process import AgentProcess, Outcome, Waiting
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.call_context import CallContext
from goalport.server.doors.mcp.notifications import Notifier
from goalport.server.doors.mcp.progress_notifications import Observer, ProcessProgress
from goalport.server.doors.mcp.state import McpState
from goalport.server.publish.chat_answers import answer_with_reply
from goalport.server.publish.chat_reply import last_reply
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.limits import Place
from goalport.server.publish.output import WrittenResult
from goalport.server.publish.turn_tasks import Task, end_of_turn, session_of_process


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
