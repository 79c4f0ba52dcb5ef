"""Runs of chatbots and of goals, as events: a turn of a conversation, or a process, from its start until it rests.

A thread of a front end is a conversation of its caller, and nobody else's. A question ends a run as an interrupt, and
so does a call of a tool of the front end; a later run answers, on any replica. A question keeps its id, and the first
answer counts, over whichever door it comes. Below: the events. Above: the handlers.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from hashlib import sha256
from typing import Any, Final, cast

import anyio
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    Tool,
    ToolMessage,
    UserMessage,
)
from pydantic_core import from_json

from goalport.base.errors import BadInput, GoalportError, ToolError, UnknownName
from goalport.base.events import MessageSent
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned, listed
from goalport.runtime.chat import (
    AgentProcessChatbot,
    ChatSession,
    FrontEnd,
    FrontEndCall,
    OfferedTool,
    Turn,
    TurnResult,
)
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.runs import IdempotentCall, Watch, process_of
from goalport.runtime.process import (
    AgentProcess,
    Completed,
    Follower,
    Heartbeat,
    Outcome,
    Question,
    Rested,
    find_question,
)
from goalport.server.doors.agui.events import (
    STATE,
    Asked,
    RunEvents,
    SharedState,
    asked,
    instructions,
    last_text,
    merged,
)
from goalport.server.publish.answers import reason_of, text_of, written_by
from goalport.server.publish.calls import Call
from goalport.server.publish.forms import form_of
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.portability import Schema
from goalport.server.publish.publisher import (
    Publisher,
    answer_question,
    counted_turn,
    note_turn,
    reader_left,
    start_goal,
)
from goalport.server.publish.resources import question_view
from goalport.tools import schema_fault
from goalport.tools.schemas import UNREADABLE

_YES_OR_NO: Final = frozenset({"approved", "confirmed"})
"""The members in one of which front ends send a yes or no, where they do not send it bare."""
_BETWEEN: Final = ":"
"""Stands between the ids of a process and of its question; neither has it in it."""


class RunRefused(GoalportError):
    """A run that cannot be done as it was asked for; the code is for programs."""

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question, which was found valid."""

    question: Question
    response: object = None
    declined: str = ""
    """Why there is no answer; empty: there is one."""


def interrupt_of(question: Question, interrupt_id: str = "") -> Interrupt:
    """The interrupt that asks a question, with another id than the question's if one is given.

    It has no schema if the answer cannot be read from JSON.
    """
    view, expires = question_view(question), question.expires_at
    schema = cast("dict[str, Any] | None", view.get("schema"))
    return Interrupt(
        id=interrupt_id or question.id,
        reason="confirmation" if schema is not None and schema.get("type") == "boolean" else "input_required",
        message=cleaned(hide_known(question.message)),
        response_schema=schema,
        expires_at=None if expires is None else expires.astimezone(UTC).isoformat(),
        metadata={name: view[name] for name in ("kind", "options", "url", "askedAt") if name in view},
    )


def answers(process: AgentProcess, resume: Sequence[ResumeEntry]) -> Sequence[Answer]:
    """What is to be answered by the entries of a run. Nothing was answered if one of them is wrong.

    An entry that says again how its question was settled has nothing to answer; nor has one that cancels a question
    that is settled, which is how a front end goes on after somebody else has answered. Raises `RunRefused`.
    """
    read = [_answer_of(process, each) for each in resume]
    open_ones = {each.id for each in process.open_questions if not isinstance(each.wait, FrontEndCall)}
    left = open_ones - {each.interrupt_id for each in resume}
    if left and any(read):
        told = f"Answer or cancel all open interrupts at once: {listed(sorted(left))} too."
        raise RunRefused("open-interrupts", told)
    return [each for each in read if each is not None]


def _nothing_waits() -> RunRefused:
    return RunRefused("unknown-interrupt", "Nothing waits for an answer here, so there is nothing to resume.")


