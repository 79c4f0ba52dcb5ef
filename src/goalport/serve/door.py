"""The MCP server as a door (`site.app.Door`): the routes of all its HTTP transports, and their lifespan.

It neither listens nor mounts its routes; `site` does. `server` and `transports` are below.
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
    """One MCP server with all its HTTP transports."""

    def __init__(self, publisher: Publisher) -> None:
        self._state = McpState(publisher)
        server, self._streams = make_server(self._state)
        self._transports = [transport(server, self._state) for transport in TRANSPORTS]

    @property
    def routes(self) -> Sequence[Route]:
        """The endpoints, without a slash at the end."""
        return [route for each in self._transports for route in each.routes]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """A context in which requests can be answered."""
        async with AsyncExitStack() as stack:
            for each in self._transports:
                await stack.enter_async_context(each.running())
            yield

    @property
    def open_calls(self) -> int:
        """The number of calls that are being answered."""
        return self._state.open_calls

    async def idle(self) -> None:
        """Wait until no call is open."""
        await self._state.idle()

    def close(self) -> None:
        """Close the subscription streams with their final response."""
        self._streams.close()
