"""What the requests of other agents do: messages begin processes and turns, or answer their questions; tasks are looked
at, listed, followed and cancelled.

Everything is asked of the platform, so any server of the same store answers for a task. The SDK reads and writes the
protocol. Only this module of the room catches every exception. Above: `requests`.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing, contextmanager
from http import HTTPStatus
from typing import Final

import anyio
from a2a import types as a2a
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.utils import errors as a2a_errors
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.message import Message as Protobuf
from starlette.requests import ClientDisconnect, Request

from goalport.base.errors import (
    AlreadyAnswered,
    BadInput,
    ConversationEnded,
    HandedOver,
    StoreError,
    UnknownName,
    Unreadable,
)
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned
from goalport.runtime.chat import AgentProcessChatbot
from goalport.runtime.platform.runs import Watch, end_for_caller, process_of
from goalport.runtime.process import Follower, Heartbeat, ProcessStatus, Rested, Waiting
from goalport.server.doors.a2a.received import Begun, Received, Work, history_of
from goalport.server.doors.a2a.tasks import CANCELLED, TaskView, Update, has_ended, timestamp
from goalport.server.publish.faults import logged, unavailable_words
from goalport.server.publish.goal_tools import CallPolicy
from goalport.server.publish.limits import LimitReached
from goalport.server.publish.publisher import note_turn, reader_left
from goalport.server.publish.turn_tasks import Task, session_of_process
from goalport.server.web.endpoint import HttpDoor, OpenStreams, client_left
from goalport.server.web.problems import Problem

_END_SECONDS: Final = 5.0
"""The most seconds that a cancellation waits for the process to stop before it is answered."""
_PAGE: Final = 50
_LARGEST_PAGE: Final = 100
_MOST_LISTED: Final = 1_000
"""The most processes of a caller that are looked through for a list."""
_STATUSES: Final = {
    a2a.TaskState.TASK_STATE_SUBMITTED: (ProcessStatus.NOT_STARTED,),
    a2a.TaskState.TASK_STATE_WORKING: (ProcessStatus.RUNNING, ProcessStatus.PAUSED),
    a2a.TaskState.TASK_STATE_INPUT_REQUIRED: (ProcessStatus.WAITING,),
    a2a.TaskState.TASK_STATE_AUTH_REQUIRED: (ProcessStatus.WAITING,),
    a2a.TaskState.TASK_STATE_COMPLETED: (ProcessStatus.COMPLETED, ProcessStatus.RESTING),
    a2a.TaskState.TASK_STATE_CANCELED: (ProcessStatus.KILLED, ProcessStatus.RESTING, ProcessStatus.STUCK),
    a2a.TaskState.TASK_STATE_REJECTED: (ProcessStatus.FAILED,),
}


class A2aHandler(RequestHandler):
    """Does what other agents ask for.

    Parameters: `card_of` gives the card with what the caller of a request may use.
    """

    def __init__(self, door: HttpDoor, streams: OpenStreams, card_of: Callable[[Request, str], a2a.AgentCard]) -> None:
        self._door, self._streams, self._card_of = door, streams, card_of
        self._publisher = door.publisher
        self._platform, self._messages = door.publisher.platform, Received(door)

    async def on_message_send(
        self, params: a2a.SendMessageRequest, context: ServerCallContext
    ) -> a2a.Task | a2a.Message:
        """Begin a task, or go on with one, and wait until it ends or asks something."""
        with self._answering(context, params) as work:
            begun = await self._messages.received(work, params, None)
            if not params.configuration.return_immediately:
                await self._settled(work, begun)
            return (await self._messages.view(work, begun.task)).whole(history_of(params.configuration))

    async def on_message_send_stream(
        self, params: a2a.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[a2a.Task | Update]:
        """The same, with what happens meanwhile."""
        with self._answering(context, params) as work:
            work.place.enter_context(self._streams.one_of(work.caller))
            follower = Follower()
            begun = await self._messages.received(work, params, follower)
            task = (await self._messages.view(work, begun.task)).whole(
                history_of(params.configuration), with_artifacts=False
            )
            if begun.turn is None and not task.history[1:]:
                moment = timestamp(begun.task.process.created_at)
                task.status.CopyFrom(a2a.TaskStatus(state=a2a.TaskState.TASK_STATE_SUBMITTED, timestamp=moment))
            yield task
            async with aclosing(self._updates(work, begun, follower)) as updates:
                async for each in updates:
                    yield each

    async def on_subscribe_to_task(
        self, params: a2a.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[a2a.Task | Update]:
        """A task as it is now, and then what happens until it ends, whatever it asks meanwhile."""
        with self._answering(context, params) as work:
            work.place.enter_context(self._streams.one_of(work.caller))
            view, follower = await self._messages.known(work, params.id), Follower()
            process, now = view.process, view.whole()
            if has_ended(now):
                raise a2a_errors.UnsupportedOperationError(f"Task {now.id} has ended, so nothing more happens in it.")
            yield now
            unsubscribe = process.subscribe(follower)
            try:
                while not has_ended(view.whole(0, with_artifacts=False)):
                    while isinstance(process.outcome, Waiting) and not process.changing:
                        await process.changed()
                    turn = None if view.session is None else await view.session.follow()
                    async with aclosing(self._updates(work, Begun(view.task, turn), follower)) as updates:
                        async for each in updates:
                            yield each
                    view, follower = await self._messages.view(work, view.task), Follower()
                    unsubscribe()
                    unsubscribe = process.subscribe(follower)
            finally:
                unsubscribe()

    async def _updates(self, work: Work, begun: Begun, follower: Follower) -> AsyncGenerator[Update]:
        """What happens in a task until it ends or waits. A client that leaves can come back; the task goes on."""
        view, turn = await self._messages.view(work, begun.task), begun.turn
        try:
            events = follower.follow(begun.task.process) if turn is None else turn.events()
            async with aclosing(events):
                async for event in events:
                    if not isinstance(event, Heartbeat | Rested) and (update := view.told(event)) is not None:
                        yield update
        finally:
            if turn is not None and not turn.over:
                reader_left(turn, AgentProcessChatbot(self._platform, turn.process.agent.name).mark)
        if turn is not None:
            note_turn(work.call, await turn.result())
        for each in (await self._messages.view(work, begun.task)).results():
            yield each

    async def on_get_task(self, params: a2a.GetTaskRequest, context: ServerCallContext) -> a2a.Task | None:
        """A task as it is now."""
        with self._answering(context, params) as work:
            return (await self._messages.known(work, params.id)).whole(history_of(params))

    async def on_list_tasks(self, params: a2a.ListTasksRequest, context: ServerCallContext) -> a2a.ListTasksResponse:
        """The tasks of the caller, those that changed last first, a page at a time."""
        with self._answering(context, params) as work:
            size = params.page_size if params.HasField("page_size") else _PAGE
            if not 1 <= size <= _LARGEST_PAGE:
                raise BadInput(f"pageSize: should be from 1 to {_LARGEST_PAGE}; came {size}")
            history, tasks = history_of(params), await self._matching(work, params)
            ids = [each.task.id for each in tasks]
            if params.page_token and params.page_token not in ids:
                raise BadInput(
                    f"pageToken: {params.page_token[:100]!r} is none of this list. Begin with the first page."
                )
            begin = ids.index(params.page_token) + 1 if params.page_token else 0
            page = tasks[begin : begin + size]
            more = begin + size < len(tasks)
            return a2a.ListTasksResponse(
                tasks=[each.whole(history, with_artifacts=params.include_artifacts) for each in page],
                next_page_token=page[-1].task.id if more else "",
                page_size=size,
                total_size=len(tasks),
            )

    async def _matching(self, work: Work, params: a2a.ListTasksRequest) -> Sequence[TaskView]:
        """The tasks that a list is about, those that changed last first."""
        records = await self._platform.processes.page_of_records(
            work.caller, after="", limit=_MOST_LISTED, statuses=_STATUSES.get(params.status, ()), newest_first=True
        )
        roots = [each for each in records if not each.parent]
        if params.HasField("status_timestamp_after"):
            after = params.status_timestamp_after.ToNanoseconds()
            roots = [each for each in roots if timestamp(each.finished_at or each.created_at).ToNanoseconds() >= after]
        found: list[TaskView] = []
        for each in sorted(roots, key=lambda each: each.finished_at or each.created_at, reverse=True):
            view = await self._listed(work, each.id)
            if view is None or (params.context_id and params.context_id != view.context_id):
                continue
            if params.status in {a2a.TaskState.TASK_STATE_UNSPECIFIED, view.status.state}:
                found.append(view)
        return found

    async def _listed(self, work: Work, process_id: str) -> TaskView | None:
        """A process in a list; of a conversation its last turn. None: it is gone, or cannot be read any more."""
        try:
            process = await process_of(self._platform, process_id, work.caller)
            if process is None:
                return None
            session = await session_of_process(self._platform, process, work.caller)
            if not process.options.turns:
                return TaskView(Task(process))
            said = [each.id for each in session.conversation.entries if each.role == "user"] if session else []
            return await self._messages.view(work, Task(process, said[-1])) if said else None
        except Unreadable:
            return None

    async def on_cancel_task(self, params: a2a.CancelTaskRequest, context: ServerCallContext) -> a2a.Task | None:
        """End a task that goes on or waits."""
        with self._answering(context, params) as work:
            view = await self._messages.known(work, params.id)
            task, now = view.task, view.whole(0, with_artifacts=False)
            self._door.require(self._door.access.of_process(task.process))
            if has_ended(now):
                why = now.status.message.parts[0].text
                raise a2a_errors.TaskNotCancelableError(f"Task {task.id} has ended already. {why}")
            end_for_caller(self._platform, task.process, CANCELLED)
            self._publisher.audit_trail.ended(work.caller, task.process.id)
            with anyio.move_on_after(_END_SECONDS):
                await task.process.rest()
            return (await self._messages.view(work, task)).whole()

    async def on_get_extended_agent_card(
        self, params: a2a.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> a2a.AgentCard:
        """The card with all that the caller may use."""
        with self._answering(context, params) as work:
            if not self._publisher.settings.authenticates:
                raise a2a_errors.ExtendedAgentCardNotConfiguredError(
                    "Nobody is authenticated here: the agent card says everything."
                )
            return self._card_of(work.request, work.agent)

    async def on_create_task_push_notification_config(
        self, params: a2a.TaskPushNotificationConfig, context: ServerCallContext
    ) -> a2a.TaskPushNotificationConfig:
        raise a2a_errors.PushNotificationNotSupportedError

    async def on_get_task_push_notification_config(
        self, params: a2a.GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> a2a.TaskPushNotificationConfig:
        raise a2a_errors.PushNotificationNotSupportedError

    async def on_list_task_push_notification_configs(
        self, params: a2a.ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> a2a.ListTaskPushNotificationConfigsResponse:
        raise a2a_errors.PushNotificationNotSupportedError

    async def on_delete_task_push_notification_config(
        self, params: a2a.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        raise a2a_errors.PushNotificationNotSupportedError

    async def _settled(self, work: Work, begun: Begun) -> None:
        """Wait until a task ends or waits. If the client leaves before, a goal is ended as over other doors."""
        if begun.turn is not None:
            note_turn(work.call, await begun.turn.result())
            return
        if begun.task.message_id:
            return
        process = begun.task.process
        with Watch(self._publisher.runs.of(process, detached=CallPolicy.of_process(process).detached)) as watch:

            async def leave() -> None:
                await client_left(work.request)
                watch.leave()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave)
                await process.wait()
                tasks.cancel_scope.cancel()

    @contextmanager
    def _answering(self, context: ServerCallContext, params: Protobuf) -> Generator[Work]:
        """The work of a request. What goes wrong in the block becomes an error of the protocol."""
        work: Work = context.state["work"]
        try:
            validate_proto_required_fields(params)
            yield work
        except Exception as error:
            raise self._error(work, error) from None

    def _error(self, work: Work, error: Exception) -> a2a_errors.A2AError:
        words = cleaned(hide_known(str(error)))
        match error:
            case a2a_errors.A2AError():
                return error
            case BadInput():
                fields = [each.partition(": ") for each in error.problems]
                errors = [{"field": field, "message": why or field} for field, _, why in fields]
                return a2a_errors.InvalidParamsError(words, {"errors": errors} if errors else None)
            case UnknownName():
                return a2a_errors.InvalidParamsError(words)
            case AlreadyAnswered() | ConversationEnded():
                return a2a_errors.UnsupportedOperationError(words)
            case HandedOver() | StoreError() | Unreadable():
                words, work.failure = unavailable_words(error), error
            case LimitReached() | Problem() | ClientDisconnect():
                work.failure = error
            case _:
                words = logged(
                    f"A request of {work.call.name}", error, tells_errors=self._publisher.settings.show_errors
                )
                work.failure = Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "bug", words)
        work.call.status = "error" if work.failure is not error else "refused"
        return a2a_errors.InternalError(words)
