"""Sessions of the handshake era, whose ids hold the params of `initialize`, so that any server can serve them.

The id of a session is a ticket, as in TLS: state that a server encrypts and the client stores. It grants no rights,
since each request is authenticated by itself. The SDK answers each request on a new connection (`Exchange`), set up
from the ticket, so any server with the keys can answer it. The log level and the subscriptions of a session are kept in
memory, and sent to the other workers of the server. A message about another request of the session, such as an answer
or a cancellation, is passed on to that request.
"""

import hmac
import json
import time
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from http import HTTPStatus
from secrets import token_hex
from typing import Any, Final, cast

import anyio
from mcp.server.connection import Connection
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp.server.runner import serve_connection
from mcp.server.streamable_http import REQUEST_CANCELLED, StreamableHTTPServerTransport
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import INTERNAL_ERROR, InitializeRequestParams, JSONRPCError, RequestId
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from goalport.server.auth import Principal, current_principal
from goalport.server.doors.mcp.elicitation import take_from_elsewhere
from goalport.server.doors.mcp.jsonrpc import (
    SESSION_ID,
    error_response,
    header,
    message_of,
    refusal,
    takes_json,
)
from goalport.server.doors.mcp.notifications import STATE, SessionState, number_requests_apart
from goalport.server.doors.mcp.server import GoalServer
from goalport.server.doors.mcp.state import McpState

_MOST: Final = 2_048
"""The longest ticket in characters. Proxies allow 4 KiB to 8 KiB for a header; common clients need 200 to 400."""
_MOST_CONTENT: Final = 4_096
"""The most characters in a ticket before compression; decrypted tickets are cached."""
_IDENTITY: Final = ("name", "title", "version")
"""The fields of `clientInfo` that a ticket holds; others, such as icons, may be long."""
_RECENT: Final = 1_000
"""The number of decrypted tickets that are cached: each call of a session opens its ticket."""
_UNNAMED: Final = {"name": "", "version": ""}
"""Replaces the client info if a ticket would be too long; the client then counts as one without capabilities."""
_PURPOSE: Final = "goalport session ticket 1"


class SessionTickets:
    """Issues and opens tickets. Servers with the same `keys` and `name` share them; the first key encrypts.

    The encryption keys are derived from `keys`, `name` and the principal. So a ticket of another principal, or of a
    server with another name, cannot be decrypted.
    """

    def __init__(self, keys: Sequence[bytes], name: str, ttl_seconds: float) -> None:
        self._keys, self._name, self._ttl_seconds = keys, name, ttl_seconds
        self._content = lru_cache(maxsize=_RECENT)(self._decrypted)

    def issue(self, params: object, principal: Principal | None) -> bytes | None:
        """A ticket for a session opened by `initialize` with `params`; None if they are invalid."""
        try:
            opened = InitializeRequestParams.model_validate(params, by_name=False)
        except ValidationError:
            return None
        requested, given = opened.protocol_version, cast("dict[str, Any]", params)
        agreed = requested if requested in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        client = {name: given["clientInfo"][name] for name in _IDENTITY if name in given["clientInfo"]}
        known = [int(time.time()), agreed, client, given["capabilities"]]
        for content in (known, [*known[:2], _UNNAMED, {}]):
            text = json.dumps(content, separators=(",", ":"))
            if len(text) <= _MOST_CONTENT:
                ticket = self._codec(principal).seal(zlib.compress(text.encode()))
                if len(ticket) <= _MOST:
                    return ticket.encode()
        return None

    def open(self, ticket: bytes, principal: Principal | None) -> InitializeRequestParams | None:
        """The `initialize` params of the session; None if the ticket is expired, or belongs to another principal.

        A revision that this server no longer speaks counts as expired: the client has to agree on another one.
        """
        if len(ticket) > _MOST:
            return None
        try:
            issued, params = self._content(ticket, principal)
        except InvalidRequestState:
            return None
        expired = time.time() > issued + self._ttl_seconds or params.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS
        return None if expired else params

    def _decrypted(self, ticket: bytes, principal: Principal | None) -> tuple[float, InitializeRequestParams]:
        """When a session was opened (seconds since 1970), and its params. Raises `InvalidRequestState`."""
        issued, agreed, client, capabilities = json.loads(
            zlib.decompress(self._codec(principal).unseal(ticket.decode("latin-1")))
        )
        given = {"protocolVersion": agreed, "clientInfo": client, "capabilities": capabilities}
        return issued, InitializeRequestParams.model_validate(given, by_name=False)

    def _codec(self, principal: Principal | None) -> AESGCMRequestStateCodec:
        bound = json.dumps([_PURPOSE, self._name, principal]).encode()
        return AESGCMRequestStateCodec([hmac.digest(key, bound, "sha256") for key in self._keys])


