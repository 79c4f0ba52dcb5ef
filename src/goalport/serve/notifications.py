"""Notifications about lists and resources, for clients of both eras.

Handshake-era clients are told over their live connections, later ones over the streams they opened with
`subscriptions/listen`. What caused them is not known here; `state` owns the one `Notifications` of a server.
"""

import asyncio
from collections import Counter
from typing import Any, Final
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

from goalport.publish.publisher import ListKind
from goalport.serve.sessions import connection_of

__all__ = ["Notifications"]

_PATIENCE: Final = 5.0
"""Seconds after which a client that does not read is left behind."""
_SUBSCRIPTIONS: Final = "goalport.subscriptions"
_EVENTS: Final[dict[ListKind, ServerEvent]] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}


class Notifications:
    """Who wants to be notified of changes, and the means to do it."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.watched: Counter[str] = Counter()
        """How many clients asked for news of a resource."""
        self._live: WeakSet[Connection] = WeakSet()
        self._pending: set[str] = set()
        self._telling: asyncio.Task[None] | None = None

    def join(self, context: ServerRequestContext[Any, Any]) -> None:
        """Note a handshake-era connection; it is forgotten when it closes."""
        self._live.add(connection_of(context))

    def subscribe(self, context: ServerRequestContext[Any, Any], uri: str) -> None:
        """Tell this handshake-era connection about one resource from now on."""
        connection = connection_of(context)
        self._live.add(connection)
        if _SUBSCRIPTIONS not in connection.state:
            connection.state[_SUBSCRIPTIONS] = set[str]()
            connection.exit_stack.callback(lambda: self.watched.subtract(connection.state[_SUBSCRIPTIONS]))
        uris: set[str] = connection.state[_SUBSCRIPTIONS]
        if uri not in uris:
            uris.add(uri)
            self.watched[uri] += 1

    def unsubscribe(self, context: ServerRequestContext[Any, Any], uri: str) -> None:
        """Tell it no more."""
        uris: set[str] = connection_of(context).state.get(_SUBSCRIPTIONS, set())
        if uri in uris:
            uris.discard(uri)
            self.watched[uri] -= 1

    async def announce(self, *kinds: ListKind) -> None:
        """Say that lists changed."""
        for kind in kinds:
            await self.bus.publish(_EVENTS[kind])
        await self._tell([(connection, kind) for kind in kinds for connection in list(self._live)])

    async def updated(self, uri: str) -> None:
        """Say that a resource changed."""
        await self.bus.publish(ResourceUpdated(uri))
        await self._tell([(each, uri) for each in list(self._live) if uri in each.state.get(_SUBSCRIPTIONS, ())])

    def mark(self, uri: str) -> None:
        """Say so soon, from code that cannot wait; many marks of one resource become one message."""
        if self.watched[uri] <= 0:
            return
        self._pending.add(uri)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell_marked())

    async def _tell_marked(self) -> None:
        while self._pending:
            await self.updated(self._pending.pop())

    async def _tell(self, letters: list[tuple[Connection, ListKind | str]]) -> None:
        async with anyio.create_task_group() as tasks:
            for connection, what in letters:
                tasks.start_soon(_tell_one, connection, what)


async def _tell_one(connection: Connection, what: ListKind | str) -> None:
    with anyio.move_on_after(_PATIENCE):
        match what:
            case "tools":
                await connection.send_tool_list_changed()
            case "prompts":
                await connection.send_prompt_list_changed()
            case "resources":
                await connection.send_resource_list_changed()
            case uri:
                await connection.send_resource_updated(uri)
