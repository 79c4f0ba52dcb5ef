"""The MCP server as a door of a site: the routes of all its transports, and what runs behind them.

It listens on nothing and mounts nothing; `site` does. Below it are `server` and `transports`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.routing import Route

from goalport.serve.server import make_server
from goalport.serve.serving import Serving
from goalport.serve.transports import TRANSPORTS

__all__ = ["McpDoor"]


class McpDoor:
    """One MCP server over every transport of HTTP."""

    def __init__(self, serving: Serving) -> None:
        server, self._streams = make_server(serving)
        self._transports = [transport(server, serving) for transport in TRANSPORTS]

    @property
    def routes(self) -> Sequence[Route]:
        """Its endpoints, without a slash at the end."""
        return [route for each in self._transports for route in each.routes]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """The time in which requests may come."""
        async with AsyncExitStack() as stack:
            for each in self._transports:
                await stack.enter_async_context(each.running())
            yield

    def close(self) -> None:
        """End the streams of subscriptions as the protocol wants it."""
        self._streams.close()
