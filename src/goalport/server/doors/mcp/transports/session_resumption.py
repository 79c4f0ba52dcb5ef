"""Sessions that outlive their server: the ASGI middleware right before the SDK's session manager.

Outwards the id of a session is a ticket (`session_tickets`), inwards it is the id that the session manager made. If the
manager does not have the session (the server was restarted, another replica opened it, or it was idle), the middleware
opens it again with the content of the ticket: it sends the manager an `initialize` of its own. What a session gathered
since, such as subscriptions and its log level, is not in the ticket; one that has nothing of that is closed as soon as
it rests, because it would take 40 kB and a task. `common_calls`, above, answer most calls of a session without the
manager, whether it is open or not.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INTERNAL_ERROR, LoggingLevel
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.server.auth import current_principal
from goalport.server.doors.mcp.cancellations import with_session
from goalport.server.doors.mcp.session_tickets import SessionTickets
from goalport.server.doors.mcp.sessions import in_flight, is_open, with_level_noted
from goalport.server.doors.mcp.transports.jsonrpc import (
    SESSION_ID,
    answers_as_json,
    header,
    message_of,
    refusal,
    refuse,
    replayed,
    with_message,
)
from goalport.server.doors.mcp.transports.session_calls import SessionCalls

_OWN: Final[Scope] = {"type": "http", "path": "/mcp", "query_string": b""}
"""What a request has that comes from no client."""
_VERSION: Final = b"mcp-protocol-version"
_HEADERS: Final = ((b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream"))
_INITIALIZED: Final = {"jsonrpc": "2.0", "method": "notifications/initialized"}
_FULL: Final = "Too many open sessions"
_SOON: Final = 1.0
"""Seconds after which an idle session is closed early."""
_MANY: Final = 1_000
"""How many idle sessions may be open whose calls need the manager; of more, the oldest are closed early."""
_SUBSCRIBES: Final = "resources/subscribe"
"""The method of requests that a session remembers, besides that for a log level."""


@dataclass
class _Session:
    """A session that the manager has, or had until it was idle for too long."""

    inner: bytes
    """Its id in the session manager."""
    user: object
    """Whose access token opened it; the manager lets nobody else close it."""
    elicits: bool
    """Whether its client can ask a person, so that calls of goals need the manager."""
    open_requests: int = 0
    gathered: bool = False
    """Whether it has more than its ticket says."""
    log_level: LoggingLevel | None = None
    """The least severe level of the log messages that its client gets; None if it asked for none."""

    def note_level(self, level: LoggingLevel) -> None:
        """Note a log level that its client asked for, and was granted."""
        self.log_level, self.gathered = level, True


@dataclass(frozen=True, slots=True)
class KnownSession:
    """A session whose caller made a request: it is open, or its ticket would open it."""

    ticket: bytes
    elicits: bool
    """Whether its client can ask a person."""
    log_level: LoggingLevel | None = None
    """The least severe level of the log messages that its client gets; None if it asked for none."""


class _TooManySessions(Exception):
    """The manager has as many sessions as it may have, and each has an open request."""


class SessionResumption:
    """Replaces tickets by the ids of sessions, which it opens again where necessary.

    A session that has been idle for `rest_seconds`, or for less if its calls seldom need the manager, is closed: its
    client can go on, since its session is opened again. `app` is that of the `manager`, as all requests come to it.
    The manager has at most `most` sessions; for a new one beyond those, the one that has been idle longest is closed. A
    session that its client has ended is not opened again by this server. `cancel` is told of a request that a client
    has cancelled, by its ticket and its id, if it is none of `calls`; `answer` of a message that answers a request.
    """

    def __init__(
        self,
        app: ASGIApp,
        manager: StreamableHTTPSessionManager,
        tickets: SessionTickets,
        most: int,
        cancel: Callable[[bytes, object], Awaitable[None]],
        answer: Callable[[object], Awaitable[None]],
        calls: SessionCalls,
        rest_seconds: float,
    ) -> None:
        self._app = app
        self._manager = manager
        self._tickets = tickets
        self._most = most
        self._cancel, self._answer, self._calls = cancel, answer, calls
        self._sessions: dict[bytes, _Session] = {}
        self._idle: dict[bytes, float] = {}
        """The tickets of the sessions without an open request, and since when; the one longest idle first."""
        self._rest_seconds = rest_seconds
        self._opening = 0
        """How many sessions are being opened."""
        self._ended: dict[bytes, None] = {}
        """The latest tickets whose sessions were ended by their clients."""
        self._resuming = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        version, ticket = header(scope, _VERSION).decode("latin-1"), header(scope, SESSION_ID)
        if version and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
        elif ticket:
            await self._continue(ticket, scope, receive, send)
        else:
            await self._begin(scope, receive, send)

    def session_of(self, scope: Scope) -> KnownSession | None:
        """The session of a request, if its caller has it here or has a ticket that opens it."""
        ticket = header(scope, SESSION_ID)
        session = self._sessions.get(ticket)
        if session is not None and is_open(self._manager, session.inner.decode("latin-1"), scope.get("user")):
            return KnownSession(ticket, session.elicits, session.log_level)
        params = self._opened_with(ticket)
        return None if params is None else KnownSession(ticket, _elicits(params))

    @contextmanager
    def answering(self, ticket: bytes) -> Generator[None]:
        """The time in which a call of a session is answered without the manager; one that is open is not idle then."""
        session = self._sessions.get(ticket)
        if session is None:
            yield
            return
        with self._in_use(ticket, session), in_flight(self._manager, session.inner.decode("latin-1")):
            yield

    async def close_idle(self) -> None:
        """Close sessions that rest, until cancelled."""
        while True:
            await asyncio.sleep(min(_SOON, self._rest_seconds))
            now = asyncio.get_running_loop().time()
            for ticket in self._resting(now):
                # A request may have come since, while another session was closed.
                if self._idle.get(ticket, now) < now:
                    await self._close(ticket, _OWN)

    def _resting(self, now: float) -> Sequence[bytes]:
        """The tickets of sessions that have been idle for long enough and have nothing that a ticket does not say."""
        many = max(0, len(self._idle) - _MANY)
        rested, early = now - self._rest_seconds, now - min(_SOON, self._rest_seconds)
        return [
            ticket
            for number, (ticket, since) in enumerate(self._idle.items())
            if since <= (early if number < many or not self._sessions[ticket].elicits else rested)
            and not self._sessions[ticket].gathered
        ]

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request without a session; if it opens one, the client gets a ticket."""
        message = cast("Mapping[str, object]", message_of(scope) or {})
        ticket = None
        if message.get("method") == "initialize":
            ticket = self._tickets.issue(message.get("params"), current_principal())
        if ticket is None:
            await self._app(scope, receive, send)
            return
        with ExitStack() as stack:

            def opened(inner: bytes) -> None:
                session = self._add(ticket, inner, scope, message["params"])
                stack.enter_context(self._in_use(ticket, session))

            async with self._room(scope):
                await self._app(scope, receive, _Response(send, ticket, opened=opened))

    async def _continue(self, ticket: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request of a session, which is opened again if the manager does not have it."""
        first = await receive()
        try:
            session = self._sessions.get(ticket) or await self._resume(ticket, None, scope)
            response = await self._exchange(ticket, session, scope, replayed(first, receive), send)
            lost = session is not None and response.status == HTTPStatus.NOT_FOUND
            if lost and (again := await self._resume(ticket, session, scope)):
                response = await self._exchange(ticket, again, scope, replayed(first, receive), send)
        except _TooManySessions:
            await refuse(refusal(None, _FULL, INTERNAL_ERROR), scope, receive, send, HTTPStatus.SERVICE_UNAVAILABLE)
            return
        if scope["method"] == "DELETE" and response.status == HTTPStatus.OK:
            self._end(ticket)
        if response.status == HTTPStatus.ACCEPTED:
            await self._pass_on(ticket, message_of(scope))
        await response.release()  # afterwards, so that what a client sends next does not overtake it

    async def _pass_on(self, ticket: bytes, message: object) -> None:
        """Pass on what concerns a call that another server answers; the manager has done so for one of its own."""
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": str() | int() as request_id}}:
                if not self._calls.cancel(ticket, request_id):
                    await self._cancel(ticket, request_id)
            case {"result": dict()}:
                await self._answer(message)
            case _:
                return

    async def _exchange(
        self, ticket: bytes, session: _Session | None, scope: Scope, receive: Receive, send: Send
    ) -> "_Response":
        """Pass on a request under the id that the manager knows; without a session, the manager refuses the ticket."""
        response = _Response(send, ticket, (HTTPStatus.NOT_FOUND, HTTPStatus.ACCEPTED))
        if session is None:
            await self._app(scope, receive, response)
            return response
        message = cast("Mapping[str, object]", message_of(scope) or {})
        session.gathered = session.gathered or message.get("method") == _SUBSCRIBES
        headers = [(name, session.inner if name == SESSION_ID else value) for name, value in scope["headers"]]
        inner = with_level_noted(with_session({**scope, "headers": headers}, ticket), session.note_level)
        with self._in_use(ticket, session):
            await self._app(inner, receive, response)
        return response

    async def _resume(self, ticket: bytes, lost: _Session | None, scope: Scope) -> _Session | None:
        """The session of a ticket, opened again unless it was since `lost` was; None if the ticket is not valid.

        Raises `_TooManySessions`.
        """
        async with self._resuming:
            current = self._sessions.get(ticket)
            if current is not None and current is not lost:
                return current
            params = self._opened_with(ticket)
            if params is None:
                return None
            message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            async with self._room(scope):
                response = await self._send_own(_own_scope(scope, "POST"), message)
            if response.status != HTTPStatus.OK:
                raise _TooManySessions
            session = self._add(ticket, response.inner, scope, params)
            with self._in_use(ticket, session):
                await self._send_own(_own_scope(scope, "POST", session.inner), _INITIALIZED)
            return session

    def _opened_with(self, ticket: bytes) -> dict[str, Any] | None:
        """The parameters that a ticket of the caller opens its session with; None if it is not valid here."""
        return None if not ticket or ticket in self._ended else self._tickets.open(ticket, current_principal())

    @asynccontextmanager
    async def _room(self, scope: Scope) -> AsyncGenerator[None]:
        """The time in which one session is opened. For its room, the sessions that are idle longest are closed."""
        self._opening += 1
        try:
            while len(self._sessions) + self._opening > self._most and self._idle:
                await self._close(next(iter(self._idle)), scope)
            yield
        finally:
            self._opening -= 1

    async def _close(self, ticket: bytes, scope: Scope) -> None:
        """Have the manager end a session; its ticket opens it again."""
        session = self._forget(ticket)
        await self._send_own({**_own_scope(scope, "DELETE", session.inner), "user": session.user})

    async def _send_own(self, scope: Scope, message: Mapping[str, Any] | None = None) -> "_Response":
        """Send the manager a request of this middleware's own, whose response nobody else gets."""
        response = _Response(_ignore)
        body: Message = {"type": "http.request", "body": json.dumps(message).encode() if message else b""}
        with answers_as_json(wanted=False):  # the SDK's task of a session keeps the context of its first request
            await self._app(with_message(scope, message), replayed(body, _silence), response)
        return response

    def _add(self, ticket: bytes, inner: bytes, scope: Scope, params: object) -> _Session:
        session = self._sessions[ticket] = _Session(inner, scope.get("user"), _elicits(params))
        self._idle[ticket] = asyncio.get_running_loop().time()
        return session

    @contextmanager
    def _in_use(self, ticket: bytes, session: _Session) -> Generator[None]:
        """The time in which a request of the session is open, so that it is not idle."""
        session.open_requests += 1
        self._idle.pop(ticket, None)
        try:
            yield
        finally:
            session.open_requests -= 1
            if session.open_requests == 0 and self._sessions.get(ticket) is session:
                self._idle[ticket] = asyncio.get_running_loop().time()

    def _forget(self, ticket: bytes) -> _Session:
        self._idle.pop(ticket, None)
        return self._sessions.pop(ticket)

    def _end(self, ticket: bytes) -> None:
        """Forget a session that its client has ended, and refuse its ticket from now on."""
        if ticket in self._sessions:
            self._forget(ticket)
        self._calls.terminate(ticket)
        self._ended[ticket] = None
        if len(self._ended) > self._most:
            del self._ended[next(iter(self._ended))]


class _Response:
    """A `send` that puts the ticket in place of the session's id, and withholds a response with some statuses.

    It calls `opened` with the id of the session that a successful response names.
    """

    def __init__(
        self,
        send: Send,
        ticket: bytes | None = None,
        withhold: Collection[int] = (),
        opened: Callable[[bytes], None] | None = None,
    ) -> None:
        self.status = 0
        self.inner = b""
        self.withheld: list[Message] = []
        self._send = send
        self._ticket = ticket
        self._withhold = withhold
        self._opened = opened

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            message = self._begun(message)
        if self.status in self._withhold:
            self.withheld.append(message)
        else:
            await self._send(message)

    async def release(self) -> None:
        """Send what was withheld."""
        for message in self.withheld:
            await self._send(message)

    def _begun(self, message: Message) -> Message:
        self.status = message["status"]
        self.inner = header(message, SESSION_ID)
        if not self.inner:
            return message
        if self._opened is not None and self.status == HTTPStatus.OK:
            self._opened(self.inner)
        outer = self._ticket or self.inner
        headers = [(name, outer if name == SESSION_ID else value) for name, value in message["headers"]]
        return {**message, "headers": headers}


def _own_scope(scope: Scope, method: str, session: bytes = b"") -> Scope:
    """The scope of a request to the manager in the name of the client of `scope`."""
    headers = [*_HEADERS, (SESSION_ID, session)] if session else list(_HEADERS)
    return {**scope, "method": method, "headers": headers}


def _elicits(params: object) -> bool:
    """Whether a session that is opened with these parameters has a client that can ask a person."""
    return "elicitation" in cast("Mapping[str, Any]", params)["capabilities"]


async def _silence() -> Message:
    """Receive nothing more, and no disconnect: the response is awaited in any case."""
    await anyio.sleep_forever()
    raise AssertionError


async def _ignore(_: Message) -> None:
    """Send nothing."""
