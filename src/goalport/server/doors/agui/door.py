"""The AG-UI door (`site.app.Door`): its paths, and how front ends find them.

It neither listens nor mounts its routes; `site` does. The handlers, and with them the types of the protocol, are
imported with the first request, because importing them takes long. Below: `runs`.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from goalport.server.auth import Access
from goalport.server.publish.publisher import Publisher
from goalport.server.web.endpoint import Endpoint, HttpDoor, OpenStreams, StartEndpoint
from goalport.server.web.problems import problem

AGENTS: Final = "/agui"


class AguiDoor:
    """Chatbots and goals as the agents of AG-UI front ends."""

    exposed_headers: Sequence[str] = ("Retry-After",)
    """The response headers that a web page needs as a client."""

    def __init__(self, publisher: Publisher, access: Access) -> None:
        door = self._door = HttpDoor("agui", AGENTS, publisher, access)
        self._streams = OpenStreams(publisher.settings)
        one = f"{AGENTS}/{{name}}"
        self.routes: Sequence[Route] = [
            Route(AGENTS, Endpoint(door, AGENTS, GET=self._list)),
            Route(one, StartEndpoint(door, one, GET=self._show, POST=self._run)),
        ]

    def report(self, address: str) -> Iterator[str]:
        """How clients connect, in lines; `address` is the URL of the server."""
        yield f"AG-UI: {address}{AGENTS}/NAME (listed at {address}{AGENTS})"

    def refusal(self, status: HTTPStatus, kind: str, detail: str, /) -> Response:
        """A refusal by the site, as problem details."""
        return problem(status, kind, detail)

    def running(self) -> AbstractAsyncContextManager[None]:
        """A context that does nothing: a request needs nothing beside the platform."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing: a stream ends with its run, with the platform or with the listener."""

    async def _list(self, request: Request) -> Response:
        from goalport.server.doors.agui.handlers import RunHandlers

        return await RunHandlers(self._door, self._streams).list(request)

    async def _show(self, request: Request) -> Response:
        from goalport.server.doors.agui.handlers import RunHandlers

        return await RunHandlers(self._door, self._streams).show(request)

    async def _run(self, request: Request) -> Response:
        from goalport.server.doors.agui.handlers import RunHandlers

        return await RunHandlers(self._door, self._streams).run(request)
