"""An authentication whose tokens say who calls and with which scopes, and its clients. No test is in here."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from goalport.server.auth import Authentication, Challenges, Grant, InvalidToken
from goalport.server.auth.challenges import ProtectedResource
from goalport.server.auth.verifiers import caller_of
from goalport.workspace.settings import AuthSettings
from tests.rooms.rest.web import Web

METADATA = "https://here/.well-known/oauth-protected-resource/mcp"
_RESOURCE = ProtectedResource("https://here", "here", ["test"], ["goals:read"])


@dataclass(frozen=True)
class Spoken:
    """Takes tokens such as `ada=goals:read+finance:write`: the caller, and its scopes."""

    settings: AuthSettings

    def recognizes(self, token: str) -> bool:
        return "=" in token

    async def verify(self, token: str, is_slowed: Callable[[], bool]) -> Grant:
        name, _, scopes = token.partition("=")
        if not name:
            raise InvalidToken("The token names nobody.")
        return Grant(caller_of(self.settings, name, "test", scopes.split("+"), {"tenant": f"of {name}"}), "app")


def spoken(**settings: Any) -> Authentication:
    """An authentication by `Spoken` tokens."""
    given = AuthSettings(claims=("tenant",), **settings)
    return Authentication([Spoken(given)], Challenges(given.scope("read"), _RESOURCE))


def bearer(name: str, *scopes: str) -> dict[str, str]:
    """The header of a caller with these scopes."""
    return {"Authorization": f"Bearer {name}={'+'.join(scopes)}"}


@asynccontextmanager
async def client_of(
    server: Web,
    name: str,
    *scopes: str,
    era: str = "auto",
    refusals: list[httpx2.Response] | None = None,
    **options: Any,
) -> AsyncGenerator[Client]:
    """The official client with a token; it notes the responses of status 403 in `refusals`."""

    async def note(response: httpx2.Response) -> None:
        if response.status_code == HTTPStatus.FORBIDDEN and refusals is not None:
            await response.aread()
            refusals.append(response)

    async with (
        httpx2.AsyncClient(headers=bearer(name, *scopes), timeout=20, event_hooks={"response": [note]}) as http,
        Client(streamable_http_client(f"{server.http.base_url}/mcp", http_client=http), mode=era, **options) as client,
    ):
        yield client
