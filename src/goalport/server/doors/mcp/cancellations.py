"""Cancellations of calls that another server answers: `notifications/cancelled` of a session may reach any server.

The SDK cancels a call of its own program. For one that a process of another program answers, the two meet in the store,
under a key that both make of the session's ticket and the id of the request. Only processes that are stored at each
step can be reached so. `state` is above.
"""

import asyncio
import json
import logging
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any, Final

import anyio
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.errors import StoreError, UnknownName, Unreadable
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.runs import CANCELLED, Disconnect, Watch, end_for_caller
from goalport.server.publish.goal_tools import CallPolicy

_log = logging.getLogger(__name__)
_SESSION: Final = "goalport.session"
_CALL, _GIVEN_UP, _ANSWERED = "call", "cancelled", "answered"
_BRIEF: Final = 0.5
"""Seconds after which a call is written down: most calls are answered before."""
_RECENT: Final = 120.0
"""Seconds for which a cancellation counts that came before its call was written down; clocks may differ."""


def _key(session: bytes, request_id: object) -> str:
    # The SDK compares the texts of ids.
    return sha256(json.dumps([_SESSION, session.decode("latin-1"), str(request_id)]).encode()).hexdigest()


class Cancellations:
    """The calls that this program answers, and the cancellations of those that others answer."""

    def __init__(self, platform: AgentPlatform) -> None:
        self._platform = platform
        self._store = platform.store
        self._here: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @contextmanager
    def reachable(self, session: bytes | None, request_id: object, watch: Watch) -> Generator[None]:
        """The time in which a call waits for a process, so that a cancellation can reach it from any server."""
        if session is None or watch.detached or not (self._store.durable and watch.process.durable):
            yield
            return
        call = _key(session, request_id)
        answered = asyncio.Event()
        task = asyncio.create_task(self._announce(call, watch, answered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._here.add(call)
        try:
            yield
        finally:
            self._here.discard(call)
            answered.set()

    async def _announce(self, call: str, watch: Watch, answered: asyncio.Event) -> None:
        """Write the call down until it is answered, unless that is soon; end it if it was cancelled meanwhile."""
        with suppress(TimeoutError):
            await asyncio.wait_for(answered.wait(), _BRIEF)
            return
        process = watch.process.id
        try:
            kind, known = await self._store.join(call, _CALL, process)
            if kind == _GIVEN_UP and time.time() - float(known) < _RECENT:
                watch.leave()
                return
            if known != process:  # the session has used the id before
                await self._store.join(call, _CALL, process, instead_of=known)
            await answered.wait()
            await self._store.join(call, _ANSWERED, "", instead_of=process)
        except StoreError as error:
            _log.debug("A call can be cancelled at this server only: %s", error)

    async def cancel(self, session: bytes, request_id: object) -> None:
        """End the process of a call that another server answers, unless it goes on without its caller."""
        call = _key(session, request_id)
        if call in self._here or not self._store.durable:
            return
        try:
            kind, known = await self._store.join(call, _GIVEN_UP, str(time.time()))
            if kind != _CALL:
                return
            process = await self._platform.process(known)
        except (StoreError, UnknownName, Unreadable) as error:
            _log.warning("A cancelled call goes on at another server: %s", error)
            return
        if process.outcome is None and not CallPolicy.of_process(process).detached:
            end_for_caller(self._platform, process, CANCELLED)


_KEY: Final = "goalport.disconnect"
_VERSION: Final = b"mcp-protocol-version"


def disconnect_of(context: ServerRequestContext[Any, Any]) -> Disconnect | None:
    """The `Disconnect` of the current request; None where the SDK or the transport cancels the handler."""
    request = context.request
    return disconnect_in(request.scope) if isinstance(request, Request) else None


def disconnect_in(scope: Scope) -> Disconnect | None:
    """The `Disconnect` that was made for a request; None if there is none."""
    return scope.get(_KEY)


def new_disconnect(scope: Scope) -> Disconnect:
    """Make the `Disconnect` of a request and store it in its scope; the caller must watch the connection."""
    disconnect = scope[_KEY] = Disconnect()
    return disconnect


def ended_by(disconnect: Disconnect | None) -> anyio.CancelScope:
    """A cancel scope for a handler; it is cancelled when the client of its request disconnects."""
    scope = anyio.CancelScope()
    if disconnect is not None:
        disconnect.then(scope.cancel)
    return scope


class DisconnectMiddleware:
    """Watches the connection of each handshake-era POST whose scope has no `Disconnect` yet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or _KEY in scope or is_modern_request(scope):
            await self._app(scope, receive, send)
            return
        disconnect = new_disconnect(scope)
        answered = False

        async def watched_send(message: Message) -> None:
            nonlocal answered
            answered = answered or (message["type"] == "http.response.body" and not message.get("more_body", False))
            await send(message)

        async def watched_receive() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect" and not answered:
                disconnect.note()
            return message

        await self._app(scope, watched_receive, watched_send)


def is_modern_request(scope: Scope) -> bool:
    """Whether the protocol version has no sessions: there, closing the connection cancels, and the SDK watches it."""
    version = next((value for name, value in scope["headers"] if name == _VERSION), b"")
    return version.decode("latin-1") in MODERN_PROTOCOL_VERSIONS
