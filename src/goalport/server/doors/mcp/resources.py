"""Resources: reading goalport's own, those of exports and of raw handlers, and subscriptions to their changes.

`publish.own_resources` makes the contents of the own ones, and `notifications` notifies the subscribers, which are
clients of both eras; `server` is above.
"""

import json
from collections.abc import Callable
from typing import Any

from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    EmptyResult,
    NotificationParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from goalport.base.errors import BadInput, UnknownName
from goalport.base.events import Event
from goalport.base.secrecy import hide_known
from goalport.runtime.process import AgentProcess
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.notifications import Notifications
from goalport.server.doors.mcp.provided_resources import read_provided
from goalport.server.doors.mcp.scope_check import scopes_of_resource
from goalport.server.doors.mcp.state import Context, McpState
from goalport.server.doors.mcp.task_notifications import listen
from goalport.server.publish.conversation_resources import conversation_at
from goalport.server.publish.output import Pages
from goalport.server.publish.own_resources import ResourceUri, agent_view, goals_view, process_view, read_uri


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
    context.lifespan_context.notifications.join(context)


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
