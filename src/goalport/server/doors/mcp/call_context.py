"""What answering a call of a tool needs to know of its request, whichever way the request came.

Most calls come through the SDK. `transports.common_calls` answers the others by the same handlers, but without the
SDK's context. `admission`, `progress_notifications`, `companion_calls` and `calls` are above.
"""

from dataclasses import dataclass

from mcp_types import RequestId

from goalport.runtime.platform.runs import Disconnect
from goalport.server.doors.mcp.cancellations import disconnect_of
from goalport.server.doors.mcp.notifications import Notifier, SdkNotifier
from goalport.server.doors.mcp.sessions import connection_of
from goalport.server.doors.mcp.state import Context, McpState


@dataclass(frozen=True, slots=True)
class CallContext:
    """The server and the request of one call."""

    state: McpState
    disconnect: Disconnect | None = None
    """Whether the client has disconnected; None where the SDK or the transport cancels the handler."""
    session: bytes | None = None
    """The session of the request as all servers know it; None if it is known to this program only."""
    request_id: RequestId | None = None
    notifier: Notifier | None = None
    """By which the client is told what it asked for before the answer; None: it is told nothing."""
    sdk: Context | None = None
    """The SDK's context, by which the client is sent requests before the answer; None: it is sent none."""

    @property
    def heartbeat_seconds(self) -> float:
        """The longest time without a notification for a client that asked for progress."""
        return self.state.settings.heartbeat_seconds

    @classmethod
    def of(cls, context: Context) -> "CallContext":
        """What the SDK's context says."""
        session_id = connection_of(context).session_id
        session = None if session_id is None else session_id.encode()
        return cls(
            context.lifespan_context, disconnect_of(context), session, context.request_id, SdkNotifier(context), context
        )
