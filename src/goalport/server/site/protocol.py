"""HTTP connections with the limits that uvicorn lacks: of headers, of time, and of connections from one address.

uvicorn's parser buffers a header until its end and copies it with each piece that arrives, so one client could block
the server for all others. A connection is checked when data arrives, and once a second by `listener`, above. What
requests mean is not looked at here.
"""

import logging
import sys
from asyncio import AbstractEventLoop, BaseTransport, Transport
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, Literal, cast

from starlette.responses import PlainTextResponse
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from goalport.base.hosts import source_of
from goalport.base.observe import RateLimitedLog
from goalport.server.auth.authentication import PEER
from goalport.workspace.settings import Settings

RETRY_SECONDS: Final = 10
"""Seconds after which a client that was refused with status 503 may try again."""
LINGER_SECONDS: Final = 1.0
"""Seconds for which an idle connection stays open when the server shuts down."""
_MAX_CONNECTIONS: Final = 10_000
_FEWEST_SPARE: Final = 32
_SPARE: Final = 1 / 8
"""The share of the file descriptors that is kept free for files, databases and upstream servers."""
_OF_ONE_ADDRESS: Final = 3 / 4
_NEARLY_ALL: Final = 0.9
_MOST_PIPELINED: Final = 64
"""The most pipelined requests of one connection that may wait for earlier ones to be answered."""
_BUFFERED: Final = 32 * 1024
"""The bytes that may wait for a client that reads slowly. With more of them, the app waits before its next piece."""
_BODY_SECONDS: Final = 2.0
"""Seconds for which a server that shuts down waits for the next piece of a body."""
_HALF_CLOSED_SECONDS: Final = 30.0
"""The most seconds for which the rest of a request body is read once the connection is half closed."""
_SMALL: Final = 16 * 1024
"""Larger pieces are written by themselves: to copy them would take longer than another write."""
_HEAD: Final = b"HTTP/1.1 "
_FORWARDED: Final = frozenset({b"x-forwarded-for", b"x-forwarded-proto"})
"""The headers that uvicorn's middleware for proxies reads; requests without them skip it."""
_RETRY_AFTER: Final = f"retry-after: {RETRY_SECONDS}\r\n"
_SHUTTING_DOWN: Final[Any] = PlainTextResponse(
    "The server is shutting down. Try again.\n", HTTPStatus.SERVICE_UNAVAILABLE, {"retry-after": str(RETRY_SECONDS)}
)
"""The answer to requests that arrive too late in a shutdown to be started."""
_WAITS: Final = {
    "headers": ("header_seconds", "no headers came within %g s (header_seconds)"),
    "body": ("stall_seconds", "nothing came of a body for %g s (stall_seconds)"),
}
"""By what a client has to send next: the setting with its time limit in seconds, and the log's text for a timeout."""
_log = logging.getLogger(__name__)


class Connections:
    """The open connections of one server, and how many there may be."""

    def __init__(self, settings: Settings, note_refusal: Callable[[str], None] = lambda _: None) -> None:
        """`note_refusal` is called with the name of the setting that refuses a connection."""
        self.settings = settings
        self.number = 0
        """How many are open."""
        self.rate_limited_log = RateLimitedLog()
        self.ending = False
        """Whether the server shuts down, so that each connection ends with its next answer."""
        self.refusing = False
        """Whether the app is closed already, so that requests which still arrive are refused."""
        self._note_refusal = note_refusal
        self._open: Counter[str] = Counter()
        self._descriptors = _MAX_CONNECTIONS + _FEWEST_SPARE
        if sys.platform != "win32":
            import resource

            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            self._descriptors = 2 * _MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else soft
        fitting = min(_MAX_CONNECTIONS, self._descriptors - max(_FEWEST_SPARE, int(self._descriptors * _SPARE)))
        self._most = settings.max_connections or max(1, fitting)
        self._most_of_one = settings.max_connections_per_address or max(1, int(self._most * _OF_ONE_ADDRESS))

    def admit(self, address: str, descriptor: int) -> bool:
        """Count a connection from this address with this file descriptor; False, uncounted, if there are too many."""
        source, warn = source_of(address), _log.warning
        # The system assigns the lowest free descriptor, so its number approximates how many are in use.
        if descriptor >= _NEARLY_ALL * self._descriptors:
            text = (
                "File descriptors run short: %d of %d are in use. Raise the limit (ulimit -n), or end what takes them."
            )
            self.rate_limited_log.log(warn, "descriptors", text, descriptor, self._descriptors)
        for setting, number, most, text in (
            ("max_connections", self.number, self._most, "%d are open"),
            ("max_connections_per_address", self._open[source], self._most_of_one, "it has %d open"),
        ):
            if number >= most:
                line = f"Refused a connection from %s: {text}, as many as may be ({setting})."
                self.rate_limited_log.log(warn, setting, line, address, number)
                self._note_refusal(setting)
                return False
        self._open[source] += 1
        self.number += 1
        if self.number >= _NEARLY_ALL * self._most:
            text = "%d of %d connections are open (max_connections)."
            self.rate_limited_log.log(warn, "nearly", text, self.number, self._most)
        return True

    def forget(self, address: str) -> None:
        """No longer count a connection that was admitted and is closed."""
        source = source_of(address)
        self.number -= 1
        self._open[source] -= 1
        if not self._open[source]:
            del self._open[source]


