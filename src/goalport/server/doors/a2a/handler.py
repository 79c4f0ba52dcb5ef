"""What the requests of other agents do: messages start processes and turns, or answer their questions; tasks are read,
listed, followed and cancelled. If a message is refused, nothing has been started.

All state comes from the platform, so any server with the same store answers for a task. The SDK reads and writes the
protocol. Only this module and the sender of notifications catch every exception. Above: the door.
"""

import json
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from itertools import count
from typing import Any, Final, NamedTuple, cast
from uuid import uuid4

import anyio
from a2a import types as a2a
from a2a.compat.v0_3.conversions import to_compat_task
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.utils import errors as a2a_errors
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import MessageToDict, MessageToJson, ParseDict
from google.protobuf.message import Message as Protobuf
from pydantic.alias_generators import to_camel
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from goalport.base import errors
from goalport.base.caller import Caller
from goalport.base.errors import BadInput
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned
from goalport.models.llm import UserMessage
from goalport.runtime.chat import A2aMessage, AgentProcessChatbot, Turn
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.runs import IdempotentCall, Watch, end_for_caller, process_of
from goalport.runtime.process import Follower, Heartbeat, ProcessStatus, Question, Rested, Waiting
from goalport.server.doors.a2a.messages import ReceivedMessage
from goalport.server.doors.a2a.notifications import Config, Notice, Notifications, check_number
from goalport.server.doors.a2a.skills import Offers
from goalport.server.doors.a2a.tasks import CANCELLED, TaskView, Update, has_ended, timestamp
from goalport.server.publish.calls import Call, logged, unavailable_words
from goalport.server.publish.goal_tools import CallPolicy, GoalTool
from goalport.server.publish.limits import LimitReached
from goalport.server.publish.publisher import (
    Task,
    answer_in_session,
    answer_question,
    counted_turn,
    deduplicated,
    end_of_turn,
    note_turn,
    on_client_disconnect,
    session_of_process,
    start_goal,
)
from goalport.server.web.endpoint import HttpDoor, OpenStreams, Problem, admitted, while_client_stays

WORK: Final = "goalport.a2a"
"""The key of an ASGI scope under which a request has its `RequestWork`."""
_END_SECONDS: Final = 5.0
"""The most seconds that a cancellation waits for the process to stop before it is answered."""
_PAGE_SIZE: Final = 50
_LARGEST_PAGE: Final = 100
_MOST_LISTED: Final = 1_000
"""The most processes of a caller that can be listed."""
_MOST_READ: Final = 200
"""The most processes that are read for one page of the list."""
_STATUSES: Final = {
    a2a.TaskState.TASK_STATE_SUBMITTED: (ProcessStatus.NOT_STARTED,),
    a2a.TaskState.TASK_STATE_WORKING: (ProcessStatus.RUNNING, ProcessStatus.PAUSED),
    a2a.TaskState.TASK_STATE_INPUT_REQUIRED: (ProcessStatus.WAITING,),
    a2a.TaskState.TASK_STATE_AUTH_REQUIRED: (ProcessStatus.WAITING,),
    a2a.TaskState.TASK_STATE_COMPLETED: (ProcessStatus.COMPLETED, ProcessStatus.RESTING),
    a2a.TaskState.TASK_STATE_CANCELED: (ProcessStatus.KILLED, ProcessStatus.RESTING, ProcessStatus.STUCK),
    a2a.TaskState.TASK_STATE_REJECTED: (ProcessStatus.FAILED,),
}


class Begun(NamedTuple):
    """The task, and of a conversation the turn, that a message has started or continued."""

    task: Task
    turn: Turn | None = None


