"""The common calls of sessions while they are open: how a client cancels one, or ends its session in the middle of it.

The SDK knows only the calls that come through its transport. `session_resumption` is told of both by the client, and
tells them here; `common_calls` opens the calls.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp_types import INTERNAL_ERROR, JSONRPCError, RequestId

from goalport.server.doors.mcp.transports.jsonrpc import refusal

_TERMINATED: Final = "Session terminated before the request completed"


@dataclass(eq=False, slots=True)
class OpenCall:
    """A call of a session, which runs in `scope`."""

    request_id: RequestId
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    terminated: bool = False
    """Whether the session was ended in the middle of the call."""

    @property
    def refusal(self) -> JSONRPCError | None:
        """The error of the response, as the SDK has it; None if nobody has ended the call."""
        if self.terminated:
            return refusal(self.request_id, _TERMINATED, INTERNAL_ERROR)
        if self.scope.cancel_called:
            return refusal(self.request_id, "Request cancelled", REQUEST_CANCELLED)
        return None


class SessionCalls:
    """The open calls by the tickets of their sessions and their ids."""

    def __init__(self) -> None:
        self._open: dict[bytes, dict[RequestId, OpenCall]] = {}

    @contextmanager
    def opened(self, ticket: bytes, request_id: RequestId) -> Generator[OpenCall]:
        """A call that is open inside the context, which ends when the call is cancelled."""
        # The SDK takes "7" and 7 for one id.
        key, call, calls = coerce_request_id(request_id), OpenCall(request_id), self._open.setdefault(ticket, {})
        calls[key] = call
        try:
            with call.scope:
                yield call
        finally:
            if calls.get(key) is call:
                del calls[key]
            if not calls and self._open.get(ticket) is calls:
                del self._open[ticket]

    def cancel(self, ticket: bytes, request_id: object) -> bool:
        """Cancel a call, as its client wants; False if there is none of this id."""
        known = as_request_id(request_id)
        call = None if known is None else self._open.get(ticket, {}).get(coerce_request_id(known))
        if call is not None:
            call.scope.cancel()
        return call is not None

    def terminate(self, ticket: bytes) -> None:
        """Cancel all calls of a session that its client has ended."""
        for call in self._open.pop(ticket, {}).values():
            call.terminated = True
            call.scope.cancel()
