"""The MCP server as a door (`site.app.Door`): all its HTTP transports, and how clients connect to them.

A new HTTP transport is one class and one entry of `TRANSPORTS`. The door neither listens nor mounts its routes; `site`
does. `server` and `streamable_http` are below.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from http import HTTPStatus
from typing import Any, Final, Protocol

from mcp.server.runner import serve_dual_era_loop
from mcp.server.sse import SseServerTransport
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from goalport.server.auth import Access
from goalport.server.doors.mcp.jsonrpc import PostReader, error_response, refusal
from goalport.server.doors.mcp.server import GoalServer, make_server
from goalport.server.doors.mcp.state import McpState, guarded
from goalport.server.doors.mcp.streamable_http import StreamableHttp
from goalport.server.publish.publisher import Publisher


class ServerTransport(Protocol):
    """A transport of MCP messages over HTTP.

    The site checks Host and Origin and limits bodies; the server handles the messages. A transport has these duties:

    - Wrap the POST endpoint in `state.guarded`, and that in `jsonrpc.PostReader`, since the SDK does not answer
      invalid messages.
    - If a request stays open until its call is answered, watch the connection: wrap the SDK's app in
      `watching_disconnect`, or put a `Disconnect` into the scope and call its `note`. Otherwise calls run on after
      their clients have disconnected. A transport whose sessions end with their streams, like `Sse`, need not do this.
    - Allow at most `max_sessions` streams that are sessions, and pass `max_body_bytes` to the SDK, whose own limit is
      4 MiB.
    """

    @property
    def title(self) -> str:
        """The name in the startup report, with the clients that use the transport."""
        ...

    @property
    def routes(self) -> Sequence[Route]:
        """The endpoints, without a slash at the end. Clients connect to the first."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """A context in which requests can be answered."""
        ...


SSE_PATH: Final = "/sse"
"""The path of the event stream of an SSE session, on which all its responses are sent."""
_ONE_WORKER: Final = (
    "This server has several workers, and the messages of a session over /sse could reach another worker than its"
    " stream. Use /mcp, or serve with one worker (--workers 1)."
)


class Sse:
    """HTTP with server-sent events: `/sse` and `/messages`, the transport of older clients.

    A client keeps one event stream open for the messages of the server, and sends its own messages by POST.
    """

    def __init__(self, server: GoalServer, state: McpState) -> None:
        settings = state.settings
        self.title = f"SSE, for older clients{' (needs one worker)' if settings.worker_count > 1 else ''}"
        self._sse = SseServerTransport("/messages/", max_request_body_size=settings.max_body_bytes)
        self._server, self._state = server, state
        self._open = 0
        self.running: Callable[[], AbstractAsyncContextManager[None]] = nullcontext  # a session ends with its stream
        self.routes: Sequence[Route] = [
            # Starlette takes a function of a request for an endpoint, and an instance of a class for an ASGI app.
            Route(SSE_PATH, self, methods=["GET"]),
            Route("/messages", PostReader(guarded(self._sse.handle_post_message, state))),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one session, for as long as its stream is open."""
        settings = self._state.settings
        if settings.worker_count > 1:
            await PlainTextResponse(_ONE_WORKER, HTTPStatus.NOT_IMPLEMENTED)(scope, receive, send)
            return
        if self._open >= settings.max_sessions:
            await PlainTextResponse("Too many open sessions.", 503)(scope, receive, send)
            return
        self._open += 1
        options = self._server.create_initialization_options()
        try:
            async with self._sse.connect_sse(scope, receive, send) as (incoming, outgoing):
                await serve_dual_era_loop(
                    self._server, incoming, outgoing, lifespan_state=self._state, init_options=options
                )
        finally:
            self._open -= 1


TRANSPORTS: Final[Sequence[Callable[[GoalServer, McpState], ServerTransport]]] = (StreamableHttp, Sse)
"""All HTTP transports of the MCP server, the most used first."""


class McpDoor:
    """One MCP server with all its HTTP transports."""

    exposed_headers: Sequence[str] = ("Mcp-Session-Id",)
    """The response headers that web pages of other origins may read (CORS)."""

    def __init__(self, publisher: Publisher, access: Access) -> None:
        state = McpState(publisher, access)
        server, streams = make_server(state)
        self._notifications = state.notifications
        self._transports = [transport(server, state) for transport in TRANSPORTS]
        self._sessions = [
            each.sessions for each in self._transports if isinstance(each, StreamableHttp) and each.sessions is not None
        ]
        self.routes: Sequence[Route] = [route for each in self._transports for route in each.routes]
        self.close = streams.close
        """Closes the subscription streams with their final response."""

    def report(self, address: str) -> Iterator[str]:
        """How clients connect, in lines; `address` is the URL of the server."""
        url = f"{address}{self.routes[0].path}"
        for each in self._transports:
            yield f"{each.title}: {address}{each.routes[0].path}"
        yield f"Hosts that only start programs: npx -y mcp-remote {url}"
        yield f"Open WebUI (Admin Settings, External Tools, type MCP): {url}"

    def refusal(self, status: HTTPStatus, _kind: str, detail: str, /) -> Response:
        """A refusal by the site, as a JSON-RPC error; it has no id, since the request was not read."""
        return error_response(refusal(None, detail), status)

    def connect_workers(self, send: Callable[[Mapping[str, Any]], None]) -> None:
        """Serve as one of several workers: `send` sends a message to all others, for `receive_from_worker`."""
        self._notifications.send_to_workers = lambda uri: send({"updated": uri})
        for each in self._sessions:
            each.send_to_workers = send

    async def receive_from_worker(self, message: Mapping[str, Any]) -> None:
        """Handle a message of another worker."""
        if uri := message.get("updated"):
            await self._notifications.updated(uri, here_alone=True)
        for each in self._sessions if "session" in message else ():
            await each.receive_from_worker(message)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """A context in which requests can be answered."""
        async with AsyncExitStack() as stack:
            for each in self._transports:
                await stack.enter_async_context(each.running())
            yield
