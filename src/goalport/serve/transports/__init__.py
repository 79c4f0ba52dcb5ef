"""The HTTP transports, one file each, and stdio. A new HTTP transport is one file and one entry of `TRANSPORTS`.

A transport is made from the server and its state, and carries messages; `server` handles them. `stdio` is not in the
table, as it has no routes and serves only one client.
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
    """A transport of MCP messages over HTTP."""

    @property
    def routes(self) -> Sequence[Route]:
        """The endpoints, without a slash at the end; the app adds each with one too."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """A context in which requests can be answered."""
        ...


TRANSPORTS: Final[Sequence[Callable[[GoalServer, McpState], HttpTransport]]] = (StreamableHttp, Sse)
"""All HTTP transports of the MCP server."""
