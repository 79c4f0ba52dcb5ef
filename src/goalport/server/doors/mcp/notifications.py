"""Notifications about lists and resources, and the sessions whose clients asked for them.

Handshake-era clients get them over their open connections, later clients over the streams that they opened with
`subscriptions/listen`. This module does not know what caused a change; `state` owns the `Notifications` of a server.
The SDK has no public access to the connection and the dispatcher of a request. Its private attributes are used in this
module, and for stdin in `stdio`, and nowhere else.
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

STATE: Final = "goalport.session"
"""The key in `Connection.state` of the `SessionState` of its session."""
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
    """What the client of a session has asked for since `initialize`."""

    log_level: LoggingLevel | None = None
    """The least severe level of the log messages that the client gets; None if it asked for none."""
    uris: set[str] = field(default_factory=set[str])
    """The URIs of the resources that the client has subscribed to."""
    on_change: Callable[[], None] = lambda: None
    """Called when the client has changed its log level or its subscriptions."""


def connection_of(context: Request) -> Connection:
    """The connection that a request came over; it outlives the request only in the handshake era."""
    return context.session._connection  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no public way to it


def is_modern(context: Request) -> bool:
    """Whether the protocol version of the request has no handshake and no sessions."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


async def ask_client(context: Request, request: ElicitRequest, request_id: str) -> ElicitResult:
    """Send the client an elicitation request with this id, in the middle of its call.

    Raises `MCPError` if the client answers with an error, and `ValidationError` if its answer is no `ElicitResult`.
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
    state: SessionState | None = connection_of(context).state.get(STATE)
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
    """Start the ids of requests to the client at a random number, to differ from other dispatchers of its session."""
    dispatcher._next_id = secrets.randbits(31) << 16  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no public way


class Notifications:
    """The clients that want to be notified of changes, and the functions that notify them."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.watched: Counter[str] = Counter()
        """The number of subscribers by the URI of the resource."""
        self.connections: WeakSet[Connection] = WeakSet()
        """The open connections of handshake-era clients on which they can be notified."""
        self.send_to_workers: Callable[[str], None] = lambda _: None
        """Tells the other workers of this server which resource has changed."""
        self._pending: set[str] = set()
        self._notifying: asyncio.Task[None] | None = None

    def session_of(self, context: Request) -> SessionState:
        """The state of the session of a request. If the connection itself is the session, its state is created here."""
        connection = connection_of(context)
        if STATE not in connection.state:
            state = connection.state[STATE] = SessionState()
            self.connections.add(connection)
            connection.exit_stack.callback(partial(self.subscribe, state.uris, ()))
        return connection.state[STATE]

    def subscribe(self, uris: set[str], to: Iterable[str]) -> None:
        """Replace the subscriptions of one subscriber, the set `uris`, by the URIs in `to`."""
        wanted = set(to)
        self.watched.update(wanted - uris)
        for uri in uris - wanted:
            self.watched[uri] -= 1
            if self.watched[uri] <= 0:
                del self.watched[uri]  # clients make up URIs
        uris.clear()
        uris.update(wanted)

    async def announce(self, *kinds: ListKind) -> None:
        """Notify all clients that the lists of these kinds changed."""
        for kind in kinds:
            await self.bus.publish(_LISTS[kind][0])
        connections = list(self.connections)
        await self._send(partial(_LISTS[kind][1], each) for kind in kinds for each in connections)

    async def updated(self, uri: str, *, here_alone: bool = False) -> None:
        """Notify the subscribers of a resource that it changed, at all workers, or with `here_alone` at this one."""
        if not here_alone:
            self.send_to_workers(uri)
        await self.bus.publish(ResourceUpdated(uri))
        states = ((each, cast("SessionState | None", each.state.get(STATE))) for each in list(self.connections))
        subscribed = [each for each, state in states if state and uri in state.uris]
        await self._send(partial(each.send_resource_updated, uri) for each in subscribed)

    def mark(self, uri: str) -> None:
        """Notify the subscribers of a resource soon, without awaiting; several marks become one notification."""

        async def notify() -> None:
            while self._pending:
                await self.updated(self._pending.pop())

        if self.watched[uri] > 0:
            self._pending.add(uri)
            if self._notifying is None or self._notifying.done():
                self._notifying = asyncio.get_running_loop().create_task(notify())

    async def _send(self, notifications: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        with anyio.move_on_after(_SEND_SECONDS):
            async with anyio.create_task_group() as tasks:
                for each in notifications:
                    tasks.start_soon(each)
