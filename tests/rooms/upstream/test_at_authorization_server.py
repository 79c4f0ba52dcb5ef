"""Signing in at a real authorization server, oidc-provider, to another goalport that takes its tokens."""

from pathlib import Path

import httpx2

from goalport.server.auth import Authentication
from goalport.tools.upstream.config import OAuthConfig, ServerConfig
from goalport.workspace.settings import load_settings
from tests.authorization import Mirror, authorization_server
from tests.rooms.rest.web import web
from tests.rooms.upstream.connected import connected
from tests.rooms.upstream.signing_in import free_port


async def test_a_person_signs_in_and_is_known_to_the_other_server(tmp_path: Path) -> None:
    port, back = free_port(), free_port()
    address = f"http://127.0.0.1:{port}"
    with authorization_server(f"{address}/mcp") as provider:
        auth = {"issuers": [{"issuer": provider.address, "audience": f"{address}/mcp"}]}
        settings = {"public_url": address, "port": port, "auth": auth}
        authentication = Authentication.of(load_settings(tmp_path, **settings))

        async def anna(url: str) -> None:
            brought = await provider.sign_in(url, redirect=f"http://127.0.0.1:{back}/callback")
            async with httpx2.AsyncClient(trust_env=False) as browser:
                await browser.get(f"http://127.0.0.1:{back}/callback", params=brought)

        config = ServerConfig("mirror", "http", url=f"{address}/mcp", oauth=OAuthConfig(redirect_port=back))
        async with web(tmp_path, Mirror, authentication=authentication, **settings):
            for show in (anna, None):
                async with connected(config, data=tmp_path / "ours", show_sign_in=show) as servers:
                    said = await servers.call("who_am_i", "mirror", content="hello")
                    assert f"anna of {provider.address}" in said.text, (said.text, servers.server("mirror").report())
        assert len(provider.signed_in) == 1
