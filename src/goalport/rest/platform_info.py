"""What is deployed, as lists of JSON objects: agents, goals, actions, conditions, models and tool groups.

Each list is made when it is asked for, so it follows a reload. No reason of a failure is told: it may quote a secret.
Above: the door.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from goalport import __version__
from goalport.publish.own_resources import agent_view, goals_view
from goalport.publish.publisher import Publisher
from goalport.publish.report import groups_of
from goalport.rest.endpoint import Handler, read, root_of
from goalport.rest.processes import query_of
from goalport.rest.requests import NoQuery

__all__ = ["INFO", "LISTS", "PlatformInfo"]

INFO: Final = "/api/v1/platform-info"
Entries = Iterator[Mapping[str, Any]]


class PlatformInfo:
    """The handlers of requests about the platform."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    async def show(self, request: Request) -> Response:
        """The server's name and version, how much there is of each kind, and where it is listed."""
        read(NoQuery, query_of(request))
        counts = {_camel(name): sum(1 for _ in entries(self._publisher)) for name, entries in LISTS.items()}
        links = {_camel(name): f"{root_of(request)}{INFO}/{name}" for name in LISTS}
        name = self._publisher.settings.name
        return JSONResponse({"name": name, "version": __version__, "counts": counts, "links": links})

    def listing(self, name: str) -> Handler:
        """The handler of requests for a list."""

        async def show(request: Request) -> Response:
            read(NoQuery, query_of(request))
            return JSONResponse({_camel(name): list(LISTS[name](self._publisher))})

        return show


def _camel(name: str) -> str:
    return name.replace("tool-groups", "toolGroups")


def _agents(publisher: Publisher) -> Entries:
    return map(agent_view, publisher.platform.agents)


def _goals(publisher: Publisher) -> Entries:
    return iter(goals_view(publisher.publication.tools, publisher.platform))


def _actions(publisher: Publisher) -> Entries:
    for agent in _agents(publisher):
        yield from ({**each, "agent": agent["name"]} for each in agent["actions"])


def _conditions(publisher: Publisher) -> Entries:
    for agent in _agents(publisher):
        yield from ({"name": each, "agent": agent["name"]} for each in agent["conditions"])


def _models(publisher: Publisher) -> Entries:
    models = publisher.platform.models
    for card in models.cards():
        ready, default = not models.unready(card.name), card.name == models.default
        yield {"name": card.name, "provider": card.provider, "ready": ready, "default": default}


def _tool_groups(publisher: Publisher) -> Entries:
    return ({"role": role, **group} for role, group in groups_of(publisher.platform).items())


LISTS: Final[Mapping[str, Callable[[Publisher], Entries]]] = {
    "agents": _agents,
    "goals": _goals,
    "actions": _actions,
    "conditions": _conditions,
    "models": _models,
    "tool-groups": _tool_groups,
}
"""The lists by the last part of their paths."""
