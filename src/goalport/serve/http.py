"""The HTTP application: `/mcp` for every revision, `/sse` and `/messages/` for older clients, `/health`.

One ASGI app, made of the SDK's transports. It listens on nothing: `listening` does, or any ASGI server.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from mcp.server.runner import serve_dual_era_loop
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from goalport.platform import AgentPlatform
from goalport.serve.departures import NoticeDepartures
from goalport.serve.health import Health
from goalport.serve.posts import Posts
from goalport.serve.raw import RawTool
from goalport.serve.replies import InOnePiece, Replies
from goalport.serve.security import Gate
from goalport.serve.server import GoalServer, make_server
from goalport.serve.serving import Serving
from goalport.serve.tool_groups import connected
from goalport.settings import Settings
from goalport.workspace import Workspace

__all__ = ["Site", "create_app"]


def create_app(platform: AgentPlatform, workspace: Workspace, settings: Settings) -> Starlette:
    """The app for any ASGI server. When it stops, so does the platform: what still runs is killed."""
    return Site(Serving(platform, workspace, settings)).app


class Site:
    """The app together with what a shutdown has to close."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self._server, self._streams = make_server(serving)
        settings = serving.settings
        self._sessions = StreamableHTTPSessionManager(
            self._server,
            json_response=cast("bool", InOnePiece()),
            stateless=settings.stateless,
            session_idle_timeout=settings.session_idle_seconds,
            max_sessions=settings.max_sessions,
            max_request_body_size=settings.max_body_bytes,
        )
        self.app = Starlette(
            routes=self._routes(), middleware=[Middleware(Gate, settings=settings)], lifespan=self._lifespan
        )
        self.app.router.redirect_slashes = False

    async def close(self) -> None:
        """End what runs: open streams as the protocol wants it, processes by killing them."""
        self._streams.close()
        await self.serving.platform.aclose()

    def _routes(self) -> list[Route]:
        serving = self.serving
        settings = serving.settings
        sse = SseServerTransport("/messages/", max_request_body_size=settings.max_body_bytes)
        transports = NoticeDepartures(StreamableHTTPASGIApp(self._sessions))
        mcp = Replies(transports, self._asks_back, settings.max_sessions, settings.heartbeat_seconds)
        return [
            *_both("/mcp", Posts(mcp, settings.max_body_bytes)),
            *_both("/sse", _EventStream(sse, self._server, serving), ["GET"]),
            *_both("/messages", Posts(_Messages(sse), settings.max_body_bytes)),
            *_both("/health", Health(serving), ["GET"]),
        ]

    def _asks_back(self, tool: str) -> bool:
        return isinstance(self.serving.publication.tools.get(tool), RawTool)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        async with self._sessions.run(), connected(self.serving):
            try:
                yield
            finally:
                await self.close()


def _both(path: str, endpoint: object, methods: list[str] | None = None) -> list[Route]:
    """With and without the slash: a redirect loses what clients send, or is refused by them."""
    return [Route(each, endpoint, methods=methods) for each in (path, f"{path}/")]  # pyright: ignore[reportArgumentType]


class _EventStream:
    """The stream of an SSE session; an instance, so that Starlette takes it for an ASGI app."""

    def __init__(self, sse: SseServerTransport, server: GoalServer, serving: Serving) -> None:
        self._sse = sse
        self._server = server
        self._serving = serving
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._open >= self._serving.settings.max_sessions:
            await PlainTextResponse("Too many open sessions.", 503)(scope, receive, send)
            return
        self._open += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self._open -= 1

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._sse.connect_sse(scope, receive, send) as (incoming, outgoing):
            await serve_dual_era_loop(
                self._server,
                incoming,
                outgoing,
                lifespan_state=self._serving,
                init_options=self._server.create_initialization_options(),
            )


class _Messages:
    """Where an SSE session's client posts; an instance for the same reason."""

    def __init__(self, sse: SseServerTransport) -> None:
        self._sse = sse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._sse.handle_post_message(scope, receive, send)
