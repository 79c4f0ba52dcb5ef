"""Transports to servers: over HTTP (streamable, or the SSE of older servers), or to processes on stdin and stdout.

The transports over HTTP are the SDK's, with an HTTP client of ours. It limits responses, also those of the OAuth flow,
and stores the status of the last error, which the SDK does not report: for a refused key, it only says that there was
an error. The SDK's stdio transport reads lines of any length, ends child processes only if the server does not exit by
itself, and has fixed timeouts. Ours limits the length of messages, writes the server's stderr to the log, and ends the
whole process group. On Windows, which has no process groups, the SDK's is used. Above: `servers`.
"""

import json
import logging
import re
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2
from anyio.abc import AsyncResource, ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from goalport.base.bounded_answers import SMALL, bound, request_uncompressed
from goalport.base.observe import REQUEST_ID
from goalport.base.observe.spans import send_trace
from goalport.base.secrecy import hide
from goalport.base.words import cleaned, one_line
from goalport.tools.upstream.active_calls import current_call
from goalport.tools.upstream.config import ServerConfig
from goalport.tools.upstream.connection import BurstLimit, SignInNeeded, Transport

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_CONNECT_SECONDS: Final = 30.0
_SIGN_IN_SECONDS: Final = 30.0
_QUIET_STREAM_SECONDS: Final = 3_600.0
_ADVICE: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: 'it wants credentials: see its `headers`, or set `auth` to "oauth"',
    HTTPStatus.FORBIDDEN: "its credentials do not suffice, or it is to be reached by another host name",
    HTTPStatus.NOT_FOUND: "there is no MCP server under this address",
}
_OF_OTHER_TYPE: Final = {
    "http": (frozenset({404, 405}), "if it speaks the older HTTP with SSE, set its `type` to sse"),
    "sse": (frozenset({400, 404, 405, 406}), "if it speaks streamable HTTP, set its `type` to http"),
}
"""By transport, the statuses that a server of the other HTTP transport answers with, and the advice then."""
_SAID_CHARACTERS: Final = 200
_LONGEST_PAUSE: Final = 600.0
"""The most seconds of a `Retry-After` that are respected."""


