"""Replies: the HTTP response to one call, which is one JSON body or an event stream.

A reply becomes a stream when there is a notification to send, or when the answer takes longer than a second: no proxy
then times out, and the disconnect of a client is noticed. `common_calls` and `streamable_http` are above.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mcp_types import LoggingLevel, ProgressToken
from pydantic_core import to_json
from starlette.types import Message, Receive, Scope, Send

from goalport.server.doors.mcp.cancellations import new_disconnect
from goalport.server.doors.mcp.transports.jsonrpc import SESSION_ID

_PATIENCE: Final = 1.0
_STREAM: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)
_LOGGER: Final = "goalport"


class Reply:
    """The reply to one call: one JSON body, or an event stream.

    With `streams` it is a stream in any case. `ping_seconds` is the interval of the pings of a stream whose answer
    takes longer than `_PATIENCE`. `ticket` is the id of the session of the call; empty: it has none.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        ping_seconds: float,
        *,
        ticket: bytes = b"",
        streams: bool = False,
    ) -> None:
        self.disconnect = new_disconnect(scope)
        """Whether the client has disconnected; that is looked at once the answer takes longer than `_PATIENCE`."""
        self._ping_seconds = ping_seconds
        self._ticket = ticket
        self._receive = receive
        self._send = send
        self.streams = streams
        """Whether it is a stream in any case."""
        self._answered = False
        self._begun = False
        """Whether the headers of a stream were sent."""
        self._sending = asyncio.Lock()
        """Held while something is sent, so that what waits for a slow reader is not overtaken."""
        self._unsent: list[bytes] = []
        """Events that wait for `flush`, or for the answer."""
        self._parts: list[bytes] = []
        """The body of the answer of a stream, as far as it has come."""
        self._tasks: list[asyncio.Task[None]] = []
        """The tasks that keep the stream open and watch the connection, once the answer takes long."""
        self._timer = asyncio.get_running_loop().call_later(_PATIENCE, self._be_patient)

    def end(self) -> None:
        """Stop the timer and the tasks, as nothing more will be sent."""
        self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Add a notification to the stream; it is sent by `flush`, or before the answer. After that it is dropped."""
        if not self._answered:
            self._unsent.append(_event(to_json({"jsonrpc": "2.0", "method": method, "params": params})))

    async def flush(self) -> None:
        """Send the notifications that wait; those that wait when the call is answered are sent with the answer."""
        async with self._sending:
            if self._unsent and not self._answered:
                await self._begin()
                await self._send({"type": "http.response.body", "body": self._taken(), "more_body": True})

    async def send(self, message: Message) -> None:
        """Send the answer, given as the messages of a JSON response: as these, or as the last event of a stream.

        An answer without a body ends a stream without an event.
        """
        self._answered = True
        if not (self._begun or self.streams or self._unsent):
            # The tasks that begin a stream may have been created already without having run.
            self.end()
            await self._send(message)
            return
        self._parts.append(message.get("body", b""))
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.end()
            if body := b"".join(self._parts):
                self._unsent.append(_event(body))
            async with self._sending:
                await self._begin()
                await self._send({"type": "http.response.body", "body": self._taken()})

    async def _begin(self) -> None:
        if not self._begun:
            session = [(SESSION_ID, self._ticket)] if self._ticket else []
            await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *session]})
            self._begun = True

    def _taken(self) -> bytes:
        """The events that wait, which then wait no more."""
        events = b"".join(self._unsent)
        self._unsent.clear()
        return events

    def _be_patient(self) -> None:
        if not self._answered:
            self._tasks = [asyncio.create_task(self._keep_open()), asyncio.create_task(self._watch_connection())]

    async def _keep_open(self) -> None:
        while True:
            async with self._sending:
                await self._begin()
                await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            await asyncio.sleep(self._ping_seconds)

    async def _watch_connection(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._answered:
            self.disconnect.note()


def _event(message: bytes) -> bytes:
    """An event of a message, which is JSON in one line."""
    return b"event: message\r\ndata: %b\r\n\r\n" % message


class StreamNotifier:
    """The way to the client of a call by the event stream of its reply (`serve.notifier.Notifier`)."""

    def __init__(self, reply: Reply, token: ProgressToken | None, log_level: LoggingLevel | None) -> None:
        self._reply = reply
        self._token = token
        self.progress_wanted = token is not None
        self.log_level: LoggingLevel | None = log_level

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell progress."""
        params: dict[str, Any] = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._reply.notify("notifications/progress", params)

    async def log(self, level: LoggingLevel, text: str) -> None:
        """Tell one log message."""
        self._reply.notify("notifications/message", {"level": level, "logger": _LOGGER, "data": text})

    async def flush(self) -> None:
        """Send what still waits."""
        await self._reply.flush()
