"""The REST door (`site.app.Door`): its paths, how clients find them, and what is deployed, as lists of JSON objects.

It neither listens nor mounts its routes; `site` does. Each list is made when it is asked for, so it follows a reload.
No reason of a failure is told: it may quote a secret. The handlers of processes are below.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from goalport import __version__
from goalport.runtime.platform import AgentPlatform
from goalport.server.auth import Access
from goalport.server.doors.rest.answers import EVENTS, INFO, PROCESSES
from goalport.server.doors.rest.openapi import OpenApi
from goalport.server.doors.rest.processes import EventHandlers, ProcessHandlers, query_of
from goalport.server.doors.rest.requests import NoQuery
from goalport.server.publish.publication import Publication
from goalport.server.publish.publisher import Publisher
from goalport.server.publish.report import groups_of
from goalport.server.publish.resources import agent_view, goals_view
from goalport.server.web.endpoint import Endpoint, Handler, HttpDoor, StartEndpoint, read, root_of
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
            at("/openapi.json", GET=OpenApi(publisher, access, [*LISTS]).show),
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


Entries = Iterator[Mapping[str, Any]]
Lister = Callable[[AgentPlatform, Publication], Entries]
"""Makes a list of what is deployed, and of what of it the caller is shown."""


class PlatformInfo:
    """The handlers of requests about the platform."""

    def __init__(self, publisher: Publisher, access: Access) -> None:
        self._publisher = publisher
        self._access = access

    async def show(self, request: Request) -> Response:
        """The server's name and version, how much there is of each kind, and where it is listed."""
        read(NoQuery, query_of(request))
        counts = {_camel(name): sum(1 for _ in self._entries(name)) for name in LISTS}
        links = {_camel(name): f"{root_of(request)}{INFO}/{name}" for name in LISTS}
        name = self._publisher.settings.name
        return JSONResponse({"name": name, "version": __version__, "counts": counts, "links": links})

    def listing(self, name: str) -> Handler:
        """The handler of requests for a list."""

        async def show(request: Request) -> Response:
            read(NoQuery, query_of(request))
            return JSONResponse({_camel(name): list(self._entries(name))})

        return show

    def _entries(self, name: str) -> Entries:
        return LISTS[name](self._publisher.platform, self._access.publication)


def _camel(name: str) -> str:
    return name.replace("tool-groups", "toolGroups")


def _agents(platform: AgentPlatform, shown: Publication) -> Entries:
    return (agent_view(each, shown.shows_goal) for each in platform.agents if shown.shows_agent(each))


def _goals(platform: AgentPlatform, shown: Publication) -> Entries:
    return iter(goals_view(shown.tools, platform.agents, shown.shows_goal))


def _actions(platform: AgentPlatform, shown: Publication) -> Entries:
    for agent in _agents(platform, shown):
        yield from ({**each, "agent": agent["name"]} for each in agent["actions"])


def _conditions(platform: AgentPlatform, shown: Publication) -> Entries:
    for agent in _agents(platform, shown):
        yield from ({"name": each, "agent": agent["name"]} for each in agent["conditions"])


def _models(platform: AgentPlatform, _: Publication) -> Entries:
    models = platform.models
    for card in models.cards():
        ready, default = not models.unready(card.name), card.name == models.default
        yield {"name": card.name, "provider": card.provider, "ready": ready, "default": default}


def _tool_groups(platform: AgentPlatform, _: Publication) -> Entries:
    return ({"role": role, **group} for role, group in groups_of(platform).items())


LISTS: Final[Mapping[str, Lister]] = {
    "agents": _agents,
    "goals": _goals,
    "actions": _actions,
    "conditions": _conditions,
    "models": _models,
    "tool-groups": _tool_groups,
}
"""The lists by the last part of their paths."""
