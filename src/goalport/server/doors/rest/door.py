"""The REST door (`site.app.Door`): its paths, how clients find them, and what is deployed, as lists of JSON objects.

It neither listens nor mounts its routes; `site` does. Each list is made when it is asked for, so it follows a reload.
Reasons of failures are not shown: they may quote a secret. The handlers of processes are below.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from goalport import __version__
from goalport.server.auth import Access
from goalport.server.doors.rest.openapi import EVENTS, INFO, PROCESSES, OpenApi, Query, read_query
from goalport.server.doors.rest.processes import ProcessHandlers
from goalport.server.publish.publisher import Publisher
from goalport.server.publish.report import groups_of
from goalport.server.publish.resources import agent_view, goals_view
from goalport.server.web.endpoint import HttpDoor, problem, root_of

LISTS: Final[Mapping[str, str]] = {
    **{name: name for name in ("agents", "goals", "actions", "conditions", "models")},
    "tool-groups": "toolGroups",
}
"""The lists of what is deployed: the last part of the path of each, and its member in an answer."""


class RestDoor:
    """Processes over HTTP and JSON, and their events."""

    exposed_headers: Sequence[str] = ("Location", "Retry-After")
    """The response headers that a web page needs as a client."""
    refusal = staticmethod(problem)
    """A refusal by the site, as problem details."""

    def __init__(self, publisher: Publisher, access: Access) -> None:
        self._publisher, self._access = publisher, access
        door = HttpDoor("rest", "/api", publisher, access)
        processes = ProcessHandlers(door)
        self.routes: Sequence[Route] = [
            door.start_route(PROCESSES, POST=processes.start),
            door.route(f"{PROCESSES}/{{id}}", GET=processes.look, DELETE=processes.end),
            door.route(f"{PROCESSES}/{{id}}/continue", POST=processes.resume),
            door.route("/api/v1/processes", GET=processes.list, DELETE=processes.erase),
            door.route(f"{EVENTS}/{{id}}", GET=processes.follow),
            door.route(INFO, GET=self._info),
            *(door.route(f"{INFO}/{name}", GET=partial(self._list, member)) for name, member in LISTS.items()),
            door.route("/openapi.json", GET=OpenApi(publisher, access, [*LISTS]).show),
            door.route("/api/{unknown:path}"),
        ]

    def report(self, address: str) -> Iterator[str]:
        """How clients connect, in lines; `address` is the URL of the server."""
        yield f"REST: {address}{PROCESSES} (described at {address}/openapi.json)"

    async def _info(self, request: Request) -> Response:
        """The server's name and version, how much there is of each kind, and where it is listed."""
        read_query(Query, request)
        counts = {name: len(entries) for name, entries in self._entries().items()}
        links = {member: f"{root_of(request)}{INFO}/{name}" for name, member in LISTS.items()}
        name = self._publisher.settings.name
        return JSONResponse({"name": name, "version": __version__, "counts": counts, "links": links})

    async def _list(self, member: str, request: Request) -> Response:
        read_query(Query, request)
        return JSONResponse({member: self._entries()[member]})

    def _entries(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """What is deployed and may be shown to the caller, by the members of `LISTS`."""
        platform, shown = self._publisher.platform, self._access.publication
        agents = [agent_view(each, shown.shows_goal) for each in platform.agents if shown.shows_agent(each)]
        models = platform.models
        return {
            "agents": agents,
            "goals": goals_view(shown.tools, platform.agents, shown.shows_goal),
            "actions": [{**each, "agent": agent["name"]} for agent in agents for each in agent["actions"]],
            "conditions": [{"name": each, "agent": agent["name"]} for agent in agents for each in agent["conditions"]],
            "models": [
                {
                    "name": each.name,
                    "provider": each.provider,
                    "ready": not models.why_not_ready(each.name),
                    "default": each.name == models.default,
                }
                for each in models.cards()
            ],
            "toolGroups": [{"role": role, **group} for role, group in groups_of(platform).items()],
        }
