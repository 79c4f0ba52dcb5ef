"""Floods of credentials that are not valid: they are slowed, and whoever has a valid one hardly notices.

The clients of these tests have addresses by `X-Forwarded-For`, which uvicorn believes of a proxy on this machine.
"""

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from goalport.server.auth import Authentication, AuthGuard, Challenges
from goalport.server.auth.guard import FailedAttempts
from goalport.server.auth.keys import new_key
from goalport.server.auth.tokens import IntrospectionVerifier, ProviderClient
from goalport.workspace.settings import load_settings
from tests.listening import listening
from tests.rooms.auth.guarded import by, guarded
from tests.rooms.auth.issuers import RESOURCE, Issuer, issuing
from tests.rooms.auth.test_guard import echo
from tests.rooms.auth.test_introspection import asking, known
from tests.rooms.auth.test_keys import make_key

AT_ONCE = 20
LONG = 600.0
"""Seconds for which a failed attempt counts in tests that have to go on while it does."""
HERE, ELSEWHERE = "203.0.113.1", "203.0.113.2"


def from_address(address: str) -> dict[str, str]:
    return {"X-Forwarded-For": address}


@asynccontextmanager
async def flood(ask: Callable[..., Any], tokens: Iterable[str], **headers: str) -> AsyncGenerator[Counter[int]]:
    """Requests with these tokens, which wait for their answers while the block goes on; the value is their statuses."""
    statuses = Counter[int]()

    async def send(token: str) -> None:
        statuses[(await ask(token, **headers)).status_code] += 1

    async with anyio.create_task_group() as tasks:
        for each in tokens:
            tasks.start_soon(send, each)
        yield statuses


def tokens(number: int, prefix: str = "stranger") -> list[str]:
    return [f"{prefix}-{each}" for each in range(number)]