class LimitedProtocol(HttpToolsProtocol):
    """One connection, with the limits of the settings; `connections` counts it."""

    # An object with more than thirty attributes in its `__dict__` is slower to access, so these are slots.
    __slots__ = (
        "_address",
        "_admitted",
        "_answered",
        "_connections",
        "_due",
        "_header_bytes",
        "_since",
        "_unsent",
        "_unsent_since",
    )

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._connections = connections
        self._address = ""
        self._admitted = False
        self._due: Literal["headers", "body"] | None = "headers"
        """What the client has to send next; None while it waits for the server."""
        self._since = self.loop.time()
        """The time at which the headers began or the last piece of a body arrived, on the event loop's clock.

        If the body's request is answered already, its pieces do not count: the whole rest has to arrive in time.
        """
        self._header_bytes = 0
        """The number of bytes of unfinished headers: those received since the last headers or piece of a body."""
        self._answered: RequestResponseCycle | None = None
        """The request that is being answered; uvicorn's `cycle` is the newest one, which may wait."""
        self._unsent = 0
        self._unsent_since = 0.0

    def connection_made(self, transport: BaseTransport) -> None:
        """Refuse a connection at once with status 503 if there are too many."""
        super().connection_made(cast("Transport", transport))
        self.transport.set_write_buffer_limits(high=_BUFFERED)
        connections = self._connections
        gathered = GatheredWrites(self.transport, self.loop, lambda: self._due == "body" and not connections.ending)
        self.transport = cast("Transport", gathered)
        self._address = self.client[0] if self.client else ""
        self._admitted = connections.admit(self._address, transport.get_extra_info("socket").fileno())
        if not self._admitted:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, _RETRY_AFTER)
        elif connections.ending:  # it was accepted just before the listening socket was closed
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
        """Parse data in pieces of at most what is left of `max_header_bytes`, and refuse headers that exceed it."""
        if self._due is None:
            self._due, self._since = "headers", self.loop.time()
        elif self._due == "body" and not self.cycle.response_complete:
            self._since = self.loop.time()
        settings = self._connections.settings
        most = settings.max_header_bytes
        while data and not self.transport.is_closing():
            room = most - self._header_bytes
            piece, data = data[:room], data[room:]
            before = self.cycle
            self._header_bytes += len(piece)
            super().data_received(piece)
            if self.cycle is not before:
                self._due = "body" if self.cycle.more_body else None
                if len(self.pipeline) > _MOST_PIPELINED:
                    self.transport.close()
            if self._header_bytes >= most or len(self.headers or ()) > settings.max_header_lines:
                self._refuse_headers()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Called by uvicorn when the headers of a request are complete and earlier requests are answered."""
        headers: list[tuple[bytes, bytes]] = cast("Any", cycle.scope["headers"])
        if cycle.more_body:
            self._header_bytes, self._due = 0, "body"
        if len(headers) > self._connections.settings.max_header_lines:
            self._refuse_headers()
            return
        self._answered = cycle
        # After a refusal, a client that waits for "100 Continue" may send its body or not: no request may follow it.
        cycle.keep_alive = cycle.keep_alive and not self._connections.ending and not cycle.waiting_for_100_continue
        cast("dict[str, object]", cycle.scope)[PEER] = self._address
        if isinstance(app, ProxyHeadersMiddleware) and not any(name in _FORWARDED for name, _ in headers):
            app = app.app
        super()._start_asgi_task(cycle, _SHUTTING_DOWN if self._connections.refusing else app)

    def on_body(self, body: bytes) -> None:
        """Called by the parser with a piece of a request body."""
        self._header_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called by the parser at the end of a request."""
        self._header_bytes = 0
        # If the response came before the end of the body, its rest has stopped uvicorn's timer for the next request.
        self._due = "headers" if self.cycle.response_complete else None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn when the parser finds an invalid request."""
        self._refuse(HTTPStatus.BAD_REQUEST, text=msg)

    def shutdown(self) -> None:
        """Called by uvicorn when the server shuts down; a request that is just arriving is still answered.

        A proxy that reuses the connection may be sending one now, and would answer 502 if the connection was closed.
        """
        if self.is_answering:
            super().shutdown()
        else:
            self.loop.call_later(LINGER_SECONDS, lambda: self.is_answering or self.transport.close())

    def check(self, now: float) -> None:
        """Answer 408 and close if the client exceeded a time limit; `now` is on the event loop's clock."""
        settings, closing = self._connections.settings, self.transport.is_closing()
        unsent = self.transport.get_write_buffer_size() if closing or self.flow.write_paused else 0
        if not self._unsent or unsent < self._unsent:
            self._unsent, self._unsent_since = unsent, now
        elif now - self._unsent_since > settings.stall_seconds:
            self._log("reading", "nothing was read of an answer for %g s (stall_seconds)", settings.stall_seconds)
            self.transport.abort()
        if self._due is None or closing:
            return
        setting, reason = _WAITS[self._due]
        if self.flow.read_paused or (self._due == "headers" and self.is_answering):
            self._since = now
        elif now - self._since > (seconds := getattr(settings, setting)):
            self._log(self._due, reason, seconds)
            if self._due == "headers" and not self._header_bytes:
                self.transport.close()  # there is no request to answer
            else:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def end_unsent(self) -> None:
        """Refuse a request whose body is still arriving when the server shuts down."""
        if self._due == "body":
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, _RETRY_AFTER)

    @property
    def is_answering(self) -> bool:
        """Whether a request has no complete response yet; its body may still be arriving."""
        return bool(self.cycle) and not self.cycle.response_complete

    @property
    def is_lingering(self) -> bool:
        """Whether the server shuts down and waits for one more request on this connection."""
        return self._connections.ending and not self.is_answering and not self.transport.is_closing()

    @property
    def is_awaited(self) -> bool:
        """Whether a request waits for the start of its response; False if its body has stalled."""
        comes = self._due != "body" or self.loop.time() - self._since < _BODY_SECONDS
        return comes and self.is_answering and not self.cycle.response_started

    def _refuse_headers(self) -> None:
        settings = self._connections.settings
        text = "headers of more than %d bytes or %d lines (max_header_bytes, max_header_lines)"
        self._log("size", text, settings.max_header_bytes, settings.max_header_lines)
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _refuse(self, status: HTTPStatus, headers: str = "", text: str = "") -> None:
        """Close the connection; respond with this status, unless the client would take it for another request's."""
        if self.transport.is_closing():
            return
        unanswered = not self.is_answering
        if self._due == "body":
            unanswered = not self.cycle.response_started and not self.pipeline
        if unanswered:
            content = text or status.phrase
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n{headers}"
            length = f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
            self.transport.write((head + length + content).encode())
        self._due = None
        self.transport.close()

    def _log(self, kind: str, reason: str, *values: object) -> None:
        self._connections.rate_limited_log.log(
            _log.info, kind, f"Ended a connection of %s: {reason}.", self._address, *values
        )


