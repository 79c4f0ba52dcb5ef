"""What a message of another agent does: it begins a process or a turn, or answers a question of a task.

Nothing has begun if it is refused. Above: `handler`.
"""

import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any, Final
from uuid import uuid4

import anyio
from a2a import types as a2a
from a2a.utils import errors as a2a_errors
from starlette.requests import Request

from goalport.base.caller import Caller
from goalport.base.errors import BadInput
from goalport.models.llm import UserMessage
from goalport.runtime.chat import A2aMessage, AgentProcessChatbot, Turn
from goalport.runtime.platform.runs import IdempotentCall, process_of
from goalport.runtime.process import AgentProcess, Follower, Question
from goalport.server.doors.a2a.messages import Offers, Said
from goalport.server.doors.a2a.tasks import TaskView, has_ended
from goalport.server.publish.calls import Call
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.publisher import counted_turn, start_goal
from goalport.server.publish.turn_tasks import Task, end_of_turn, said_once, session_of_process
from goalport.server.web.endpoint import HttpDoor, admitted

WORK: Final = "goalport.a2a"
"""Where the scope of a request has its work."""


@dataclass(slots=True)
class Work:
    """A request while it is done."""

    request: Request
    offers: Offers
    """What the address offers to which it came."""
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
        self._door, self._publisher, self._limits = door, door.publisher, door.publisher.limits
        self._platform = door.publisher.platform

    async def received(self, work: Work, params: a2a.SendMessageRequest, follower: Follower | None = None) -> Begun:
        """Do what a message asks for. Nothing has begun if it is refused."""
        said, task_id = Said.of(params.message), params.message.task_id
        view = await self.known(work, task_id) if task_id else None
        offered = None if view else work.offers.chosen(said)
        await work.place.enter_async_context(admitted(self._limits, work.request, begins=view is None))
        if view is not None:
            return await self._answered(work, view, said, follower)
        if isinstance(offered, GoalTool):
            return Begun(Task(await self._started(work, offered, said, follower)))
        assert offered is not None
        return await self._spoken(work, offered, said)

    async def _started(self, work: Work, tool: GoalTool, said: Said, follower: Follower | None) -> AgentProcess:
        rules, message = self._publisher.publication.scopes.rules, said.message
        self._door.require(rules.of_goals(each for each in tool.agent.goals if each.name in tool.goals))
        given = said.input_of(tool)
        work.call.name, work.call.arguments = tool.tool.name, tuple(given)
        begun = said.kept(message.context_id or uuid4().hex, tool.arguments.schema), *tool.arguments.begin(given)
        key = _digest([message.message_id, message.context_id, given])
        for number in count():
            once = IdempotentCall.of(work.caller, tool.tool.name, f"a2a {key} {number}", given)
            process = await start_goal(self._publisher, tool, begun, work.caller, once=once, listener=follower)
            if any(each.status != "open" for each in process.questions):
                continue  # another message has gone on with it: this is no repetition
            work.call.process = process
            if follower is not None and process.blackboard.last(A2aMessage) is not begun[0]:
                process.subscribe(follower)
            return process
        raise AssertionError

    async def _spoken(self, work: Work, chatbot: AgentProcessChatbot, said: Said) -> Begun:
        """Say something to a chatbot in the conversation of a context."""
        work.call.name = chatbot.name
        session = await chatbot.open_thread(said.message.context_id or uuid4().hex, work.caller)
        entries = session.conversation.entries
        if session.questions and session.last_seen is not None:
            last = [each.id for each in entries if each.role == "user"][-1]
            return await self._answered(work, await self.view(work.caller, Task(session.last_seen, last)), said, None)
        if not said.text.strip() and not said.images:
            raise BadInput(f"{chatbot.name} takes text and images, and the message has neither.")
        key = _digest([said.message.message_id, session.conversation.id])
        once = IdempotentCall.of(work.caller, chatbot.name, f"a2a {key}", said.content["parts"])
        async with said_once(self._platform.store, once) as repeated:
            if repeated.earlier:
                return Begun((await self.known(work, repeated.earlier)).task, await session.follow())
            spoken, turn = UserMessage(said.text, said.images), None
            with anyio.CancelScope(shield=True):
                turn = await counted_turn(self._limits, work.call, partial(session.begin_turn, spoken))
            assert turn is not None
            found = next(each.id for each in session.conversation.entries if each.message is spoken)
            repeated.begun = Task(turn.process, found)
            return Begun(repeated.begun, turn)

    async def _answered(self, work: Work, view: TaskView, said: Said, follower: Follower | None) -> Begun:
        """Answer a question of a task; the same message again changes nothing."""
        task, session, message = view.task, view.session, said.message
        self._door.require(self._door.access.of_process(view.process))
        if message.context_id and message.context_id != view.context_id:
            raise BadInput(f"contextId: task {task.id} is in another context, {view.context_id!r}")
        key = f"a2a answer {_digest([message.message_id, task.id, said.content['parts']])}"
        once = IdempotentCall.of(work.caller, view.process.agent.name, key, said.content["parts"])
        async with said_once(self._platform.store, once) as repeated:
            if repeated.earlier:
                return Begun(task, None if session is None else await session.follow())
            question = _asked(view, said.metadata.get("questionId"))
            answer, turn = said.answer_to(question), None
            if follower is not None:
                view.process.subscribe(follower)
            if session is not None:
                turn = await session.answer(question.id, answer.response, declined=answer.declined)
            else:
                owner = question.process_id
                await self._platform.answer(owner, question.id, answer.response, declined=answer.declined)
            repeated.begun = task
        self._publisher.audit_trail.answered(work.caller, question, answer.response, declined=bool(answer.declined))
        return Begun(task, turn)

    async def known(self, work: Work, task_id: str) -> TaskView:
        """The task of an id. Raises `TaskNotFoundError` if there is none, or if it is another caller's."""
        process_id, _, message_id = task_id.partition(":")
        process = await process_of(self._platform, process_id, work.caller)
        if process is None or process.options.turns != bool(message_id):
            raise a2a_errors.TaskNotFoundError(f"There is no task {task_id[:100]!r}, or it is not yours.")
        work.call.process = process
        return await self.view(work.caller, Task(process, message_id))

    async def view(self, caller: Caller, task: Task) -> TaskView:
        """A task as it is now. Raises `TaskNotFoundError` for a turn that there was not."""
        if not task.message_id:
            return TaskView(task)
        session = await session_of_process(self._platform, task.process, caller)
        if session is None or all(each.id != task.message_id for each in session.conversation.entries):
            raise a2a_errors.TaskNotFoundError(f"There is no task {task.id[:100]!r}, or its conversation is gone.")
        return TaskView(task, session, await end_of_turn(session, task))


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _asked(view: TaskView, named: Any) -> Question:
    """The question that a message answers: the one that it names, or the first that is open."""
    task_id, waiting = view.task.id, view.process.open_questions
    found = next((each for each in waiting if named is None or each.id == named), None)
    if has_ended(view.status):
        told = f"Task {task_id} has ended, and takes no messages. Send this without its taskId."
    elif not waiting:
        told = f"Task {task_id} waits for no answer: it goes on."
    elif found is None:
        told = f"Question {str(named)[:100]!r} of task {task_id} is not open. The first answer counts."
    else:
        return found
    raise a2a_errors.UnsupportedOperationError(told)
