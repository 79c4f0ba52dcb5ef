"""`/health`: whether the server is up and what it serves, for load balancers and people.

It shows names, states and counts; no reason of a failure, since it may quote a secret, and no name of a caller.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from goalport import __version__
from goalport.publish.publisher import Publisher
from goalport.publish.report import groups_of, servers_of

__all__ = ["Health"]


class Health:
    """The endpoint; Starlette treats an instance as an ASGI app, but not a function."""

    def __init__(self, publisher: Publisher, open_calls: Callable[[], int]) -> None:
        self._publisher = publisher
        self._open_calls = open_calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await JSONResponse(self._content())(scope, receive, send)

    def _content(self) -> dict[str, Any]:
        publication, platform = self._publisher.publication, self._publisher.platform
        return {
            "status": "ok",
            "name": self._publisher.settings.name,
            "version": __version__,
            "agents": sum(1 for _ in platform.agents),
            "goals": sum(len(agent.goals) for agent in platform.agents),
            "tools": len(publication.tools),
            "prompts": len(publication.prompts),
            "resources": len(publication.resource_list),
            "processes": Counter(str(process.status) for process in platform.processes),
            "openCalls": self._open_calls(),
            "toolGroups": groups_of(platform),
            "upstreamServers": servers_of(platform),
            "loadProblems": len(publication.problems),
        }