class HttpTransport(Transport):
    """The transport to one HTTP server; `auth` returns the `httpx2.Auth` of a new connection, or None."""

    def __init__(self, config: ServerConfig, auth: Callable[[], httpx2.Auth | None] = lambda: None) -> None:
        self._config, self._auth = config, auth
        self._reached = False
        """Whether the server has answered with a success."""
        self._refusal = (int(HTTPStatus.UNAUTHORIZED), "")
        """Status and `WWW-Authenticate` of the last error response, which refuses an insufficient token."""
        self._ended = set[object]()
        self.unanswered = self._ended

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        from mcp.client.streamable_http import streamable_http_client

        self.error, self.session_expired, self.retry_after, self._reached = "", False, 0.0, False
        self._ended.clear()
        if self._config.transport == "sse":
            from mcp.client.sse import sse_client

            def client_factory(*_: Any, **__: Any) -> httpx2.AsyncClient:
                return self.client()

            async with sse_client(self._config.url, httpx_client_factory=client_factory) as streams:
                yield streams
            return
        async with (
            self.client() as client,
            streamable_http_client(
                self._config.url, http_client=client, max_sse_event_size=self._config.max_message_bytes
            ) as streams,
        ):
            yield streams

    def client(self) -> httpx2.AsyncClient:
        """An HTTP client with the credentials for the server, which records errors."""
        verify: bool | ssl.SSLContext = True
        if self._config.ca_file is not None:
            verify = ssl.create_default_context()
            verify.load_verify_locations(self._config.ca_file)
        read = _QUIET_STREAM_SECONDS if self._config.transport == "sse" else max(300.0, self._config.timeout + 60)
        # The card and all answers of agents count as messages; their streams end by themselves.
        is_agent = self._config.transport == "a2a"

        async def prepare(request: httpx2.Request) -> None:
            await request_uncompressed(request)
            # The requests for tokens, which the SDK makes, have no time-out of their own.
            request.extensions.setdefault("timeout", httpx2.Timeout(_SIGN_IN_SECONDS).as_dict())
            if _is_message(request) and (identity := REQUEST_ID.get()):
                request.headers["X-Request-Id"] = identity

        accept = {"Accept": "application/json, text/event-stream"} if is_agent else {}
        return _Client(
            None if is_agent else self._ended.add,
            headers={**accept, **self._config.headers, **self._config.listing_headers},
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=read),
            verify=verify,
            auth=self._auth(),
            event_hooks={"request": [send_trace, prepare], "response": [self._on_response]},
        )

    def refusal(self, request: httpx2.Request) -> httpx2.Response:
        """The last refusal of an insufficient token, as a response to another request."""
        status, header = self._refusal
        return httpx2.Response(status, headers={"WWW-Authenticate": header}, request=request)

    async def _on_response(self, response: httpx2.Response) -> None:
        """Response hook: limit the body, and record the status."""
        if not response.is_success or not _is_message(response.request):
            bound(response, SMALL, _SIGN_IN_SECONDS)
        else:
            # In a stream, the MCP SDK limits each event; a long call ends by its own timeout.
            is_free = self._config.transport != "a2a" and _is_stream(response)
            bound(response, None if is_free else self._config.max_message_bytes, None)
        # 405 to GET or DELETE is no error: the server has no stream of its own messages, or no sessions.
        refused = response.status_code == HTTPStatus.METHOD_NOT_ALLOWED and self._config.transport == "http"
        is_fine = refused and response.request.method != "POST"
        if response.status_code >= HTTPStatus.BAD_REQUEST and not is_fine:
            self.retry_after = _seconds(response.headers.get("retry-after", ""))
            # Without a session, 404 means an unknown method.
            in_session = "mcp-session-id" in response.request.headers
            self.session_expired = in_session and response.status_code == HTTPStatus.NOT_FOUND
            if str(response.url) == self._config.url:
                self._refusal = response.status_code, response.headers.get("www-authenticate", "")
            kind, phrase = self._config.transport, httpx2.codes.get_reason_phrase(response.status_code)
            advice = [_ADVICE.get(response.status_code, "")]
            if kind == "a2a":
                advice = [advice[0].replace("MCP server", "agent")]
            statuses, other_type = _OF_OTHER_TYPE.get(kind, (frozenset[int](), ""))
            if response.status_code in statuses and not self._reached:
                advice.append(other_type)
            if self.retry_after:
                advice.append(f"it wants to be asked again in {self.retry_after:.0f} s")
            if response.headers.get("content-type", "text/plain").startswith("text/plain"):
                said = one_line((await response.aread()).decode(errors="replace"), _SAID_CHARACTERS)
                advice.append(f"it says {said!r}" if said and said != phrase else "")
            self.error = ", ".join((f"HTTP {response.status_code} {phrase}".rstrip(), *filter(None, advice)))
        elif response.is_success:
            self.error, self.session_expired, self.retry_after, self._reached = "", False, 0.0, True


