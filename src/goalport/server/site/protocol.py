"""HTTP connections with the limits that uvicorn lacks: of headers, of time, and of connections from one address.

uvicorn's parser buffers a header until its end and copies it with each piece that arrives, so one client could block
the server for all others. A connection is checked when data arrives, and once a second by `LimitedServer`. This module
does not look at what requests mean; `listener` is above.
"""

import logging
import sys
from asyncio import AbstractEventLoop, BaseTransport, Transport, get_running_loop, sleep
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal, cast

import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from goalport.base.hosts import source_of
from goalport.base.observe import RareLog
from goalport.server.auth.authentication import PEER
from goalport.workspace.settings import Settings

RETRY_SECONDS: Final = 10
"""Seconds after which a client may try again that was refused because there were too many connections."""
_MOST: Final = 10_000
_FEWEST_SPARE: Final = 32
_SPARE: Final = 1 / 8
"""The share of the file descriptors that is kept free for files, databases and upstream servers."""
_OF_ONE_ADDRESS: Final = 3 / 4
_NEARLY_ALL: Final = 0.9


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of connections, of request headers and of waiting for a client."""

    header_bytes: int
    header_lines: int
    header_seconds: float
    """The most seconds from the connection, or the first byte of a later request, to the end of its headers."""
    stall_seconds: float
    """The most seconds without a byte of a request body received, or of a response read by the client."""
    connections: int
    of_one_address: int
    descriptors: int
    """The most files and sockets that this process may have open."""

    @classmethod
    def of(cls, settings: Settings) -> "ConnectionLimits":
        """The limits of these settings; a number of connections of 0 is derived from the limit of descriptors."""
        descriptors = _descriptors()
        fitting = min(_MOST, descriptors - max(_FEWEST_SPARE, int(descriptors * _SPARE)))
        connections = settings.max_connections or max(1, fitting)
        return cls(
            header_bytes=settings.max_header_bytes,
            header_lines=settings.max_header_lines,
            header_seconds=settings.header_seconds,
            stall_seconds=settings.stall_seconds,
            connections=connections,
            of_one_address=settings.max_connections_per_address or max(1, int(connections * _OF_ONE_ADDRESS)),
            descriptors=descriptors,
        )


class Connections:
    """The open connections of one server."""

    def __init__(self, limits: ConnectionLimits, note_refusal: Callable[[str], None] = lambda _: None) -> None:
        """`note_refusal` is called with the name of the setting that refuses a connection."""
        self.limits = limits
        self._note_refusal = note_refusal
        self._open: Counter[str] = Counter()
        self._total = 0
        self.rare_log = RareLog()
        self.ending = False
        """Whether the server shuts down, so that each connection ends with its next answer."""
        self.refusing = False
        """Whether it has closed what requests need, so that those which still come are refused."""

    def admit(self, address: str, descriptor: int) -> bool:
        """Count a connection from this address with this file descriptor; False, uncounted, if there are too many."""
        source, limits = source_of(address), self.limits
        # The system assigns the lowest free descriptor, so its number approximates how many are in use.
        if descriptor >= _NEARLY_ALL * limits.descriptors:
            text = (
                "File descriptors run short: %d of %d are in use. Raise the limit (ulimit -n), or end what takes them."
            )
            self.rare_log.log(_log.warning, "descriptors", text, descriptor, limits.descriptors)
        if self._total >= limits.connections:
            text = "Refused a connection from %s: %d are open, as many as may be (max_connections)."
            self.rare_log.log(_log.warning, "refused", text, address, self._total)
            self._note_refusal("max_connections")
            return False
        if self._open[source] >= limits.of_one_address:
            text = "Refused a connection from %s: it has %d open, as many as it may (max_connections_per_address)."
            self.rare_log.log(_log.warning, "address", text, address, self._open[source])
            self._note_refusal("max_connections_per_address")
            return False
        self._open[source] += 1
        self._total += 1
        if self._total >= _NEARLY_ALL * limits.connections:
            self.rare_log.log(
                _log.warning,
                "nearly",
                "%d of %d connections are open (max_connections).",
                self._total,
                limits.connections,
            )
        return True

    @property
    def number(self) -> int:
        """How many are open."""
        return self._total

    def forget(self, address: str) -> None:
        """No longer count a connection that was admitted and is closed."""
        source = source_of(address)
        self._total -= 1
        self._open[source] -= 1
        if not self._open[source]:
            del self._open[source]


def _descriptors() -> int:
    """The most files and sockets that this process may have open."""
    if sys.platform == "win32":
        return _MOST + _FEWEST_SPARE
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2 * _MOST if soft == resource.RLIM_INFINITY else soft


_log = logging.getLogger(__name__)
_MOST_PIPELINED: Final = 64
"""The most pipelined requests of one connection that may wait for earlier ones to be answered."""
_BUFFERED: Final = 32 * 1024
"""The bytes that wait for a client that reads slowly. A writer pauses above them, after the piece that it has begun."""
LINGER_SECONDS: Final = 1.0
"""Seconds for which an idle connection stays open when the server shuts down."""
_BODY_SECONDS: Final = 2.0
"""Seconds for which a server that shuts down waits for the next piece of a body."""
_LINGER_STEP: Final = 0.05
"""Seconds between two looks at whether connections stay open."""
TICKS: Final = 10
"""The number of uvicorn's ticks in a second."""
_FORWARDED: Final = frozenset({b"x-forwarded-for", b"x-forwarded-proto"})
"""What uvicorn's middleware for proxies reads: it is entered only for requests that have one of these."""
_SHUTTING_DOWN: Final[Any] = PlainTextResponse(
    "The server is shutting down. Try again.\n", HTTPStatus.SERVICE_UNAVAILABLE, {"retry-after": str(RETRY_SECONDS)}
)
"""The answer to requests that come when it is too late to begin one."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection, with the limits of `connections`, which also counts it."""

    # An object with more than thirty attributes in its `__dict__` is slower to access, so these are slots.
    __slots__ = (
        "_admitted",
        "_answered",
        "_connections",
        "_due",
        "_ending",
        "_header_bytes",
        "_limits",
        "_since",
        "_unsent",
        "_unsent_since",
    )

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._connections = connections
        self._limits = connections.limits
        self._admitted = False
        self._due: Literal["headers", "body"] | None = "headers"
        """What the client has to send next; None while it waits for the server."""
        self._since = self.loop.time()
        """The time at which the headers began or the last piece of a body arrived, on the event loop's clock."""
        self._header_bytes = 0
        """The number of bytes of unfinished headers: those received since the last headers or piece of a body."""
        self._answered: RequestResponseCycle | None = None
        """The request that is being answered; `cycle` is the one that arrived last."""
        self._unsent = 0
        self._unsent_since = 0.0
        self._ending = False
        """Whether the server shuts down, so that the connection ends with the next answer."""

    def connection_made(self, transport: BaseTransport) -> None:
        """Refuse a connection at once with status 503 if there are too many."""
        super().connection_made(cast("Transport", transport))
        cast("Transport", transport).set_write_buffer_limits(high=_BUFFERED)
        self.transport = GatheredWrites(self.transport, self.loop)
        descriptor = transport.get_extra_info("socket").fileno()
        self._admitted = self._connections.admit(self._address, descriptor)
        if not self._admitted:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, f"retry-after: {RETRY_SECONDS}\r\n")
        elif self._connections.ending:  # it was accepted just before the listening socket was closed
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """No longer count it, and notify the request that is being answered, even if pipelined requests wait."""
        if self._admitted:
            self._connections.forget(self._address)
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data in pieces of at most what is left of `header_bytes`, and refuse headers that exceed it."""
        if self._due != "headers":
            self._since = self.loop.time()
            self._due = self._due or "headers"
        room = self._limits.header_bytes - self._header_bytes
        while len(data) >= room and not self.transport.is_closing():
            piece, data = data[:room], data[room:]
            self._parse(piece)
            if not (room := self._limits.header_bytes - self._header_bytes):
                self._refuse_headers()
        if data and not self.transport.is_closing():
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        before = self.cycle
        self._header_bytes += len(data)
        super().data_received(data)
        if self.cycle is not before:
            self._due = "body" if self.cycle.more_body else None
            if len(self.pipeline) > _MOST_PIPELINED:
                self.transport.close()
        if len(self.headers or ()) > self._limits.header_lines:
            self._refuse_headers()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Called by uvicorn when the headers of a request are complete and earlier requests are answered."""
        if cycle.more_body:
            self._header_bytes, self._due = 0, "body"
        if len(cast("list[object]", cycle.scope["headers"])) > self._limits.header_lines:
            self._refuse_headers()
        else:
            self._answered = cycle
            cycle.keep_alive = cycle.keep_alive and not self._ending
            cast("dict[str, object]", cycle.scope)[PEER] = self._address
            if isinstance(app, ProxyHeadersMiddleware) and not any(n in _FORWARDED for n, _ in cycle.scope["headers"]):
                app = app.app
            super()._start_asgi_task(cycle, _SHUTTING_DOWN if self._connections.refusing else app)

    def shutdown(self) -> None:
        """Called by uvicorn when the server shuts down; a request that is on its way to it is still answered.

        A proxy that uses the connection again may be sending one just now, and would answer 502 if it was closed.
        """
        self._ending = True
        if self.is_answering:
            super().shutdown()
        else:
            self.loop.call_later(LINGER_SECONDS, self._end_lingering)

    def _end_lingering(self) -> None:
        if self.is_lingering:
            self.transport.close()

    @property
    def is_lingering(self) -> bool:
        """Whether the server shuts down and waits for one more request on this connection."""
        return self._ending and not self.is_answering and not self.transport.is_closing()

    def on_body(self, body: bytes) -> None:
        """Called by the parser with a piece of a request body."""
        self._header_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called by the parser at the end of a request."""
        self._header_bytes = 0
        self._due = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn when the parser finds an invalid request."""
        self._refuse(HTTPStatus.BAD_REQUEST, text=msg)

    def check(self, now: float) -> None:
        """Answer 408 and close if the client exceeded a time limit; `now` is on the event loop's clock."""
        if self.flow.write_paused or self.transport.is_closing():
            unsent, seconds = self.transport.get_write_buffer_size(), self._limits.stall_seconds
            if not self._unsent or unsent < self._unsent:
                self._unsent, self._unsent_since = unsent, now
            elif now - self._unsent_since > seconds:
                self._log("reading", "nothing was read of an answer for %g s (stall_seconds)", seconds)
                self.transport.abort()
        elif self._unsent:
            self._unsent = 0
        if self._due is None or self.transport.is_closing():
            return
        seconds = self._limits.header_seconds if self._due == "headers" else self._limits.stall_seconds
        if self.flow.read_paused or (self._due == "headers" and self.is_answering):
            self._since = now
        elif now - self._since > seconds:
            if self._due == "body":
                self._log("body", "nothing came of a body for %g s (stall_seconds)", seconds)
            else:
                self._log("headers", "no headers came within %g s (header_seconds)", seconds)
            if self._due == "headers" and not self._header_bytes:
                self.transport.close()  # nobody has asked anything
            else:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _refuse_headers(self) -> None:
        limits = self._limits
        text = "headers of more than %d bytes or %d lines (max_header_bytes, max_header_lines)"
        self._log("size", text, limits.header_bytes, limits.header_lines)
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _log(self, kind: str, reason: str, *values: object) -> None:
        self._connections.rare_log.log(_log.info, kind, f"Ended a connection of %s: {reason}.", self._address, *values)

    def _refuse(self, status: HTTPStatus, headers: str = "", text: str = "") -> None:
        """Close with a response of this status, or without it if the client would take it for another request's."""
        if self.transport.is_closing():
            return
        if self._due == "body":
            answerable = not self.cycle.response_started and not self.pipeline
        else:
            answerable = not self.is_answering
        if answerable:
            content = text or status.phrase
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n{headers}"
            length = f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
            self.transport.write((head + length + content).encode())
        self.transport.close()

    def end_unsent(self) -> None:
        """Refuse a request that has not been sent to its end, since the server shuts down."""
        if self._due == "body":
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, f"retry-after: {RETRY_SECONDS}\r\n")

    @property
    def is_awaited(self) -> bool:
        """Whether no part of a request has been answered, unless its client has lately sent nothing of its body."""
        comes = self._due != "body" or self.loop.time() - self._since < _BODY_SECONDS
        return comes and self.is_answering and not self.cycle.response_started

    @property
    def is_answering(self) -> bool:
        """Whether there is a request that has not been answered to the end; its body may still be on its way."""
        return bool(self.cycle) and not self.cycle.response_complete

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""


