"""What a message of another agent does: it begins a process or a turn, or answers a question of a task.

Nothing has begun if it is refused. Above: `handler`.
"""

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any, cast
from uuid import uuid4

import anyio
from a2a import types as a2a
from a2a.utils import errors as a2a_errors
from starlette.requests import Request

from goalport.base.caller import Caller
from goalport.base.errors import (
    BadInput,
)
from goalport.models.llm import UserMessage
from goalport.runtime.chat import A2aMessage, AgentProcessChatbot, ChatSession, Turn
from goalport.runtime.platform.runs import IdempotentCall, process_of
from goalport.runtime.process import AgentProcess, Follower, Question
from goalport.server.doors.a2a.messages import Offers, Said, as_json, checked, input_of, kept
from goalport.server.doors.a2a.tasks import TaskView, has_ended
from goalport.server.publish.calls import Call
from goalport.server.publish.forms import form_of
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.publisher import counted_turn, start_goal
from goalport.server.publish.questions_in_words import Answer, Unclear, read_answer
from goalport.server.publish.turn_tasks import Task, end_of_turn, said_once, session_of_process
from goalport.server.web.endpoint import HttpDoor, admitted
from goalport.tools.schemas import UNREADABLE


@dataclass(slots=True)
class Work:
    """A request while it is done."""

    request: Request
    agent: str
    """The agent whose address it came to; empty: that of the server."""
    call: Call
    caller: Caller
    place: AsyncExitStack
    """Left when the response has been sent."""
    failure: Exception | None = None
    """What prevented an answer, where the protocol has no error for it."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What a message has begun or gone on with."""

    task: Task
    turn: Turn | None = None


class Received:
    """Does what messages ask for, and finds the tasks that they are about."""

    def __init__(self, door: HttpDoor) -> None:
        self._door, self._publisher = door, door.publisher
        self._platform, self._limits = door.publisher.platform, door.publisher.limits

    async def received(self, work: Work, params: a2a.SendMessageRequest, follower: Follower | None) -> Begun:
        """Do what a message asks for. Nothing has begun if it is refused."""
        message = checked(params.message)
        said = Said.of(message)
        history_of(params.configuration)
        if message.task_id:
            view = await self.known(work, message.task_id)
            await work.place.enter_async_context(admitted(self._limits, work.request, begins=False))
            return await self._answered(work, view, message, said, follower)
        offered = Offers(self._door, work.agent).chosen(message, said)
        await work.place.enter_async_context(admitted(self._limits, work.request, begins=True))
        if isinstance(offered, GoalTool):
            return Begun(Task(await self._started(work, offered, message, said, follower)))
        return await self._said(work, offered, message, said)

    async def _started(
        self, work: Work, tool: GoalTool, message: a2a.Message, said: Said, follower: Follower | None
    ) -> AgentProcess:
        rules = self._publisher.publication.scopes.rules
        self._door.require(rules.of_goals(each for each in tool.agent.goals if each.name in tool.goals))
        given = input_of(tool, said)
        work.call.name, work.call.arguments = tool.tool.name, tuple(given)
        objects = tool.arguments.begin(given)
        origin = kept(message, message.context_id or uuid4().hex, tool.arguments.schema)
        key = _digest([message.message_id, message.context_id, given])
        for number in count():
            once = IdempotentCall.of(work.caller, tool.tool.name, f"a2a {key} {number}", given)
            begun = (origin, *objects)
            process = await start_goal(self._publisher, tool, begun, work.caller, once=once, listener=follower)
            if any(each.status != "open" for each in process.questions):
                continue  # another message has gone on with it: this is no repetition
            work.call.process = process
            if follower is not None and process.blackboard.last(A2aMessage) is not origin:
                process.subscribe(follower)
            return process
        raise AssertionError

    async def _said(self, work: Work, chatbot: AgentProcessChatbot, message: a2a.Message, said: Said) -> Begun:
        """Say something to a chatbot in the conversation of a context."""
        work.call.name = chatbot.name
        session = await chatbot.open_thread(message.context_id or uuid4().hex, work.caller)
        entries = session.conversation.entries
        if session.questions and session.last_seen is not None:
            last = [each.id for each in entries if each.role == "user"][-1]
            view = await self.view(work, Task(session.last_seen, last))
            return await self._answered(work, view, message, said, None)
        if not said.text.strip() and not said.images:
            raise BadInput(f"{chatbot.name} takes text and images, and the message has neither.")
        key = _digest([message.message_id, session.conversation.id])
        once = IdempotentCall.of(work.caller, chatbot.name, f"a2a {key}", as_json(message).get("parts"))
        async with said_once(self._platform.store, once) as repeated:
            if repeated.earlier:
                view = await self.known(work, repeated.earlier)
                return Begun(view.task, await session.follow())
            spoken = UserMessage(said.text, said.images)
            turn: Turn | None = None
            with anyio.CancelScope(shield=True):
                turn = await counted_turn(self._limits, work.call, partial(session.begin_turn, spoken))
            assert turn is not None
            found = next(each.id for each in session.conversation.entries if each.message is spoken)
            repeated.begun = Task(turn.process, found)
            return Begun(repeated.begun, turn)

    async def _answered(
        self, work: Work, view: TaskView, message: a2a.Message, said: Said, follower: Follower | None
    ) -> Begun:
        """Answer a question of a task; the same message again changes nothing."""
        task, process = view.task, view.process
        self._door.require(self._door.access.of_process(process))
        if message.context_id and message.context_id != view.context_id:
            raise BadInput(f"contextId: task {task.id} is in another context, {view.context_id!r}")
        content = as_json(message)
        key = f"a2a answer {_digest([message.message_id, task.id, content['parts']])}"
        once = IdempotentCall.of(work.caller, process.agent.name, key, content["parts"])
        async with said_once(self._platform.store, once) as repeated:
            if repeated.earlier:
                return Begun(task, None if view.session is None else await view.session.follow())
            question = _asked(view, content.get("metadata", {}))
            answer = _read(question, said, content.get("metadata", {}))
            if follower is not None:
                process.subscribe(follower)
            turn = await self._answer(view.session, question, answer)
            repeated.begun = task
        self._publisher.audit_trail.answered(work.caller, question, answer.response, declined=bool(answer.declined))
        return Begun(task, turn)

    async def _answer(self, session: ChatSession | None, question: Question, answer: Answer) -> Turn | None:
        if session is not None:
            return await session.answer(question.id, answer.response, declined=answer.declined)
        await self._platform.answer(question.process_id, question.id, answer.response, declined=answer.declined)
        return None

    async def known(self, work: Work, task_id: str) -> TaskView:
        """The task of an id. Raises `TaskNotFoundError` if there is none, or if it is another caller's."""
        process_id, _, message_id = task_id.partition(":")
        process = await process_of(self._platform, process_id, work.caller)
        if process is None or process.options.turns != bool(message_id):
            raise a2a_errors.TaskNotFoundError(f"There is no task {task_id[:100]!r}, or it is not yours.")
        work.call.process = process
        return await self.view(work, Task(process, message_id))

    async def view(self, work: Work, task: Task) -> TaskView:
        """A task as it is now. Raises `TaskNotFoundError` for a turn that there was not."""
        if not task.message_id:
            return TaskView(task)
        session = await session_of_process(self._platform, task.process, work.caller)
        if session is None or all(each.id != task.message_id for each in session.conversation.entries):
            raise a2a_errors.TaskNotFoundError(f"There is no task {task.id[:100]!r}, or its conversation is gone.")
        return TaskView(task, session, await end_of_turn(session, task))


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def history_of(params: Any) -> int | None:
    """How many messages are asked for; None: as many as there are. Raises `BadInput`."""
    if not params.HasField("history_length"):
        return None
    if params.history_length < 0:
        raise BadInput(f"historyLength: should not be negative; came {params.history_length}")
    return params.history_length


