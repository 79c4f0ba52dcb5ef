"""The REST door (`site.app.Door`): its paths, and how clients find them.

It neither listens nor mounts its routes; `site` does. The handlers are below.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from http import HTTPStatus

from starlette.responses import Response
from starlette.routing import Route

from goalport.server.auth import Access
from goalport.server.doors.rest.event_stream import EventHandlers
from goalport.server.doors.rest.openapi import OpenApi
from goalport.server.doors.rest.platform_info import INFO, LISTS, PlatformInfo
from goalport.server.doors.rest.process_answers import EVENTS, PROCESSES
from goalport.server.doors.rest.processes import ProcessHandlers
from goalport.server.publish.publisher import Publisher
from goalport.server.web.endpoint import Endpoint, Handler, HttpDoor, StartEndpoint
from goalport.server.web.problems import problem


class RestDoor:
    """Processes over HTTP and JSON, and their events."""

    exposed_headers: Sequence[str] = ("Location", "Retry-After")
    """The response headers that a web page needs as a client."""

    def __init__(self, publisher: Publisher, access: Access) -> None:
        door = HttpDoor("rest", "/api", publisher, access)
        processes, events = ProcessHandlers(door), EventHandlers(publisher)
        info = PlatformInfo(publisher, access)

        def at(path: str, **handlers: Handler) -> Route:
            return Route(path, Endpoint(door, path, **handlers))

        self.routes: Sequence[Route] = [
            Route(PROCESSES, StartEndpoint(door, PROCESSES, POST=processes.start)),
            at(f"{PROCESSES}/{{id}}", GET=processes.look, DELETE=processes.end),
            at(f"{PROCESSES}/{{id}}/continue", POST=processes.resume),
            at("/api/v1/processes", GET=processes.list, DELETE=processes.erase),
            at(f"{EVENTS}/{{id}}", GET=events.follow),
            at(INFO, GET=info.show),
            *(at(f"{INFO}/{name}", GET=info.listing(name)) for name in LISTS),
            at("/openapi.json", GET=OpenApi(publisher, access).show),
            at("/api/{unknown:path}"),
        ]

    def report(self, address: str) -> Iterator[str]:
        """How clients connect, in lines; `address` is the URL of the server."""
        yield f"REST: {address}{PROCESSES} (described at {address}/openapi.json)"

    def refusal(self, status: HTTPStatus, kind: str, detail: str, /) -> Response:
        """A refusal by the site, as problem details."""
        return problem(status, kind, detail)

    def running(self) -> AbstractAsyncContextManager[None]:
        """A context that does nothing: a request needs nothing beside the platform."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing: an event stream ends with the platform or the listener."""
