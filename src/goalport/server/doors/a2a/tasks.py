"""Tasks as other agents see them, made of processes: the state and a sentence, the questions, the results, the history.

A task of a goal is a process. The task of a chatbot is one turn of a conversation, which is the context of the task.
Nothing is changed here. Above: `handler`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from a2a import types as a2a
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic_core import from_json, to_json

from goalport.base.errors import ToolError
from goalport.base.events import ActionFinished, Event, MessageDelta, MessageSent, ProgressUpdated
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned
from goalport.runtime.chat import A2aMessage, ChatSession
from goalport.runtime.process import AgentProcess, Completed, Failed, Killed, Question, Waiting
from goalport.server.doors.a2a.messages import JSON, parts_of
from goalport.server.publish.answers import reason_of, written_by
from goalport.server.publish.forms import form_of
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.questions_in_words import in_words
from goalport.server.publish.resources import cost_of, question_view
from goalport.server.publish.turn_tasks import Task, TurnEnd
from goalport.tools.schemas import UNREADABLE, may_hold_secret

CANCELLED: Final = "Its caller cancelled it."
MOST_HISTORY: Final = 100
"""The most messages of a history that are shown."""
_ENDS: Final = frozenset(
    {
        a2a.TaskState.TASK_STATE_COMPLETED,
        a2a.TaskState.TASK_STATE_FAILED,
        a2a.TaskState.TASK_STATE_CANCELED,
        a2a.TaskState.TASK_STATE_REJECTED,
    }
)
Update = a2a.TaskStatusUpdateEvent | a2a.TaskArtifactUpdateEvent


def value_of(data: object) -> Value:
    """JSON data as the protocol carries it."""
    return ParseDict(cast("Any", data), Value())


def has_ended(task: a2a.Task) -> bool:
    """Whether a task can never go on."""
    return task.status.state in _ENDS


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as it is now.

    Parameters: `session` is that of the conversation, `end` what came of the turn, if it is over; both of a turn alone.
    """

    task: Task
    session: ChatSession | None = None
    end: TurnEnd | None = None

    @property
    def process(self) -> AgentProcess:
        """The process that it is, or whose turn it is."""
        return self.task.process

    @property
    def began(self) -> A2aMessage | None:
        """The message that began the process, if it came through this door."""
        return None if self.process.summarized else self.process.blackboard.last(A2aMessage)

    @property
    def context_id(self) -> str:
        """What groups tasks: the conversation, what a client said, or the process by itself."""
        if self.session is not None:
            return self.session.conversation.id
        return self.began.context_id if self.began is not None else self.process.id

    def whole(self, history: int | None = None, *, with_artifacts: bool = True) -> a2a.Task:
        """All of it, with the last `history` messages; None: as many as are shown at most."""
        task = a2a.Task(id=self.task.id, context_id=self.context_id, status=self.status)
        task.metadata.update({"goal": CallPolicy.of_process(self.process).name, "cost": dict(cost_of(self.process))})
        if with_artifacts:
            task.artifacts.extend(self.artifacts)
        most = MOST_HISTORY if history is None else min(history, MOST_HISTORY)
        task.history.extend([*self._history()][-most:] if most else ())
        return task

    @property
    def status(self) -> a2a.TaskStatus:
        """The state, with the sentence that says why, and what is asked."""
        state, message = self._state()
        return a2a.TaskStatus(
            state=state, message=message, timestamp=timestamp(self.process.finished_at or self.process.created_at)
        )

    def update(self) -> a2a.TaskStatusUpdateEvent:
        """The status, told by itself."""
        return a2a.TaskStatusUpdateEvent(task_id=self.task.id, context_id=self.context_id, status=self.status)

    def says(self, text: str, *data: object, message_id: str = "") -> a2a.Message:
        """A message of the agent in this task."""
        parts = [
            a2a.Part(text=cleaned(hide_known(text))),
            *(a2a.Part(data=value_of(each), media_type=JSON) for each in data),
        ]
        identity = message_id or f"{self.task.id}-status"
        return a2a.Message(
            message_id=identity, role=a2a.Role.ROLE_AGENT, task_id=self.task.id, context_id=self.context_id, parts=parts
        )

    def _state(self) -> tuple[a2a.TaskState, a2a.Message]:
        process = self.process
        outcome = None if process.withheld else process.outcome
        if self.end is not None:
            failure = self.end.failure
            stopped = failure == CANCELLED or isinstance(outcome, Killed)
            state = a2a.TaskState.TASK_STATE_CANCELED if stopped else a2a.TaskState.TASK_STATE_FAILED
            return (
                (state, self.says(failure))
                if failure
                else (a2a.TaskState.TASK_STATE_COMPLETED, self.says("It has replied."))
            )
        if isinstance(outcome, Waiting) and (questions := process.open_questions):
            signs_in = all(_is_visit(each) for each in questions)
            state = a2a.TaskState.TASK_STATE_AUTH_REQUIRED if signs_in else a2a.TaskState.TASK_STATE_INPUT_REQUIRED
            return state, self.asks(questions)
        if outcome is None or isinstance(outcome, Waiting) or self.session is not None:
            done = len(process.history)
            told = self.says(f"{done} of {done + len(process.plan)} actions are done.")
            return a2a.TaskState.TASK_STATE_WORKING, told
        why = self.failure
        if why is None:
            return a2a.TaskState.TASK_STATE_COMPLETED, self.says(outcome.reason)
        match outcome:
            case Killed():
                return a2a.TaskState.TASK_STATE_CANCELED, self.says(why)
            case Failed(caller_mistake=True):
                return a2a.TaskState.TASK_STATE_REJECTED, self.says(why)
            case _:
                return a2a.TaskState.TASK_STATE_FAILED, self.says(why)

    def asks(self, questions: Sequence[Question]) -> a2a.Message:
        """The questions: the first in words, and each with its form as data."""
        data = [{"questionId": view.pop("id"), **view} for view in map(question_view, questions)]
        return self.says(in_words(questions[0]), *data, message_id=questions[0].id)

    @property
    def failure(self) -> str | None:
        """Why a process that has ended has no result; None: it has one."""
        outcome, name = self.process.outcome, CallPolicy.of_process(self.process).name
        assert outcome is not None
        try:
            if isinstance(outcome, Completed):
                self._parts(outcome)
            return reason_of(outcome, name)
        except ToolError as error:
            return str(error)

    @property
    def artifacts(self) -> Sequence[a2a.Artifact]:
        """The result of a goal, or the replies of a turn."""
        if self.session is not None:
            said = () if self.end is None else self.end.said
            return [
                a2a.Artifact(artifact_id=each.id, name="reply", parts=[a2a.Part(text=hide_known(each.text))])
                for each in said
            ]
        outcome = None if self.process.withheld else self.process.outcome
        if not isinstance(outcome, Completed) or self.failure is not None:
            return ()
        name = CallPolicy.of_process(self.process).name
        return [a2a.Artifact(artifact_id=f"{self.process.id}-result", name=name, parts=self._parts(outcome))]

    def _parts(self, outcome: Completed) -> Sequence[a2a.Part]:
        """The result as parts: its data, and what it says in words. Raises `ToolError` if it cannot be written."""
        policy = CallPolicy.of_process(self.process)
        written = written_by(policy.output.written, policy.name, outcome.value)
        blocks = cast("list[dict[str, Any]]", from_json(b"".join(written.content)))
        if not written.structured:
            return [*parts_of(blocks)]
        if isinstance(outcome.value, str):
            return [a2a.Part(text=blocks[0]["text"])]
        if policy.output.schema is None:
            data, texts = from_json(b"".join(written.structured)), [*parts_of(blocks)]
        else:
            data = from_json(policy.output.json(outcome.value))
            texts = [*parts_of(blocks)] if getattr(outcome.value, "content", None) is not None else []
        return [a2a.Part(data=value_of(data), media_type=JSON), *texts]

    def _history(self) -> Iterator[a2a.Message]:
        if self.session is not None:
            yield from self._turn()
        elif self.began is not None:
            yield ParseDict(json.loads(self.began.content), a2a.Message(), ignore_unknown_fields=True)
        for question in self.process.questions:
            yield self.asks([question])
            if question.status in {"answered", "declined"}:
                yield self._answer(question)

    def _turn(self) -> Iterator[a2a.Message]:
        assert self.session is not None
        entries = self.session.conversation.entries
        begin = next((place for place, each in enumerate(entries) if each.id == self.task.message_id), len(entries))
        for number, each in enumerate(entries[begin:]):
            if each.role not in {"user", "assistant"} or (number and each.role == "user"):
                return
            said = self.says(each.text, message_id=each.id)
            said.role = a2a.Role.ROLE_USER if each.role == "user" else a2a.Role.ROLE_AGENT
            yield said

    def _answer(self, question: Question) -> a2a.Message:
        """What a person has answered, as far as it may be shown."""
        if question.status == "declined" or may_hold_secret(question.response_type):
            said = self.says(question.reason or "(Not shown, since it may be secret.)")
        else:
            data = from_json(to_json(question.answer, fallback=str))
            said = self.says(data) if isinstance(data, str) else self.says("", data)
        said.message_id, said.role = f"{question.id}-answer", a2a.Role.ROLE_USER
        return said

    def told(self, event: Event) -> Update | None:
        """The update that tells of an event; None for one that is not for clients."""
        match event:
            case ActionFinished(action=action, number=number, planned=planned, status="succeeded"):
                said = self.says(f"{number}/{max(number, planned)} {action.rpartition('.')[2]}")
            case ProgressUpdated(message=message):
                said = self.says(message)
            case MessageDelta(message_id=message_id, text=text, thinking=False) if text:
                return self._piece(message_id, text, last=False)
            case MessageSent(message_id=message_id) if self.session is not None:
                return self._piece(message_id, event.text, last=True)
            case _:
                return None
        status = a2a.TaskStatus(state=a2a.TaskState.TASK_STATE_WORKING, message=said, timestamp=timestamp(event.at))
        return a2a.TaskStatusUpdateEvent(task_id=self.task.id, context_id=self.context_id, status=status)

    def _piece(self, artifact_id: str, text: str, *, last: bool) -> a2a.TaskArtifactUpdateEvent:
        """A piece of a reply, or the whole of it, which takes the place of the pieces."""
        artifact = a2a.Artifact(artifact_id=artifact_id, name="reply", parts=[a2a.Part(text=hide_known(text))])
        return a2a.TaskArtifactUpdateEvent(
            task_id=self.task.id, context_id=self.context_id, artifact=artifact, append=not last, last_chunk=last
        )

    def results(self) -> Iterator[Update]:
        """The result of a goal, and then the status, at the end of a stream."""
        for each in self.artifacts if self.session is None else ():
            yield a2a.TaskArtifactUpdateEvent(
                task_id=self.task.id, context_id=self.context_id, artifact=each, last_chunk=True
            )
        yield self.update()


def timestamp(at: datetime) -> Timestamp:
    """A moment as the protocol has it."""
    found = Timestamp()
    found.FromDatetime(at)
    return found


def _is_visit(question: Question) -> bool:
    try:
        return form_of(question).url is not None
    except UNREADABLE:
        return False
