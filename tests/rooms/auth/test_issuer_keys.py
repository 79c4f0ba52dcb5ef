"""The keys of an issuer are kept: how often it is asked does not depend on how many tokens come, or of what kind."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from goalport.base.errors import SettingsError
from goalport.server.auth import Grant, InvalidToken, VerifierUnavailable
from goalport.server.auth.jwt import JwtVerifier, metadata_urls
from goalport.server.auth.tokens import ProviderClient
from goalport.workspace.settings import load_settings
from tests.rooms.auth.guarded import by, guarded
from tests.rooms.auth.issuers import RESOURCE, Issuer, SigningKey, issuing

_numbers = count()


@dataclass
class Watch:
    """A clock that goes on when it is told to."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Trusting:
    """A verifier, and the issuer that it trusts."""

    issuer: Issuer
    verifier: JwtVerifier
    watch: Watch

    async def verify(self, key: SigningKey | None = None, **claims: Any) -> Grant:
        """Verify a token that was never seen before."""
        return await self.verifier.verify(self.issuer.token(key, jti=str(next(_numbers)), **claims))

    async def verify_on(self, key: SigningKey) -> None:
        """Verify tokens that are signed with a key until one is refused."""
        with anyio.fail_after(60):
            while await self.verify(key):
                await anyio.sleep(0.01)


@asynccontextmanager
async def trusting(root: Path, more: Any = None, seconds: float = 10, **fields: Any) -> AsyncGenerator[Trusting]:
    async with issuing(**fields) as issuer:
        settings = load_settings(root, public_url=RESOURCE, auth=by(issuer, **(more or {})))
        client, watch = ProviderClient(seconds), Watch()
        try:
            yield Trusting(issuer, JwtVerifier(settings, client, stopwatch=watch), watch)
        finally:
            await client.aclose()


async def test_the_first_tokens_share_one_request_for_keys_and_later_ones_make_none(tmp_path: Path) -> None:
    async with trusting(tmp_path) as it:
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(it.verify)
        for _ in range(50):
            await it.verify()

        assert it.issuer.requests == {"/.well-known/oauth-authorization-server": 1, "/jwks": 1}


async def test_a_key_that_is_new_at_the_issuer_is_found_and_one_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    async with trusting(tmp_path) as it:
        await it.verify()
        old, new = it.issuer.keys[0], SigningKey("two")
        it.issuer.keys = [new, old]
        it.watch.now += 31
        assert (await it.verify(new)).caller.id == "anna"
        await it.verify(old)

        it.issuer.keys = [new]
        it.watch.now += 601
        await it.verify(old)  # it is used once more while the keys are fetched
        with pytest.raises(InvalidToken, match="not signed with a key of its issuer"):
            await it.verify_on(old)
        await it.verify(new)
        assert it.issuer.requests["/jwks"] == 3


async def test_a_flood_of_unknown_keys_makes_two_requests_in_a_minute(tmp_path: Path) -> None:
    async with trusting(tmp_path) as it:
        await it.verify()
        strangers = [SigningKey(f"unknown {number}") for number in range(10)]
        for second in range(60):
            it.watch.now = float(second)
            for stranger in strangers:
                with pytest.raises(InvalidToken):
                    await it.verify(stranger)

        assert it.issuer.requests["/jwks"] == 2
        await it.verify()


async def test_known_keys_bridge_an_outage_and_nobody_passes_with_another(tmp_path: Path) -> None:
    async with trusting(tmp_path) as it:
        await it.verify()
        it.issuer.is_down = True
        for _ in range(60):
            it.watch.now += 60
            await it.verify()
        with pytest.raises(VerifierUnavailable) as refused:
            await it.verify(SigningKey("two"))
        assert refused.value.retry_seconds == 30

        it.watch.now += 24 * 3_600
        with pytest.raises(VerifierUnavailable):
            await it.verify()
        it.issuer.is_down = False
        it.watch.now += 5
        await it.verify()


async def test_an_issuer_that_is_down_at_first_is_asked_every_few_seconds(tmp_path: Path) -> None:
    async with trusting(tmp_path, is_down=True) as it:
        for _ in range(20):
            with pytest.raises(VerifierUnavailable):
                await it.verify()
        assert it.issuer.requests["/.well-known/oauth-authorization-server"] == 1

        it.issuer.is_down = False
        it.watch.now += 5
        await it.verify()


async def test_metadata_and_keys_have_to_come_within_one_time(tmp_path: Path) -> None:
    async with trusting(tmp_path, seconds=1.0, is_silent=True) as it:
        with pytest.raises(VerifierUnavailable):
            await it.verify()
        assert it.issuer.requests == {"/.well-known/oauth-authorization-server": 1}


async def test_a_server_fetches_keys_at_its_start_and_warns_of_an_issuer_that_has_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        issuing() as issuer,
        issuing(named="https://elsewhere.example") as wrong,
        guarded(tmp_path, auth=by(issuer, wrong)),
    ):
        with anyio.fail_after(60):
            while not (issuer.requests["/jwks"] and caplog.messages):
                await anyio.sleep(0.01)
    (told,) = caplog.messages
    assert told.startswith(f"The keys of {wrong.issuer} cannot be fetched: ")
    assert "https://elsewhere.example" in told


