"""A server that authenticates nobody answers its own machine alone, whoever listens for it."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.types import ASGIApp, Receive, Scope, Send

from goalport import AgentPlatform
from goalport.base.errors import SettingsError
from goalport.server.site import create_app, serve_http
from goalport.workspace import Workspace
from goalport.workspace.settings import load_settings

OPEN = {"insecure_no_auth": True}


class Reached:
    """What an ASGI server says of a connection: the address of this machine to which it was made."""

    def __init__(self, app: ASGIApp, address: str, user: object = None) -> None:
        self._app = app
        self._told: dict[str, Any] = {"server": (address, 8080)} | ({} if user is None else {"user": user})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, **self._told}, receive, send)


async def answered(root: Path, address: str, user: object = None, **auth: Any) -> httpx2.Response:
    app = create_app(AgentPlatform(), settings=load_settings(root, auth=auth))
    transport = httpx2.ASGITransport(Reached(app, address, user))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        return await http.get("/api/v1/platform-info")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "/run/goalport.sock"])
async def test_a_request_of_this_machine_is_answered(tmp_path: Path, address: str) -> None:
    assert (await answered(tmp_path, address)).status_code == 200


@pytest.mark.parametrize("address", ["192.0.2.7", "10.0.0.1", "fe80::1%eth0", "2001:db8::1", "::ffff:192.0.2.7"])
async def test_a_request_to_an_address_that_others_reach_is_refused_and_the_log_names_both_ways(
    tmp_path: Path, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await answered(tmp_path, address)
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:goalport:problem:no-authentication")
    assert "goalport keys new NAME" in caplog.text
    assert "INSECURE_NO_AUTH" in caplog.text
    assert (await answered(tmp_path, address, **OPEN)).status_code == 200


async def test_a_request_that_the_app_around_the_server_has_authenticated_is_answered(tmp_path: Path) -> None:
    user = AuthenticatedUser(AccessToken(token="t", client_id="app", scopes=[], subject="ada"))
    assert (await answered(tmp_path, "192.0.2.7", user)).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "agents.example.com"])  # noqa: S104 - nothing is bound
async def test_a_server_that_others_could_reach_does_not_start_and_names_both_ways(tmp_path: Path, host: str) -> None:
    settings = load_settings(tmp_path, host=host)
    with pytest.raises(SettingsError, match=r"goalport keys new NAME.*--insecure-no-auth"):
        await serve_http(AgentPlatform(), Workspace(tmp_path), settings)
