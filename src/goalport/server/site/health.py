"""Whether the server lives and can answer, for load balancers, containers and people: `/health` and the paths below it.

They are answered without a token and tell then no more than that. What is served, and in which state, is for those who
may call: nobody needs to be known where a server has no authentication, and everybody else sends a token.
"""

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, TypeVar

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from goalport import __version__
from goalport.base.errors import StoreError
from goalport.base.words import counted, listed
from goalport.server.publish.publisher import Publisher
from goalport.server.publish.report import groups_of, servers_of
from goalport.server.workers import WorkerState
from goalport.store.database import DatabaseProcessStore
from goalport.tools.upstream.upstream_server import ServerState

T = TypeVar("T")

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
        self._store_answers = True
        """Whether the store did when it was asked last."""
        self.store_writable = True
        """Whether there was room for more then."""

    def routes(self) -> Iterator[Route]:
        """The endpoints."""
        yield Route(_HEALTH, self._show, methods=["GET"])
        yield Route(_LIVE, self._live, methods=["GET"])
        yield Route(_READY, self._ready, methods=["GET"])

    async def is_ready(self) -> bool:
        """Whether calls can be answered, by all workers that respond: new connections go to these."""
        return not await self._reasons()

    async def is_ready_here(self) -> bool:
        """Whether this process can answer new calls."""
        return not await self._reasons_here()

    async def stored(self, read: Callable[[], Awaitable[T]]) -> T | None:
        """What is read from the store; None while it does not answer."""
        found = None
        if self._store_answers:
            with suppress(StoreError, TimeoutError), anyio.fail_after(_STORE_SECONDS):
                found = await read()
        return found

    async def _reasons(self) -> Sequence[str]:
        """Why calls cannot be answered, in sentences without secrets; none: they can."""
        others = [str(each.pid) for each in self.workers() if each.responds and not each.ready]
        return [*await self._reasons_here(), *(f"Worker {each} is not ready." for each in others)]

    async def _reasons_here(self) -> Sequence[str]:
        return [*self._known_reasons(), *await self._reasons_of_store()]

    def _known_reasons(self) -> Iterator[str]:
        publisher, publication = self._publisher, self._publisher.publication
        if self.draining or publisher.calls.closing.is_set():
            yield "The server shuts down."
        fine = {ServerState.UP, ServerState.DISABLED}
        servers = publisher.platform.upstream.reports()
        if down := [each.name for each in servers if each.required and each.state not in fine]:
            yield f"Upstream servers that are required are not up: {listed(down)}."
        if missing := [each for each in publisher.settings.required_goals if each not in publication.tools]:
            yield f"Not published of required_goals: {listed(missing)}."
        elif publisher.settings.strict and publication.problems:
            yield f"The workspace has {counted(len(publication.problems), 'load problem')}, and strict is set."

    async def _reasons_of_store(self) -> Sequence[str]:
        store = self._publisher.platform.store
        answers = writable = False
        try:
            with anyio.fail_after(_STORE_SECONDS):
                await store.find("")
                answers = True
                if isinstance(store, DatabaseProcessStore):
                    await store.check_writes()
                writable = True
        except StoreError as error:
            return [error.told]
        except TimeoutError:
            return [f"The store of processes has not answered within {_STORE_SECONDS:g} s."]
        finally:
            self._store_answers, self.store_writable = answers, writable
        return []

    async def _live(self, _: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def _ready(self, _: Request) -> JSONResponse:
        reasons = await self._reasons()
        if not reasons:
            return JSONResponse({"status": "ready"})
        details = {"reasons": reasons} if self._shows_details() else {}
        return JSONResponse({"status": "not ready", **details}, HTTPStatus.SERVICE_UNAVAILABLE)

    async def _show(self, _: Request) -> JSONResponse:
        reasons = await self._reasons()
        content: dict[str, Any] = {"status": "ok", "ready": not reasons}
        if self._shows_details():
            content |= {"reasons": reasons, **await self._details()}
        return JSONResponse(content)

    async def _details(self) -> dict[str, Any]:
        """What is served: names, states and counts; no message of another program, which may quote a secret.

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
            "processes": await self.stored(platform.processes.counts),
            **self._processes(),
            "toolGroups": groups_of(platform),
            "upstreamServers": servers_of(platform),
            "loadProblems": len(publication.problems),
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
