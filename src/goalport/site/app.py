"""The one ASGI app: the routes of every door and `/health`, behind the guard.

It listens on nothing: `listening` does, or any ASGI server.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from goalport.platform import AgentPlatform
from goalport.serve.door import McpDoor
from goalport.serve.serving import Serving, connected
from goalport.settings import Settings
from goalport.site.health import Health
from goalport.site.security import Gate
from goalport.workspace import Workspace

__all__ = ["Site", "create_app"]


def create_app(platform: AgentPlatform, workspace: Workspace, settings: Settings) -> Starlette:
    """The app for any ASGI server. When it stops, so does the platform: what still runs is killed."""
    return Site(Serving(platform, workspace, settings)).app


class Site:
    """The app together with what a shutdown has to close."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self._door = McpDoor(serving)
        self.app = Starlette(
            routes=list(self._routes()),
            middleware=[Middleware(Gate, settings=serving.settings)],
            lifespan=self._lifespan,
        )
        self.app.router.redirect_slashes = False

    async def close(self) -> None:
        """End what runs: open streams as their protocol wants it, processes by killing them."""
        self._door.close()
        await self.serving.platform.aclose()

    def _routes(self) -> Iterator[Route]:
        """Each route with and without the slash: a redirect loses what clients send, or is refused by them."""
        for each in (*self._door.routes, Route("/health", Health(self.serving), methods=["GET"])):
            yield each
            yield Route(f"{each.path}/", each.endpoint, methods=each.methods)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        async with self._door.running(), connected(self.serving):
            try:
                yield
            finally:
                await self.close()
