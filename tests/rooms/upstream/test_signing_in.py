"""Signing in to upstream servers: by client credentials, by a person's browser, and where the tokens are kept."""

import logging
import socket
from pathlib import Path

import httpx2
import pytest

from goalport.tools.upstream.config import OAuthConfig, ServerConfig
from goalport.tools.upstream.upstream_server import ServerState
from tests.rooms.upstream.connected import connected
from tests.rooms.upstream.signing_in import Doorkeeper, doorkeeper, free_port


def guarded(keeper: Doorkeeper, oauth: OAuthConfig) -> ServerConfig:
    return ServerConfig("guarded", "http", url=f"{keeper.address}/mcp", oauth=oauth, timeout=10, connect_timeout=10)


async def browser(url: str) -> None:
    """A person who agrees at once."""
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as client:
        answer = await client.get(url)
    assert "You are signed in" in answer.text


async def test_a_client_secret_gets_a_token_without_anybody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with doorkeeper() as keeper:
        oauth = OAuthConfig(client_id="us", client_secret="our-client-secret", issuer=keeper.address)
        async with connected(guarded(keeper, oauth), data=tmp_path) as servers:
            assert (await servers.call("hello", "guarded")).text == "hello"
    assert keeper.granted == ["client_credentials"]
    assert "our-client-secret" not in caplog.text


async def test_tokens_are_kept_where_their_owner_alone_can_read_them(tmp_path: Path) -> None:
    async with doorkeeper() as keeper:
        config = guarded(keeper, OAuthConfig(client_id="us", client_secret="our-client-secret", issuer=keeper.address))
        for _ in range(2):
            async with connected(config, data=tmp_path) as servers:
                assert servers.server("guarded").state is ServerState.UP
        assert keeper.granted == ["client_credentials"]
    (kept,) = (tmp_path / "oauth").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "oauth").stat().st_mode & 0o777 == 0o700
    assert "sealed" in kept.read_text()
    assert "access-token-1" not in kept.read_text()
    assert "our-client-secret" not in kept.read_text()


async def test_a_person_signs_in_once_with_a_browser_that_comes_back_to_loopback(tmp_path: Path) -> None:
    async with doorkeeper() as keeper:
        config = guarded(keeper, OAuthConfig())
        async with connected(config, data=tmp_path, show_sign_in=browser) as servers:
            assert (await servers.call("hello", "guarded")).text == "hello"
        async with connected(config, data=tmp_path) as servers:
            assert servers.server("guarded").state is ServerState.UP
    assert (keeper.granted, keeper.registered) == (["authorization_code"], 1)


async def test_a_token_that_ended_while_nobody_ran_is_renewed_without_the_person(tmp_path: Path) -> None:
    async with doorkeeper() as keeper:
        keeper.lifetime = -1
        config = guarded(keeper, OAuthConfig(redirect_port=free_port()))
        async with connected(config, data=tmp_path, show_sign_in=browser) as servers:
            assert servers.server("guarded").state is ServerState.UP
        keeper.lifetime = 3600
        keeper.tokens.clear()
        keeper.granted.clear()
        async with connected(config, data=tmp_path) as servers:
            assert servers.server("guarded").state is ServerState.UP
    assert keeper.granted == ["refresh_token"]


async def test_a_port_that_is_taken_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with doorkeeper() as keeper:
            config = guarded(keeper, OAuthConfig(redirect_port=port))
            async with connected(config, data=tmp_path, show_sign_in=browser) as servers:
                report = servers.server("guarded").report()
    assert report.state is ServerState.DOWN
    assert f"port {port} of 127.0.0.1 is taken" in report.last_error
    assert "set `redirectPort` under `oauth`" in report.last_error


async def test_without_a_person_it_is_said_how_to_sign_in(tmp_path: Path) -> None:
    async with doorkeeper() as keeper, connected(guarded(keeper, OAuthConfig()), data=tmp_path) as servers:
        report = servers.server("guarded").report()
    assert report.state is ServerState.SIGN_IN
    assert "wants a person to sign in: run `goalport mcp check` in a terminal" in report.last_error


async def test_a_client_secret_goes_to_its_own_issuer_alone(tmp_path: Path) -> None:
    async with doorkeeper() as keeper:
        oauth = OAuthConfig(client_id="us", client_secret="our-client-secret", issuer="https://another.example")
        async with connected(guarded(keeper, oauth), data=tmp_path) as servers:
            assert servers.server("guarded").state is ServerState.DOWN
    assert keeper.granted == []


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize(
    "path",
    ["/mcp", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/token"],
)
async def test_no_answer_on_the_way_to_a_token_is_read_beyond_a_megabyte(
    tmp_path: Path, path: str, *, packs: bool
) -> None:
    async with doorkeeper() as keeper:
        keeper.padded, keeper.packs = path, packs
        oauth = OAuthConfig(client_id="us", client_secret="our-client-secret", issuer=keeper.address)
        async with connected(guarded(keeper, oauth), data=tmp_path) as servers:
            report = servers.server("guarded").report()
    assert report.state is ServerState.DOWN
    wanted = "is encoded with gzip, which was not asked for" if packs else "has more than 1,048,576 bytes"
    assert wanted in report.last_error