class GatheredWrites:
    """A transport that writes a response's head together with the data after it, or alone in the loop's next step.

    On a closing connection the head is written at once: in the next step it may be closed, and uvloop would raise.
    `unread` returns whether a request body is still arriving. Then `close` at first ends writing alone: a client that
    still sends would lose the response. The client, or a timer after `_HALF_CLOSED_SECONDS`, closes the rest.
    """

    def __init__(self, transport: Transport, loop: AbstractEventLoop, unread: Callable[[], bool]) -> None:
        self._transport = transport
        self._loop = loop
        self._unread = unread
        self._head = b""
        self._half_closed = False
        self.abort = transport.abort
        self.get_write_buffer_size = transport.get_write_buffer_size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write data, together with the head before it; a head is held back for the data after it."""
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

    def is_closing(self) -> bool:
        """Whether the connection is closed, or will be when everything is written."""
        return self._half_closed or self._transport.is_closing()

    def close(self) -> None:
        """Close the connection when everything is written; a second time, close it for good."""
        self._flush()
        if self.is_closing() or not self._unread():
            self._transport.close()
            return
        self._half_closed = True
        with suppress(OSError):  # the client has left
            self._transport.write_eof()
        self._transport.resume_reading()
        self._loop.call_later(_HALF_CLOSED_SECONDS, self._transport.close)