def _seconds(retry_after: str) -> float:
    """The seconds of a header `Retry-After`, a number or a date, at most `_LONGEST_PAUSE`; 0 if it is invalid."""
    try:
        if not retry_after.isdecimal():
            retry_after = str((parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, min(float(retry_after), _LONGEST_PAUSE))


def _is_message(request: httpx2.Request) -> bool:
    """Whether a request is for the MCP server, and not for its authorization server."""
    return "text/event-stream" in request.headers.get("accept", "")


def _is_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")


class _Client(httpx2.AsyncClient):
    """A client that records in the current `Call` whether the server was reached, and calls `unanswered`, if not None,
    with the id of a request whose event stream the server has ended.
    """

    def __init__(self, unanswered: Callable[[object], None] | None, **options: Any) -> None:
        super().__init__(**options)
        self._unanswered = unanswered

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        call = current_call()
        try:
            response = await super().send(request, **options)
        except (SignInNeeded, httpx2.ConnectError) as error:
            if call is not None and isinstance(error, SignInNeeded):
                call.sign_in_needed = True
            elif call is not None:
                call.reached = call.reached or False
            raise
        if call is not None:
            call.reached = True
        stream, is_posted = response.stream, request.method == "POST" and _is_stream(response)
        if (unanswered := self._unanswered) is not None and is_posted and not response.is_stream_consumed:
            assert isinstance(stream, httpx2.AsyncByteStream)
            response.stream = _Ending(stream, lambda: unanswered(json.loads(request.content).get("id")))
        return response


class _Ending(httpx2.AsyncByteStream):
    """The bytes of an event stream; calls `ended` at the end of the stream."""

    def __init__(self, stream: httpx2.AsyncByteStream, ended: Callable[[], None]) -> None:
        self._stream, self._ended = stream, ended

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                yield chunk
        except httpx2.TransportError:
            self._ended()
            raise
        self._ended()

    async def aclose(self) -> None:
        await self._stream.aclose()


_ENDED: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""What reading and writing raise when the other end of a pipe, or ours, is closed."""
_POLL_SECONDS: Final = 0.01
_LINE_CHARACTERS: Final = 500
_BURST: Final = 50
"""The most lines that are logged in ten seconds; further lines are only counted."""
_INVALID_SHOWN: Final = 3
"""The most invalid lines on stdout that are logged in ten seconds."""
_OLD_SDK_WARNING: Final = "Failed to validate request"
"""Servers with older SDKs write some forty lines, the first with this text, after a request in the newest revision."""
_RECORD: Final = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
"""Matches the level in the first line of a log record."""
_OLD_SDK_SECONDS: Final = 1.0
"""Seconds within which these lines are written."""
_REASON: Final = re.compile(r"\w*Error\b.*: |(?:error|cause): |npm (?:error|ERR!) (?!code )\w")
"""Matches a line in which Node, npm or uv says why it exits; in npm, the first of several."""
_FAREWELL: Final = re.compile(r"Node\.js v\d|npm (?:error|ERR!) A complete log|hint: ")
"""Matches the last line of Node, npm or uv, which does not say why it exits."""


class _StderrLog:
    """Logs a server's stderr under `goalport.upstream.NAME`, and stores its last line, or the line with the reason."""

    def __init__(self, name: str, transport: Transport) -> None:
        self.log = logging.getLogger(f"goalport.upstream.{name}")
        self._transport = transport
        self._limit = BurstLimit(_BURST)
        self._dropped = 0
        self._quiet_until = 0.0
        self._reason = ""

    async def listen(self, stderr: ByteReceiveStream) -> None:
        """Read to the end: a full pipe would stop the server."""
        rest = b""
        with suppress(*_ENDED):
            async for chunk in stderr:
                *lines, rest = (rest + chunk).split(b"\n")
                # Only the beginning of an incomplete line is stored: no more would be logged.
                rest = rest[: 4 * _LINE_CHARACTERS]
                for line in lines:
                    self._write(_shown(line))
        self._write(_shown(rest))

    def _write(self, text: str) -> None:
        if not text:
            return
        if _OLD_SDK_WARNING in text:
            self._quiet_until = monotonic() + _OLD_SDK_SECONDS
        elif _RECORD.search(text):
            self._quiet_until = 0.0
        if monotonic() < self._quiet_until:
            self.log.debug("%s", text)
            return
        if _FAREWELL.match(text):
            self._transport.stderr, self._reason = self._reason or text, ""
        else:
            self._transport.stderr = text
            if _REASON.match(text) and not (text.startswith("npm") and self._reason.startswith("npm")):
                self._reason = text
        if not self._limit.allows():
            self._dropped += 1
            return
        if self._dropped:
            self.log.info("… and %d lines more", self._dropped)
            self._dropped = 0
        self.log.info("%s", text)


def _shown(line: bytes) -> str:
    """A line without secrets and control characters, cut if it is too long."""
    return cleaned(hide(line.decode(errors="replace")[: 4 * _LINE_CHARACTERS].strip()), _LINE_CHARACTERS)


class StdioTransport(Transport):
    """The transport to one stdio server; `open` starts a process, and at the end stops it and its children."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._log = _StderrLog(config.name, self)
        self._invalid = BurstLimit(_INVALID_SHOWN)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client

        config, self.error = self._config, ""
        if sys.platform == "win32":
            parameters = StdioServerParameters(
                command=config.command, args=[*config.args], env=dict(config.env), cwd=config.cwd
            )
            async with stdio_client(parameters) as streams:
                yield streams
            return
        process = await anyio.open_process(
            [config.command, *config.args],
            env=get_default_environment() | dict(config.env),
            cwd=config.cwd,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        to_session, from_server = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        to_server, from_session = anyio.create_memory_object_stream["SessionMessage"](0)
        with to_session, from_server, to_server, from_session:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process.stdout, to_session)
                tasks.start_soon(self._write, process, from_session, to_session)
                tasks.start_soon(self._log.listen, process.stderr)
                try:
                    yield from_server, to_server
                finally:
                    why = self.error
                    with anyio.CancelScope(shield=True):
                        from_server.close()
                        await _end(process, config.shutdown_timeout)
                    tasks.cancel_scope.cancel()
                    # Later errors come from stopping the process.
                    self.error = why

    async def _read(
        self, stdout: ByteReceiveStream, to_session: "MemoryObjectSendStream[SessionMessage | Exception]"
    ) -> None:
        """Forward messages to the session. The pipe is read to its end, even if the session ends before."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        limit = self._config.max_message_bytes
        too_long = f"it wrote a message of more than {limit:,} bytes"
        lines = BufferedByteReceiveStream(stdout)
        async with to_session:
            try:
                while len(line := await lines.receive_until(b"\n", limit)) <= limit:
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError as error:
                        if line.strip() and self._invalid.allows():
                            self._log.log.warning("this on its stdout is no message: %r", _shown(line))
                        # Not dropped here: the connection limits how many there may be.
                        await to_session.send(error)
                        continue
                    await to_session.send(SessionMessage(message))
                self.error = too_long
            except anyio.DelimiterNotFound:
                self.error = too_long
            except anyio.IncompleteRead:
                self.error = self.error or "its process closed its stdout"
            except _ENDED:
                pass
        with suppress(*_ENDED):
            while True:
                await stdout.receive()

    async def _write(
        self,
        process: Process,
        from_session: "MemoryObjectReceiveStream[SessionMessage]",
        to_session: "MemoryObjectSendStream[SessionMessage | Exception]",
    ) -> None:
        assert process.stdin is not None
        try:
            async for each in from_session:
                line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{line}\n".encode())
        except _ENDED:
            self.error = self.error or "its process does not read its stdin any more"
            to_session.close()


async def _end(process: Process, seconds: float) -> None:
    """Close stdin, wait these seconds for the exit, then end the rest of the process group. Each wait is bounded."""
    from mcp.os.posix.utilities import terminate_posix_process_tree

    async def exited() -> None:
        # Not `wait`: it also waits for the pipes, which a child of the server may keep open.
        with anyio.move_on_after(seconds):
            while process.returncode is None:  # noqa: ASYNC110 - no event for the exit alone
                await anyio.sleep(_POLL_SECONDS)

    async def close(stream: AsyncResource | None) -> None:
        with suppress(*_ENDED):
            if stream is not None:
                await stream.aclose()

    await close(process.stdin)
    await exited()
    # The group, even if the server has exited: its children may still run.
    await terminate_posix_process_tree(process, seconds)
    await exited()
    await close(process.stdout)
    await close(process.stderr)
    # A surviving child may keep the pipes open, and no public API closes our ends.
    transport: Any = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
