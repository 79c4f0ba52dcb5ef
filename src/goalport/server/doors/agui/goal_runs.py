"""Runs of goals: a process that begins with what a front end gives, told as events; its result as text and as state.

A run that is repeated joins the process that the first one began. Questions end a run as those of chatbots do; their
interrupts name the process too, since a thread of a front end may have begun many. Below: the events and the
interrupts. Above: the door.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from hashlib import sha256
from typing import Any, Final, cast

from ag_ui.core import (
    BaseEvent,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
)
from pydantic_core import from_json

from goalport.base.errors import BadInput, ToolError
from goalport.base.events import Event, MessageSent
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned
from goalport.runtime.platform.runs import IdempotentCall, Watch, process_of
from goalport.runtime.process import AgentProcess, Completed, Follower, Heartbeat, Outcome, Rested
from goalport.server.doors.agui.interrupts import RunRefused, answers, interrupt_of
from goalport.server.doors.agui.run_events import RunEvents
from goalport.server.doors.agui.transcript import SharedState, last_text
from goalport.server.publish.answers import reason_of, text_of, written_by
from goalport.server.publish.calls import Call
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.own_resources import question_view
from goalport.server.publish.publisher import Publisher, start_goal

_BETWEEN: Final = ":"
"""Stands between the ids of a process and of its question; neither has it in it."""


class GoalRun:
    """One run of a published goal.

    Parameters: `given` is what the front end has sent. `call` is the call that the run is.
    """

    def __init__(self, tool: GoalTool, given: RunAgentInput, publisher: Publisher, call: Call) -> None:
        self._tool, self._given, self._publisher, self._call = tool, given, publisher, call
        self._caller = call.caller
        self._state = SharedState(given.state)
        self._events = RunEvents(self._state)

    async def events(self) -> AsyncGenerator[BaseEvent]:
        """What happens, from after the start of the run to its end.

        Raises `RunRefused`, `BadInput`, `LimitReached`, `StoreError` and `HandedOver`.
        """
        resume, follower = self._given.resume, Follower()
        process = await (self._resumed(resume, follower) if resume else self._started(follower))
        self._call.process = process
        told = {"id": process.id, "goal": self._tool.tool.name}
        for each in self._state.snapshot(process=told, plan=None, questions=[], result=None):
            yield each
        with Watch(self._publisher.runs.of(process, detached=self._tool.policy.detached)):
            async with aclosing(follower.follow(process)) as items:
                async for item in items:
                    for each in self._told(process, item):
                        yield each

    def _told(self, process: AgentProcess, item: Event | Heartbeat | Rested) -> Iterator[BaseEvent]:
        match item:
            case Rested(outcome=outcome) if outcome is not None:
                yield from self._events.close()
                yield from self._end(process, outcome)
            case Rested() | Heartbeat():
                pass
            case event:
                yield from self._events.of(event)

    async def _started(self, follower: Follower) -> AgentProcess:
        given, tool = self._input(), self._tool
        objects = tool.arguments.begin(given)
        key = sha256(f"{self._given.thread_id}\n{self._given.run_id}".encode()).hexdigest()
        once = IdempotentCall.of(self._caller, tool.tool.name, f"agui {key}", given)
        try:
            return await start_goal(self._publisher, tool, objects, self._caller, once=once, listener=follower)
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

    async def _resumed(self, resume: Sequence[ResumeEntry], follower: Follower) -> AgentProcess:
        """The process that goes on with answers."""
        ids = [each.interrupt_id.partition(_BETWEEN) for each in resume]
        found = {process_id for process_id, _, _ in ids}
        process = await process_of(self._publisher.platform, found.pop(), self._caller) if len(found) == 1 else None
        if process is not None and {*process.goals} != {*self._tool.goals}:
            process = None
        entries = [
            each.model_copy(update={"interrupt_id": question_id})
            for each, (_, _, question_id) in zip(resume, ids, strict=True)
        ]
        read = answers(process, entries)
        assert process is not None
        process.subscribe(follower)
        for each in read:
            await self._publisher.platform.answer(process.id, each.question.id, each.response, declined=each.declined)
            self._publisher.audit_trail.answered(
                self._caller, each.question, each.response, declined=bool(each.declined)
            )
        return process

    def _end(self, process: AgentProcess, outcome: Outcome) -> Iterator[BaseEvent]:
        name, given, usage = self._tool.tool.name, self._given, self._events.usage
        finished = partial(RunFinishedEvent, thread_id=given.thread_id, run_id=given.run_id, usage=usage)
        if questions := process.open_questions:
            yield from self._state.snapshot(questions=[question_view(each) for each in questions])
            interrupts = [interrupt_of(each, f"{process.id}{_BETWEEN}{each.id}") for each in questions]
            yield finished(outcome=RunFinishedInterruptOutcome(interrupts=interrupts))
            return
        try:
            why = reason_of(outcome, name)
            text, result = self._result(outcome) if isinstance(outcome, Completed) else ("", None)
        except ToolError as error:
            why, text, result = str(error), "", None
        if why is not None:
            yield RunErrorEvent(message=cleaned(hide_known(why)), code="no-result", usage=usage)
            return
        yield from self._events.of(MessageSent(f"{process.id}-result", text))
        yield from self._state.change("result", result)
        yield finished(result=result, outcome=RunFinishedSuccessOutcome())

    def _result(self, outcome: Completed) -> tuple[str, Any]:
        """The result as text and as JSON. Raises `ToolError` if it cannot be written."""
        policy = self._tool.policy
        text = text_of(policy.output, policy.name, outcome.value)
        return text, from_json(written_by(policy.output.json, policy.name, outcome.value))