def _answer_of(process: AgentProcess, entry: ResumeEntry) -> Answer | None:
    try:
        _, question = find_question(process, entry.interrupt_id)
    except UnknownName:
        told = f"No interrupt {entry.interrupt_id[:100]!r} was raised here. Expected an id of the outcome of a run."
        raise RunRefused("unknown-interrupt", told) from None
    settled = question.status != "open" or question.expired
    if entry.status == "cancelled":
        return None if settled else Answer(question, declined="The person declined.")
    try:
        form, payload = form_of(question), cast("object", entry.payload)
        if form.schema.get("type") == "boolean" and isinstance(payload, Mapping):
            # A yes or no may be the one member of an object, as the protocol's examples have it.
            members = cast("Mapping[str, object]", payload)
            payload = next(iter(members.values())) if len(members) == 1 and members.keys() <= _YES_OR_NO else members
        response = form.read(payload)
        accepted = question.validated(response)
    except UNREADABLE:
        told = f"The answer to {question.id} cannot be read from JSON. Cancel the interrupt."
        raise RunRefused("unreadable-interrupt", told) from None
    except BadInput as error:
        raise RunRefused("invalid-answer", str(error)) from None
    if not settled:
        return Answer(question, response)
    if question.answer == accepted and question.status == ("declined" if accepted is None else "answered"):
        return None
    status = "expired" if question.expired else question.status
    told = f"Question {question.id} is {status} already: the first answer counts. Cancel the interrupt to go on."
    raise RunRefused("already-answered" if status in {"answered", "declined"} else status, told)


def takes_front_end(platform: AgentPlatform, chatbot: AgentProcessChatbot) -> bool:
    """Whether an action of a chatbot takes a `FrontEnd`: for others, what a front end offers means nothing."""
    actions = platform.agents.scope(chatbot.name).actions.values()
    return any(each.type is FrontEnd for action in actions for taken in action.inputs for each in taken.leaves)


def offer_problems(tools: Sequence[Tool]) -> Iterator[str]:
    """What is wrong with the tools that a front end offers, in lines."""
    for place, each in enumerate(tools):
        schema = _schema(each)
        fault = schema_fault(cast("Schema", schema)) if isinstance(schema, dict) else "it is no object"
        if fault:
            yield f"tools[{place}].parameters: should be a JSON Schema: {fault}"
        if not each.name.strip():
            yield f"tools[{place}].name: should not be empty"


def _schema(tool: Tool) -> object:
    return {"type": "object", "properties": {}} if tool.parameters in (None, {}) else tool.parameters


def front_end_of(given: RunAgentInput) -> FrontEnd:
    """What a front end tells and offers. What the server told in its state before is left out."""
    state = given.state
    if isinstance(state, dict):
        state = {name: each for name, each in cast("dict[str, Any]", state).items() if name != STATE}
    return FrontEnd.of(
        [(each.description, each.value) for each in given.context or ()],
        [OfferedTool(each.name, each.description, json.dumps(_schema(each))) for each in given.tools or ()],
        state=state,
        properties=given.forwarded_props,
    )


def tool_answers(process: AgentProcess | None, given: Sequence[Message]) -> Iterator[Answer]:
    """What came of the calls that a process waits for. A person who speaks instead leaves them out."""
    results = {each.tool_call_id: each for each in given if isinstance(each, ToolMessage)}
    speaks = bool(given) and isinstance(given[-1], UserMessage)
    for each in process.open_questions if process else ():
        if not isinstance(each.wait, FrontEndCall):
            continue
        if (result := results.get(each.id)) is None:
            if speaks:
                yield Answer(each, declined="It went on without a result.")
            continue
        parts = result.content
        text = parts if isinstance(parts, str) else json.dumps([part.model_dump(mode="json") for part in parts])
        yield Answer(each, f"It failed: {result.error}" if result.error else text)


