"""The ASGI app: the routes of every door and `/health`, behind the guard.

It does not listen: `listener` or any ASGI server does. A new door is one more entry of `DOORS`.
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
    """A protocol's entry to the server, such as the MCP server. It knows neither the site nor other doors."""

    @property
    def routes(self) -> Sequence[Route]:
        """The endpoints, without a slash at the end; the site adds each with one too."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """A context in which requests can be answered."""
        ...

    @property
    def open_calls(self) -> int:
        """The number of calls that are being answered; a shutdown waits for them."""
        ...

    async def idle(self) -> None:
        """Wait until no call is open."""
        ...

    def close(self) -> None:
        """Close what would stay open, such as streams."""
        ...


DOORS: Final[Sequence[Callable[[Publisher], Door]]] = (McpDoor,)
"""All doors of a server."""


def create_app(platform: AgentPlatform, workspace: Workspace, settings: Settings) -> Starlette:
    """The app for any ASGI server. At the end of its lifespan it closes the platform and kills running processes.

    Raises `SettingsError` for a role whose model is not ready and for state keys that cannot be read.
    """
    return Site(Publisher(platform, workspace, settings)).app


class Site:
    """The app, with what a shutdown has to wait for and to close."""

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
        """The number of calls that all doors are answering."""
        return sum(each.open_calls for each in self._doors)

    async def idle(self) -> None:
        """Wait until no call of any door is open."""
        await asyncio.gather(*(each.idle() for each in self._doors))

    async def close(self) -> None:
        """Close the doors' open streams and kill the processes that run."""
        for each in self._doors:
            each.close()
        await self.publisher.platform.aclose()

    def _routes(self) -> Iterator[Route]:
        """Each route with and without a slash at its end, since a redirect loses bodies or is refused by clients."""
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
