"""A server that authenticates its callers, on a socket of this machine. No test is in here."""

import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from goalport.server.publish.publisher import Publisher
from goalport.server.site.app import Site
from goalport.server.site.protocol import Connections, LimitedProtocol
from tests.listening import listening
from tests.rooms.auth.issuers import RESOURCE
from tests.rooms.serve.served import state_of

INFO = "/api/v1/platform-info"
"""What every caller may read."""


@dataclass(frozen=True)
class Guarded:
    """A server, and a client of it that sends no credential by itself."""

    address: str
    http: httpx2.AsyncClient
    publisher: Publisher

    async def ask(self, token: str | None = None, path: str = INFO, **headers: str) -> httpx2.Response:
        """The answer to a request with a token."""
        given = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await self.http.get(path, headers={**given, **headers})


@asynccontextmanager
async def guarded(root: Path, *agents: object, auth: Mapping[str, Any], **settings: Any) -> AsyncGenerator[Guarded]:
    """Serve agents behind the guard that these settings ask for, by the name `RESOURCE` or a given `public_url`."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        given: dict[str, Any] = {"public_url": RESOURCE, "port": place.getsockname()[1], **settings}
        publisher = state_of(root, *agents, auth=dict(auth), **given).publisher
        protocol: Any = partial(LimitedProtocol, Connections(publisher.settings))
        async with (
            listening(Site(publisher).app, place, http=protocol) as address,
            httpx2.AsyncClient(base_url=address, timeout=20) as http,
        ):
            yield Guarded(address, http, publisher)


def by(*issuers: Any, **more: Any) -> dict[str, Any]:
    """The settings by which issuers are trusted."""
    return {"issuers": [{"issuer": each.issuer, **more} for each in issuers]}