@dataclass(slots=True)
class RequestWork:
    """One request in progress: does what its message asks for, and finds the tasks that it is about."""

    door: HttpDoor
    request: Request
    offers: Offers
    """What the requested address offers."""
    call: Call
    caller: Caller
    place: AsyncExitStack
    """Closed when the response has been sent."""
    failure: Exception | None = None
    """Why there is no answer, if the protocol has no error for that."""

    async def start_or_continue(self, params: a2a.SendMessageRequest, follower: Follower | None) -> Begun:
        """Start or continue the task that a message asks for."""
        said, task_id, limits = ReceivedMessage.of(params.message), params.message.task_id, self.door.publisher.limits
        view = await self.known(task_id) if task_id else None
        offered = None if view else self.offers.chosen(said)
        await self.place.enter_async_context(admitted(limits, self.request, begins=view is None))
        if view is not None:
            return await self._answered(view, said, follower)
        if isinstance(offered, GoalTool):
            return await self._started(offered, said, follower)
        assert offered is not None
        return await self._send_to_chatbot(offered, said)

    async def _started(self, tool: GoalTool, said: ReceivedMessage, follower: Follower | None) -> Begun:
        publisher, message, arguments = self.door.publisher, said.message, tool.arguments
        rules = publisher.publication.scopes.rules
        self.door.require(rules.of_goals(each for each in tool.agent.goals if each.name in tool.goals))
        given = said.input_of(tool)
        self.call.name, self.call.arguments = tool.tool.name, tuple(given)
        begun = said.kept(message.context_id or uuid4().hex, arguments.schema), *arguments.start_objects(given)
        key = _digest([message.message_id, message.context_id, given])
        for number in count():
            once = IdempotentCall.of(self.caller, tool.tool.name, f"a2a {key} {number}", given)
            process = await start_goal(publisher, tool, begun, self.caller, once=once, listener=follower)
            if any(each.status != "open" for each in process.questions):
                continue  # another message has continued it, so this is no repetition
            self.call.process = process
            if follower is not None and process.blackboard.last(A2aMessage) is not begun[0]:
                process.subscribe(follower)
            return Begun(Task(process))
        raise AssertionError

    async def _send_to_chatbot(self, chatbot: AgentProcessChatbot, said: ReceivedMessage) -> Begun:
        """Send a message to a chatbot, in the conversation of the message's context."""
        self.call.name, limits = chatbot.name, self.door.publisher.limits
        is_empty, thread = not said.text.strip() and not said.images, said.message.context_id or uuid4().hex
        session = await (chatbot.find_thread if is_empty else chatbot.open_thread)(thread, self.caller)
        if session is not None and session.questions and session.last_seen is not None:
            last = [each.id for each in session.conversation.entries if each.role == "user"][-1]
            return await self._answered(await self.view(Task(session.last_seen, last)), said, None)
        if session is None or is_empty:
            raise BadInput(f"{chatbot.name} takes text and images, and the message has neither.")
        key = _digest([said.message.message_id, session.conversation.id])
        once = IdempotentCall.of(self.caller, chatbot.name, f"a2a {key}", said.content["parts"])
        async with deduplicated(self.door.publisher.platform.store, once) as repeated:
            if repeated.earlier:
                return Begun((await self.known(repeated.earlier)).task, await session.follow())
            spoken, turn = UserMessage(said.text, said.images), None
            with anyio.CancelScope(shield=True):
                turn = await counted_turn(limits, self.call, partial(session.begin_turn, spoken))
            assert turn is not None
            found = next(each.id for each in session.conversation.entries if each.message is spoken)
            repeated.begun = Task(turn.process, found)
            return Begun(repeated.begun, turn)

    async def _answered(self, view: TaskView, said: ReceivedMessage, follower: Follower | None) -> Begun:
        """Answer a question of a task; the same message again changes nothing."""
        task, session, message, publisher = view.task, view.session, said.message, self.door.publisher
        self.door.require(self.door.access.of_process(task.process))
        if message.context_id and message.context_id != view.context_id:
            raise BadInput(f"contextId: task {task.id} is in another context, {view.context_id!r}")
        key = f"a2a answer {_digest([message.message_id, task.id, said.content['parts']])}"
        once = IdempotentCall.of(self.caller, task.process.agent.name, key, said.content["parts"])
        async with deduplicated(publisher.platform.store, once) as repeated:
            if repeated.earlier:
                return Begun(task, None if session is None else await session.follow())
            question = _asked(view, said.metadata.get("questionId"))
            answer, turn = said.answer_to(question), None
            response, declined = answer.response, answer.declined
            if follower is not None:
                task.process.subscribe(follower)
            if session is None:
                await answer_question(publisher, self.caller, question, response, declined=declined)
            else:
                turn = await answer_in_session(publisher, self.caller, session, question, response, declined=declined)
            repeated.begun = task
        return Begun(task, turn)

    async def known(self, task_id: str) -> TaskView:
        """The task of an id. Raises `TaskNotFoundError` if there is none, or if it is another caller's."""
        process_id, _, message_id = task_id.partition(":")
        process = await process_of(self.door.publisher.platform, process_id, self.caller)
        if process is None or process.options.turns != bool(message_id):
            raise a2a_errors.TaskNotFoundError(f"There is no task {task_id[:100]!r}, or it is not yours.")
        self.call.process = process
        return await self.view(Task(process, message_id))

    async def own(self, task_id: str) -> Task:
        """A task that the caller owns. Callers who may only read a task must not configure its notifications."""
        task = (await self.known(task_id)).task
        if not self.caller.same_as(task.process.caller):
            raise a2a_errors.TaskNotFoundError(f"Task {task_id[:100]!r} is not yours.")
        return task

    async def view(self, task: Task) -> TaskView:
        """The current state of a task. Raises `TaskNotFoundError` if its conversation has no such turn."""
        return await _view(self.door.publisher.platform, self.caller, task)

    async def listed(self, process_id: str) -> TaskView | None:
        """The task that a list shows for a process; for a conversation, its last turn. None: gone, or unreadable."""
        platform = self.door.publisher.platform
        try:
            process = await process_of(platform, process_id, self.caller)
            if process is None or not process.options.turns:
                return process and TaskView(Task(process))
            session = await session_of_process(platform, process, self.caller)
            said = [each.id for each in session.conversation.entries if each.role == "user"] if session else []
            return await self.view(Task(process, said[-1])) if said else None
        except errors.Unreadable:
            return None

    async def updates(self, begun: Begun, follower: Follower) -> AsyncGenerator[Update]:
        """The updates of a task until it ends or waits. Clients that disconnect can subscribe again; it goes on."""
        view, turn = await self.view(begun.task), begun.turn
        try:
            events = follower.follow(begun.task.process) if turn is None else turn.events()
            async with aclosing(events):
                async for event in events:
                    if not isinstance(event, Heartbeat | Rested) and (update := view.update(event)) is not None:
                        yield update
        finally:
            if turn is not None and not turn.over:
                platform = self.door.publisher.platform
                on_client_disconnect(turn, AgentProcessChatbot(platform, turn.process.agent.name).mark)
        if turn is not None:
            note_turn(self.call, await turn.result())
        for each in (await self.view(begun.task)).results():
            yield each

    async def until_ended_or_waiting(self, begun: Begun) -> None:
        """Wait until a task ends or waits. If the client disconnects first, a goal is ended as over other doors."""
        process, runs = begun.task.process, self.door.publisher.runs
        if begun.turn is not None:
            note_turn(self.call, await begun.turn.result())
        elif not begun.task.message_id:
            with Watch(runs.of(process, detached=CallPolicy.of_process(process).detached)):
                await while_client_stays(self.request, process.wait())


