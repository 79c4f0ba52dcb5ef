"""The official client signs in at a real authorization server, in both eras, and calls goals with what it was given."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from goalport import Export, UserInput, achieves_goal, agent
from goalport.server.auth import InvalidToken
from goalport.server.auth.jwt import JwtVerifier
from goalport.server.auth.tokens import ProviderClient
from goalport.workspace.settings import load_settings
from tests.authorization import REDIRECT, Answer, AuthorizationServer, Mirror, authorization_server
from tests.rooms.auth.guarded import guarded
from tests.rooms.auth.issuers import RESOURCE
from tests.rooms.auth.test_issuer_keys import Watch

Era = Literal["auto", "legacy"]
OPAQUE = "urn:opaque"
WANTED = ({"goals:read"}, {"goals:write"}, {"finance:write"})
"""What three sign-ins ask for: to look, to change, to pay."""


@pytest.fixture(scope="module")
def provider() -> Generator[AuthorizationServer]:
    with authorization_server(f"{RESOURCE}/mcp", OPAQUE) as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_was_asked(provider: AuthorizationServer) -> None:
    provider.order("forget")
    provider.signed_in.clear()


@dataclass
class Storage:
    """What a client keeps of its sign-in."""

    tokens: list[OAuthToken] = field(default_factory=list[OAuthToken])
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens[-1] if self.tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens.append(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@dataclass
class Host:
    """A client with a person at a browser."""

    server: str
    provider: AuthorizationServer
    storage: Storage = field(default_factory=Storage)
    person: str = "anna"
    is_known: bool = True
    """Whether it was registered by hand, or registers itself, with the scopes that it is told of at first."""

    def __post_init__(self) -> None:
        self._came_back: dict[str, str] = {}
        if self.is_known:
            self.storage.client = OAuthClientInformationFull(
                client_id="host", redirect_uris=[AnyUrl(REDIRECT)], issuer=self.provider.address
            )
        metadata = OAuthClientMetadata(
            client_name="host",
            redirect_uris=[AnyUrl(REDIRECT)],
            token_endpoint_auth_method="none",
            grant_types=["authorization_code", "refresh_token"],
            application_type="native",
        )
        self.oauth = OAuthClientProvider(
            f"{self.server}/mcp", metadata, self.storage, redirect_handler=self._open, callback_handler=self._wait
        )

    async def _open(self, url: str) -> None:
        self._came_back = await self.provider.sign_in(url, self.person)

    async def _wait(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(self._came_back)

    @asynccontextmanager
    async def connected(self, era: Era) -> AsyncGenerator[Client]:
        async with (
            httpx2.AsyncClient(auth=self.oauth, timeout=20) as http,
            Client(streamable_http_client(f"{self.server}/mcp", http_client=http), mode=era) as client,
        ):
            yield client


def trusting(provider: AuthorizationServer, **more: Any) -> dict[str, Any]:
    return {"issuers": [{"issuer": provider.address}], **more}


async def who(client: Client) -> str:
    result: Any = await client.call_tool("who_am_i", {"content": "?"})
    assert not result.is_error, result
    return str(result.structured_content["content"])


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_client_finds_the_provider_by_itself_and_its_person_signs_in_once(
    provider: AuthorizationServer, tmp_path: Path, era: Era
) -> None:
    async with guarded(tmp_path, Mirror(), auth=trusting(provider), public_url="") as server:
        host = Host(server.address, provider)
        async with host.connected(era) as client:
            assert await who(client) == f"anna of {provider.address}"
            assert [tool.name for tool in (await client.list_tools()).tools if tool.name == "who_am_i"]
        asked = provider.order("")
        async with host.connected(era) as client:
            for _ in range(5):
                await who(client)

        assert provider.signed_in == ["goals:read offline_access"]  # the client adds the latter by itself
        assert (asked["/jwks"], provider.order("")) == (1, asked)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_token_that_has_expired_is_refreshed_without_the_person(
    provider: AuthorizationServer, tmp_path: Path, era: Era
) -> None:
    async with guarded(tmp_path, Mirror(), auth=trusting(provider), public_url="") as server:
        host = Host(server.address, provider)
        async with host.connected(era) as client:
            await who(client)
            host.oauth.context.token_expiry_time = 1.0
            assert await who(client) == f"anna of {provider.address}"

        assert len(host.storage.tokens) == 2
        assert len(provider.signed_in) == 1


@agent(description="Works for somebody")
class Clerk:
    @achieves_goal(description="What there is", export=Export(remote=True, name="look", read_only=True))
    async def look(self, said: UserInput) -> Answer:
        return Answer(said.content)

    @achieves_goal(description="What was done", export=Export(remote=True, name="change"))
    async def change(self, said: UserInput) -> Answer:
        return Answer(said.content)

    @achieves_goal(description="What was paid", export=Export(remote=True, name="pay", scopes=["finance:write"]))
    async def pay(self, said: UserInput) -> Answer:
        return Answer(said.content)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_client_asks_its_person_for_more_when_a_call_needs_it(
    provider: AuthorizationServer, tmp_path: Path, era: Era
) -> None:
    async with guarded(tmp_path, Clerk(), auth=trusting(provider), public_url="") as server:
        host = Host(server.address, provider)
        async with host.connected(era) as client:
            for name in ("look", "change", "pay", "change", "look", "pay"):
                result: Any = await client.call_tool(name, {"content": name})
                assert result.structured_content == {"content": name}, result

        asked = [set(each.split()) - {"offline_access"} for each in provider.signed_in]
        assert [each >= wanted for each, wanted in zip(asked, WANTED, strict=True)] == [True] * 3, asked


async def test_a_client_that_registers_itself_is_registered_with_the_scopes_of_its_first_challenge(
    provider: AuthorizationServer, tmp_path: Path
) -> None:
    """docs/authentication.md warns of this: the provider then refuses the client every other scope."""
    async with guarded(tmp_path, Clerk(), auth=trusting(provider), public_url="") as server:
        host = Host(server.address, provider, is_known=False)
        async with host.connected("auto") as client:
            await client.call_tool("look", {"content": "look"})

        assert host.storage.client is not None
        assert host.storage.client.scope == "goals:read offline_access"


async def test_keys_that_the_provider_rotates_are_bridged(provider: AuthorizationServer, tmp_path: Path) -> None:
    watch, client = Watch(), ProviderClient()
    settings = load_settings(tmp_path, public_url=RESOURCE, auth=trusting(provider))
    verifier = JwtVerifier(settings, client, stopwatch=watch)
    before = [provider.service_token("goals:read") for _ in range(3)]
    assert (await verifier.verify(before[0])).caller.id == "client:service"

    provider.order("rotate")
    after = [provider.service_token("goals:read") for _ in range(2)]
    watch.now += 31
    assert (await verifier.verify(after[0])).caller.scopes == {"goals:read"}
    await verifier.verify(before[1])

    provider.order("silence/1")
    watch.now += 3_600
    await verifier.verify(before[2])
    await verifier.verify(after[1])
    provider.order("silence/0")
    await client.aclose()


async def test_an_opaque_token_is_introspected_and_a_revoked_one_refused(
    provider: AuthorizationServer, tmp_path: Path
) -> None:
    entry = {
        "issuer": provider.address,
        "endpoint": f"{provider.address}/token/introspection",
        "client_id": "goalport",
        "client_secret": "goalport-secret",
        "audience": [OPAQUE],
    }
    async with guarded(tmp_path, auth=trusting(provider, introspection=[entry])) as server:
        token, revoked = (provider.service_token("goals:read", OPAQUE) for _ in range(2))
        provider.revoke(revoked)

        assert (await server.ask(token)).status_code == 200
        assert (await server.ask(revoked)).status_code == 401
        assert (await server.ask(provider.service_token("goals:read"))).status_code == 200
        assert provider.order("")["/token/introspection"] == 2


async def test_a_token_for_another_server_is_refused(provider: AuthorizationServer, tmp_path: Path) -> None:
    client = ProviderClient()
    verifier = JwtVerifier(load_settings(tmp_path, public_url=RESOURCE, auth=trusting(provider)), client)
    with pytest.raises(InvalidToken, match="for another server"):
        await verifier.verify(provider.service_token("goals:read", "https://elsewhere.example/mcp"))
    await client.aclose()
