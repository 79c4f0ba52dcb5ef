"""A server that is reached over HTTP: streamable HTTP, or the SSE of older servers.

The transports are the SDK's. The HTTP client below them is ours: it bounds answers, also those on the way to a token,
and keeps the status of the last error, of which the SDK says nothing (of a refused key, only that there was an error).
Above: `servers`.
"""

import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

import httpx2

from goalport.base.bounded_answers import SMALL, ask_plainly, bound
from goalport.base.observe import REQUEST_ID
from goalport.base.observe.spans import send_trace
from goalport.base.words import one_line
from goalport.tools.upstream.active_calls import note_reached, note_sign_in_needed
from goalport.tools.upstream.config import ServerConfig
from goalport.tools.upstream.connection import SignInNeeded, Transport

_CONNECT: Final = 30.0
"""Seconds until there must be a connection."""
_SIGN_IN: Final = 30.0
"""Seconds that an answer on the way to a token may take."""
_QUIET: Final = 3_600.0
"""Seconds that a stream of events may be silent."""
_ADVICE: Final = {
    HTTPStatus.UNAUTHORIZED: 'it wants credentials: see its `headers`, or set `auth` to "oauth"',
    HTTPStatus.FORBIDDEN: "its credentials do not suffice, or it is to be reached by another host name",
    HTTPStatus.NOT_FOUND: "there is no MCP server under this address",
}
_OF_OTHER_TYPE: Final = {
    "http": (frozenset({404, 405}), "if it speaks the older HTTP with SSE, set its `type` to sse"),
    "sse": (frozenset({400, 404, 405, 406}), "if it speaks streamable HTTP, set its `type` to http"),
}
"""By transport, the statuses that a server of the other one gives, and the advice."""
_SAID: Final = 200
"""Characters of what an error says."""
_LONGEST_PAUSE: Final = 600.0
"""Seconds that a server may have itself left alone."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The refusal of a request whose credential does not suffice: its status and its header `WWW-Authenticate`."""

    status: int = HTTPStatus.UNAUTHORIZED
    header: str = field(default="", repr=False)

    def response(self, request: httpx2.Request) -> httpx2.Response:
        """The refusal, as an answer to a request."""
        return httpx2.Response(self.status, headers={"WWW-Authenticate": self.header}, request=request)


