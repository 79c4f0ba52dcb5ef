"""Streamable HTTP: `/mcp`, for every revision of the protocol, on the SDK's session manager.

`posts` and `replies` stand before it: they refuse what nobody could answer and answer quick calls in one piece.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import cast

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.routing import Route

from goalport.publish.raw import RawTool
from goalport.serve.departures import NoticeDepartures
from goalport.serve.server import GoalServer
from goalport.serve.serving import Serving
from goalport.serve.transports.posts import Posts
from goalport.serve.transports.replies import InOnePiece, Replies

__all__ = ["StreamableHttp"]


class StreamableHttp:
    """The transport of today's clients: each message is a POST, answered in one piece or as a stream of events."""

    def __init__(self, server: GoalServer, serving: Serving) -> None:
        self._serving = serving
        settings = serving.settings
        self._sessions = StreamableHTTPSessionManager(
            server,
            json_response=cast("bool", InOnePiece()),
            stateless=settings.stateless,
            session_idle_timeout=settings.session_idle_seconds,
            max_sessions=settings.max_sessions,
            max_request_body_size=settings.max_body_bytes,
        )
        noticing = NoticeDepartures(StreamableHTTPASGIApp(self._sessions))
        replies = Replies(noticing, self._asks_back, settings.max_sessions, settings.heartbeat_seconds)
        self.routes: Sequence[Route] = [Route("/mcp", Posts(replies, settings.max_body_bytes))]

    def running(self) -> AbstractAsyncContextManager[None]:
        """The time in which sessions can be opened; at its end all are closed."""
        return self._sessions.run()

    def _asks_back(self, tool: str) -> bool:
        return isinstance(self._serving.publication.tools.get(tool), RawTool)
