"""Subscriptions to resources, for clients of both eras, and the process events that make a resource change.

`notifications` notifies the subscribers; `server` is above.
"""

from collections.abc import Callable
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    EmptyResult,
    NotificationParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from goalport.events import Event
from goalport.publish.own_resources import process_uri, read_uri
from goalport.serve.notifications import Notifications
from goalport.serve.resources import may_watch
from goalport.serve.sessions import current_caller
from goalport.serve.state import Context, McpState

__all__ = ["SubscriptionStreams", "joined", "subscribe", "unsubscribe"]


async def joined(context: Context, _: NotificationParams) -> None:
    """Notify this handshake-era client of changes, as its handshake is complete."""
    context.lifespan_context.notifications.join(context)


async def subscribe(context: Context, params: SubscribeRequestParams) -> EmptyResult:
    """Notify this client when the resource changes. Raises `MCPError` (-32602) if it may not read the resource."""
    state, uri = context.lifespan_context, str(params.uri)
    if not may_watch(state, uri):
        raise MCPError(INVALID_PARAMS, f"There is no resource {uri[:200]!r}, or not for you.", {"uri": uri})
    state.notifications.subscribe(context, uri)
    _watch(state, uri)
    return EmptyResult()


async def unsubscribe(context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
    """No longer notify this client when the resource changes."""
    context.lifespan_context.notifications.unsubscribe(context, str(params.uri))
    return EmptyResult()


class SubscriptionStreams:
    """`subscriptions/listen`: the SDK's streams, limited to the resources that the caller may watch."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications
        self._handler = ListenHandler(notifications.bus)

    async def __call__(
        self, context: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        state: McpState = context.lifespan_context
        wanted = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        uris = [uri for uri in wanted if may_watch(state, uri)]
        allowed = params.notifications.model_copy(update={"resource_subscriptions": uris})
        self._notifications.watched.update(uris)
        for uri in uris:
            _watch(state, uri)
        try:
            return await self._handler(context, params.model_copy(update={"notifications": allowed}))
        finally:
            self._notifications.watched.subtract(uris)

    def close(self) -> None:
        """Close all streams with their final response."""
        self._handler.close()


def _watch(state: McpState, uri: str) -> None:
    """If the URI is of a process, notify its subscribers of the process's events."""
    found = read_uri(uri)
    process = state.process(found.process, current_caller()) if found is not None and found.process else None
    if process is not None and process.outcome is None:
        _ProcessListener(state.notifications, uri, process_uri(process.id)).begin(process.subscribe)


class _ProcessListener:
    """Marks the resource of a process as changed at each event; it unsubscribes itself when it has no subscribers."""

    def __init__(self, notifications: Notifications, uri: str, state: str) -> None:
        self._notifications = notifications
        self._uri = uri
        self._state = state
        self._leave: Callable[[], None] = lambda: None

    def begin(self, subscribe_to: Callable[["_ProcessListener"], Callable[[], None]]) -> None:
        self._leave = subscribe_to(self)

    def on_event(self, event: Event, /) -> None:
        """Mark the resource as changed."""
        if self._notifications.watched[self._uri] <= 0:
            self._leave()
        else:
            self._notifications.mark(self._uri)
