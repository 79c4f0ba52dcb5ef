"""Runs of chatbots: what a person says, or answers, becomes a turn of their conversation, told as events.

A thread of the front end is a conversation of its caller, and nobody else's. Below: the events, the transcript and the
interrupts. Above: the door.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

import anyio
from ag_ui.core import (
    BaseEvent,
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedOutcome,
    RunFinishedSuccessOutcome,
)

from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned
from goalport.runtime.chat import AgentProcessChatbot, ChatSession, FrontEndCall, Turn, TurnResult
from goalport.server.doors.agui.front_ends import call_events, call_message, front_end_of, takes_front_end, tool_answers
from goalport.server.doors.agui.interrupts import RunRefused, answers, interrupt_of
from goalport.server.doors.agui.run_events import RunEvents
from goalport.server.doors.agui.transcript import Asked, SharedState, asked, instructions, merged
from goalport.server.publish.calls import Call
from goalport.server.publish.own_resources import question_view
from goalport.server.publish.publisher import Publisher, counted_turn, note_turn, reader_left

_SPOKE_WHILE_ASKED: Final = (
    "The conversation waits for answers. Send them as `resume`, or cancel the interrupts there, and then go on: "
)


class ChatRun:
    """One run of a chatbot.

    Parameters: `given` is what the front end has sent. `call` is the call that the run is.
    """

    def __init__(self, chatbot: AgentProcessChatbot, given: RunAgentInput, publisher: Publisher, call: Call) -> None:
        self._chatbot, self._given, self._publisher, self._call = chatbot, given, publisher, call
        self._caller = call.caller
        self._state = SharedState(given.state)
        takes = takes_front_end(publisher.platform, chatbot)
        self._front_end = front_end_of(given) if takes else None
        offered = self._front_end.called if self._front_end is not None else ()
        self._events = RunEvents(self._state, offered)
        self._answered = bool(given.resume)
        self._result: TurnResult | None = None

    async def events(self) -> AsyncGenerator[BaseEvent]:
        """What happens, from after the start of the run to its end. Raises `RunRefused`, `BadInput`, `StoreError`."""
        told = instructions(self._given.messages)
        session = await self._chatbot.open_thread(self._given.thread_id, self._caller, system_message=told)
        for each in self._state.snapshot(conversation=_view(session), plan=None, questions=[]):
            yield each
        async for each in self._turns(session):
            yield each
        for each in (*self._events.close(), *self._end(session)):
            yield each

    async def _turns(self, session: ChatSession) -> AsyncGenerator[BaseEvent]:
        """The turns of the run, one after another: of the answers, and of what is said."""
        for begin in (self._resumed, self._asked):
            if self._result is not None and (self._result.failure or self._result.questions):
                return
            turn = await begin(session)
            if turn is None:
                continue
            for each in self._state.change("conversation", _view(session)):
                yield each
            async for each in self._followed(turn):
                yield each

    async def _resumed(self, session: ChatSession) -> Turn | None:
        """The turn that goes on with the answers of the run; None: it has none."""
        turn, resume = None, self._given.resume
        read = answers(session.behind.last_seen, resume) if resume else ()
        for each in (*read, *tool_answers(session.behind.last_seen, self._given.messages)):
            question, response, declined = each.question, each.response, each.declined
            turn = await self._begun(partial(session.answer, question.id, response, declined=declined))
            self._publisher.audit_trail.answered(self._caller, question, response, declined=bool(declined))
            self._answered = True
        return turn

    async def _asked(self, session: ChatSession) -> Turn | None:
        """The turn that begins with what is new, or the one that runs if nothing is; None: nothing happens."""
        new = asked(session.conversation.entries, self._given.messages, self._given.state)
        if isinstance(new, Asked):
            if session.questions:
                waiting = ", ".join(each.id for each in session.questions)
                raise RunRefused("open-interrupts", f"{_SPOKE_WHILE_ASKED}{waiting}.")
            if self._given.resume:  # the run was admitted as one that only answers
                await self._publisher.limits.begin(self._caller)
            begin = partial(session.begin_turn, new.message, earlier=new.earlier, after=new.after)
            return await self._begun(partial(begin, beside=self._beside))
        running = await session.follow()
        if running is not None or new is None or session.questions or self._answered:
            return running
        return await self._begun(partial(session.regenerate, new.message_id, beside=self._beside))

    @property
    def _beside(self) -> Sequence[object]:
        return () if self._front_end is None else (self._front_end,)

    async def _begun(self, begin: Callable[[], Awaitable[Turn]]) -> Turn:
        """A turn, also if whoever asked for it goes away meanwhile: what was said is both stored and told."""
        turn: Turn | None = None
        with anyio.CancelScope(shield=True):
            turn = await counted_turn(self._publisher.limits, self._call, begin)
        assert turn is not None
        return turn

    async def _followed(self, turn: Turn) -> AsyncGenerator[BaseEvent]:
        try:
            async with aclosing(turn.events()) as events:
                async for event in events:
                    for each in self._events.of(event):
                        yield each
        finally:
            if not turn.over:
                reader_left(turn, self._chatbot.mark)
        self._result = await turn.result()
        note_turn(self._call, self._result)

    def _end(self, session: ChatSession) -> Iterator[BaseEvent]:
        result, events = self._result, self._events
        questions = session.questions if result is None else result.questions
        told = {"conversation": _view(session), "questions": [question_view(each) for each in questions]}
        calls = [(each, each.wait) for each in questions if isinstance(each.wait, FrontEndCall)]
        for question, call in calls:
            yield from call_events(question, call)
            events.messages.append(call_message(question, call))
        shown = [*self._given.messages, *events.messages]
        whole = merged(shown, session.conversation.entries)
        if questions or events.withdrawn or self._differ(whole, shown):
            yield MessagesSnapshotEvent(messages=whole)
        interrupts = [interrupt_of(each) for each in questions if not isinstance(each.wait, FrontEndCall)]
        if interrupts:
            yield from self._state.snapshot(**told)
            yield self._finished(RunFinishedInterruptOutcome(interrupts=interrupts))
            return
        for name, value in told.items():
            yield from self._state.change(name, value)
        if result is not None and result.failure:
            yield RunErrorEvent(message=cleaned(hide_known(result.failure)), code="turn-failed", usage=events.usage)
        else:
            pending = [question.id for question, _ in calls]
            yield self._finished(RunFinishedSuccessOutcome(pending_tool_call_ids=pending or None))

    def _differ(self, whole: Sequence[Message], shown: Sequence[Message]) -> bool:
        """Whether the front end shows other messages than there are; without a turn, whether it lacks any."""
        there, here = [each.id for each in whole], [each.id for each in shown]
        return there != here if self._result is not None else not {*there} <= {*here}

    def _finished(self, outcome: RunFinishedOutcome) -> BaseEvent:
        given = self._given
        return RunFinishedEvent(
            thread_id=given.thread_id, run_id=given.run_id, outcome=outcome, usage=self._events.usage
        )


def _view(session: ChatSession) -> dict[str, object]:
    """What the state tells of a conversation."""
    conversation = session.conversation
    entries = conversation.entries
    return {
        "id": conversation.id,
        "chatbot": conversation.chatbot,
        "title": conversation.title,
        "head": entries[-1].id if entries else "",
        "finished": conversation.finished,
    }
