"""The session that a request belongs to: its connection, protocol era and log level.

The SDK has no public way to some of these. Its private attributes are used in this module, and for stdin in
`transports.stdio`, and nowhere else.
"""

import secrets
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import LOG_LEVEL_META_KEY, ElicitRequest, ElicitResult, LoggingLevel
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

_STATE: Final = "goalport.session"


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


def connection_of(context: ServerRequestContext[Any, Any]) -> Connection:
    """The connection that a request came over; it outlives the request only in the handshake era."""
    return context.session._connection  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no public way to it


def is_modern(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the protocol version of the request has no handshake and no sessions."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


async def ask_client(context: ServerRequestContext[Any, Any], request: ElicitRequest, request_id: str) -> ElicitResult:
    """Ask the client in the middle of its call, by a request with this id.

    Raises `MCPError` where the client answers with an error, and `ValidationError` where it answers with nonsense.
    """
    data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
    outbound = context.session._request_outbound  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - `send_request` takes no id
    answer = await outbound.send_raw_request(data["method"], data["params"], {"request_id": request_id})
    return ElicitResult.model_validate(answer, by_name=False)


def progress_wanted(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client asked for progress: by a progress token, or by a callback if it is in this process."""
    if context.meta is not None and "progress_token" in context.meta:
        return True
    outbound = context.session._request_outbound  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - see the docstring
    inner = cast("object", getattr(outbound, "_inner", outbound))
    return getattr(inner, "_on_progress", None) is not None


def log_level_of(context: ServerRequestContext[Any, Any]) -> LoggingLevel | None:
    """The least severe level of the log messages that the client gets; None if it asked for none."""
    if is_modern(context):
        return cast("LoggingLevel | None", (context.meta or {}).get(LOG_LEVEL_META_KEY))
    state = state_of(connection_of(context))
    return None if state is None else state.log_level


async def send_log(session: ServerSession, level: LoggingLevel, text: str, request_id: str | int | None) -> None:
    """Send one log message that belongs to a request."""
    with without_deprecations():
        sending = session.send_log_message(level, text, "goalport", request_id)  # pyright: ignore[reportDeprecated]
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
