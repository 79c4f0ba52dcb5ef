"""HTTP with server-sent events: `/sse` and `/messages`, the transport of older clients.

A client keeps one event stream open for the messages of the server, and sends its own messages by POST.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from http import HTTPStatus
from typing import Final

from mcp.server.runner import serve_dual_era_loop
from mcp.server.sse import SseServerTransport
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from goalport.server.doors.mcp.scope_check import guarded
from goalport.server.doors.mcp.server import GoalServer
from goalport.server.doors.mcp.state import McpState
from goalport.server.doors.mcp.transports.jsonrpc import PostReader

SSE_PATH: Final = "/sse"
"""Where the stream of a session is, on which all answers of the session come."""

_ONE_WORKER: Final = (
    "This server has several workers, and the messages of a session over /sse could reach another worker than its"
    " stream. Use /mcp, or serve with one worker (--workers 1)."
)


class Sse:
    """The two endpoints of the transport."""

    def __init__(self, server: GoalServer, state: McpState) -> None:
        self.title = f"SSE, for older clients{' (needs one worker)' if state.settings.worker_count > 1 else ''}"
        sse = SseServerTransport("/messages/", max_request_body_size=state.settings.max_body_bytes)
        self.routes: Sequence[Route] = [
            Route(SSE_PATH, _EventStream(sse, server, state), methods=["GET"]),
            Route("/messages", PostReader(guarded(sse.handle_post_message, state))),
        ]

    def running(self) -> AbstractAsyncContextManager[None]:
        """A context that does nothing: a session lasts as long as its stream."""
        return nullcontext()


class _EventStream:
    """The endpoint of the event stream; Starlette treats an instance as an ASGI app, but not a function."""

    def __init__(self, sse: SseServerTransport, server: GoalServer, state: McpState) -> None:
        self._sse = sse
        self._server = server
        self._state = state
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._state.settings.worker_count > 1:
            await PlainTextResponse(_ONE_WORKER, HTTPStatus.NOT_IMPLEMENTED)(scope, receive, send)
            return
        if self._open >= self._state.settings.max_sessions:
            await PlainTextResponse("Too many open sessions.", 503)(scope, receive, send)
            return
        self._open += 1
        try:
            async with self._sse.connect_sse(scope, receive, send) as (incoming, outgoing):
                await serve_dual_era_loop(
                    self._server,
                    incoming,
                    outgoing,
                    lifespan_state=self._state,
                    init_options=self._server.create_initialization_options(),
                )
        finally:
            self._open -= 1