class GoalRun:
    """One run of a published goal.

    Parameters: `given` is what the front end has sent. `call` is the call that the run is.
    """

    def __init__(self, tool: GoalTool, given: RunAgentInput, publisher: Publisher, call: Call) -> None:
        self._tool, self._given, self._publisher, self._call = tool, given, publisher, call
        self._state = SharedState(given.state)
        self._events = RunEvents(self._state)

    async def events(self) -> AsyncGenerator[BaseEvent]:
        """What happens, from after the start of the run to its end.

        Raises `RunRefused`, `BadInput`, `LimitReached`, `StoreError` and `HandedOver`.
        """
        follower = Follower()
        process = await (self._resumed(follower) if self._given.resume else self._started(follower))
        self._call.process = process
        told = {"id": process.id, "goal": self._tool.tool.name}
        for each in self._state.snapshot(process=told, plan=None, questions=[], result=None):
            yield each
        with Watch(self._publisher.runs.of(process, detached=self._tool.policy.detached)):
            async with aclosing(follower.follow(process)) as items:
                async for item in items:
                    match item:
                        case Rested(outcome=outcome) if outcome is not None:
                            for each in (*self._events.close(), *self._end(process, outcome)):
                                yield each
                        case Rested() | Heartbeat():
                            pass
                        case event:
                            for each in self._events.of(event):
                                yield each

    async def _started(self, follower: Follower) -> AgentProcess:
        tool, caller, given = self._tool, self._call.caller, self._input()
        objects = tool.arguments.begin(given)
        key = sha256(f"{self._given.thread_id}\n{self._given.run_id}".encode()).hexdigest()
        once = IdempotentCall.of(caller, tool.tool.name, f"agui {key}", given)
        try:
            return await start_goal(self._publisher, tool, objects, caller, once=once, listener=follower)
        except BadInput:
            told = "This thread has had a run of this id already, with other input."
            raise RunRefused("repeated-run", told) from None

    def _input(self) -> Mapping[str, Any]:
        """What the goal starts from: the member `input` of the forwarded properties, or of the state, or what was said.

        Raises `BadInput`.
        """
        for each in (self._given.forwarded_props, self._given.state):
            if isinstance(each, Mapping) and isinstance(typed := cast("Mapping[str, Any]", each).get("input"), Mapping):
                return cast("Mapping[str, Any]", typed)
        field = self._tool.text_field
        if field is None:
            taken = ", ".join(self._tool.arguments.schema.get("properties", ()))
            told = f"{self._tool.tool.name} cannot start from a sentence: it takes {taken}."
            raise BadInput(f"{told} Give them as an object, in the member `input` of the state or of forwardedProps.")
        return {field: last_text(self._given.messages)}

    async def _resumed(self, follower: Follower) -> AgentProcess:
        """The process that goes on with answers."""
        caller, resume = self._call.caller, self._given.resume or ()
        ids = [each.interrupt_id.partition(_BETWEEN) for each in resume]
        found = {process_id for process_id, _, _ in ids}
        process = await process_of(self._publisher.platform, found.pop(), caller) if len(found) == 1 else None
        if process is None or {*process.goals} != {*self._tool.goals}:
            raise _nothing_waits()
        entries = [
            each.model_copy(update={"interrupt_id": question_id})
            for each, (_, _, question_id) in zip(resume, ids, strict=True)
        ]
        read = answers(process, entries)
        process.subscribe(follower)
        for each in read:
            await answer_question(self._publisher, caller, each.question, each.response, declined=each.declined)
        return process

    def _end(self, process: AgentProcess, outcome: Outcome) -> Iterator[BaseEvent]:
        policy, given, usage = self._tool.policy, self._given, self._events.usage
        finished = partial(RunFinishedEvent, thread_id=given.thread_id, run_id=given.run_id, usage=usage)
        if questions := process.open_questions:
            yield from self._state.snapshot(questions=[question_view(each) for each in questions])
            interrupts = [interrupt_of(each, f"{process.id}{_BETWEEN}{each.id}") for each in questions]
            yield finished(outcome=RunFinishedInterruptOutcome(interrupts=interrupts))
            return
        text, result = "", None
        try:
            why = reason_of(outcome, self._tool.tool.name)
            if isinstance(outcome, Completed):
                text = text_of(policy.output, policy.name, outcome.value)
                result = from_json(written_by(policy.output.json, policy.name, outcome.value))
        except ToolError as error:
            why = str(error)
        if why is not None:
            yield RunErrorEvent(message=cleaned(hide_known(why)), code="no-result", usage=usage)
            return
        yield from self._events.of(MessageSent(f"{process.id}-result", text))
        yield from self._state.change("result", result)
        yield finished(result=result, outcome=RunFinishedSuccessOutcome())


