"""The AG-UI door (`site.app.Door`): its paths, and how front ends find them.

It neither listens nor mounts its routes; `site` does. The handlers, and with them the types of the protocol, are
imported with the first request, because importing them takes long. Below: `runs`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from goalport.server.auth import Access
from goalport.server.publish.publisher import Publisher
from goalport.server.web.endpoint import Handler, HttpDoor, OpenStreams, problem

AGENTS: Final = "/agui"


class AguiDoor:
    """Chatbots and goals as the agents of AG-UI front ends."""

    exposed_headers: Sequence[str] = ("Retry-After",)
    """The response headers that web pages of other origins may read (CORS)."""
    refusal = staticmethod(problem)
    """A refusal by the site, as problem details."""

    def __init__(self, publisher: Publisher, access: Access) -> None:
        self._door = door = HttpDoor("agui", AGENTS, publisher, access)
        self._streams = OpenStreams(publisher.settings)
        show, run = partial(self._answer, "show"), partial(self._answer, "run")
        self.routes: Sequence[Route] = [
            door.route(AGENTS, GET=partial(self._answer, "list")),
            door.start_route(f"{AGENTS}/{{name}}", GET=show, POST=run),
        ]

    async def _answer(self, name: Literal["list", "show", "run"], request: Request) -> Response:
        from goalport.server.doors.agui.runs import RunHandlers

        handler: Handler = getattr(RunHandlers(self._door, self._streams), name)
        return await handler(request)

    def report(self, address: str) -> Iterator[str]:
        """How clients connect, in lines; `address` is the URL of the server."""
        yield f"AG-UI: {address}{AGENTS}/NAME (listed at {address}{AGENTS})"