async def until(happened: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not happened():
            await anyio.sleep(0.01)


@asynccontextmanager
async def introspecting(
    root: Path, issuer: Issuer, clock: Callable[[], float], seconds: float = 10.0
) -> AsyncGenerator[Callable[..., Any]]:
    """A guard that asks an issuer within `seconds`, and how to send it a token."""
    settings = load_settings(root, public_url=RESOURCE, auth=asking(issuer))
    client = ProviderClient(seconds)
    verifier = IntrospectionVerifier(settings, settings.auth.introspection[0], client, clock)
    guard = AuthGuard(echo(), Authentication([verifier], Challenges("read"), client=client), ())
    many = httpx2.Limits(max_connections=None)
    async with (
        listening(guard) as address,
        httpx2.AsyncClient(base_url=address, timeout=30, limits=many) as http,
    ):

        async def ask(token: str, **headers: str) -> httpx2.Response:
            return await http.get("/", headers={"Authorization": f"Bearer {token}", **headers})

        yield ask
    await client.aclose()


async def test_a_token_that_was_valid_is_asked_about_again_without_waiting_behind_strangers(tmp_path: Path) -> None:
    now = time.time()
    async with issuing(holds_unknown=anyio.Event()) as issuer, introspecting(tmp_path, issuer, lambda: now) as ask:
        token = known(issuer, "opaque", exp=None)
        assert (await ask(token)).status_code == 200
        now += 31
        assert issuer.holds_unknown is not None
        async with flood(ask, tokens(60)):
            await until(lambda: issuer.requests["held"] >= 16)
            with anyio.fail_after(20):
                assert (await ask(token)).status_code == 200
            assert issuer.requests["held"] == 16
            issuer.holds_unknown.set()


async def test_refused_tokens_drive_no_grant_out_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goalport.server.auth.tokens._MAX_ENTRIES", 10)
    async with issuing() as issuer, introspecting(tmp_path, issuer, time.time) as ask:
        token = known(issuer, "opaque")
        for each in (token, *tokens(15), token):
            await ask(each)
        assert issuer.requests["/introspect"] == 16
        assert (await ask("stranger-14")).status_code == 401
        assert issuer.requests["/introspect"] == 16, "the last refusals are remembered"


async def test_a_provider_that_hangs_is_given_up_in_one_time_limit_however_many_wait(tmp_path: Path) -> None:
    async with issuing() as issuer, introspecting(tmp_path, issuer, time.time, seconds=3.0) as ask:
        token = known(issuer, "opaque")
        assert (await ask(token)).status_code == 200
        issuer.is_silent = True
        with anyio.fail_after(10):
            async with flood(ask, tokens(100)) as statuses:
                await until(lambda: issuer.requests["/introspect"] > 1)
                assert (await ask(token)).status_code == 200
        assert statuses == {503: 100}


async def test_an_address_whose_tokens_failed_often_does_not_hold_up_new_callers_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalport.server.auth.guard._SECONDS_PER_FAILURE", LONG)
    async with issuing() as issuer, introspecting(tmp_path, issuer, time.time) as ask:
        async with flood(ask, tokens(60), **from_address(HERE)) as statuses:
            pass
        assert statuses == {401: AT_ONCE, 429: 60 - AT_ONCE}
        issuer.holds_unknown = anyio.Event()
        async with flood(ask, tokens(60, "more"), **from_address(HERE)):
            await until(lambda: issuer.requests["held"] >= 8)
            with anyio.fail_after(20):
                assert (await ask(known(issuer, "opaque"), **from_address(ELSEWHERE))).status_code == 200
            issuer.holds_unknown.set()
            same = await ask(known(issuer, "of-a-neighbour"), **from_address(HERE))
            assert same.status_code == 200


@pytest.mark.parametrize("kind", ["keys", "jwt", "introspection"])
async def test_who_fails_often_is_told_to_wait_and_valid_credentials_from_there_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("goalport.server.auth.guard._SECONDS_PER_FAILURE", LONG)
    async with issuing() as issuer:
        auth = {"keys": {"keys": True}, "jwt": by(issuer), "introspection": asking(issuer)}[kind]
        key = make_key(tmp_path)

        def wrong() -> str:
            match kind:
                case "keys":
                    return new_key("anna", ("goals:read",), None).key.get_secret_value()
                case "jwt":
                    return issuer.token(aud="https://elsewhere.example")
                case _:
                    return f"opaque-{time.monotonic_ns()}"

        async with guarded(tmp_path, auth=auth) as server:
            good = {"keys": key, "jwt": issuer.token(), "introspection": known(issuer, "opaque")}[kind]
            answers = [await server.ask(wrong(), **from_address(HERE)) for _ in range(2 * AT_ONCE)]
            assert [each.status_code for each in answers] == [401] * AT_ONCE + [429] * AT_ONCE
            told = int(answers[AT_ONCE].headers["retry-after"])
            assert LONG - 60 < told <= LONG, "what remains of the time since the first attempt"
            assert "Too many credentials from your address" in answers[AT_ONCE].json()["error_description"]
            assert (await server.ask(good, **from_address(HERE))).status_code == 200
            assert (await server.ask(**from_address(HERE))).status_code == 401, "nothing was attempted"
            assert (await server.ask(wrong(), **from_address(ELSEWHERE))).status_code == 401


async def test_the_holder_of_a_credential_that_has_ended_is_told_so_and_can_sign_in_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalport.server.auth.guard._SECONDS_PER_FAILURE", LONG)
    revoked = make_key(tmp_path, revoked=datetime.now(UTC))
    async with issuing() as issuer, issuing() as asked:
        auth = {**by(issuer), **asking(asked)}
        async with guarded(tmp_path, auth=auth) as server:
            expiring = issuer.token(exp=int(time.time()) + 2)
            assert (await server.ask(expiring, **from_address(HERE))).status_code == 200
            guesses = [await server.ask("nobody", **from_address(HERE)) for _ in range(AT_ONCE + 1)]
            assert guesses[-1].status_code == 429
            with anyio.fail_after(20):
                while (ended := await server.ask(expiring, **from_address(HERE))).status_code == 200:
                    pass
            assert ended.status_code == 401
            for each in (expiring, revoked):
                ended = await server.ask(each, **from_address(HERE))
                assert ended.status_code == 401
                assert 'error="invalid_token"' in ended.headers["www-authenticate"]


async def test_a_token_that_its_provider_revoked_is_no_attempt_to_guess_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalport.server.auth.guard._SECONDS_PER_FAILURE", LONG)
    now = time.time()
    async with issuing() as issuer, introspecting(tmp_path, issuer, lambda: now) as ask:
        assert (await ask(known(issuer, "opaque", exp=None))).status_code == 200
        issuer.active.clear()
        now += 31
        assert {(await ask("opaque")).status_code for _ in range(AT_ONCE + 10)} == {401}
        assert issuer.requests["/introspect"] == 2


def test_failed_attempts_are_forgiven_one_after_the_other_and_more_than_can_be_are_not_counted() -> None:
    now = 1_000.0
    failed = FailedAttempts(lambda: now)
    assert [failed.add(HERE) for _ in range(AT_ONCE)] == [0.0] * AT_ONCE
    assert failed.too_many(HERE)
    assert failed.add(HERE) == 0.25
    for _ in range(10_000):
        failed.add(HERE)
    assert failed.add(HERE) == 5.0
    now += 5.0
    assert failed.too_many(HERE)
    now += 0.25
    assert not failed.too_many(HERE)
    assert failed.add(HERE) == 0.0
    now += 60.0
    assert [failed.add(HERE) for _ in range(AT_ONCE)] == [0.0] * AT_ONCE


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:203.0.113.1", HERE, True),
        ("::ffff:203.0.113.1", "::ffff:203.0.113.2", False),
        ("fe80::1%eth0", "fe80::1%eth1", True),
        ("what nobody can be", "unknown", True),
    ],
)
def test_addresses_of_one_network_are_counted_as_one(one: str, other: str, *, is_same: bool) -> None:
    failed = FailedAttempts(lambda: 1.0)
    for _ in range(AT_ONCE):
        failed.add(one)
    assert failed.too_many(other) == is_same


def test_of_too_many_addresses_those_that_failed_longest_ago_are_forgotten() -> None:
    failed = FailedAttempts(lambda: 1.0)
    for _ in range(AT_ONCE):
        failed.add(HERE)
    for number in range(10_000):
        failed.add(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert not failed.too_many(HERE)
