"""The MCP server as a door of a site: the routes of all its transports, and what runs behind them.

It listens on nothing and mounts nothing; `site` does. Below it are `server` and `transports`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.routing import Route

from goalport.publish.publisher import Publisher
from goalport.serve.server import make_server
from goalport.serve.state import McpState
from goalport.serve.transports import TRANSPORTS

__all__ = ["McpDoor"]


class McpDoor:
    """One MCP server over every transport of HTTP."""

    def __init__(self, publisher: Publisher) -> None:
        self._state = McpState(publisher)
        server, self._streams = make_server(self._state)
        self._transports = [transport(server, self._state) for transport in TRANSPORTS]

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

    @property
    def open_calls(self) -> int:
        """How many calls are being answered."""
        return self._state.open_calls

    async def idle(self) -> None:
        """Wait until no call is open."""
        await self._state.idle()

    def close(self) -> None:
        """End the streams of subscriptions as the protocol wants it."""
        self._streams.close()
