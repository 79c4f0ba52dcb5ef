"""Whether the server lives and can answer, for load balancers, containers and people: `/health` and the paths below it.

They are answered without a token and tell then no more than that. What is served, and in which state, is for those who
may call: nobody needs to be known where a server has no authentication, and everybody else sends a token.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from goalport import __version__
from goalport.errors import StoreError
from goalport.publish.publisher import Publisher
from goalport.publish.report import groups_of, servers_of
from goalport.upstream.status import ServerState
from goalport.workers import WorkerState

__all__ = ["HEALTH_PATHS", "Health"]

_HEALTH: Final = "/health"
_LIVE: Final = "/health/live"
_READY: Final = "/health/ready"
HEALTH_PATHS: Final = frozenset({_HEALTH, _LIVE, _READY})
"""The paths that are answered without a token, and for the address at which the server was reached."""
_STORE_SECONDS: Final = 2.0
"""How long a store may take to answer that can be reached."""


class Health:
    """The health of one server; `shows_details` says whether the caller of the current request sees all of it."""

    def __init__(self, publisher: Publisher, *, shows_details: Callable[[], bool]) -> None:
        self._publisher = publisher
        self._shows_details = shows_details
        self.workers: Callable[[], Sequence[WorkerState]] = tuple
        """The states of all workers of the server; without any, this process serves alone. The listener knows them."""
        self.draining = False
        """Whether the server is about to end, so that proxies have to send new calls elsewhere."""

    def routes(self) -> Iterator[Route]:
        """The endpoints."""
        yield Route(_HEALTH, self._show, methods=["GET"])
        yield Route(_LIVE, self._live, methods=["GET"])
        yield Route(_READY, self._ready, methods=["GET"])

    async def is_ready(self) -> bool:
        """Whether calls can be answered, by all workers that respond: new connections go to these."""
        return all(each.ready for each in self.workers() if each.responds) and await self.is_ready_here()

    async def is_ready_here(self) -> bool:
        """Whether this process can answer new calls: the store answers, what is required is there, and no end is near.

        The store answers only if it can be written too.
        """
        publisher = self._publisher
        ending = self.draining or publisher.calls.closing.is_set()
        return not ending and not publisher.lacking and self._required_are_up() and await self._store_answers()

    def _required_are_up(self) -> bool:
        fine = {ServerState.UP, ServerState.DISABLED}
        return all(each.state in fine for each in self._publisher.platform.upstream.reports() if each.required)

    async def _store_answers(self) -> bool:
        try:
            with anyio.fail_after(_STORE_SECONDS):
                await self._publisher.platform.store.check()
        except (StoreError, TimeoutError):
            return False
        return True

    async def counts(self) -> Mapping[str, int] | None:
        """How many processes have each status; None: the store does not answer."""
        try:
            with anyio.fail_after(_STORE_SECONDS):
                return await self._publisher.platform.processes.counts()
        except (StoreError, TimeoutError):
            return None

    async def _live(self, _: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def _ready(self, _: Request) -> JSONResponse:
        if await self.is_ready():
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "not ready"}, HTTPStatus.SERVICE_UNAVAILABLE)

    async def _show(self, _: Request) -> JSONResponse:
        content: dict[str, Any] = {"status": "ok", "ready": await self.is_ready()}
        if self._shows_details():
            content |= await self._details()
        return JSONResponse(content)

    async def _details(self) -> dict[str, Any]:
        """What is served: names, states and counts; no reason of a failure, as it may quote a secret, and no caller.

        Of several workers, one answers for all, with its own process id.
        """
        publication, platform = self._publisher.publication, self._publisher.platform
        return {
            "name": self._publisher.settings.name,
            "version": __version__,
            "agents": sum(1 for _ in platform.agents),
            "goals": sum(len(agent.goals) for agent in platform.agents),
            "tools": len(publication.tools),
            "prompts": len(publication.prompts),
            "resources": len(publication.resource_list),
            "resourceNamespaces": list(publication.providers),
            "processes": await self.counts(),
            **self._processes(),
            "toolGroups": groups_of(platform),
            "upstreamServers": servers_of(platform),
            "loadProblems": len(publication.problems),
            "missingGoals": self._publisher.missing_goals,
        }

    def _processes(self) -> dict[str, Any]:
        """This process, the others that serve beside it, and the calls that are open in any of them."""
        own, open_calls = os.getpid(), self._publisher.calls.number
        workers = self.workers()
        if not workers:
            return {"openCalls": open_calls, "pid": own}
        others = sum(each.open_calls for each in workers if each.pid != own)
        states = [{"pid": each.pid, "ready": each.ready and each.responds} for each in workers]
        return {"openCalls": open_calls + others, "pid": own, "workers": states}