async def test_keys_of_kinds_that_are_not_known_are_passed_over(tmp_path: Path) -> None:
    right = SigningKey("right")
    odd: list[dict[str, Any]] = [
        {"kty": "OKP", "crv": "X25519", "x": "AAAA", "kid": "a"},
        {"kty": "AKP", "alg": "ML-DSA-65", "pub": "AAAA", "kid": "b"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "right"},
        {"kty": "EC", "crv": "P-256", "x": "no", "y": "point", "kid": "c"},
        {**right.public, "use": "enc", "kid": "d"},
        {**right.public, "kid": 1},
        {**right.public, "kid": ["a list"]},
        {"kid": "e"},
    ]
    async with trusting(tmp_path, keys=[right], more_entries=odd) as it:
        await it.verify()


async def test_a_key_is_used_with_its_own_algorithm_alone(tmp_path: Path) -> None:
    key = SigningKey("rsa", "RS256")
    async with trusting(tmp_path, keys=[key]) as it:
        await it.verify()
        key.algorithm = "PS256"
        token = it.issuer.token()
        key.algorithm = "RS256"
        with pytest.raises(InvalidToken, match="not signed with a key of its issuer"):
            await it.verifier.verify(token)


@pytest.mark.parametrize(
    "fields", [{"named": "https://elsewhere.example"}, {"large": 1024 * 1024}, {"jwks_uri": "http://[::1"}]
)
async def test_an_issuer_whose_documents_are_not_right_lets_nobody_pass(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with trusting(tmp_path, **fields) as it:
        with pytest.raises(VerifierUnavailable):
            await it.verify()


async def test_scopes_in_a_text_are_separated_by_spaces_alone(tmp_path: Path) -> None:
    async with trusting(tmp_path) as it:
        grant = await it.verifier.verify(it.issuer.token(scope="goals:read\u00a0goals:admin  x"))
        assert grant.caller.scopes == {"goals:read\u00a0goals:admin", "x"}


async def test_the_keys_may_be_where_the_settings_say(tmp_path: Path) -> None:
    async with issuing() as keys, trusting(tmp_path, {"jwks_uri": f"{keys.address}/jwks"}, keys=keys.keys) as it:
        await it.verify()

        assert (dict(it.issuer.requests), dict(keys.requests)) == ({}, {"/jwks": 1})


async def test_a_program_that_calls_for_itself_is_no_person_of_that_name(tmp_path: Path) -> None:
    async with trusting(tmp_path) as it:
        said: list[dict[str, Any]] = [
            {"sub": "svc", "client_id": "svc"},
            {"sub": None, "client_id": "svc"},
            {"sub": "client:svc"},
            {"sub": "user:client:svc"},
            {"sub": "svc"},
        ]
        names = [(await it.verify(**claims)).caller.id for claims in said]
    assert names == ["client:svc", "client:svc", "user:client:svc", "user:user:client:svc", "svc"]


async def test_a_caller_has_what_scopes_imply_and_the_claims_that_are_named(tmp_path: Path) -> None:
    async with issuing() as issuer:
        auth = {
            "issuers": [{"issuer": issuer.issuer, "scope_claims": ["scope", "roles"], "subject_claim": "oid"}],
            "implied_scopes": {"clerk": ["finance:write"], "finance:write": ["finance:read"]},
            "claims": ["tenant"],
        }
        client = ProviderClient()
        verifier = JwtVerifier(load_settings(tmp_path, public_url=RESOURCE, auth=auth), client)
        token = issuer.token(scope="goals:admin *", roles=["clerk"], oid="o-1", tenant="acme", email="a@example.com")
        caller = (await verifier.verify(token)).caller
        await client.aclose()

    wanted = {"goals:admin", "goals:write", "goals:read", "clerk", "finance:write", "finance:read"}
    assert (caller.id, caller.issuer, caller.scopes) == ("o-1", issuer.issuer, wanted)
    assert (caller.claims, caller.admin, caller.has("other")) == ({"tenant": "acme"}, True, False)


async def test_a_token_that_was_verified_is_remembered_until_it_ends(tmp_path: Path) -> None:
    now = Watch(time.time())
    async with issuing() as issuer:
        client = ProviderClient()
        settings = load_settings(tmp_path, public_url=RESOURCE, auth=by(issuer))
        verifier = JwtVerifier(settings, client, clock=now)
        token = issuer.token(exp=int(now.now) + 20)
        assert await verifier.verify(token) is await verifier.verify(token)
        now.now += 21
        with pytest.raises(InvalidToken, match="expired"):
            await verifier.verify(token)
        await client.aclose()


def test_metadata_is_looked_for_where_both_specifications_have_it() -> None:
    assert list(metadata_urls("https://a.example/")) == [
        "https://a.example/.well-known/oauth-authorization-server",
        "https://a.example/.well-known/openid-configuration",
    ]
    assert list(metadata_urls("https://a.example/realms/x")) == [
        "https://a.example/.well-known/oauth-authorization-server/realms/x",
        "https://a.example/realms/x/.well-known/openid-configuration",
        "https://a.example/.well-known/openid-configuration/realms/x",
    ]


@pytest.mark.parametrize(
    ("issuer", "reason"),
    [
        ({"issuer": "http://login.example.com"}, "https"),
        ({"issuer": "https://login.example.com?tenant=1"}, "query"),
        ({"issuer": "https://me:secret@login.example.com"}, "password"),
        ({"issuer": "https://a.example", "jwks_uri": "http://a.example/jwks"}, "https"),
        ({"issuer": "https://a.example", "algorithms": ["HS256"]}, "a key that others have proves nothing"),
        ({"issuer": "https://a.example", "algorithms": ["none"]}, "a key that others have proves nothing"),
    ],
)
def test_an_issuer_that_cannot_be_trusted_is_refused(tmp_path: Path, issuer: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        load_settings(tmp_path, auth={"issuers": [issuer]})
