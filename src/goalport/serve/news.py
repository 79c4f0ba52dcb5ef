"""Subscriptions to resources, in both eras, and the news of processes that they are for."""

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
from goalport.publish.resource_uris import process_uri, read_uri
from goalport.serve.callers import current_caller
from goalport.serve.changes import Changes
from goalport.serve.resources import may_watch
from goalport.serve.serving import Context, Serving

__all__ = ["Listening", "joined", "subscribe", "unsubscribe"]


async def joined(context: Context, _: NotificationParams) -> None:
    """A handshake-era client is there and can be told of changes."""
    context.lifespan_context.changes.join(context)


async def subscribe(context: Context, params: SubscribeRequestParams) -> EmptyResult:
    """Tell this client when the resource changes. Raises -32602 for what it may not read."""
    serving, uri = context.lifespan_context, str(params.uri)
    if not may_watch(serving, uri):
        raise MCPError(INVALID_PARAMS, f"There is no resource {uri[:200]!r}, or not for you.", {"uri": uri})
    serving.changes.subscribe(context, uri)
    _watch(serving, uri)
    return EmptyResult()


async def unsubscribe(context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
    """Tell it no more."""
    context.lifespan_context.changes.unsubscribe(context, str(params.uri))
    return EmptyResult()


class Listening:
    """`subscriptions/listen`: the SDK's streams, for what the caller may watch."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._handler = ListenHandler(changes.bus)

    async def __call__(
        self, context: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        serving: Serving = context.lifespan_context
        wanted = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        uris = [uri for uri in wanted if may_watch(serving, uri)]
        allowed = params.notifications.model_copy(update={"resource_subscriptions": uris})
        self._changes.watched.update(uris)
        for uri in uris:
            _watch(serving, uri)
        try:
            return await self._handler(context, params.model_copy(update={"notifications": allowed}))
        finally:
            self._changes.watched.subtract(uris)

    def close(self) -> None:
        """End all streams as the protocol wants it."""
        self._handler.close()


def _watch(serving: Serving, uri: str) -> None:
    """See that the events of a process become news of its resource."""
    found = read_uri(uri)
    process = serving.process(found.process, current_caller()) if found is not None and found.process else None
    if process is not None and process.outcome is None:
        _ProcessNews(serving.changes, uri, process_uri(process.id)).begin(process.subscribe)


class _ProcessNews:
    """One listener on one process; it leaves when nobody is subscribed any more."""

    def __init__(self, changes: Changes, uri: str, state: str) -> None:
        self._changes = changes
        self._uri = uri
        self._state = state
        self._leave: Callable[[], None] = lambda: None

    def begin(self, subscribe_to: Callable[["_ProcessNews"], Callable[[], None]]) -> None:
        self._leave = subscribe_to(self)

    def on_event(self, event: Event, /) -> None:
        """Something happened, so the resource is another."""
        if self._changes.watched[self._uri] <= 0:
            self._leave()
        else:
            self._changes.mark(self._uri)
