"""Streamable HTTP: `/mcp`, for every revision of the protocol.

A call is answered as one JSON body if no message can precede its answer, else as an event stream. Most calls do not
reach the SDK: `common_calls` answers them, both ways. If another call asks for no progress and no log messages, and its
tool sends no requests to the client, the SDK is told to answer with JSON, because its stream doubles the server's cost
of a quick call. `jsonrpc.PostReader` has checked each message before, and `sessions` serves what is of a session.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, cast

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import LOG_LEVEL_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from goalport.base.errors import GoalportError
from goalport.server.doors.mcp.cancellations import DisconnectMiddleware, is_modern_request
from goalport.server.doors.mcp.scope_check import guarded
from goalport.server.doors.mcp.server import GoalServer
from goalport.server.doors.mcp.state import McpState
from goalport.server.doors.mcp.transports.common_calls import CommonCalls, Reply
from goalport.server.doors.mcp.transports.jsonrpc import PostReader, header, message_of, refuse
from goalport.server.doors.mcp.transports.sessions import Session, Sessions
from goalport.server.publish.exported_tools import FunctionTool, RawTool
from goalport.server.publish.goal_tools import ChatTool, GoalTool
from goalport.server.publish.handle import Companion

_VERSION: Final = MCP_PROTOCOL_VERSION_HEADER.encode()
_MESSAGE_KEYS: Final = frozenset({"progressToken", LOG_LEVEL_META_KEY})
"""Keys of `_meta` by which a client asks for messages before the answer."""


class StreamableHttp:
    """The transport of current clients: each message is a POST, answered as one JSON body or as an event stream."""

    title = "Streamable HTTP (Claude, Cursor, VS Code, Codex, Inspector)"

    def __init__(self, server: GoalServer, state: McpState, *, common_calls: bool = True) -> None:
        """Without `common_calls`, the SDK answers every call."""
        self._state = state
        most = state.settings.max_body_bytes
        self._managers = {
            as_json: StreamableHTTPSessionManager(
                server, json_response=as_json, stateless=True, max_request_body_size=most
            )
            for as_json in (False, True)
        }
        """The SDK's, which answer requests without a session as event streams, or as JSON."""
        self.sessions = None if state.settings.stateless else Sessions(server, state)
        # The SDK's middleware makes the span of a call.
        self._common = CommonCalls(server, state) if common_calls and not server.is_traced else None
        self._running = False
        self.routes: Sequence[Route] = [Route("/mcp", PostReader(guarded(self._answer, state)))]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """A context in which requests can be answered; at its end all streams are closed."""
        async with AsyncExitStack() as stack:
            for each in self._managers.values():
                await stack.enter_async_context(each.run())
            self._running = True
            yield

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._running:
            raise GoalportError(
                "The app of this server was called outside of its lifespan. An app that mounts it has to enter that in"
                " its own: `async with app.router.lifespan_context(app)`."
            )
        sessions, session = self.sessions if _is_of_handshake_era(scope) else None, None
        if sessions is not None:
            session = sessions.of(scope)
            if session is None:
                await sessions.begin(scope, receive, send)
                return
            if (refused := session.refusal(message_of(scope))) is not None:
                await refuse(refused, scope, receive, send)
                return
        await self._reply(session, scope, receive, send)

    async def _reply(self, session: Session | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; decide for each call who answers it, and whether as JSON or as an event stream."""
        message = message_of(scope)
        tool = _called_tool(scope, message)
        if tool is None or self._asks_back(tool, elicits=session is not None and session.elicits):
            await self._by_sdk(session, scope, receive, send)
            return
        call = self._common.read(scope, session) if self._common is not None else None
        logs = session is not None and session.state.log_level is not None
        meta = _method_and_params(message)[1].get("_meta")
        wants_messages = isinstance(meta, dict) and not _MESSAGE_KEYS.isdisjoint(cast("dict[str, object]", meta))
        is_brief = not (logs or wants_messages)
        if call is None and not is_brief:
            await self._by_sdk(session, scope, receive, send)
            return
        ticket, streams = b"" if session is None else session.ticket, not (is_brief or is_modern_request(scope))
        ping_seconds = self._state.settings.heartbeat_seconds
        reply = Reply(scope, receive, send, ping_seconds, ticket=ticket, streams=streams)
        try:
            if call is not None and self._common is not None:
                await self._common.answer(call, reply)
            else:
                await self._by_sdk(session, scope, receive, reply.send, as_json=True)
        finally:
            reply.end()

    async def _by_sdk(
        self, session: Session | None, scope: Scope, receive: Receive, send: Send, *, as_json: bool = False
    ) -> None:
        app: ASGIApp = StreamableHTTPASGIApp(self._managers[as_json])
        if session is not None and self.sessions is not None:
            app = partial(self.sessions.answer, session, as_json=as_json)
        await DisconnectMiddleware(app)(scope, receive, send)

    def _asks_back(self, tool: str, *, elicits: bool) -> bool:
        """Whether a tool may send requests to its client before its answer; `elicits`: the client can be asked."""
        published = self._state.publication.tools.get(tool)
        match published:
            case RawTool():
                return True
            case GoalTool() | ChatTool():
                return elicits and published.policy.may_give_handle
            case FunctionTool():
                return elicits and bool(published.exported.server)
            case _:
                return elicits and isinstance(published, Companion)


def _is_of_handshake_era(scope: Scope) -> bool:
    """Whether a request is of a revision that has sessions; the SDK refuses those of unknown revisions."""
    named = next((value for name, value in scope["headers"] if name == _VERSION), None)
    return named is None or named.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS


def _called_tool(scope: Scope, message: object) -> str | None:
    """The tool that a message calls; None if it is no call, or its client does not take both kinds of answers."""
    method, params = _method_and_params(message)
    accepted, tool = header(scope, b"accept"), params.get("name")
    takes_both = b"text/event-stream" in accepted and b"application/json" in accepted
    return tool if method == "tools/call" and takes_both and isinstance(tool, str) else None


def _method_and_params(message: object) -> tuple[object, dict[str, object]]:
    """The method and the parameters of a message; None and an empty dict if it has none."""
    fields = cast("dict[str, object]", message) if isinstance(message, dict) else {}
    params = fields.get("params")
    return fields.get("method"), cast("dict[str, object]", params) if isinstance(params, dict) else {}
