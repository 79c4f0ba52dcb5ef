"""Servers that get the credentials of whoever calls: who is told whose, and for how long."""

import json
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.events import Event
from goalport.runtime.process import DirectCalls
from goalport.tools import ToolResult, calling_from
from goalport.tools.upstream.config import ServerConfig, read_config
from goalport.tools.upstream.upstream_server import ServerState
from tests.rooms.upstream.connected import QUICK, WatchedServers, connected
from tests.rooms.upstream.signing_in import Doorkeeper, doorkeeper

ISSUER = "https://id.example"
FORWARDED = {"Authorization": "Bearer ${caller.token}", "X-User": "${caller.id}"}


class Unheard:
    def on_event(self, event: Event) -> None:
        """Listen to nothing."""


@contextmanager
def requested_with(token: str, by: str) -> Generator[None]:
    """A request with this token, as the server's guard lets it in."""
    access = AccessToken(token=token, client_id="app", scopes=[], subject=by, claims={"iss": ISSUER})
    before = auth_context_var.set(AuthenticatedUser(access))
    try:
        yield
    finally:
        auth_context_var.reset(before)


async def call(servers: WatchedServers, tool: str, caller: str, **arguments: object) -> ToolResult:
    """A call that is made for a caller, whoever's request it is made in."""
    who = ANONYMOUS if caller == "anonymous" else Caller(caller, ISSUER)
    with calling_from(DirectCalls(who, Unheard())):
        return await servers.call(tool, "web", **arguments)


async def headers(servers: WatchedServers, caller: str) -> dict[str, str]:
    result = await call(servers, "headers", caller)
    assert not result.is_error, result.text
    return json.loads(result.text)


@asynccontextmanager
async def forwarding(**more: Any) -> AsyncGenerator[WatchedServers]:
    async with doorkeeper() as keeper:
        keeper.is_open = True
        async with connected(to(keeper), **more) as servers:
            yield servers


def to(keeper: Doorkeeper, **more: Any) -> ServerConfig:
    return ServerConfig("web", "http", url=f"{keeper.address}/mcp", forward_auth=True, caller_headers=FORWARDED, **more)


async def test_each_caller_is_known_to_the_server_and_to_it_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    found: dict[str, list[str]] = {}
    async with forwarding() as servers:

        async def ask(caller: str) -> None:
            with requested_with(f"token-of-{caller}", caller):
                for _ in range(3):
                    seen = await headers(servers, caller)
                    found.setdefault(caller, []).append(f"{seen['x-user']} {seen['authorization']}")

        async with anyio.create_task_group() as tasks:
            for each in ("ada", "bob", "cyd"):
                tasks.start_soon(ask, each)
        (report,) = servers.all.reports()
    assert found == {each: [f"{each} Bearer token-of-{each}"] * 3 for each in ("ada", "bob", "cyd")}
    assert (report.state, report.callers) == (ServerState.UP, 3)
    ours = "\n".join(each.getMessage() for each in caplog.records)
    assert "token-of-" not in ours + str(report)


async def test_two_tokens_of_one_caller_are_never_mistaken_for_each_other() -> None:
    async with forwarding() as servers:
        for token in ("weak-token", "strong-token", "weak-token"):
            with requested_with(token, "ada"):
                assert (await headers(servers, "ada"))["authorization"] == f"Bearer {token}"


async def test_the_connection_that_lists_the_tools_is_nobodys() -> None:
    async with doorkeeper() as keeper:
        async with connected(to(keeper)) as servers:
            assert servers.server("web").state is ServerState.DOWN
        keeper.tokens |= {"service-token", "token-of-bob"}
        async with connected(to(keeper, listing_headers={"Authorization": "Bearer service-token"})) as servers:
            assert servers.server("web").state is ServerState.UP
            with requested_with("token-of-ada", "ada"):
                refused = await call(servers, "hello", "ada")
            with requested_with("token-of-bob", "bob"):
                assert (await headers(servers, "bob"))["authorization"] == "Bearer token-of-bob"
    assert refused.is_error
    assert "the server 'web' did not let this caller in" in refused.text