class HttpTransport(Transport):
    """The transport to one HTTP server; `auth` gives what signs the requests of a new connection, or None."""

    def __init__(self, config: ServerConfig, auth: Callable[[], httpx2.Auth | None]) -> None:
        self._config = config
        self._auth = auth
        self._status = 0
        self._said = ""
        """What the last error said in plain text."""
        self._retry_after = 0.0
        self._reached = False
        """Whether the server has given an answer other than an error."""
        self._session_expired = False
        self.challenge = Challenge()
        """The last refusal of a request without a token that suffices."""
        self._unanswered: set[object] = set()
        """The ids of requests whose stream of events ended without an answer."""

    def last_error(self) -> str:
        """The status of the last answer, where it was an error, with advice; empty: it was none."""
        if not self._status:
            return ""
        status = next((each for each in HTTPStatus if each == self._status), None)
        advice = [_ADVICE[status]] if status is not None and status in _ADVICE else []
        if self._config.transport == "a2a":
            advice = [each.replace("MCP server", "agent") for each in advice]
        statuses, other_type = _OF_OTHER_TYPE.get(self._config.transport, (frozenset[int](), ""))
        if self._status in statuses and not self._reached:
            advice.append(other_type)
        if self._retry_after:
            advice.append(f"it wants to be asked again in {self._retry_after:.0f} s")
        if self._said and (status is None or self._said != status.phrase):
            advice.append(f"it says {self._said!r}")
        return ", ".join((f"HTTP {self._status} {status.phrase if status else ''}".rstrip(), *advice))

    def session_expired(self) -> bool:
        """Whether the server answered 404 to our session: it was restarted, or is another one of several."""
        return self._session_expired

    def is_unanswered(self, request_id: object) -> bool:
        return request_id in self._unanswered

    def retry_after(self) -> float:
        return self._retry_after

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        from mcp.client.streamable_http import streamable_http_client

        self._status, self._session_expired, self._retry_after, self._reached = 0, False, 0.0, False
        self._unanswered.clear()
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
        """A client with the credentials of the server, which notes what goes wrong."""
        verify: bool | ssl.SSLContext = True
        if self._config.ca_file is not None:
            verify = ssl.create_default_context()
            verify.load_verify_locations(self._config.ca_file)
        read = _QUIET if self._config.transport == "sse" else max(300.0, self._config.timeout + 60)
        # Answers of agents are messages too, and their streams end by themselves.
        is_agent = self._config.transport == "a2a"
        accept = {"Accept": "application/json, text/event-stream"} if is_agent else {}
        return _Client(
            None if is_agent else self._unanswered.add,
            headers={**accept, **self._config.headers, **self._config.listing_headers},
            timeout=httpx2.Timeout(_CONNECT, read=read),
            verify=verify,
            auth=self._auth(),
            event_hooks={"request": [send_trace, _prepare], "response": [self._bound, self._note_status]},
        )

    async def _bound(self, response: httpx2.Response) -> None:
        if not response.is_success or not _is_message(response.request):
            bound(response, SMALL, _SIGN_IN)
        else:
            # Of a stream, the SDK of MCP bounds each event; a long call is ended by its own time-out.
            is_free = self._config.transport != "a2a" and _is_stream(response)
            bound(response, None if is_free else self._config.max_message_bytes, None)

    async def _note_status(self, response: httpx2.Response) -> None:
        # 405: a server without a stream for its own messages, or without sessions, says so, and all is well.
        refused = response.status_code == HTTPStatus.METHOD_NOT_ALLOWED and self._config.transport == "http"
        is_fine = refused and response.request.method != "POST"
        if response.status_code >= HTTPStatus.BAD_REQUEST and not is_fine:
            self._status = response.status_code
            is_plain = response.headers.get("content-type", "text/plain").startswith("text/plain")
            self._said = one_line((await response.aread()).decode(errors="replace"), _SAID) if is_plain else ""
            self._retry_after = _seconds(response.headers.get("retry-after", ""))
            # Without a session, 404 is an error of the call: a method that there is not.
            in_session = "mcp-session-id" in response.request.headers
            self._session_expired = in_session and response.status_code == HTTPStatus.NOT_FOUND
            if str(response.url) == self._config.url:
                self.challenge = Challenge(response.status_code, response.headers.get("www-authenticate", ""))
        elif response.is_success:
            self._status, self._session_expired, self._retry_after, self._reached = 0, False, 0.0, True


def _seconds(retry_after: str) -> float:
    """The seconds that the header `Retry-After` gives, as a number or a date, within bounds; 0: none."""
    if retry_after.isdecimal():
        return min(float(retry_after), _LONGEST_PAUSE)
    try:
        until = parsedate_to_datetime(retry_after) - datetime.now(UTC)
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, min(until.total_seconds(), _LONGEST_PAUSE))


async def _prepare(request: httpx2.Request) -> None:
    await ask_plainly(request)
    # The requests for tokens, which the SDK makes, have no time-out of their own.
    request.extensions.setdefault("timeout", httpx2.Timeout(_SIGN_IN).as_dict())
    if _is_message(request) and (identity := REQUEST_ID.get()):
        request.headers["X-Request-Id"] = identity


def _is_message(request: httpx2.Request) -> bool:
    """Whether it is for the MCP server, and not for whoever issues tokens for it."""
    return "text/event-stream" in request.headers.get("accept", "")


def _is_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")


class _Client(httpx2.AsyncClient):
    """A client that calls `unanswered`, if given, with the id of a request whose stream ended before it was closed."""

    def __init__(self, unanswered: Callable[[object], None] | None, **options: Any) -> None:
        super().__init__(**options)
        self._unanswered = unanswered

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except SignInNeeded:
            note_sign_in_needed()
            raise
        except httpx2.ConnectError:
            note_reached(reached=False)
            raise
        note_reached(reached=True)
        stream = response.stream
        if not isinstance(stream, httpx2.AsyncByteStream) or response.is_stream_consumed:
            return response
        unanswered = self._unanswered
        if unanswered is not None and request.method == "POST" and _is_stream(response):
            response.stream = _Ending(stream, lambda: unanswered(json.loads(request.content).get("id")))
        return response


class _Ending(httpx2.AsyncByteStream):
    """The bytes of a stream of events; calls `ended` when there are no more."""

    def __init__(self, stream: httpx2.AsyncByteStream, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

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