async def _view(platform: AgentPlatform, caller: Caller, task: Task) -> TaskView:
    if not task.message_id:
        return TaskView(task)
    session = await session_of_process(platform, task.process, caller)
    if session is None or all(each.id != task.message_id for each in session.conversation.entries):
        raise a2a_errors.TaskNotFoundError(f"There is no task {task.id[:100]!r}, or its conversation is gone.")
    return TaskView(task, session, await end_of_turn(session, task))


class A2aHandler(RequestHandler, ServerCallContextBuilder):
    """Does what other agents ask for. The SDK passes the `RequestWork` of a request from `build` to the other methods.

    Parameters: `notifications` stores push configurations; `card_of` returns the card for the caller of a request.
    """

    def __init__(
        self,
        door: HttpDoor,
        streams: OpenStreams,
        notifications: Notifications,
        card_of: Callable[[Request, Offers], a2a.AgentCard],
    ) -> None:
        self._door, self._streams, self._notifications, self._card_of = door, streams, notifications, card_of
        self._publisher, self._platform = door.publisher, door.publisher.platform

    def build(self, request: Request) -> ServerCallContext:
        """The context for the SDK."""
        return ServerCallContext(state={"headers": dict(request.headers), "work": request.scope[WORK]})

    async def on_message_send(self, params: a2a.SendMessageRequest, context: ServerCallContext) -> a2a.Task:
        with self._answering(context, params) as work:
            history = _history_of(params.configuration)
            begun = await self._begun(work, params)
            if not params.configuration.return_immediately:
                await work.until_ended_or_waiting(begun)
            return (await work.view(begun.task)).to_task(history)

    async def on_message_send_stream(
        self, params: a2a.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[a2a.Task | Update]:
        with self._answering(context, params) as work:
            work.place.enter_context(self._streams.one_of(work.caller))
            history, follower = _history_of(params.configuration), Follower()
            begun = await self._begun(work, params, follower)
            task = (await work.view(begun.task)).to_task(history, with_artifacts=False)
            if begun.turn is None and not task.history[1:]:
                moment = timestamp(begun.task.process.created_at)
                task.status.CopyFrom(a2a.TaskStatus(state=a2a.TaskState.TASK_STATE_SUBMITTED, timestamp=moment))
            yield task
            async with aclosing(work.updates(begun, follower)) as updates:
                async for each in updates:
                    yield each

    async def on_subscribe_to_task(
        self, params: a2a.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[a2a.Task | Update]:
        """The current state of a task, then its updates until it ends, also after questions in between."""
        with self._answering(context, params) as work:
            work.place.enter_context(self._streams.one_of(work.caller))
            view, follower = await work.known(params.id), Follower()
            process, now = view.process, view.to_task()
            if has_ended(now.status):
                raise a2a_errors.UnsupportedOperationError(f"Task {now.id} has ended, so nothing more happens in it.")
            yield now
            unsubscribe = process.subscribe(follower)
            try:
                while not has_ended(view.status):
                    while isinstance(process.outcome, Waiting) and not process.changing:
                        await process.changed()
                    turn = None if view.session is None else await view.session.follow()
                    async with aclosing(work.updates(Begun(view.task, turn), follower)) as updates:
                        async for each in updates:
                            yield each
                    view, follower = await work.view(view.task), Follower()
                    unsubscribe()
                    unsubscribe = process.subscribe(follower)
            finally:
                unsubscribe()

    async def on_get_task(self, params: a2a.GetTaskRequest, context: ServerCallContext) -> a2a.Task | None:
        with self._answering(context, params) as work:
            return (await work.known(params.id)).to_task(_history_of(params))

    async def on_list_tasks(self, params: a2a.ListTasksRequest, context: ServerCallContext) -> a2a.ListTasksResponse:
        """A page of the tasks of the caller, the most recently changed first.

        With a filter by context or state, a page may have fewer tasks than asked for, though more pages follow.
        """
        with self._answering(context, params) as work:
            size, history = params.page_size if params.HasField("page_size") else _PAGE_SIZE, _history_of(params)
            if not 1 <= size <= _LARGEST_PAGE:
                raise BadInput(f"pageSize: should be from 1 to {_LARGEST_PAGE}; came {size}")
            await _check_state(work.request)
            records = await self._platform.processes.page_of_records(
                work.caller, after="", limit=_MOST_LISTED, statuses=_STATUSES.get(params.status, ()), newest_first=True
            )
            changed = {each.id: timestamp(each.finished_at or each.created_at) for each in records if not each.parent}
            after = params.status_timestamp_after.ToNanoseconds() if params.HasField("status_timestamp_after") else 0
            order = {each: moment.ToNanoseconds() for each, moment in changed.items()}
            ids = sorted((each for each in order if order[each] >= after), key=lambda each: -order[each])
            token = params.page_token.partition(":")[0]
            if token and token not in ids:
                told = f"pageToken: {token[:100]!r} is none of this list. Begin with the first page."
                raise BadInput(told)
            begin = end = ids.index(token) + 1 if token else 0
            tasks = list[a2a.Task]()
            for each in ids[begin : begin + _MOST_READ]:
                end, view = end + 1, await work.listed(each)
                if view is None or (params.context_id and params.context_id != view.context_id):
                    continue
                if params.status in {a2a.TaskState.TASK_STATE_UNSPECIFIED, view.status.state}:
                    tasks.append(view.to_task(history, with_artifacts=params.include_artifacts))
                if len(tasks) == size:
                    break
            more, counted = end < len(ids), not (params.context_id or params.status)
            return a2a.ListTasksResponse(
                tasks=tasks,
                next_page_token=ids[end - 1] if more else "",
                page_size=size,
                total_size=len(ids) if more or begin or counted else len(tasks),
            )

    async def on_cancel_task(self, params: a2a.CancelTaskRequest, context: ServerCallContext) -> a2a.Task | None:
        with self._answering(context, params) as work:
            view = await work.known(params.id)
            task, status = view.task, view.status
            self._door.require(self._door.access.of_process(task.process))
            if has_ended(status):
                why = status.message.parts[0].text
                raise a2a_errors.TaskNotCancelableError(f"Task {task.id} has ended already. {why}")
            end_for_caller(self._platform, task.process, CANCELLED)
            self._publisher.audit_trail.ended(work.caller, task.process.id)
            with anyio.move_on_after(_END_SECONDS):
                await task.process.rest()
            return (await work.view(task)).to_task()

    async def on_get_extended_agent_card(
        self, params: a2a.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> a2a.AgentCard:
        with self._answering(context, params) as work:
            if not self._publisher.settings.authenticates:
                told = "Nobody is authenticated here: the agent card says everything."
                raise a2a_errors.ExtendedAgentCardNotConfiguredError(told)
            return self._card_of(work.request, work.offers)

    async def on_create_task_push_notification_config(
        self, params: a2a.TaskPushNotificationConfig, context: ServerCallContext
    ) -> a2a.TaskPushNotificationConfig:
        with self._answering(context, params) as work:
            task, config = await work.own(params.task_id), _config_of(params, work)
            self._door.require(self._door.access.of_process(task.process))
            await self._notifications.check(config)
            return _written(await self._notifications.keep(task, config))

    async def on_get_task_push_notification_config(
        self, params: a2a.GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> a2a.TaskPushNotificationConfig:
        params.id = params.id or params.task_id  # version 0.3 may name none
        with self._answering(context, params) as work:
            known = await self._notifications.of(await work.own(params.task_id))
            if params.id not in known:
                told = f"Task {params.task_id[:100]!r} has no push notification configuration {params.id[:100]!r}."
                raise a2a_errors.TaskNotFoundError(told)
            return _written(known[params.id])

    async def on_list_task_push_notification_configs(
        self, params: a2a.ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> a2a.ListTaskPushNotificationConfigsResponse:
        with self._answering(context, params) as work:
            known = await self._notifications.of(await work.own(params.task_id))
            return a2a.ListTaskPushNotificationConfigsResponse(configs=map(_written, known.values()))

    async def on_delete_task_push_notification_config(
        self, params: a2a.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        with self._answering(context, params) as work:
            await self._notifications.delete(await work.own(params.task_id), params.id)

    async def _begun(
        self, work: RequestWork, params: a2a.SendMessageRequest, follower: Follower | None = None
    ) -> Begun:
        """Start or continue the task of a message, and store the push configuration that the message may have."""
        configuration = params.configuration
        if not configuration.HasField("task_push_notification_config"):
            return await work.start_or_continue(params, follower)
        config, task_id = _config_of(configuration.task_push_notification_config, work), params.message.task_id
        await self._notifications.check(config)
        if task_id:
            known = await self._notifications.of(await work.own(task_id))
            check_number({*known, config.get("id") or task_id})
        begun = await work.start_or_continue(params, follower)
        await self._notifications.keep(begun.task, config)
        return begun

    async def notice_of(self, task_id: str) -> Notice | None:
        """The notification about the current state of a task; None: the task does not exist any more."""
        process_id, _, message_id = task_id.partition(":")
        try:
            process = await self._platform.process(process_id)
            view = await _view(self._platform, process.caller, Task(process, message_id))
        except (errors.UnknownName, a2a_errors.TaskNotFoundError):
            return None
        task = view.to_task(0)
        bodies = {
            "1.0": hide_known(MessageToJson(a2a.StreamResponse(task=task), indent=None)).encode(),
            "0.3": hide_known(to_compat_task(task).model_dump_json(by_alias=True, exclude_none=True)).encode(),
        }
        return Notice(f"{task.status.state} {task.status.message.message_id}", has_ended(task.status), bodies)

    @contextmanager
    def _answering(self, context: ServerCallContext, params: Protobuf) -> Generator[RequestWork]:
        """A context with the `RequestWork` of a request; an exception in it becomes an error of the protocol."""
        work: RequestWork = context.state["work"]
        try:
            validate_proto_required_fields(params)
            yield work
        except Exception as error:
            raise self._error(work, error) from None

    def _error(self, work: RequestWork, error: Exception) -> a2a_errors.A2AError:
        words = cleaned(hide_known(str(error)))
        match error:
            case a2a_errors.InvalidParamsError():  # from the SDK's validation, which names the fields only in `data`
                data = cast("dict[str, Any]", cast("Any", error).data or {})
                wrong = [
                    # The path of the field as it is in JSON.
                    {"field": ".".join(map(to_camel, each["field"].split("."))), "message": each["message"].rstrip(".")}
                    for each in data.get("errors", ())
                ]
                told = "; ".join(f"{each['field']}: {each['message']}" for each in wrong)
                return a2a_errors.InvalidParamsError(told or words, {"errors": wrong} if wrong else data or None)
            case a2a_errors.A2AError():
                return error
            case BadInput():
                fields = [each.partition(": ") for each in error.problems]
                wrong = [{"field": field, "message": why or field} for field, _, why in fields]
                return a2a_errors.InvalidParamsError(words, {"errors": wrong} if wrong else None)
            case errors.UnknownName():
                return a2a_errors.InvalidParamsError(words)
            case errors.AlreadyAnswered() | errors.ConversationEnded():
                return a2a_errors.UnsupportedOperationError(words)
            case errors.HandedOver() | errors.StoreError() | errors.Unreadable():
                words, work.failure = unavailable_words(error), error
            case LimitReached() | Problem() | ClientDisconnect():
                work.failure = error
            case _:
                tells = self._publisher.settings.show_errors
                words = logged(f"A request of {work.call.name}", error, tells_errors=tells)
                work.failure = Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "bug", words)
        work.call.status = "error" if work.failure is not error else "refused"
        return a2a_errors.InternalError(words)


def _history_of(params: Any) -> int | None:
    """How many messages of its history a client wants; None: all. Raises `BadInput` for a negative number."""
    if not params.HasField("history_length"):
        return None
    if params.history_length < 0:
        raise BadInput(f"historyLength: should not be negative; came {params.history_length}")
    return params.history_length


async def _check_state(request: Request) -> None:
    """Raise `BadInput` if a request lists tasks of an unknown state: the SDK would list tasks of any state."""
    asked: Any = request.query_params if request.method == "GET" else from_json(await request.body()).get("params")
    given = asked.get("status") if asked else None
    known = a2a.TaskState.keys()
    if isinstance(given, str) and given not in known and not given.isdecimal():
        told = f"status: should be one of {', '.join(known)}; came {given[:100]!r}"
        raise BadInput(told, [told])


def _config_of(config: a2a.TaskPushNotificationConfig, work: RequestWork) -> Config:
    is_new = work.request.headers.get("a2a-version", "").startswith("1")
    return {**MessageToDict(config), "version": "1.0" if is_new else "0.3"}


def _written(config: Config) -> a2a.TaskPushNotificationConfig:
    return ParseDict(dict(config), a2a.TaskPushNotificationConfig())


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