_CANCELLED, _PROGRESS = "notifications/cancelled", "notifications/progress"
_TERMINATED: Final = "Session terminated before the request completed"


@dataclass(eq=False, slots=True)
class OpenCall:
    """A call that is answered without the SDK; cancelling `scope` ends it."""

    request_id: RequestId
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    refusal: JSONRPCError | None = None
    """The error to respond with, the same as the SDK's; None if nobody has ended the call."""
    terminated: bool = False
    """Whether the session was ended in the middle of the call."""

    async def take(self, message: Mapping[str, Any]) -> None:
        """Cancel the call if the message says so; other messages are ignored."""
        if message.get("method") == _CANCELLED:
            self.refusal = refusal(self.request_id, "Request cancelled", REQUEST_CANCELLED)
            self.scope.cancel()

    async def terminate(self) -> None:
        """End the call, as the client has ended the session."""
        self.refusal, self.terminated = refusal(self.request_id, _TERMINATED, INTERNAL_ERROR), True
        self.scope.cancel()


@dataclass(eq=False, slots=True)
class Session:
    """A session as this server knows it."""

    ticket: bytes
    params: InitializeRequestParams | None = None
    """The params of `initialize`; None until this worker gets a request of the session."""
    state: SessionState = field(default_factory=SessionState)
    requests: "dict[str, OpenCall | Exchange]" = field(default_factory=dict[str, "OpenCall | Exchange"])
    """The open requests by the texts of their ids, since the SDK treats "7" and 7 as one id."""
    stream: "Exchange | None" = None
    """The GET stream, for messages that belong to no request; None if none is open at this worker."""

    @property
    def elicits(self) -> bool:
        """Whether the client can ask a person (elicitation)."""
        return self.params is not None and self.params.capabilities.elicitation is not None

    @property
    def open_requests(self) -> "list[OpenCall | Exchange]":
        """The requests of the session that are open at this worker, and its stream."""
        return [*self.requests.values(), *([self.stream] if self.stream else [])]

    @contextmanager
    def opened(self, request_id: RequestId | None, request: "OpenCall | Exchange") -> Generator[None]:
        """A context in which a request counts as open; a notification, which has no id, does not."""
        if request_id is not None:
            self.requests[str(request_id)] = request
        try:
            yield
        finally:
            if request_id is not None:
                del self.requests[str(request_id)]

    async def take(self, message: Mapping[str, Any]) -> bool:
        """Pass a message to the open requests that it may concern; False if this worker has none of them."""
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": str() | int() as cancelled}}:
                found = [each] if (each := self.requests.get(str(cancelled))) else []
            case _:
                found = self.open_requests
        for each in found:
            await each.take(message)
        return bool(found)


