"""A proxy that authenticates names the user in a header; it is believed of the proxies that the settings trust."""

import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest

from goalport.base.errors import SettingsError
from goalport.server.auth import Authentication, AuthGuard
from goalport.server.auth.authentication import PEER
from goalport.workspace.settings import load_settings
from tests.listening import listening
from tests.rooms.auth.guarded import INFO, by, guarded
from tests.rooms.auth.issuers import issuing
from tests.rooms.auth.test_guard import echo

ASKED = {
    "issuer": "https://example.com",
    "endpoint": "https://example.com/ask",
    "client_id": "goalport",
    "client_secret": "secret-of-goalport",
}
BY_PROXY = {
    "trusted_proxies": ["127.0.0.0/8"],
    "proxy_user_header": "X-Forwarded-User",
    "proxy_groups_header": "X-Forwarded-Groups",
    "proxy_scopes": ["goals:read"],
    "implied_scopes": {"agents-admin": ["goals:admin"]},
}


async def test_a_trusted_proxy_names_the_user_and_what_groups_grant(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, auth=BY_PROXY)
    authentication = Authentication.of(settings)
    assert authentication is not None
    assert authentication.proxies is not None
    headers = [(b"x-forwarded-user", "J\u00f6rg".encode()), (b"x-forwarded-groups", b"staff, agents-admin *")]
    grant = authentication.proxies.grant_of({"headers": headers, PEER: "127.0.0.1"})
    assert grant is not None
    assert (grant.caller.id, grant.caller.issuer, grant.caller.admin) == ("J\u00f6rg", "goalport:proxy", True)
    assert grant.caller.scopes == {"staff", "agents-admin", "goals:admin", "goals:write", "goals:read"}


async def test_the_address_of_the_connection_counts_and_not_what_a_header_says(tmp_path: Path) -> None:
    """uvicorn takes the client's address from X-Forwarded-For of connections from 127.0.0.1."""
    user = {"X-Forwarded-User": "anna"}
    async with guarded(tmp_path, auth=BY_PROXY) as server:
        assert (await server.ask(**user)).status_code == 200
        assert (await server.ask(**user, **{"X-Forwarded-For": "203.0.113.9"})).status_code == 200
    async with guarded(tmp_path, auth={**BY_PROXY, "trusted_proxies": ["10.0.0.7"]}) as server:
        for forwarded in ("10.0.0.7", "10.0.0.7:443", "127.0.0.1, 10.0.0.7"):
            assert (await server.ask(**user, **{"X-Forwarded-For": forwarded})).status_code == 400


async def test_the_header_is_refused_from_anybody_else_and_not_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with issuing() as issuer:
        auth = {**BY_PROXY, "trusted_proxies": ["10.0.0.7"], **by(issuer)}
        async with guarded(tmp_path, auth=auth) as server:
            token = issuer.token()
            assert (await server.ask(token)).status_code == 200
            for headers in ({"X-Forwarded-User": "root"}, {"x-forwarded-groups": "agents-admin"}):
                with caplog.at_level(logging.WARNING):
                    for given in (None, token):
                        assert (await server.ask(given, **headers)).status_code == 400
    assert "from 127.0.0.1, which is none of auth.trusted_proxies" in caplog.text
    assert "root" not in caplog.text


async def test_a_user_who_is_named_twice_or_beside_a_token_is_refused(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth={**BY_PROXY, **by(issuer)}) as server:
        user = ("X-Forwarded-User", "anna")
        wrong: list[Any] = [
            [user, user],
            [user, ("x-forwarded-user", "ben")],
            [user, ("X-Forwarded-Groups", "a"), ("X-Forwarded-Groups", "agents-admin")],
            [user, ("Authorization", f"Bearer {issuer.token()}")],
            [("X-Forwarded-User", "")],
            [("X-Forwarded-User", "a" * 300)],
            [("X-Forwarded-User", b"\xff\xfe")],
            [("X-Forwarded-User", "an\tna")],
        ]
        statuses = [(await server.http.get(INFO, headers=each)).status_code for each in wrong]
        assert statuses == [400] * len(wrong)
        assert (await server.http.get(INFO, headers=[("X-Forwarded-Groups", "agents-admin")])).status_code == 401
        assert (await server.ask()).status_code == 401


async def test_where_nobody_notes_the_address_of_a_connection_no_proxy_is_believed(tmp_path: Path) -> None:
    authentication = Authentication.of(load_settings(tmp_path, auth=BY_PROXY))
    assert authentication is not None
    async with (
        listening(AuthGuard(echo(), authentication, ())) as address,
        httpx2.AsyncClient(base_url=address) as http,
    ):
        refused = await http.get("/", headers={"X-Forwarded-User": "anna", "X-Forwarded-For": "127.0.0.1"})
        assert refused.status_code == 400


@pytest.mark.parametrize(
    ("auth", "reason"),
    [
        (
            {"trusted_proxies": ["10.0.0.7"], "proxy_user_header": "Authorization"},
            "a header of its own, and Authorization is none",
        ),
        ({"introspection": [ASKED, ASKED]}, "tell introspections apart by token_prefix, and '' does not"),
        ({"introspection": [{**ASKED, "token_prefix": "a"}, {**ASKED, "token_prefix": "ab"}]}, "and 'a' does not"),
        ({"issuers": [{"issuer": "https://me:0123456789@example.com"}]}, r"https://\*\*\*@example.com"),
        ({"trusted_proxies": ["10.0.0.7"]}, "both, trusted_proxies and proxy_user_header"),
        ({"proxy_user_header": "X-User"}, "both, trusted_proxies and proxy_user_header"),
        ({"trusted_proxies": ["0.0.0.0/0"], "proxy_user_header": "X-User"}, "0.0.0.0/0 is everybody"),
        ({"trusted_proxies": ["10.0.0.7/8"], "proxy_user_header": "X-User"}, "host bits"),
        ({"trusted_proxies": ["proxy.local"], "proxy_user_header": "X-User"}, "proxy.local"),
        ({"trusted_proxies": ["10.0.0.7"], "proxy_user_header": "X User"}, "proxy_user_header"),
    ],
)
def test_settings_that_would_trust_the_wrong_are_refused(tmp_path: Path, auth: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        load_settings(tmp_path, auth=auth)
