"""`/metrics`: the numbers of the server, for Prometheus, and what is measured for them while it runs.

Who calls needs the scope `goals:metrics` or the admin scope where callers are authenticated. Otherwise a server answers
only if it listens to its own machine alone, unless `metrics` is "open".
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from goalport import __version__
from goalport.runtime.process import Spending
from goalport.server.auth import Authentication, current_caller
from goalport.server.publish.calls import Call
from goalport.server.publish.publisher import Publisher
from goalport.server.publish.report import groups_of
from goalport.server.site.health import Health
from goalport.store.database import DatabaseProcessStore
from goalport.tools.upstream.upstream_server import ServerState

METRICS_PATH: Final = "/metrics"
_SECONDS: Final = 1.0
"""How often the event loop is looked at, and the states of what is open and connected."""
_SHARES: Final = {"up": 1.0, "degraded": 0.5}
_CLOSED: Final = (
    'This server listens to other machines and authenticates nobody, so its metrics are closed. Set metrics = "open" to'
    " show them to everybody who can reach it."
)


class MetricsPage:
    """The numbers of one server."""

    def __init__(self, publisher: Publisher, authentication: Authentication | None, health: Health) -> None:
        from goalport.base.observe.metrics import Metrics

        self.metrics = Metrics(__version__)
        self.connections: Callable[[], int] = lambda: 0
        """How many connections are open; the listener knows."""
        self._publisher = publisher
        self._authentication = authentication
        self._health = health
        publisher.calls.observers.append(self._on_call)
        publisher.calls.refusals.append(self.metrics.refusal)
        publisher.platform.processes.on_spending = self._spent
        publisher.platform.processes.on_model_request = self.metrics.model_request
        store = publisher.platform.store
        self._store = store if isinstance(store, DatabaseProcessStore) else None
        if self._store is not None:
            self._store.database.tell = self.metrics.transaction

    def route(self) -> Route:
        """The endpoint."""
        return Route(METRICS_PATH, self._show, methods=["GET"])

    def _on_call(self, call: Call) -> None:
        self.metrics.call(call.door, call.name if call.known else "", call.status, call.seconds)

    def _spent(self, entry: Spending) -> None:
        used = entry.usage
        self.metrics.spending(entry.model, used.input_tokens, used.output_tokens, used.cost)

    @asynccontextmanager
    async def measuring(self) -> AsyncGenerator[None]:
        """A context in which the event loop and the states of connections are measured."""
        task = asyncio.create_task(self._measure())
        try:
            yield
        finally:
            task.cancel()

    async def _measure(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._note_states()
            due = loop.time() + _SECONDS
            await asyncio.sleep(_SECONDS)
            self.metrics.lag(loop.time() - due)

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
        metrics.ready.set(int(await self._health.is_ready()))
        metrics.store_writable.set(int(self._health.store_writable))
        for each in publisher.platform.upstream.reports():
            up = each.state is ServerState.UP
            metrics.upstream(each.name, up=up, calls=each.calls, failures=each.failures)
        for name, told in groups_of(publisher.platform).items():
            metrics.group(name, _SHARES.get(told["status"], 0.0))

    async def _show(self, request: Request) -> Response:
        if (refusal := self._refusal()) is not None:
            return refusal
        await self._note_states()
        counts = await self._health.stored(self._publisher.platform.processes.counts)
        numbers = None if self._store is None else await self._health.stored(self._store.size_and_age)
        accept = request.headers.get("accept", "")
        # In a thread: the numbers of hundreds of goals take a tenth of a second.
        text, media_type = await to_thread.run_sync(self.metrics.text, accept, counts, numbers)
        return Response(text, headers={"Content-Type": media_type})

    def _refusal(self) -> Response | None:
        settings, authentication = self._publisher.settings, self._authentication
        if settings.metrics == "open" or (authentication is None and settings.on_loopback):
            return None
        if authentication is None:
            return PlainTextResponse(_CLOSED, HTTPStatus.FORBIDDEN)
        caller, needed = current_caller(), settings.auth.metrics_scope
        if caller.admin or caller.has(needed):
            return None
        return authentication.challenges.insufficient_scope([needed], f"The metrics need the scope {needed}.")
