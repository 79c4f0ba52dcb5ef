"""The transports over HTTP, one file each. Another one is a file of its own and a line of `TRANSPORTS`.

A transport is made of the server and its state, and carries messages; what they mean is decided in `server`. `stdio` is
no part of the table: it has no routes, and one client is all that it serves.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from starlette.routing import Route

from goalport.serve.server import GoalServer
from goalport.serve.state import McpState
from goalport.serve.transports.sse import Sse
from goalport.serve.transports.streamable_http import StreamableHttp

__all__ = ["TRANSPORTS", "HttpTransport"]


class HttpTransport(Protocol):
    """A way in which messages come and go over HTTP."""

    @property
    def routes(self) -> Sequence[Route]:
        """Its endpoints, without a slash at the end; the app adds the same with one."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """The time in which requests may come."""
        ...


TRANSPORTS: Final[Sequence[Callable[[GoalServer, McpState], HttpTransport]]] = (StreamableHttp, Sse)
"""Every transport of the MCP server over HTTP."""
