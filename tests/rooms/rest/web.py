"""A server with the REST door on a socket of this machine, and its client. No test is in here.

The client checks each answer against the document at `/openapi.json`.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from starlette.types import Receive, Scope, Send

from goalport.base.caller import Caller
from goalport.runtime.platform import AgentPlatform
from goalport.server.auth import Authentication, Grant
from goalport.server.auth.access import granted
from goalport.server.publish.publisher import Publisher
from goalport.server.site.app import Site
from goalport.server.site.protocol import Connections, LimitedProtocol
from tests.listening import address_of, serving
from tests.rooms.rest.documented import Documented
from tests.rooms.serve.served import state_of

PROCESS = "/api/v1/process"


class ByHeader:
    """Stands for an authentication: the headers `Caller`, `Issuer` and `Admin` of a request say who makes it."""

    def __init__(self, site: Site) -> None:
        self._app = site.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope.get("headers", ()))
        name, issuer = (headers.get(each, b"").decode() for each in (b"caller", b"issuer"))
        caller = Caller(name, issuer, frozenset({"run"}), admin=b"admin" in headers)
        with granted(scope, Grant(caller, "app"), "t") if name else nullcontext():
            await self._app(scope, receive, send)


@dataclass(frozen=True)
class Web:
    """A server, and a client of it."""

    http: httpx2.AsyncClient
    publisher: Publisher
    server: uvicorn.Server

    @property
    def platform(self) -> AgentPlatform:
        return self.publisher.platform

    @property
    def most_buffered(self) -> int:
        """The most bytes that wait to be sent over one connection."""
        connections: Any = self.server.server_state.connections
        return max(each.transport.get_write_buffer_size() for each in connections)

    async def start(self, goal: str, given: Mapping[str, Any], **more: Any) -> httpx2.Response:
        return await self.http.post(PROCESS, json={"goal": goal, "input": given, **more})

    async def resume(self, state: Mapping[str, Any], response: object, **more: Any) -> httpx2.Response:
        """Answer the question of an answer that waits."""
        given = {"awaitableId": state["awaitableId"], "response": response, **more}
        return await self.http.post(f"{PROCESS}/{state['processId']}/continue", json=given)


@asynccontextmanager
async def web(
    root: Path, *agents: object, authentication: Authentication | None = None, **settings: Any
) -> AsyncGenerator[Web]:
    """Serve agents on a free port for as long as the block lasts, with an authentication or with `ByHeader`."""
    publisher = state_of(root, *agents, **settings).publisher
    protocol: Any = partial(LimitedProtocol, Connections(publisher.settings))
    site = Site(publisher, authentication)
    app = ByHeader(site) if authentication is None else site.app
    async with (
        serving(app, port=settings.get("port", 0), http=protocol) as server,
        httpx2.AsyncClient(base_url=address_of(server), timeout=20) as http,
    ):
        documented = Documented()

        async def check(answer: httpx2.Response) -> None:
            if "Documented" not in answer.request.headers:
                await documented.check(http, answer)

        http.event_hooks = {"response": [check]}
        yield Web(http, publisher, server)
