"""`/health`: whether the server serves and how much, for load balancers and people.

It tells names, states and counts: no reason of a failure, which may quote a secret, and no name of a caller.
"""

from collections import Counter
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from goalport import __version__
from goalport.publish.report import groups_of, servers_of
from goalport.serve.serving import Serving

__all__ = ["Health", "health_of"]


class Health:
    """The endpoint; an instance, so it is an ASGI app."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await JSONResponse(health_of(self._serving))(scope, receive, send)


def health_of(serving: Serving) -> dict[str, Any]:
    """What the endpoint answers."""
    publication, platform = serving.publication, serving.platform
    return {
        "status": "ok",
        "name": serving.settings.name,
        "version": __version__,
        "agents": sum(1 for _ in platform.agents),
        "goals": sum(len(agent.goals) for agent in platform.agents),
        "tools": len(publication.tools),
        "prompts": len(publication.prompts),
        "resources": len(publication.resource_list),
        "processes": Counter(str(process.status) for process in platform.processes),
        "openCalls": serving.open_calls,
        "toolGroups": groups_of(platform),
        "upstreamServers": servers_of(platform),
        "loadProblems": len(publication.problems),
    }
