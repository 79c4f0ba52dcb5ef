"""Notifications about lists and resources, and the sessions whose clients asked for them.

Handshake-era clients get them over their open connections, later clients over the streams that they opened with
`subscriptions/listen`. This module does not know what caused a change; `state` owns the `Notifications` of a server.
The SDK has no public way to some of what a request belongs to. Its private attributes are used in this module, and for
stdin in `stdio`, and nowhere else.
"""

import asyncio
import secrets
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast
from weakref import WeakSet

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import LOG_LEVEL_META_KEY, ElicitRequest, ElicitResult, LoggingLevel
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from goalport.server.publish.publisher import ListKind

_STATE: Final = "goalport.session"
_SEND_SECONDS: Final = 5.0
"""Seconds after which a notification is dropped for a client that does not read it."""
_LISTS: Final = {
    "tools": (ToolsListChanged(), Connection.send_tool_list_changed),
    "prompts": (PromptsListChanged(), Connection.send_prompt_list_changed),
    "resources": (ResourcesListChanged(), Connection.send_resource_list_changed),
}
Request = ServerRequestContext[Any, Any]


@dataclass(eq=False, slots=True)
class SessionState:
    """What the client of a session has asked for since it opened it."""

    log_level: LoggingLevel | None = None
    """The least severe level of the log messages that the client gets; None if it asked for none."""
    uris: set[str] = field(default_factory=set[str])
    """The resources of whose changes it is notified."""
    on_change: Callable[[], None] = lambda: None
    """Called when the client has asked for something else."""


def state_of(connection: Connection) -> SessionState | None:
    """The state of the session that a connection belongs to; None as long as it has none."""
    return connection.state.get(_STATE)


def keep_state(connection: Connection, state: SessionState) -> None:
    """Have a connection belong to the session that has this state."""
    connection.state[_STATE] = state


def connection_of(context: Request) -> Connection:
    """The connection that a request came over; it outlives the request only in the handshake era."""
    return context.session._connection  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no public way to it


def is_modern(context: Request) -> bool:
    """Whether the protocol version of the request has no handshake and no sessions."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


async def ask_client(context: Request, request: ElicitRequest, request_id: str) -> ElicitResult:
    """Ask the client in the middle of its call, by a request with this id.

    Raises `MCPError` where the client answers with an error, and `ValidationError` where it answers with nonsense.
    """
    data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
    outbound = context.session._request_outbound  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - `send_request` takes no id
    answer = await outbound.send_raw_request(data["method"], data["params"], {"request_id": request_id})
    return ElicitResult.model_validate(answer, by_name=False)


def progress_wanted(context: Request) -> bool:
    """Whether the client asked for progress: by a progress token, or by a callback if it is in this process."""
    if context.meta is not None and "progress_token" in context.meta:
        return True
    outbound = context.session._request_outbound  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - see the docstring
    return getattr(cast("object", getattr(outbound, "_inner", outbound)), "_on_progress", None) is not None


def log_level_of(context: Request) -> LoggingLevel | None:
    """The least severe level of the log messages that the client gets; None if it asked for none."""
    if is_modern(context):
        return cast("LoggingLevel | None", (context.meta or {}).get(LOG_LEVEL_META_KEY))
    state = state_of(connection_of(context))
    return None if state is None else state.log_level


async def send_log(context: Request, level: LoggingLevel, text: str) -> None:
    """Send one log message that belongs to a request."""
    with without_deprecations():
        sending = context.session.send_log_message(level, text, "goalport", context.request_id)  # pyright: ignore[reportDeprecated]
    await sending


@contextmanager
def without_deprecations() -> Generator[None]:
    """Suppress the SDK's warnings about features that the newest protocol version no longer has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        yield


def number_requests_apart(dispatcher: JSONRPCDispatcher[Any]) -> None:
    """Have the ids of requests to the client be others than those that other dispatchers of its session give."""
    dispatcher._next_id = secrets.randbits(31) << 16  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no public way


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

    def session_of(self, context: Request) -> SessionState:
        """The state of the session of a request; that of a connection which is a session by itself begins here."""
        connection = connection_of(context)
        if (state := state_of(connection)) is None:
            state = SessionState()
            keep_state(connection, state)
            self.connections.add(connection)
            connection.exit_stack.callback(partial(self.replace, state.uris, ()))
        return state

    def subscribe(self, context: Request, uri: str, *, wanted: bool) -> None:
        """Notify this handshake-era session of changes of one resource from now on, or, if not `wanted`, no longer."""
        state = self.session_of(context)
        self.replace(state.uris, state.uris | {uri} if wanted else state.uris - {uri})
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
            await self.bus.publish(_LISTS[kind][0])
        await self._send(_LISTS[kind][1](connection) for kind in kinds for connection in list(self.connections))

    async def updated(self, uri: str) -> None:
        """Notify the subscribers of a resource that it changed, at all workers."""
        self.tell_workers(uri)
        await self.updated_here(uri)

    async def updated_here(self, uri: str) -> None:
        """Notify those of this worker."""
        await self.bus.publish(ResourceUpdated(uri))
        subscribed = [each for each in list(self.connections) if (state := state_of(each)) and uri in state.uris]
        await self._send(each.send_resource_updated(uri) for each in subscribed)

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

    async def _send(self, notifications: Iterable[Coroutine[Any, Any, None]]) -> None:
        async def send(notification: Coroutine[Any, Any, None]) -> None:
            with anyio.move_on_after(_SEND_SECONDS):
                await notification

        async with anyio.create_task_group() as tasks:
            for each in notifications:
                tasks.start_soon(send, each)