class ChatRun:
    """One run of a chatbot.

    Parameters: `given` is what the front end has sent. `call` is the call that the run is.
    """

    def __init__(self, chatbot: AgentProcessChatbot, given: RunAgentInput, publisher: Publisher, call: Call) -> None:
        self._chatbot, self._given, self._publisher, self._call = chatbot, given, publisher, call
        self._state = SharedState(given.state)
        front_end = front_end_of(given) if takes_front_end(publisher.platform, chatbot) else None
        self._beside = () if front_end is None else (front_end,)
        self._events = RunEvents(self._state, () if front_end is None else front_end.called)
        self._answered = bool(given.resume)
        self._result: TurnResult | None = None

    async def events(self) -> AsyncGenerator[BaseEvent]:
        """What happens, from after the start of the run to its end. Raises `RunRefused`, `BadInput`, `StoreError`."""
        told = instructions(self._given.messages)
        session = await self._chatbot.open_thread(self._given.thread_id, self._call.caller, system_message=told)
        for each in self._state.snapshot(conversation=_view(session), plan=None, questions=[]):
            yield each
        # The turns of the run, one after another: of the answers, and of what is said.
        for begin in (self._resumed, self._asked):
            if self._result is not None and (self._result.failure or self._result.questions):
                break
            if (turn := await begin(session)) is not None:
                for each in self._state.change("conversation", _view(session)):
                    yield each
                async for each in self._followed(turn):
                    yield each
        for each in (*self._events.close(), *self._end(session)):
            yield each

    async def _resumed(self, session: ChatSession) -> Turn | None:
        """The turn that goes on with the answers of the run; None: it has none."""
        turn, resume, process = None, self._given.resume, session.last_seen
        if resume and process is None:
            raise _nothing_waits()
        read = answers(process, resume) if process and resume else ()
        for each in (*read, *tool_answers(process, self._given.messages)):
            question, response, declined = each.question, each.response, each.declined
            turn = await self._begun(partial(session.answer, question.id, response, declined=declined))
            trail, caller = self._publisher.audit_trail, self._call.caller
            trail.answered(caller, question, response, declined=bool(declined))
            self._answered = True
        return turn

    async def _asked(self, session: ChatSession) -> Turn | None:
        """The turn that begins with what is new, or the one that runs if nothing is; None: nothing happens."""
        new = asked(session.conversation.entries, self._given.messages, self._given.state)
        if isinstance(new, Asked):
            if session.questions:
                waiting = ", ".join(each.id for each in session.questions)
                told = "The conversation waits for answers. Send them as `resume`, or cancel the interrupts there, and"
                raise RunRefused("open-interrupts", f"{told} then go on: {waiting}.")
            if self._given.resume:  # the run was admitted as one that only answers
                await self._publisher.limits.begin(self._call.caller)
            begin = partial(session.begin_turn, new.message, earlier=new.earlier, after=new.after)
            return await self._begun(partial(begin, beside=self._beside))
        running = await session.follow()
        if running is not None or new is None or session.questions or self._answered:
            return running
        return await self._begun(partial(session.regenerate, new.message_id, beside=self._beside))

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
        result, events, given = self._result, self._events, self._given
        questions = session.questions if result is None else result.questions
        told = {"conversation": _view(session), "questions": [question_view(each) for each in questions]}
        calls = [(each.id, each.wait) for each in questions if isinstance(each.wait, FrontEndCall)]
        for call_id, call in calls:
            yield from events.call(call_id, call.tool, call.arguments)
        shown = [*given.messages, *events.messages]
        whole = merged(shown, session.conversation.entries)
        there, here = [each.id for each in whole], [each.id for each in shown]
        # Whether the front end shows other messages than there are; without a turn, whether it lacks any.
        differ = there != here if result is not None else not {*there} <= {*here}
        if questions or events.withdrawn or differ:
            yield MessagesSnapshotEvent(messages=whole)
        finished = partial(RunFinishedEvent, thread_id=given.thread_id, run_id=given.run_id, usage=events.usage)
        interrupts = [interrupt_of(each) for each in questions if not isinstance(each.wait, FrontEndCall)]
        if interrupts:
            yield from self._state.snapshot(**told)
            yield finished(outcome=RunFinishedInterruptOutcome(interrupts=interrupts))
            return
        for name, value in told.items():
            yield from self._state.change(name, value)
        if result is not None and result.failure:
            yield RunErrorEvent(message=cleaned(hide_known(result.failure)), code="turn-failed", usage=events.usage)
        else:
            pending = [call_id for call_id, _ in calls]
            yield finished(outcome=RunFinishedSuccessOutcome(pending_tool_call_ids=pending or None))


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