def _asked(view: TaskView, metadata: dict[str, Any]) -> Question:
    """The question that a message answers: the one that it names, or the first that is open.

    Raises `UnsupportedOperationError` and `BadInput`.
    """
    waiting, now = view.process.open_questions, view.whole(0)
    if has_ended(now):
        raise a2a_errors.UnsupportedOperationError(
            f"Task {now.id} has ended, and takes no messages. Send this without its taskId."
        )
    if not waiting:
        raise a2a_errors.UnsupportedOperationError(f"Task {now.id} waits for no answer: it goes on.")
    named = metadata.get("questionId")
    found = next((each for each in waiting if named in {None, each.id}), None)
    if found is None:
        raise a2a_errors.UnsupportedOperationError(
            f"Question {str(named)[:100]!r} of task {now.id} is not open. The first answer counts."
        )
    return found


def _read(question: Question, said: Said, metadata: dict[str, Any]) -> Answer:
    """The answer in a message: a no with its reason, data by the form, or words. Raises `BadInput`."""
    if metadata.get("declined"):
        return Answer(declined=str(metadata["declined"])[:2_000])
    try:
        form = form_of(question)
        answer: Answer | Unclear
        if said.data is None:
            answer = read_answer(question, said.text)
        else:
            data = cast("object", said.data)
            members = [*cast("Mapping[str, Any]", data).values()] if isinstance(data, Mapping) else []
            bare = form.schema.get("type") == "boolean" and len(members) == 1
            answer = Answer(form.read(members[0] if bare else data))
        if isinstance(answer, Unclear):
            raise BadInput(answer.words)
        if not answer.declined:
            question.validated(answer.response)
    except UNREADABLE:
        told = f"The answer to {question.id} cannot be read from JSON. Cancel the task, or decline in the metadata."
        raise BadInput(told) from None
    return answer
