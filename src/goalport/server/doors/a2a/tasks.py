"""Processes and turns as A2A tasks: the state with a sentence, the questions, the results, the history.

A task of a goal is a process. The task of a chatbot is one turn of a conversation, which is the context of the task.
Nothing is changed here. Above: `handler`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
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
from goalport.runtime.process import AgentProcess, Completed, Failed, Killed, Outcome, Question, Waiting
from goalport.server.doors.a2a.messages import JSON, parts_of
from goalport.server.publish.answers import reason_of, written_by
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.publisher import Task, TurnEnd
from goalport.server.publish.questions_in_words import in_words
from goalport.server.publish.resources import cost_of, question_view
from goalport.tools.schemas import may_hold_secret

CANCELLED: Final = "Its caller cancelled it."
MOST_HISTORY: Final = 100
"""The most messages of a history that are shown."""
_ENDS: Final = frozenset(
    a2a.TaskState.Value(f"TASK_STATE_{each}") for each in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")
)
Update = a2a.TaskStatusUpdateEvent | a2a.TaskArtifactUpdateEvent


def has_ended(status: a2a.TaskStatus) -> bool:
    """Whether a task with this status can never go on."""
    return status.state in _ENDS


def timestamp(at: datetime) -> Timestamp:
    """A time in the type of the protocol."""
    found = Timestamp()
    found.FromDatetime(at)
    return found


def _data(value: object) -> a2a.Part:
    return a2a.Part(data=ParseDict(cast("Any", value), Value()), media_type=JSON)


@dataclass(frozen=True, slots=True)
class TaskView:
    """The current state of a task.

    Parameters for a turn of a conversation only: `session`, and `end`, how the turn ended (None: it is not over).
    """

    task: Task
    session: ChatSession | None = None
    end: TurnEnd | None = None

    @property
    def process(self) -> AgentProcess:
        """The process that it is, or whose turn it is."""
        return self.task.process

    @property
    def _began(self) -> A2aMessage | None:
        """The message that began the process, if it came through this door."""
        return None if self.process.summarized else self.process.blackboard.last(A2aMessage)

    @property
    def context_id(self) -> str:
        """The id that groups tasks: of the conversation, as the client sent it, or of the process."""
        if self.session is not None:
            return self.session.conversation.id
        return self._began.context_id if self._began is not None else self.process.id

    def to_task(self, history: int | None = None, *, with_artifacts: bool = True) -> a2a.Task:
        """The task in the type of the protocol, with the last `history` messages; None: up to `MOST_HISTORY`."""
        task = a2a.Task(id=self.task.id, context_id=self.context_id, status=self.status)
        task.metadata.update({"goal": CallPolicy.of_process(self.process).name, "cost": dict(cost_of(self.process))})
        if with_artifacts:
            task.artifacts.extend(self.artifacts)
        most = MOST_HISTORY if history is None else min(history, MOST_HISTORY)
        task.history.extend([*self._history()][-most:] if most else ())
        return task

    @property
    def status(self) -> a2a.TaskStatus:
        """The state, with a sentence that says why, or with the open questions."""
        process = self.process
        outcome = None if process.withheld else process.outcome
        message: a2a.Message | None = None
        if self.end is not None:
            stopped = self.end.failure == CANCELLED or isinstance(outcome, Killed)
            why = self.end.failure or "It has replied."
            state = "COMPLETED" if not self.end.failure else "CANCELED" if stopped else "FAILED"
        elif isinstance(outcome, Waiting) and (questions := process.open_questions):
            why, message = "", self._asks(questions)
            state = "AUTH_REQUIRED" if all("url" in question_view(each) for each in questions) else "INPUT_REQUIRED"
        elif outcome is None or isinstance(outcome, Waiting) or self.session is not None:
            done = len(process.history)
            state, why = "WORKING", f"{done} of {done + len(process.plan)} actions are done."
        elif not (why := self._result(outcome)[1]):
            state, why = "COMPLETED", outcome.reason
        elif isinstance(outcome, Killed):
            state = "CANCELED"
        else:
            state = "REJECTED" if isinstance(outcome, Failed) and outcome.caller_mistake else "FAILED"
        return a2a.TaskStatus(
            state=f"TASK_STATE_{state}",
            message=message or self._says(why),
            timestamp=timestamp(process.finished_at or process.created_at),
        )

    def _says(self, text: str, *data: object, message_id: str = "", by_user: bool = False) -> a2a.Message:
        """A message in this task, by the agent unless `by_user`."""
        return a2a.Message(
            message_id=message_id or f"{self.task.id}-status",
            role=a2a.Role.ROLE_USER if by_user else a2a.Role.ROLE_AGENT,
            task_id=self.task.id,
            context_id=self.context_id,
            parts=[a2a.Part(text=cleaned(hide_known(text))), *map(_data, data)],
        )

    def _asks(self, questions: Sequence[Question]) -> a2a.Message:
        """A message with the questions: the first in words, and each with its form as data."""
        data = [{"questionId": view.pop("id"), **view} for view in map(question_view, questions)]
        return self._says(in_words(questions[0]), *data, message_id=questions[0].id)

    @property
    def artifacts(self) -> Sequence[a2a.Artifact]:
        """The result of a goal, or the replies of a turn."""
        if self.session is not None:
            return [self._reply(each.id, each.text) for each in (() if self.end is None else self.end.said)]
        outcome, name = self.process.outcome, CallPolicy.of_process(self.process).name
        if self.process.withheld or not isinstance(outcome, Completed):
            return ()
        parts, why = self._result(outcome)
        return [] if why else [a2a.Artifact(artifact_id=f"{self.process.id}-result", name=name, parts=parts)]

    def _reply(self, message_id: str, text: str) -> a2a.Artifact:
        return a2a.Artifact(artifact_id=message_id, name="reply", parts=[a2a.Part(text=hide_known(text))])

    def _result(self, outcome: Outcome) -> tuple[Sequence[a2a.Part], str]:
        """The result of a process that has ended, as parts: its data, and what it says in words; or why it has none."""
        policy = CallPolicy.of_process(self.process)
        if not isinstance(outcome, Completed):
            return (), reason_of(outcome, policy.name) or ""
        try:
            written = written_by(policy.output.written, policy.name, outcome.value)
            blocks = cast("list[dict[str, Any]]", from_json(b"".join(written.content)))
            if not written.structured:
                return [*parts_of(blocks)], ""
            if isinstance(outcome.value, str):
                return [a2a.Part(text=blocks[0]["text"])], ""
            if policy.output.schema is None:
                return [_data(from_json(b"".join(written.structured))), *parts_of(blocks)], ""
            texts = parts_of(blocks) if getattr(outcome.value, "content", None) is not None else ()
            return [_data(from_json(policy.output.json(outcome.value))), *texts], ""
        except ToolError as error:
            return (), str(error)

    def _history(self) -> Iterator[a2a.Message]:
        if self.session is not None:
            entries = iter(self.session.conversation.entries)
            for each in entries:
                if each.id == self.task.message_id:
                    yield self._says(each.text, message_id=each.id, by_user=True)
                    break
            for each in takewhile(lambda entry: entry.role == "assistant", entries):
                yield self._says(each.text, message_id=each.id)
        elif self._began is not None:
            yield ParseDict(json.loads(self._began.content), a2a.Message(), ignore_unknown_fields=True)
        for question in self.process.questions:
            yield self._asks([question])
            if question.status not in {"answered", "declined"}:
                continue
            answer: tuple[Any, ...] = (question.reason or "(Not shown, since it may be secret.)",)
            if question.status == "answered" and not may_hold_secret(question.response_type):
                data = from_json(to_json(question.answer, fallback=str))
                answer = (data,) if isinstance(data, str) else ("", data)
            yield self._says(*answer, message_id=f"{question.id}-answer", by_user=True)

    def update(self, event: Event) -> Update | None:
        """The update that reports an event; None if the event is not for clients."""
        match event:
            case ActionFinished(action=action, number=number, planned=planned, status="succeeded"):
                said = f"{number}/{max(number, planned)} {action.rpartition('.')[2]}"
            case ProgressUpdated(message=said):
                pass
            case MessageDelta(message_id=message_id, text=text, thinking=False) if text:
                return self._artifact_update(self._reply(message_id, text), append=True)
            case MessageSent(message_id=message_id) if self.session is not None:
                # The whole message replaces the deltas that were sent.
                return self._artifact_update(self._reply(message_id, event.text), last_chunk=True)
            case _:
                return None
        working, moment = a2a.TaskState.TASK_STATE_WORKING, timestamp(event.at)
        return self._status_update(a2a.TaskStatus(state=working, message=self._says(said), timestamp=moment))

    def results(self) -> Iterator[Update]:
        """The result of a goal, and then the status, at the end of a stream."""
        for each in self.artifacts if self.session is None else ():
            yield self._artifact_update(each, last_chunk=True)
        yield self._status_update(self.status)

    def _status_update(self, status: a2a.TaskStatus) -> a2a.TaskStatusUpdateEvent:
        return a2a.TaskStatusUpdateEvent(task_id=self.task.id, context_id=self.context_id, status=status)

    def _artifact_update(
        self, artifact: a2a.Artifact, *, append: bool = False, last_chunk: bool = False
    ) -> a2a.TaskArtifactUpdateEvent:
        return a2a.TaskArtifactUpdateEvent(
            task_id=self.task.id, context_id=self.context_id, artifact=artifact, append=append, last_chunk=last_chunk
        )
