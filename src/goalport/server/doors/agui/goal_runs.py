"""Runs of goals: a process that begins with what a front end gives, told as events; its result as text and as state.

A run that is repeated joins the process that the first one began. Questions end a run as those of chatbots do; their
interrupts name the process too, since a thread of a front end may have begun many. Below: the events and the
interrupts. Above: the door.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
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
from goalport.base.events import MessageSent
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned
from goalport.runtime.platform.runs import Following, IdempotentCall, Watch, process_of
from goalport.runtime.process import AgentProcess, Completed, Outcome
from goalport.server.doors.agui.interrupts import RunRefused, answers, interrupt_of
from goalport.server.doors.agui.run_events import RunEvents
from goalport.server.doors.agui.transcript import SharedState, last_text
from goalport.server.publish.answers import reason_of, text_of, written_by
from goalport.server.publish.calls import Call
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.own_resources import question_view
from goalport.server.publish.publisher import Publisher

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
        following = Following()
        resume = self._given.resume
        process = await (self._resumed(resume, following) if resume else self._started(following))
        self._call.process = process
        told = {"id": process.id, "goal": self._tool.tool.name}
        for each in self._state.snapshot(process=told, plan=None, questions=[], result=None):
            yield each
        watch = Watch(self._publisher.runs.of(process, detached=self._tool.policy.detached))
        try:
            async for event in following.events_of(process):
                for each in self._events.of(event):
                    yield each
            watch.end()
        finally:
            watch.leave()
        for each in (*self._events.close(), *self._end(process, await process.wait())):
            yield each

    async def _started(self, following: Following) -> AgentProcess:
        given = self._input()
        objects = self._tool.arguments.begin(given)
        key = sha256(f"{self._given.thread_id}\n{self._given.run_id}".encode()).hexdigest()
        once = IdempotentCall.of(self._caller, self._tool.tool.name, f"agui {key}", given)
        start = partial(self._begun, objects, once, following)
        return await self._publisher.limits.started(self._caller, start)

    async def _begun(self, objects: Sequence[object], once: IdempotentCall, following: Following) -> AgentProcess:
        tool = self._tool
        process = await self._publisher.platform.start_stored(
            tool.agent,
            *objects,
            once=(once.name, once.digest),
            goals=tool.goals,
            caller=self._caller,
            listener=following,
        )
        if process is None:
            raise RunRefused("repeated-run", "This thread has had a run of this id already, with other input.")
        return process

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

    async def _resumed(self, resume: Sequence[ResumeEntry], following: Following) -> AgentProcess:
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
        process.subscribe(following)
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
