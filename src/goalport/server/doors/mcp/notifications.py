"""Notifications about lists and resources, for clients of both eras.

Handshake-era clients get them over their open connections, later clients over the streams that they opened with
`subscriptions/listen`. This module does not know what caused a change; `state` owns the `Notifications` of a server.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Protocol
from weakref import WeakSet

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import LoggingLevel

from goalport.server.doors.mcp.sessions import (
    SessionState,
    connection_of,
    keep_state,
    log_level_of,
    progress_wanted,
    send_log,
    state_of,
)
from goalport.server.publish.publisher import ListKind

_SEND_SECONDS: Final = 5.0
"""Seconds after which a notification is dropped for a client that does not read it."""
_EVENTS: Final[dict[ListKind, ServerEvent]] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}


class Notifications:
    """The clients that want to be notified of changes, and the functions that notify them."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.watched: Counter[str] = Counter()
        """The number of subscribers by the URI of the resource."""
        self.connections: WeakSet[Connection] = WeakSet()
        """The open ones of handshake-era clients on which these can be notified."""
        self.tell_workers: Callable[[str], None] = lambda _: None
        """Tells the other workers of this server which resource has changed."""
        self._pending: set[str] = set()
        self._notifying: asyncio.Task[None] | None = None

    def session_of(self, context: ServerRequestContext[Any, Any]) -> SessionState:
        """The state of the session of a request; that of a connection which is a session by itself begins here."""
        connection = connection_of(context)
        if (state := state_of(connection)) is None:
            state = SessionState()
            keep_state(connection, state)
            self.connections.add(connection)
            connection.exit_stack.callback(partial(self.replace, state.uris, ()))
        return state

    def subscribe(self, context: ServerRequestContext[Any, Any], uri: str) -> None:
        """Notify this handshake-era session of changes of one resource from now on."""
        state = self.session_of(context)
        self.replace(state.uris, {*state.uris, uri})
        state.on_change()

    def unsubscribe(self, context: ServerRequestContext[Any, Any], uri: str) -> None:
        """No longer notify this session of changes of one resource."""
        state = self.session_of(context)
        self.replace(state.uris, state.uris - {uri})
        state.on_change()

    def replace(self, uris: set[str], by: Iterable[str]) -> None:
        """Have one subscriber, which has subscribed to these resources, subscribe to others instead."""
        wanted = set(by)
        self.watched.update(wanted - uris)
        self.unwatch(uris - wanted)
        uris.clear()
        uris.update(wanted)

    def unwatch(self, uris: Iterable[str]) -> None:
        """Count one subscriber less of each resource; one without any is forgotten, since clients make up URIs."""
        for uri in uris:
            self.watched[uri] -= 1
            if self.watched[uri] <= 0:
                del self.watched[uri]

    async def announce(self, *kinds: ListKind) -> None:
        """Notify all clients that the lists of these kinds changed."""
        for kind in kinds:
            await self.bus.publish(_EVENTS[kind])
        await self._notify_each([(connection, kind) for kind in kinds for connection in list(self.connections)])

    async def updated(self, uri: str) -> None:
        """Notify the subscribers of a resource that it changed, at all workers."""
        self.tell_workers(uri)
        await self.updated_here(uri)

    async def updated_here(self, uri: str) -> None:
        """Notify those of this worker."""
        await self.bus.publish(ResourceUpdated(uri))
        subscribed = [each for each in list(self.connections) if (state := state_of(each)) and uri in state.uris]
        await self._notify_each([(each, uri) for each in subscribed])

    def mark(self, uri: str) -> None:
        """Notify them soon, for callers that cannot await; several marks of a resource become one notification."""
        if self.watched[uri] <= 0:
            return
        self._pending.add(uri)
        if self._notifying is None or self._notifying.done():
            self._notifying = asyncio.get_running_loop().create_task(self._notify_pending())

    async def _notify_pending(self) -> None:
        while self._pending:
            await self.updated(self._pending.pop())

    async def _notify_each(self, notifications: list[tuple[Connection, ListKind | str]]) -> None:
        async with anyio.create_task_group() as tasks:
            for connection, change in notifications:
                tasks.start_soon(_notify, connection, change)


async def _notify(connection: Connection, change: ListKind | str) -> None:
    with anyio.move_on_after(_SEND_SECONDS):
        match change:
            case "tools":
                await connection.send_tool_list_changed()
            case "prompts":
                await connection.send_prompt_list_changed()
            case "resources":
                await connection.send_resource_list_changed()
            case uri:
                await connection.send_resource_updated(uri)


class Notifier(Protocol):
    """The way to the client of one request."""

    @property
    def progress_wanted(self) -> bool:
        """Whether the client asked for progress."""
        ...

    @property
    def log_level(self) -> LoggingLevel | None:
        """The least severe level of the log messages that the client gets; None if it asked for none."""
        ...

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell progress. It may wait for `flush`, or for the answer."""
        ...

    async def log(self, level: LoggingLevel, text: str) -> None:
        """Tell one log message. It may wait for `flush`, or for the answer."""
        ...

    async def flush(self) -> None:
        """Send what still waits. Call it before a wait whose end is not known."""
        ...


class SdkNotifier:
    """The way of the SDK, which sends each notification at once."""

    def __init__(self, context: ServerRequestContext[Any, Any]) -> None:
        self._context = context

    @property
    def progress_wanted(self) -> bool:
        """Whether the client asked for progress."""
        return progress_wanted(self._context)

    @property
    def log_level(self) -> LoggingLevel | None:
        """The least severe level of the log messages that the client gets; None if it asked for none."""
        return log_level_of(self._context)

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Send progress."""
        await self._context.session.report_progress(progress, total, message)

    async def log(self, level: LoggingLevel, text: str) -> None:
        """Send one log message."""
        await send_log(self._context.session, level, text, self._context.request_id)

    async def flush(self) -> None:
        """Do nothing, as nothing waits."""
