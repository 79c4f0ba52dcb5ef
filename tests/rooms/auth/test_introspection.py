"""Tokens that only their provider can read: it is asked about them, seldom, and nobody passes while it is silent."""

import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from goalport.base.errors import SettingsError
from goalport.server.auth import InvalidToken
from goalport.server.auth.tokens import IntrospectionVerifier, ProviderClient
from goalport.workspace.settings import load_settings
from tests.rooms.auth.guarded import by, guarded
from tests.rooms.auth.issuers import RESOURCE, Issuer, issuing


def asking(issuer: Issuer, **more: Any) -> dict[str, Any]:
    """The settings by which an issuer is asked about tokens."""
    entry = {"issuer": issuer.issuer, "endpoint": f"{issuer.address}/introspect", "client_id": "us:er", **more}
    return {"introspection": [{"client_secret": "s/ecret", **entry}]}


def known(issuer: Issuer, token: str, **claims: Any) -> str:
    """A token that the issuer calls active, with these claims in place of the usual ones."""
    said = {**issuer.claims, "active": True, "token_type": "Bearer", **claims}
    issuer.active[token] = {name: value for name, value in said.items() if value is not None}
    return token


async def test_the_provider_is_asked_once_about_many_requests_with_a_token(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=asking(issuer)) as server:
        token = known(issuer, "opaque")
        statuses = list[int]()

        async def ask() -> None:
            statuses.append((await server.ask(token)).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(ask)
        assert (statuses, issuer.requests) == ([200] * 20, {"/introspect": 1})
        for _ in range(20):
            assert (await server.ask("nobody")).status_code == 401
        assert issuer.requests == {"/introspect": 2}


async def test_what_the_provider_tells_has_to_be_right(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=asking(issuer)) as server:
        wrong: dict[str, dict[str, Any]] = {
            "inactive": {"active": False},
            "active-in-words": {"active": "true"},
            "expired": {"exp": int(time.time()) - 1},
            "for-another": {"aud": "https://elsewhere.example"},
            "for-nobody": {"aud": None},
            "of-another": {"iss": "https://elsewhere.example"},
            "refresh": {"token_type": "refresh_token"},
            "bound": {"cnf": {"jkt": "x"}},
            "of-nobody": {"sub": None, "client_id": None},
        }
        statuses = {name: (await server.ask(known(issuer, name, **each))).status_code for name, each in wrong.items()}
        assert set(statuses.values()) == {401}, statuses
        assert (await server.ask(known(issuer, "without-end", exp=None, iss=None))).status_code == 200


async def test_while_the_provider_is_silent_nobody_passes_but_those_it_knew_a_moment_ago(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=asking(issuer)) as server:
        token, other = known(issuer, "opaque"), known(issuer, "other")
        assert (await server.ask(token)).status_code == 200
        issuer.is_down = True
        assert (await server.ask(token)).status_code == 200
        refused = await server.ask(other)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "www-authenticate" not in refused.headers
        issuer.is_down = False
        assert (await server.ask(other)).status_code == 200


async def test_a_provider_that_refuses_the_server_itself_is_no_reason_to_let_anybody_pass(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=asking(issuer, client_secret="wrong")) as server:
        assert (await server.ask(known(issuer, "opaque"))).status_code == 503


async def test_a_token_that_the_provider_does_not_introspect_is_refused_and_asked_about_once(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=asking(issuer)) as server:
        token = issuer.token()
        refused = [await server.ask(token) for _ in range(3)]
        assert [each.status_code for each in refused] == [401] * 3
        assert "does not introspect" in refused[0].headers["www-authenticate"]
        assert issuer.requests == {"/introspect": 1}


async def test_a_revoked_token_is_refused_after_half_a_minute(tmp_path: Path) -> None:
    now = time.time()
    async with issuing() as issuer:
        settings = load_settings(tmp_path, public_url=RESOURCE, auth=asking(issuer))
        client = ProviderClient()
        verifier = IntrospectionVerifier(settings, settings.auth.introspection[0], client, lambda: now)
        token = known(issuer, "opaque")
        await verifier.verify(token)
        issuer.active.clear()
        await verifier.verify(token)
        now += 30
        with pytest.raises(InvalidToken):
            await verifier.verify(token)
        await client.aclose()


async def test_a_token_is_shown_to_no_other_provider_than_its_own(tmp_path: Path) -> None:
    async with issuing() as one, issuing() as other, issuing() as signing:
        auth = by(signing)
        entries = [
            *asking(one, token_prefix="one_")["introspection"],
            *asking(other, token_prefix="other_")["introspection"],
        ]
        async with guarded(tmp_path, auth={**auth, "introspection": entries}) as server:
            assert (await server.ask(known(one, "one_1"))).status_code == 200
            assert (await server.ask(known(other, "other_1"))).status_code == 200
            assert (await server.ask(signing.token())).status_code == 200
            assert (await server.ask("third_1")).status_code == 401
        assert (one.requests["/introspect"], other.requests["/introspect"]) == (1, 1)


def test_a_mistake_in_the_settings_does_not_show_the_secret(tmp_path: Path) -> None:
    entry = {"issuer": "https://a.example", "client_id": "x", "client_secret": "hidden-secret"}
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path, auth={"introspection": [entry]})
    assert "endpoint" in str(caught.value)
    assert "hidden-secret" not in str(caught.value)
