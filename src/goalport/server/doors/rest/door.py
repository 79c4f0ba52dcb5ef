"""The REST door (`site.app.Door`): its paths, how clients find them, and what is deployed, as lists of JSON objects.

It neither listens nor mounts its routes; `site` does. Each list is made when it is asked for, so it follows a reload.
No reason of a failure is told: it may quote a secret. The handlers of processes are below.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from goalport import __version__
from goalport.runtime.platform import AgentPlatform
from goalport.server.auth import Access
from goalport.server.doors.rest.openapi import EVENTS, INFO, PROCESSES, OpenApi, Query, read_query
from goalport.server.doors.rest.processes import ProcessHandlers
from goalport.server.publish.publication import Publication
from goalport.server.publish.publisher import Publisher
from goalport.server.publish.report import groups_of
from goalport.server.publish.resources import agent_view, goals_view
from goalport.server.web.endpoint import Handler, HttpDoor, problem, root_of


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
            *(door.route(f"{INFO}/{name}", GET=self._listing(name)) for name in LISTS),
            door.route("/openapi.json", GET=OpenApi(publisher, access, [*LISTS]).show),
            door.route("/api/{unknown:path}"),
        ]

    def report(self, address: str) -> Iterator[str]:
        """How clients connect, in lines; `address` is the URL of the server."""
        yield f"REST: {address}{PROCESSES} (described at {address}/openapi.json)"

    async def _info(self, request: Request) -> Response:
        """The server's name and version, how much there is of each kind, and where it is listed."""
        read_query(Query, request)
        counts = {_camel(name): sum(1 for _ in self._entries(name)) for name in LISTS}
        links = {_camel(name): f"{root_of(request)}{INFO}/{name}" for name in LISTS}
        name = self._publisher.settings.name
        return JSONResponse({"name": name, "version": __version__, "counts": counts, "links": links})

    def _listing(self, name: str) -> Handler:
        async def show(request: Request) -> Response:
            read_query(Query, request)
            return JSONResponse({_camel(name): list(self._entries(name))})

        return show

    def _entries(self, name: str) -> "Entries":
        return LISTS[name](self._publisher.platform, self._access.publication)


Entries = Iterator[Mapping[str, Any]]


def _camel(name: str) -> str:
    return name.replace("tool-groups", "toolGroups")


def _agents(platform: AgentPlatform, shown: Publication) -> Entries:
    return (agent_view(each, shown.shows_goal) for each in platform.agents if shown.shows_agent(each))


def _models(platform: AgentPlatform, _: Publication) -> Entries:
    models = platform.models
    for card in models.cards():
        ready, default = not models.unready(card.name), card.name == models.default
        yield {"name": card.name, "provider": card.provider, "ready": ready, "default": default}


LISTS: Final[Mapping[str, Callable[[AgentPlatform, Publication], Entries]]] = {
    "agents": _agents,
    "goals": lambda platform, shown: iter(goals_view(shown.tools, platform.agents, shown.shows_goal)),
    "actions": lambda platform, shown: (
        {**each, "agent": agent["name"]} for agent in _agents(platform, shown) for each in agent["actions"]
    ),
    "conditions": lambda platform, shown: (
        {"name": each, "agent": agent["name"]} for agent in _agents(platform, shown) for each in agent["conditions"]
    ),
    "models": _models,
    "tool-groups": lambda platform, _: ({"role": role, **group} for role, group in groups_of(platform).items()),
}
"""The lists of what is deployed, and of what of it the caller is shown, by the last part of their paths."""
