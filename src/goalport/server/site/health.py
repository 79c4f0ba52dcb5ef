"""Health and metrics of the server: `/health` and the paths below it, and `/metrics`.

The health paths are for load balancers, containers and people. Without a token, they show only whether the server is up
and ready. They show what is served, and in which state, to callers with a token, and to everybody if the server has no
authentication and listens on loopback. The metrics are for Prometheus. If callers are authenticated, they need the
scope `goals:metrics` or the admin scope; otherwise the server must listen on loopback. With `metrics` = "open",
everybody may read the metrics.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, Final, TypeVar

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from goalport import __version__
from goalport.base.errors import StoreError
from goalport.base.words import counted, listed
from goalport.server.auth import Authentication, current_caller
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
"""The paths that are answered without a token, and also if the Host is the IP address that the request arrived at."""
METRICS_PATH: Final = "/metrics"
_STORE_SECONDS: Final = 2.0
"""Seconds in which a store has to answer, or it counts as unreachable."""
_MEASURE_SECONDS: Final = 1.0
"""Seconds between two measurements of the event loop, open calls, connections and upstream servers."""
_SHARES: Final = {"up": 1.0, "degraded": 0.5}


class Health:
    """The health of one server; `shows_details` says whether the caller of the current request sees all of it."""

    def __init__(self, publisher: Publisher, *, shows_details: Callable[[], bool]) -> None:
        self._publisher = publisher
        self._shows_details = shows_details
        self.workers: Callable[[], Sequence[WorkerState]] = tuple
        """Returns the states of all workers, or none if this process serves alone; the listener sets it."""
        self.draining = False
        """Whether the server is about to end, so that proxies have to send new calls elsewhere."""
        self._store_answers = True
        """Whether the store answered when it was checked last."""
        self.store_writable = True
        """Whether the store could be written when it was checked last."""

    def routes(self) -> Sequence[Route]:
        """The endpoints."""
        answers = ((_HEALTH, self._show), (_LIVE, self._live), (_READY, self._ready))
        return [Route(path, answer, methods=["GET"]) for path, answer in answers]

    async def reasons(self) -> Sequence[str]:
        """Why this server cannot answer calls; empty: it can. Workers that hang get no connections, so do not count."""
        others = [str(each.pid) for each in self.workers() if each.responds and not each.ready]
        return [*await self.reasons_here(), *(f"Worker {each} is not ready." for each in others)]

    async def reasons_here(self) -> Sequence[str]:
        """Why this process cannot answer new calls, in sentences without secrets; none: it can."""
        publisher, publication = self._publisher, self._publisher.publication
        reasons: list[str] = []
        if self.draining or publisher.calls.closing.is_set():
            reasons.append("The server shuts down.")
        fine = {ServerState.UP, ServerState.DISABLED}
        servers = publisher.platform.upstream.reports()
        if down := [each.name for each in servers if each.required and each.state not in fine]:
            reasons.append(f"Upstream servers that are required are not up: {listed(down)}.")
        if missing := [each for each in publisher.settings.required_goals if each not in publication.tools]:
            reasons.append(f"Not published of required_goals: {listed(missing)}.")
        elif publisher.settings.strict and publication.problems:
            count = counted(len(publication.problems), "load problem")
            reasons.append(f"The workspace has {count}, and strict is set.")
        store, answers, writable = publisher.platform.store, False, False
        try:
            with anyio.fail_after(_STORE_SECONDS):
                await store.find("")
                answers = True
                if isinstance(store, DatabaseProcessStore):
                    await store.check_writes()
                writable = True
        except StoreError as error:
            reasons.append(error.client_message)
        except TimeoutError:
            reasons.append(f"The store of processes has not answered within {_STORE_SECONDS:g} s.")
        finally:
            self._store_answers, self.store_writable = answers, writable
        return reasons

    async def stored(self, read: Callable[[], Awaitable[T]]) -> T | None:
        """What is read from the store; None while it does not answer."""
        found = None
        if self._store_answers:
            with suppress(StoreError, TimeoutError), anyio.fail_after(_STORE_SECONDS):
                found = await read()
        return found

    async def _live(self, _: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def _ready(self, _: Request) -> JSONResponse:
        reasons = await self.reasons()
        if not reasons:
            return JSONResponse({"status": "ready"})
        details = {"reasons": reasons} if self._shows_details() else {}
        return JSONResponse({"status": "not ready", **details}, HTTPStatus.SERVICE_UNAVAILABLE)

    async def _show(self, _: Request) -> JSONResponse:
        """What is served: names, states and counts, but no messages of other programs, which may quote a secret.

        If there are several workers, one answers for all, with its own process id.
        """
        reasons = await self.reasons()
        content: dict[str, Any] = {"status": "ok", "ready": not reasons}
        if not self._shows_details():
            return JSONResponse(content)
        publisher, publication, platform = self._publisher, self._publisher.publication, self._publisher.platform
        workers, pid = self.workers(), os.getpid()
        states = [{"pid": each.pid, "ready": each.ready and each.responds} for each in workers]
        elsewhere = sum(each.open_calls for each in workers if each.pid != pid)
        return JSONResponse(
            {
                **content,
                "reasons": reasons,
                "name": publisher.settings.name,
                "version": __version__,
                "agents": sum(1 for _ in platform.agents),
                "goals": sum(len(agent.goals) for agent in platform.agents),
                "tools": len(publication.tools),
                "prompts": len(publication.prompts),
                "resources": len(publication.resource_list),
                "resourceNamespaces": list(publication.providers),
                "processes": await self.stored(platform.processes.counts),
                "openCalls": publisher.calls.number + elsewhere,
                "pid": pid,
                **({"workers": states} if states else {}),
                "toolGroups": groups_of(platform),
                "upstreamServers": servers_of(platform),
                "loadProblems": len(publication.problems),
            }
        )


class MetricsPage:
    """The metrics of one server, some of which are measured every second while it runs."""

    def __init__(self, publisher: Publisher, authentication: Authentication | None, health: Health) -> None:
        from goalport.base.observe.metrics import Metrics

        self.metrics = Metrics(__version__)
        self.connections: Callable[[], int] = lambda: 0
        """Returns the number of open connections; the listener sets it."""
        self._publisher = publisher
        self._authentication = authentication
        self._health = health
        metrics, platform = self.metrics, publisher.platform
        publisher.calls.refusals.append(metrics.refusal)
        publisher.calls.observers.append(
            lambda call: metrics.call(call.door, call.name if call.known else "", call.status, call.seconds)
        )
        platform.processes.on_model_request = metrics.model_request
        platform.processes.on_spending = lambda entry: metrics.spending(
            entry.model, entry.usage.input_tokens, entry.usage.output_tokens, entry.usage.cost
        )
        self._store = platform.store if isinstance(platform.store, DatabaseProcessStore) else None
        if self._store is not None:
            self._store.database.on_transaction = metrics.transaction

    @asynccontextmanager
    async def measuring(self) -> AsyncGenerator[None]:
        """A context in which the event loop and the states of connections are measured."""

        async def measure() -> None:
            loop = asyncio.get_running_loop()
            while True:
                await self._note_states()
                due = loop.time() + _MEASURE_SECONDS
                await asyncio.sleep(_MEASURE_SECONDS)
                self.metrics.lag(loop.time() - due)

        task = asyncio.create_task(measure())
        try:
            yield
        finally:
            task.cancel()

    async def _note_states(self) -> None:
        publisher, metrics = self._publisher, self.metrics
        metrics.open_calls.set(publisher.calls.number)
        metrics.audit_lost.set(publisher.audit_trail.lost)
        metrics.open_connections.set(self.connections())
        metrics.take_overs(publisher.platform.processes.taken_over)
        metrics.note_process()
        if self._store is not None and (free := self._store.database.free_bytes) is not None:
            metrics.store_free.set(free)
        metrics.load_problems.set(len(publisher.publication.problems))
        metrics.ready.set(int(not await self._health.reasons()))
        metrics.store_writable.set(int(self._health.store_writable))
        for each in publisher.platform.upstream.reports():
            up = each.state is ServerState.UP
            metrics.upstream(each.name, up=up, calls=each.calls, failures=each.failures)
        for name, state in groups_of(publisher.platform).items():
            metrics.group(name, _SHARES.get(state["status"], 0.0))

    async def show(self, request: Request) -> Response:
        """The metrics, or a refusal that says what the caller or the settings lack."""
        settings, authentication, caller = self._publisher.settings, self._authentication, current_caller()
        if settings.metrics != "open" and authentication is not None:
            needed = settings.auth.scope("metrics")
            if not caller.admin and not caller.has(needed):
                detail = f"The metrics need the scope {needed}."
                return authentication.challenges.insufficient_scope([needed], detail)
        elif settings.metrics != "open" and not settings.on_loopback:
            detail = (
                "This server listens to other machines and authenticates nobody, so its metrics are closed. Set"
                ' metrics = "open" to show them to everybody who can reach it.'
            )
            return PlainTextResponse(detail, HTTPStatus.FORBIDDEN)
        await self._note_states()
        counts = await self._health.stored(self._publisher.platform.processes.counts)
        numbers = None if self._store is None else await self._health.stored(self._store.size_and_age)
        accept = request.headers.get("accept", "")
        # In a thread: the numbers of hundreds of goals take a tenth of a second.
        text, media_type = await to_thread.run_sync(self.metrics.text, accept, counts, numbers)
        return Response(text, headers={"Content-Type": media_type})
