"""Resources: reading goalport's own, those of exports and of raw handlers, and subscriptions to their changes.

`publish.own_resources` makes the contents of the own ones, and `notifications` notifies the subscribers, which are
clients of both eras; `server` is above.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, cast

import anyio
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    EmptyResult,
    Notification,
    NotificationParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestId,
    ServerNotification,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from goalport.base.errors import BadInput, HandedOver, UnknownName
from goalport.base.events import Event
from goalport.base.secrecy import hide_known
from goalport.runtime.process import AgentProcess
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.notifications import Notifications
from goalport.server.doors.mcp.provided_resources import read_provided
from goalport.server.doors.mcp.scope_check import scopes_of_resource
from goalport.server.doors.mcp.state import Context, McpState
from goalport.server.doors.mcp.tasks import ENDED, POLL_MS, refuse_without_tasks, state_of, task_of
from goalport.server.publish.conversation_resources import conversation_at
from goalport.server.publish.output import Pages, Wire
from goalport.server.publish.own_resources import ResourceUri, agent_view, goals_view, process_view, read_uri
from goalport.server.publish.turn_tasks import Task


async def read_resource(context: Context, params: ReadResourceRequestParams) -> HandlerResult:
    """The contents at a URI. Raises `MCPError` (-32602) if there is no such resource for this caller."""
    state, uri = context.lifespan_context, str(params.uri)
    raw = state.publication.resources.get(uri)
    if raw is not None:
        return await state.answer_of_raw(uri, raw.handler, context, params)
    own = read_uri(uri)
    if own is not None:
        return await _read_own(state, uri, own)
    provided = await read_provided(state, uri)
    if provided is not None:
        return provided
    for template in state.publication.templates:
        if template.matches(uri):
            return await state.answer_of_raw(uri, template.handler, context, params)
    raise _not_found(uri)


async def _read_own(state: McpState, uri: str, own: ResourceUri) -> ReadResourceResult:
    if own.goals:
        return ReadResourceResult(contents=[_json(uri, _goals(state))])
    if own.agent:
        try:
            agent = state.platform.agents.named(own.agent)
        except UnknownName:
            raise _not_found(uri) from None
        if not state.publication.shows_agent(agent):
            raise _not_found(uri)
        return ReadResourceResult(contents=[_json(uri, agent_view(agent, state.publication.shows_goal))])
    try:
        process = await state.process(own.process, current_caller())
    except BadInput as problem:
        raise MCPError(INVALID_PARAMS, str(problem), {"uri": uri}) from problem
    if process is None:
        raise _not_found(uri)
    if own.result:
        return ReadResourceResult(contents=[_result(state, uri, own, process)])
    view = process_view(process)
    picture = f"```mermaid\n{view['mermaid']}\n```"
    shown = TextResourceContents(uri=uri, mime_type="text/markdown", text=picture)
    return ReadResourceResult(contents=[_json(uri, view), shown])


def _goals(state: McpState) -> list[dict[str, Any]]:
    shown = state.publication
    return goals_view(shown.tools, state.platform.agents, shown.shows_goal)


def _json(uri: str, data: object) -> TextResourceContents:
    text = hide_known(json.dumps(data, indent=2, ensure_ascii=False))
    return TextResourceContents(uri=uri, mime_type="application/json", text=text)


def _result(state: McpState, uri: str, own: ResourceUri, process: AgentProcess) -> TextResourceContents:
    result = Pages.of(process, state.settings.max_result_bytes)
    if result is None:
        raise _not_found(uri)
    if own.page is None:
        return TextResourceContents(uri=uri, mime_type=result.media, text=result.text)
    if not 1 <= own.page <= len(result.pages):
        raise MCPError(INVALID_PARAMS, f"The result has the pages 1 to {len(result.pages)}.", {"uri": uri})
    more = {"goalport/page": own.page, "goalport/pages": len(result.pages)}
    return TextResourceContents(uri=uri, mime_type=result.media, text=result.pages[own.page - 1], _meta=more)


def _not_found(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"There is no resource {uri[:200]!r}, or not for you.", {"uri": uri})


async def initialized(context: Context, _: NotificationParams) -> None:
    """Notify this handshake-era client of changed lists, as its handshake is complete."""
    context.lifespan_context.notifications.session_of(context)


async def subscribe(context: Context, params: SubscribeRequestParams) -> EmptyResult:
    """Notify this client when the resource changes. Raises `MCPError` (-32602) if it may not read the resource."""
    state, uri = context.lifespan_context, str(params.uri)
    if not await _may_watch(state, uri):
        raise _not_found(uri)
    state.notifications.subscribe(context, uri)
    await _watch(state, uri)
    return EmptyResult()


async def unsubscribe(context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
    """No longer notify this client when the resource changes."""
    context.lifespan_context.notifications.unsubscribe(context, str(params.uri))
    return EmptyResult()


class SubscriptionStreams:
    """`subscriptions/listen`: the SDK's streams, limited to the resources and tasks that the caller may watch."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications
        self._handler = ListenHandler(notifications.bus)

    async def __call__(
        self, context: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        state: McpState = context.lifespan_context
        wanted = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        uris = [uri for uri in wanted if await _may_watch(state, uri)]
        allowed = params.notifications.model_copy(update={"resource_subscriptions": uris})
        self._notifications.watched.update(uris)
        for uri in uris:
            await _watch(state, uri)
        try:
            return await listen(self._handler, context, params.model_copy(update={"notifications": allowed}))
        finally:
            self._notifications.unwatch(uris)

    def close(self) -> None:
        """Close all streams with their final response."""
        self._handler.close()


async def _may_watch(state: McpState, uri: str) -> bool:
    """Whether the current caller may watch a URI: one that it has the scopes for, if not of another's process."""
    if state.access.lacks(scopes_of_resource(state, uri)):
        return False
    if conversation_id := conversation_at(uri):
        return await state.platform.conversations.find(conversation_id, current_caller()) is not None
    own = read_uri(uri)
    return own is None or not own.process or await state.process(own.process, current_caller()) is not None


async def _watch(state: McpState, uri: str) -> None:
    """If the URI is of a process that has not ended, notify its subscribers of the process's events."""
    own = read_uri(uri)
    process = await state.process(own.process, current_caller()) if own is not None and own.process else None
    if process is not None and not process.over:
        _ProcessListener(state.notifications, uri).begin(process)


class _ProcessListener:
    """Marks the resource of a process as changed at each event; it unsubscribes itself when it has no subscribers."""

    def __init__(self, notifications: Notifications, uri: str) -> None:
        self._notifications = notifications
        self._uri = uri
        self._unsubscribe: Callable[[], None] = lambda: None

    def begin(self, process: AgentProcess) -> None:
        self._unsubscribe = process.subscribe(self)

    def on_event(self, event: Event, /) -> None:
        """Mark the resource as changed."""
        if self._notifications.watched[self._uri] <= 0:
            self._unsubscribe()
        else:
            self._notifications.mark(self._uri)


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
