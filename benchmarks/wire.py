"""One MCP client's side of the wire, as bytes: the requests that real clients send, and answers in JSON or as events.

Two eras: up to 2025-11-25 a session is opened by a handshake and named in a header; from 2026-07-28 each request stands
for itself. `load` is above; it decides when to call.
"""

import json
import socket
import time
from dataclasses import dataclass, field
from typing import Any

import httptools

__all__ = ["ERAS", "HANDSHAKE", "MODERN", "Connection", "Wire"]

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
ERAS = (HANDSHAKE, MODERN)

_FIRST_ID = 1_000_000
"""All ids have as many digits, so that the length of a request is the same each time."""
_CLIENT = {"name": "load", "version": "1"}


@dataclass(frozen=True)
class Wire:
    """Whom to call, and with what."""

    port: int
    era: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    progress: bool = False
    """Whether calls ask to be told of progress."""
    token: str = ""
    """The credential that each request has; empty: none."""

    def connect(self) -> "Connection":
        """A connection that is ready to call: in the era of sessions, after the handshake."""
        connection = Connection(self.port)
        if self.era == MODERN:
            connection.prepare(self.post(self._call(), f"Mcp-Method: tools/call\r\nMcp-Name: {self.tool}\r\n"))
            return connection
        session = f"Mcp-Session-Id: {_open_session(connection, self)}\r\n"
        connection.request(self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session))
        connection.prepare(self.post(self._call(), session))
        connection.farewell = self._head("DELETE", session) + b"\r\n"
        return connection

    def listen(self, session: str) -> bytes:
        """The request that keeps a session's own stream of messages open, as SDK clients do."""
        return self._head("GET", f"Mcp-Session-Id: {session}\r\n") + b"\r\n"

    def post(self, message: dict[str, Any], headers: str = "") -> bytes:
        """A request with a JSON body."""
        body = json.dumps(message, separators=(",", ":")).encode()
        return self._head("POST", headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body

    def _head(self, method: str, headers: str) -> bytes:
        credential = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        return (
            f"{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAccept-Encoding: gzip, deflate\r\n{credential}"
            "Connection: keep-alive\r\nUser-Agent: load\r\nAccept: application/json, text/event-stream\r\n"
            f"Content-Type: application/json\r\nMCP-Protocol-Version: {self.era}\r\n{headers}"
        ).encode()

    def _call(self) -> dict[str, Any]:
        params: dict[str, Any] = {"name": self.tool, "arguments": self.arguments}
        if meta := {**self._envelope(), **({"progressToken": 1} if self.progress else {})}:
            params["_meta"] = meta
        return {"jsonrpc": "2.0", "id": _FIRST_ID, "method": "tools/call", "params": params}

    def _envelope(self) -> dict[str, Any]:
        if self.era != MODERN:
            return {}
        said = {"protocolVersion": self.era, "clientInfo": _CLIENT, "clientCapabilities": {}}
        return {f"io.modelcontextprotocol/{name}": value for name, value in said.items()}


class Connection:
    """One keep-alive connection with at most one request open."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_at = 0.0
        self.farewell = b""
        self.session = ""
        self._id = _FIRST_ID
        self._before, self._after = b"", b""
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._complete = False

    def prepare(self, call: bytes) -> None:
        """Take the request that `send` sends, with an id of its own each time."""
        self._before, self._after = call.split(str(_FIRST_ID).encode())

    def send(self) -> None:
        """Make the prepared call."""
        self._id += 1
        self._parts.clear()
        self._complete = False
        self.sent_at = time.perf_counter()
        self.socket.sendall(b"%b%d%b" % (self._before, self._id, self._after))

    def receive(self) -> bool:
        """Read what is there; whether the answer is complete."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError(f"The server closed the connection in the middle of an answer: {self._parts!r:.500}")
        self._parser.feed_data(data)
        return self._complete

    def answered(self, expected: bytes) -> bool:
        """Whether the answer to the last call is the expected one."""
        body = b"".join(self._parts)
        return self._parser.get_status_code() == 200 and expected in body and b'"id":%d' % self._id in body

    def request(self, request: bytes) -> bytes:
        """Send one request and wait for its whole answer."""
        self._parts.clear()
        self._complete = False
        self.socket.sendall(request)
        while not self.receive():
            pass
        return b"".join(self._parts)

    def close(self) -> None:
        """End the session, if there is one, and the connection."""
        if self.farewell:
            self.request(self.farewell)
        self.socket.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser's news."""
        if name.lower() == b"mcp-session-id":
            self.session = value.decode()

    def on_body(self, data: bytes) -> None:
        """The parser's news."""
        self._parts.append(data)

    def on_message_complete(self) -> None:
        """The parser's news."""
        self._complete = True
        self._parser = httptools.HttpResponseParser(self) if not self._parser.should_keep_alive() else self._parser


def _open_session(connection: Connection, wire: Wire) -> str:
    params = {"protocolVersion": wire.era, "capabilities": {}, "clientInfo": _CLIENT}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = connection.request(wire.post(message))
    if not connection.session:
        raise ConnectionError(f"Expected a session from port {wire.port}, but got {answer!r:.300}.")
    return connection.session