class Sessions:
    """The sessions of a server. It stores log level and subscriptions of at most `max_sessions` of them."""

    def __init__(self, server: GoalServer, state: McpState) -> None:
        self._server, self._state = server, state
        settings = state.settings
        self._tickets = SessionTickets(state.keys, settings.name, settings.state_ttl_seconds)
        self._most = settings.max_sessions
        self._known: dict[bytes, Session] = {}
        """The sessions by ticket, least recently used first."""
        self._ended: dict[bytes, None] = {}
        """The tickets of the sessions that clients ended last, which are refused."""
        self.send_to_workers: Callable[[Mapping[str, Any]], None] = lambda _: None
        """Sends a message to the other workers of this server, which pass it to `receive_from_worker`."""

    def of(self, scope: Scope) -> Session | None:
        """The session that a request names; None if it names none, or one that has ended or is another caller's."""
        ticket = header(scope, SESSION_ID)
        params = None if not ticket or ticket in self._ended else self._tickets.open(ticket, current_principal())
        if params is None:
            return None
        session = self._session(ticket)
        session.params = params
        return session

    async def answer(self, session: Session, scope: Scope, receive: Receive, send: Send, *, as_json: bool) -> None:
        """Answer a request of a session, as an event stream, or with `as_json` as one JSON body."""
        message, headers = message_of(scope), {SESSION_ID.decode(): session.ticket.decode()}
        exchange = Exchange(self._server, self._state, session.ticket, session, as_json=as_json)
        match scope["method"]:
            case "GET" if session.stream is not None:
                await session.stream.transport.handle_request(scope, receive, send)  # it refuses another stream
            case "GET":
                session.stream = exchange
                try:
                    await exchange.serve(scope, receive, send)
                finally:
                    session.stream = None
            case "DELETE":
                self._notify_workers(session, ended=True)
                await self._end(session)
                await Response(headers=headers, media_type="application/json")(scope, receive, send)
            # An answer, a cancellation, or progress of an answer: it concerns other requests of the session.
            case "POST" if message.get("method", _CANCELLED) in {_CANCELLED, _PROGRESS} and takes_json(scope):
                is_here = await session.take(message)
                self._notify_workers(session, message=message)
                match message:  # other servers may have these requests
                    case {"method": "notifications/cancelled", "params": {"requestId": str() | int() as request_id}}:
                        if not is_here:
                            await self._state.cancellations.cancel(session.ticket, request_id)
                    case {"result": dict()}:
                        await take_from_elsewhere(self._state, message)
                    case _:
                        pass
                # Respond last, so that the next message of the client cannot overtake this one.
                accepted = Response(status_code=HTTPStatus.ACCEPTED, headers=headers, media_type="application/json")
                await accepted(scope, receive, send)
            case _:
                with session.opened(message.get("id"), exchange):
                    await exchange.serve(scope, receive, send)

    async def begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request without a valid session; `initialize` gets a ticket."""
        if header(scope, SESSION_ID):
            answer = error_response(refusal(None, "Session not found"), HTTPStatus.NOT_FOUND)
            await answer(scope, receive, send)
            return
        message, ticket = message_of(scope), None
        if message.get("method") == "initialize":
            ticket = self._tickets.issue(message.get("params"), current_principal())
        exchange = Exchange(self._server, self._state, ticket or token_hex(16).encode(), None)
        await exchange.serve(scope, receive, send)

    async def receive_from_worker(self, message: Mapping[str, Any]) -> None:
        """Handle a message of another worker."""
        ticket = message["session"].encode()
        if from_client := message.get("message"):
            if ticket in self._known:
                await self._known[ticket].take(from_client)
        elif message.get("ended"):
            await self._end(self._session(ticket))
        else:
            state = self._session(ticket).state
            state.log_level = message["level"]
            self._state.notifications.subscribe(state.uris, message["uris"])

    def _session(self, ticket: bytes) -> Session:
        """The session of a ticket, marked as used. To make room, the least recently used idle session is dropped."""
        session = self._known.pop(ticket, None)
        if session is None:
            session = new = Session(ticket)
            state = session.state
            state.on_change = lambda: self._notify_workers(new, level=state.log_level, uris=[*state.uris])
            if len(self._known) >= self._most:
                resting = next((each for each in self._known.values() if not each.open_requests), None)
                if resting is not None:
                    self._forget(resting)
        self._known[ticket] = session
        return session

    def _notify_workers(self, session: Session, **fields: object) -> None:
        self.send_to_workers({"session": session.ticket.decode(), **fields})

    def _forget(self, session: Session) -> None:
        self._known.pop(session.ticket, None)
        self._state.notifications.subscribe(session.state.uris, ())

    async def _end(self, session: Session) -> None:
        """End a session as its client wants, and refuse its ticket from now on."""
        self._forget(session)
        self._ended[session.ticket] = None
        if len(self._ended) > self._most:
            del self._ended[next(iter(self._ended))]
        for each in session.open_requests:
            await each.terminate()


class Exchange:
    """One request, of a session or to open one, that the SDK answers on a new connection."""

    def __init__(
        self, server: GoalServer, state: McpState, ticket: bytes, session: Session | None, *, as_json: bool = False
    ) -> None:
        self._server, self._state, self._session = server, state, session
        self._ticket, self._as_json = ticket, as_json
        self.transport = StreamableHTTPServerTransport(ticket.decode(), is_json_response_enabled=as_json)
        self._terminated = False
        self.dispatcher: JSONRPCDispatcher[TransportContext] | None = None

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""

        async def answer(message: Message) -> None:
            if not (self._terminated and self._as_json):
                await send(message)

        async with self.transport.connect() as (incoming, outgoing), anyio.create_task_group() as tasks:
            self.dispatcher = JSONRPCDispatcher(incoming, outgoing, inline_methods=frozenset({"initialize"}))
            number_requests_apart(self.dispatcher)
            connection = self._connection(self.dispatcher, is_stream=scope["method"] == "GET")
            serving = partial(serve_connection, connection=connection, lifespan_state=self._state)
            await tasks.start(serving, self._server, self.dispatcher)
            try:
                await self.transport.handle_request(scope, receive, answer)
            finally:
                with anyio.CancelScope(shield=True):
                    await self.transport.terminate()
        if self._terminated and self._as_json:
            # The SDK would respond with status 500 and no id: clients could not tell which of their calls has ended.
            ended = refusal(message_of(scope).get("id"), _TERMINATED, INTERNAL_ERROR)
            await error_response(ended, HTTPStatus.OK, self._ticket)(scope, receive, send)

    def _connection(self, dispatcher: JSONRPCDispatcher[TransportContext], *, is_stream: bool) -> Connection:
        session = self._session
        if session is None:
            return Connection.for_loop(dispatcher)
        assert session.params is not None
        outbound = dispatcher if is_stream else _StreamOutbound(session)
        connection = Connection.for_loop(outbound, session_id=self._ticket.decode())
        connection.client_params, connection.protocol_version = session.params, session.params.protocol_version
        connection.initialized.set()
        connection.state[STATE] = session.state
        if is_stream:
            self._state.notifications.connections.add(connection)
        return connection

    async def take(self, message: Mapping[str, Any]) -> None:
        """Pass the SDK a cancellation, or an answer to a request that it has sent to the client; others are ignored."""

        async def receive() -> Message:
            return {"type": "http.request", "body": json.dumps(message).encode()}

        async def ignore(_: Message) -> None:
            """Send nothing."""

        headers = [(b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream")]
        scope: Scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b""}
        scope["headers"] = [*headers, (SESSION_ID, self._ticket)]
        await self.transport.handle_request(scope, receive, ignore)

    async def terminate(self) -> None:
        """End the request, as the client has ended the session."""
        self._terminated = True
        await self.transport.terminate()


@dataclass(frozen=True, slots=True)
class _StreamOutbound:
    """Sends messages that belong to no request on the GET stream of the session, if this worker has it."""

    session: Session

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        dispatcher = self.session.stream and self.session.stream.dispatcher
        if dispatcher is None:
            raise NoBackChannelError(method)
        return await dispatcher.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        if dispatcher := self.session.stream and self.session.stream.dispatcher:
            await dispatcher.notify(method, params, opts)
