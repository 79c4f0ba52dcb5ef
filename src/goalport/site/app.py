"""The one ASGI app: the routes of every door and `/health`, behind the guard.

It listens on nothing: `listener` does, or any ASGI server. Another door is one more line of `DOORS`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from goalport.platform import AgentPlatform
from goalport.publish.publisher import Publisher
from goalport.serve.door import McpDoor
from goalport.settings import Settings
from goalport.site.guard import HostGuard
from goalport.site.health import Health
from goalport.workspace import Workspace

__all__ = ["DOORS", "Door", "Site", "create_app"]


class Door(Protocol):
    """A way in: the MCP server, and whatever stands beside it. It knows neither the site nor other doors."""

    @property
    def routes(self) -> Sequence[Route]:
        """Its endpoints, without a slash at the end; the site adds the same with one."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """The time in which requests may come."""
        ...

    @property
    def open_calls(self) -> int:
        """How many calls are being answered; a shutdown waits for them."""
        ...

    async def idle(self) -> None:
        """Wait until no call is open."""
        ...

    def close(self) -> None:
        """End what would stay open: streams, for instance."""
        ...


DOORS: Final[Sequence[Callable[[Publisher], Door]]] = (McpDoor,)
"""Every door of a server."""


def create_app(platform: AgentPlatform, workspace: Workspace, settings: Settings) -> Starlette:
    """The app for any ASGI server. When it stops, so does the platform: what still runs is killed.

    Raises `SettingsError` for a role whose model is not ready and for keys that cannot be read.
    """
    return Site(Publisher(platform, workspace, settings)).app


class Site:
    """The app together with what a shutdown has to wait for and to close."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self._doors = [door(publisher) for door in DOORS]
        self.app = Starlette(
            routes=list(self._routes()),
            middleware=[Middleware(HostGuard, settings=publisher.settings)],
            lifespan=self._lifespan,
        )
        self.app.router.redirect_slashes = False

    @property
    def open_calls(self) -> int:
        """How many calls are being answered, of all doors."""
        return sum(each.open_calls for each in self._doors)

    async def idle(self) -> None:
        """Wait until no call of any door is open."""
        await asyncio.gather(*(each.idle() for each in self._doors))

    async def close(self) -> None:
        """End what runs: open streams as their protocol wants it, processes by killing them."""
        for each in self._doors:
            each.close()
        await self.publisher.platform.aclose()

    def _routes(self) -> Iterator[Route]:
        """Each route with and without the slash: a redirect loses what clients send, or is refused by them."""
        health = Route("/health", Health(self.publisher, lambda: self.open_calls), methods=["GET"])
        for each in (*(route for door in self._doors for route in door.routes), health):
            yield each
            yield Route(f"{each.path}/", each.endpoint, methods=each.methods)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for each in self._doors:
                await stack.enter_async_context(each.running())
            await stack.enter_async_context(self.publisher.connected())
            try:
                yield
            finally:
                await self.close()
