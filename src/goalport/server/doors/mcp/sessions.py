"""The session that a request belongs to: its connection, protocol era and log level.

The SDK has no public way to some of these. Its private attributes are used in this module, and for stdin in
`transports.stdio`, and nowhere else.
"""

import math
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, cast

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import LOG_LEVEL_META_KEY, ElicitRequest, ElicitResult, LoggingLevel
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Scope

_LOG_LEVEL = "goalport.log_level"
_NOTE_LEVEL: Final = "goalport.note_log_level"


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


def set_log_level(context: ServerRequestContext[Any, Any], level: LoggingLevel) -> None:
    """Set the least severe level of the log messages that this connection gets."""
    connection_of(context).state[_LOG_LEVEL] = level
    request = cast("object", context.request)
    if isinstance(request, Request) and _NOTE_LEVEL in request.scope:
        request.scope[_NOTE_LEVEL](level)


def with_level_noted(scope: Scope, note: Callable[[LoggingLevel], None]) -> Scope:
    """A copy of the scope of a request, by which `note` is called with the log level that the request sets."""
    return {**scope, _NOTE_LEVEL: note}


def log_level_of(context: ServerRequestContext[Any, Any]) -> LoggingLevel | None:
    """The least severe level of the log messages that the client gets; None if it asked for none."""
    if is_modern(context):
        return cast("LoggingLevel | None", (context.meta or {}).get(LOG_LEVEL_META_KEY))
    return connection_of(context).state.get(_LOG_LEVEL)


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


def is_open(manager: StreamableHTTPSessionManager, session_id: str, user: object) -> bool:
    """Whether a session is open and the manager would take a request of this user in it."""
    transport = manager._server_instances.get(session_id)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no public way
    owner = manager._session_owners.get(session_id)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    if transport is None or owner != (authorization_context(user) if isinstance(user, AuthenticatedUser) else None):
        return False
    ending = transport.idle_scope is not None and transport.idle_scope.cancel_called
    return not (ending or transport.is_terminated)


@contextmanager
def in_flight(manager: StreamableHTTPSessionManager, session_id: str) -> Generator[None]:
    """The time in which a request of a session is answered without its transport, so that the session is not idle."""
    transport = manager._server_instances.get(session_id)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    if transport is None:
        yield
        return
    # As the transport itself does it.
    idle = transport.idle_scope
    transport._requests_in_flight += 1  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    if idle is not None:
        idle.deadline = math.inf
    try:
        yield
    finally:
        transport._requests_in_flight -= 1  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        busy, timeout = transport._requests_in_flight, transport._idle_timeout  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        if idle is not None and timeout is not None and not busy:
            idle.deadline = anyio.current_time() + timeout