@pytest.mark.parametrize(
    ("requested_by", "caller", "reason"),
    [
        ("", "ada", "gets the token of whoever calls, and the token of 'ada' is not here"),
        ("bob", "ada", "gets the token of whoever calls, and the token of 'ada' is not here"),
        ("", "anonymous", "wants to know who calls, and this call is nobody's"),
    ],
)
async def test_without_the_token_of_its_caller_a_call_is_not_made(requested_by: str, caller: str, reason: str) -> None:
    async with forwarding() as servers:
        if requested_by:
            with requested_with("token-of-bob", requested_by):
                refused = await call(servers, "hello", caller)
        else:
            refused = await call(servers, "hello", caller)
        (report,) = servers.all.reports()
    assert refused.is_error
    assert reason in refused.text
    assert report.callers == 0


@pytest.mark.parametrize("caller", ["Zoë", "ada\r\nX-Admin: yes", "a b"])
async def test_a_caller_whose_id_no_header_can_have_is_not_told(caller: str) -> None:
    async with forwarding() as servers:
        with requested_with("a-token", caller):
            refused = await call(servers, "hello", caller)
    assert refused.is_error
    assert "gets ${caller.id} in a header, and there is a character in it that none can have" in refused.text


async def test_a_connection_that_its_caller_does_not_use_is_closed_and_opened_again() -> None:
    async with forwarding(timing=replace(QUICK, caller_idle=0.05)) as servers:
        for _ in range(2):
            with requested_with("token-of-ada", "ada"):
                assert (await headers(servers, "ada"))["x-user"] == "ada"
            with anyio.fail_after(60):
                while servers.all.reports()[0].callers:
                    await anyio.sleep(0.01)


async def test_there_are_no_more_connections_of_callers_than_the_server_may_have() -> None:
    async with doorkeeper() as keeper:
        keeper.is_open = True
        async with connected(to(keeper, max_callers=2)) as servers:
            for caller in ("ada", "bob", "cyd", "ada"):
                with requested_with("a-token", caller):
                    assert (await headers(servers, caller))["x-user"] == caller
            assert servers.all.reports()[0].callers == 2


WRITTEN = """{"mcpServers": {
  "web": {
    "url": "https://it.example/mcp",
    %s
  }
}}"""


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ('"headers": {"Authorization": "Bearer ${caller.token}"}', ":4:17"),
        ('"forward_auth": false, "headers": {"X-User": "${caller.id}"}', ":4:40"),
        (
            '"forward_auth": true, "headers": {"X-User": "${caller.id}"}, "listingHeaders": {"A": "${caller.token}"}',
            ":4:",
        ),
        ('"forward_auth": true, "headers": {"X-User": "${caller.id}"}, "auth": "${caller.token}"', ":4:66"),
    ],
)
def test_a_callers_token_goes_nowhere_unless_its_server_says_so(tmp_path: Path, settings: str, place: str) -> None:
    path = tmp_path / "mcp_config.json"
    path.write_text(WRITTEN % settings)
    config = read_config(path, {})

    assert config.servers == {}
    (problem,) = config.problems
    assert place in str(problem)
    assert 'they can stand in `headers` of a server over HTTP that says "forward_auth": true' in problem.message


def test_what_is_forwarded_is_told_from_what_is_always_sent(tmp_path: Path) -> None:
    path = tmp_path / "mcp_config.json"
    path.write_text(WRITTEN % '"forward_auth": true, "headers": {"X-User": "${caller.id}", "X-Key": "${KEY}"}')
    config = read_config(path, {"KEY": "our-own-key"})

    assert config.problems == ()
    web = config.servers["web"]
    assert (web.headers, web.caller_headers) == ({"X-Key": "our-own-key"}, {"X-User": "${caller.id}"})


@pytest.mark.parametrize("settings", ['"forward_auth": true', '"forward_auth": true, "headers": {"A": "b"}'])
def test_forwarding_nothing_is_a_mistake(tmp_path: Path, settings: str) -> None:
    path = tmp_path / "mcp_config.json"
    path.write_text(WRITTEN % settings)

    (problem,) = read_config(path, {}).problems
    assert "it says forward_auth, and none of its headers has ${caller.token} or ${caller.id}" in problem.message