class LimitedServer(uvicorn.Server):
    """A server that closes connections whose clients exceed a time limit."""

    async def lingered(self) -> None:
        """Wait until no connection stays open for one more request, after the server has begun to shut down."""
        while any(each.is_lingering for each in self._connected):  # noqa: ASYNC110 - as uvicorn waits for them to close
            await sleep(_LINGER_STEP)

    async def answered(self) -> None:
        """Wait until there is no request that still comes, or that has come and of which no part has been answered."""
        while any(each.is_awaited for each in self._connected):  # noqa: ASYNC110 - as above
            await sleep(_LINGER_STEP)

    def end_unsent(self) -> None:
        """Refuse the requests whose clients have not sent all of them."""
        for each in self._connected:
            each.end_unsent()

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second; checks all connections once a second."""
        if not counter % TICKS and self.server_state.connections:
            now = get_running_loop().time()
            for each in list(self._connected):
                each.check(now)
        return await super().on_tick(counter)

    @property
    def _connected(self) -> "set[LimitedProtocol]":
        return cast("set[LimitedProtocol]", self.server_state.connections)


_HEAD: Final = b"HTTP/1.1 "
_SMALL: Final = 16 * 1024
"""Larger pieces are written by themselves: to copy them would take longer than another write."""


class GatheredWrites(Transport):
    """Writes to `transport`; a head is written with what follows it, at the latest in the next step of the loop.

    A connection that is closing gets it at once: in the next step it may be closed, and uvloop's then raises an error.
    """

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write data, after the head that waits for it; a head waits itself."""
        if self._head and len(data) < _SMALL:
            data, self._head = self._head + data, b""
        elif self._head:
            self._flush()
        elif data[:9] == _HEAD and not self._transport.is_closing():
            self._head = bytes(data)
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        """Close the connection when everything is written."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or will be when everything is written."""
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """The number of bytes that wait to be sent."""
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known of the connection."""
        return self._transport.get_extra_info(name, default)
