"""`notifications/tasks`: clients that listen are told the state of their tasks as it changes, and need not poll.

A stream of `subscriptions/listen` may name tasks besides lists and resources. What is told of a task is what a poll at
that moment would tell. `tasks` says what that is; `resources` opens the streams.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, cast

import anyio
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    Notification,
    RequestId,
    ServerNotification,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

from goalport.base.errors import HandedOver
from goalport.server.doors.mcp.state import Context
from goalport.server.doors.mcp.tasks import ENDED, POLL_MS, refuse_without_tasks, state_of, task_of
from goalport.server.doors.mcp.turn_tasks import Task
from goalport.server.publish.output import Wire

_TASKS: Final = "taskIds"


class _TaskNotification(Notification[Wire, Literal["notifications/tasks"]]):
    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: Wire


async def listen(
    handler: ListenHandler, context: Context, params: SubscriptionsListenRequestParams
) -> SubscriptionsListenResult:
    """Serve one stream with the SDK's handler, and tell on it of the tasks that the client names.

    Raises `MCPError` for a client that names tasks and does not declare the extension.
    """
    if _TASKS not in (params.notifications.model_extra or {}):
        return await handler(context, params)
    refuse_without_tasks(context)
    stream = _Stream(context, await _tasks(context, params.notifications))
    session = cast("ServerSession", stream)  # the handler sends notifications by it, and does nothing else
    refusal: MCPError | None = None
    result = SubscriptionsListenResult()
    async with anyio.create_task_group() as tasks:
        for each in stream.tasks:
            tasks.start_soon(stream.follow, each)
        try:
            result = await handler(replace(context, session=session), params)
        except MCPError as error:
            refusal = error
        tasks.cancel_scope.cancel()
    if refusal is not None:
        raise refusal
    return result


async def _tasks(context: Context, wanted: SubscriptionFilter) -> Sequence[Task]:
    """The tasks that a client names; unknown ones, and those of other callers, are left out."""
    named = cast("object", (wanted.model_extra or {})[_TASKS])
    if not isinstance(named, list) or not all(isinstance(each, str) for each in cast("list[object]", named)):
        raise MCPError(INVALID_PARAMS, f"Expected a list of task ids as {_TASKS}.")
    found = [await task_of(context, each) for each in dict.fromkeys(cast("list[str]", named))]
    return [each for each in found if each is not None]


class _Stream:
    """The session of one stream: it adds the tasks to the acknowledgement, and tells of them after that."""

    def __init__(self, context: Context, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self._context = context
        self._acknowledged = anyio.Event()

    async def send_notification(
        self, notification: ServerNotification, related_request_id: RequestId | None = None
    ) -> None:
        """Send what the SDK's handler sends."""
        if isinstance(notification, SubscriptionsAcknowledgedNotification):
            kinds = notification.params.notifications.model_dump(by_alias=True, exclude_none=True)
            told = SubscriptionFilter.model_validate({**kinds, _TASKS: [each.id for each in self.tasks]})
            notification.params.notifications = told
        await self._context.session.send_notification(notification, related_request_id)
        self._acknowledged.set()

    async def follow(self, task: Task) -> None:
        """Tell the state of a task, and each other one, until the task has ended.

        It is read again as often as a client would poll, since another server may take the answers.
        """
        await self._acknowledged.wait()
        told: Mapping[str, Any] = {}
        while told.get("status") not in ENDED:
            try:
                state = await state_of(self._context, task)
            except MCPError:  # The store does not answer just now.
                state = told
            if state != told:
                await self._tell(state)
            told = state
            try:
                with anyio.move_on_after(POLL_MS / 1_000):
                    await task.process.changed()
            except HandedOver:
                return

    async def _tell(self, state: Mapping[str, Any]) -> None:
        request = self._context.request_id
        notification = _TaskNotification(params={"_meta": {SUBSCRIPTION_ID_META_KEY: request}, **state})
        await self._context.session.send_notification(cast("ServerNotification", notification), request)
