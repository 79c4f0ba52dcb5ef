"""The guard before every door: what it refuses, and what its refusals tell a client."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from goalport import Export, UserInput, achieves_goal, agent
from goalport.base.caller import Caller
from goalport.base.errors import SettingsError
from goalport.base.secrecy import register_secrets
from goalport.server.auth import (
    Authentication,
    AuthGuard,
    Challenges,
    Grant,
    InvalidToken,
    VerifierUnavailable,
    current_caller,
)
from goalport.server.auth.challenges import ProtectedResource
from goalport.workspace.settings import load_settings
from tests.listening import listening
from tests.rooms.auth.guarded import INFO, Guarded, by, guarded
from tests.rooms.auth.issuers import RESOURCE, issuing

WELL_KNOWN = "/.well-known/oauth-protected-resource"
METADATA = (f"{WELL_KNOWN}", f"{WELL_KNOWN}/mcp", "/.well-known/oauth-authorization-server", "/mcp" + WELL_KNOWN)
EVERY_DOOR = ("/mcp", "/sse", "/messages/", INFO, "/openapi.json", "/events/process/x", "/nothing/there")


async def test_every_door_asks_for_a_token_and_says_where_to_get_one(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=by(issuer)) as server:
        found = {path: await server.ask(path=path) for path in EVERY_DOOR}
        assert {each.status_code for each in found.values()} == {401}
        resources = {"/mcp": "/mcp", "/sse": "/sse", "/messages/": "/sse"}
        for path, answer in found.items():
            metadata = f"{RESOURCE}{WELL_KNOWN}{resources.get(path, '')}"
            challenge = f'Bearer scope="goals:read", resource_metadata="{metadata}"'
            assert answer.headers["www-authenticate"] == challenge, path
        refused = await server.ask("not-a-token")
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]
        assert (await server.ask(path="/health")).status_code == 200


async def test_the_metadata_names_the_resource_that_it_was_asked_for(tmp_path: Path) -> None:
    scopes = ["goals:read", "offline_access", "finance:write"]
    async with issuing() as issuer, guarded(tmp_path, auth={**by(issuer), "scopes_supported": scopes}) as server:
        answer = await server.ask(path=f"{WELL_KNOWN}/mcp", Origin="http://localhost:9")
        assert answer.json() == {
            "resource": f"{RESOURCE}/mcp",
            "authorization_servers": [issuer.issuer],
            "scopes_supported": ["goals:read", "finance:write"],
            "bearer_methods_supported": ["header"],
            "resource_name": "goalport",
        }
        assert answer.headers["access-control-allow-origin"]
        challenged = await server.ask(Origin="http://localhost:9")
        assert "WWW-Authenticate" in challenged.headers["access-control-expose-headers"]
        named = {path: (await server.ask(path=f"{WELL_KNOWN}{path}")) for path in ("", "/sse", "/api", "/mcp/x")}
        assert [each.status_code for each in named.values()] == [200, 200, 404, 404]
        assert [named[path].json()["resource"] for path in ("", "/sse")] == [RESOURCE, f"{RESOURCE}/sse"]


async def test_an_address_with_a_path_has_its_metadata_below_it_and_where_the_standard_wants_it(tmp_path: Path) -> None:
    address = "https://example.com/agents"
    async with issuing() as issuer, guarded(tmp_path, auth=by(issuer), public_url=f"{address}/") as server:
        challenge = (await server.ask(path="/mcp")).headers["www-authenticate"]
        assert f'resource_metadata="{address}{WELL_KNOWN}/mcp"' in challenge
        for path in (f"{WELL_KNOWN}/mcp", f"{WELL_KNOWN}/agents/mcp"):
            assert (await server.ask(path=path)).json()["resource"] == f"{address}/mcp"
        assert (await server.ask(issuer.token(aud=f"{address}/mcp"))).status_code == 200


async def test_without_a_provider_there_is_no_metadata_and_nobody_is_sent_to_it(tmp_path: Path) -> None:
    auth = {"trusted_proxies": ["10.0.0.1"], "proxy_user_header": "X-User"}
    async with guarded(tmp_path, auth=auth) as server:
        assert [(await server.ask(path=path)).status_code for path in METADATA] == [404] * len(METADATA)
        assert {(await server.ask(path=path)).headers["www-authenticate"] for path in EVERY_DOOR} == {"Bearer"}


@pytest.mark.parametrize("place", [{"host": "::"}, {"port": 0}])
def test_a_server_whose_address_is_not_known_names_none(tmp_path: Path, place: dict[str, Any]) -> None:
    settings = load_settings(tmp_path, auth={"issuers": [{"issuer": "https://a.example"}]}, **place)
    with pytest.raises(SettingsError, match="Set public_url"):
        ProtectedResource.of(settings)


async def test_a_credential_in_a_wrong_place_or_twice_is_refused(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=by(issuer)) as server:
        good = issuer.token()
        bearer = ("Authorization", f"Bearer {good}")
        twice: list[Any] = [
            [bearer, bearer],
            [bearer, ("Authorization", "Bearer other")],
            [("Authorization", "Bearer other"), bearer],
            [bearer, ("X-API-Key", good)],
            [("Authorization", f"Bearer {good}, Bearer {good}")],
            [("Authorization", f"Basic {good}")],
            [("Authorization", "Bearer")],
            [("Authorization", b"Bearer \xe4")],
        ]
        statuses = [(await server.http.get(INFO, headers=each)).status_code for each in twice]
        assert statuses == [400] * len(twice)
        for name in ("access_token", "token", "api_key"):
            assert (await server.ask(path=f"{INFO}?{name}={good}")).status_code == 400
            assert (await server.ask(good, path=f"{INFO}?{name}={good}")).status_code == 400
        for path in ("/mcp", "/api/v1/process"):
            form = {"access_token": good}
            assert (await server.http.post(path, data=form)).status_code == 401
            refused = await server.http.post(path, data=form, headers=[bearer])
            assert refused.status_code in {400, 415}, refused.text
        assert (await server.ask(good)).status_code == 200


MODERN = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "helloBanner"}
_META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def message(method: str, meta: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    given = {**params, "_meta": meta} if meta else params
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}


async def post(server: Guarded, token: str, body: object, *headers: tuple[str, str]) -> httpx2.Response:
    """The answer to a message to the MCP server."""
    usual = [
        ("Authorization", f"Bearer {token}"),
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
    ]
    return await server.http.post("/mcp", content=json.dumps(body), headers=[*usual, *headers])


async def opened(server: Guarded, token: str) -> tuple[str, str]:
    """The header of a session that a token opens."""
    client = {"name": "test", "version": "1"}
    hello = message("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
    answer = await post(server, token, hello)
    assert answer.status_code == 200, answer.text
    return "Mcp-Session-Id", answer.headers["mcp-session-id"]


async def test_a_request_without_a_credential_is_nobodys_though_one_with_a_credential_was_sent_before_it(
    tmp_path: Path,
) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=by(issuer)) as server:
        lines = [f"GET {INFO} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {issuer.token()}", "", ""]
        lines += ["GET /health HTTP/1.1", "Host: localhost", "Connection: close", "", ""]
        stream = await anyio.connect_tcp("127.0.0.1", httpx2.URL(server.address).port or 0)
        with anyio.fail_after(60):
            async with stream:
                await stream.send("\r\n".join(lines).encode())
                answers = b"".join([each async for each in stream])
        assert answers.count(b"HTTP/1.1 200 OK") == 2
        assert answers.endswith(b'{"status":"ok","ready":true}')


async def test_headers_that_say_something_else_than_the_body_are_refused_in_both_eras(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=by(issuer)) as server:
        token = issuer.token()
        call = message("tools/call", _META, name="helloBanner", arguments={})
        right = list(MODERN.items())
        assert (await post(server, token, call, *right)).status_code == 200
        wrong = [
            [*right[:2], ("Mcp-Name", "other")],
            right[:2],
            [right[0], ("Mcp-Method", "tools/list"), right[2]],
            [right[0], ("Mcp-Method", "ping")],
            [*right, ("Mcp-Name", "other")],
            [*right, ("Mcp-Name", "helloBanner")],
            [*right, ("Mcp-Method", "tools/list")],
            [*right, ("MCP-Protocol-Version", "2025-11-25")],
        ]
        assert [(await post(server, token, call, *each)).status_code for each in wrong] == [400] * len(wrong)

        session = await opened(server, token)
        plain = message("tools/call", name="helloBanner", arguments={})
        old = [session, ("MCP-Protocol-Version", "2025-11-25")]
        assert (await post(server, token, plain, *old)).status_code == 200
        for each in (
            [("Mcp-Method", "tools/list")],
            [("Mcp-Name", "other")],
            [("Mcp-Method", "tools/call"), ("Mcp-Method", "tools/list")],
            [("Mcp-Name", "helloBanner"), ("Mcp-Name", "other")],
        ):
            assert (await post(server, token, plain, *old, *each)).status_code == 400, each


async def test_the_session_of_another_is_not_to_be_found(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=by(issuer)) as server:
        token = issuer.token()
        session = await opened(server, token)
        listing = message("tools/list")
        statuses = {
            name: (await post(server, other, listing, session)).status_code
            for name, other in {
                "the same": token,
                "a new token of the same": issuer.token(scope="goals:read"),
                "another person": issuer.token(sub="ben"),
                "another client": issuer.token(client_id="other"),
                "the client alone": issuer.token(sub=None),
            }.items()
        }
        assert list(statuses.values()) == [200, 200, 404, 404, 404], statuses
        headers = dict([session, ("Authorization", f"Bearer {issuer.token(sub='ben')}")])
        assert (await server.http.delete("/mcp", headers=headers)).status_code == 404
        events = {**headers, "Accept": "text/event-stream"}
        assert (await server.http.get("/mcp", headers=events)).status_code == 404


async def test_the_stream_of_the_older_transport_is_its_callers_alone_and_ends_with_its_token(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=by(issuer)) as server:
        soon = issuer.token(exp=int(issuer.claims["iat"]) + 2)
        with anyio.fail_after(60):
            async with server.http.stream("GET", "/sse", headers={"Authorization": f"Bearer {soon}"}) as stream:
                lines = stream.aiter_lines()
                while not (line := await anext(lines)).startswith("data: "):
                    pass
                place = line.removeprefix("data: ")
                statuses = [
                    (
                        await server.http.post(
                            place, json=message("ping"), headers={"Authorization": f"Bearer {issuer.token(sub=each)}"}
                        )
                    ).status_code
                    for each in ("anna", "ben")
                ]
                assert statuses == [202, 404]
                async for _ in lines:
                    pass


@dataclass
class Changing:
    """A verifier whose tokens can be revoked, and which can fail."""

    raises: Exception | None = None
    seen: int = 0
    scopes: frozenset[str] = frozenset({"goals:read", "goals:admin"})

    def recognizes(self, token: str) -> bool:
        return True

    async def verify(self, token: str, is_slowed: Callable[[], bool]) -> Grant:
        self.seen += 1
        if self.raises is not None:
            raise self.raises
        return Grant(Caller(token, scopes=self.scopes), token)


async def _tell(request: Request) -> Response:
    return JSONResponse(current_caller().id)


async def _count(request: Request) -> Response:
    async def events() -> AsyncIterator[str]:
        number = 0
        while True:
            yield str(number)
            number += 1
            await anyio.sleep(0.01)

    return EventSourceResponse(events())


def echo() -> Starlette:
    """An app that tells who calls, and counts in streams."""
    return Starlette(routes=[Route("/", _tell), Route("/count", _count), Route("/listen", _count, methods=["POST"])])


def app_behind(verifier: Changing) -> AuthGuard:
    return AuthGuard(echo(), Authentication([verifier], Challenges("read")), (), stream_seconds=0.05)


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyError("bug"), RecursionError(), VerifierUnavailable("down")])
async def test_a_verifier_that_fails_lets_nobody_pass_and_is_no_bug_of_the_request(error: Exception) -> None:
    verifier = Changing(error)
    async with listening(app_behind(verifier)) as address, httpx2.AsyncClient(base_url=address) as http:
        refused = await http.get("/", headers={"Authorization": "Bearer anna"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "bug" not in refused.text
        verifier.raises = None
        assert (await http.get("/", headers={"Authorization": "Bearer anna"})).json() == "anna"


async def test_a_flood_of_refused_tokens_is_one_line_of_the_log_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    verifier = Changing()
    register_secrets(verifier, ["s3cret-of-some-server"])  # which has what looks like a secret hidden in the log
    async with listening(app_behind(verifier)) as address, httpx2.AsyncClient(base_url=address) as http:
        with caplog.at_level(logging.INFO, "goalport.server.auth"):
            for error in (InvalidToken("revoked"), InvalidToken("expired"), VerifierUnavailable("down"), KeyError()):
                verifier.raises = error
                for number in range(3):
                    await http.get("/", headers={"Authorization": f"Bearer token-{number}"})
    told = [each.message for each in caplog.records]
    bug, refused = (
        "A verifier failed, so nobody passes whose tokens it takes.",
        "a verifier failed; the error is in this log",
    )
    assert [each.rpartition(": ")[2] for each in told] == ["revoked", "expired", "down", bug, refused], told


@pytest.mark.parametrize("error", [InvalidToken("revoked"), VerifierUnavailable("down"), ValueError("bug")])
@pytest.mark.parametrize("listens", [False, True])
async def test_a_stream_ends_soon_after_its_credential(error: Exception, *, listens: bool) -> None:
    verifier = Changing()
    headers = {"Authorization": "Bearer anna"} | ({"Mcp-Method": "subscriptions/listen"} if listens else {})
    asked = ("POST", "/listen") if listens else ("GET", "/count")
    async with listening(app_behind(verifier)) as address, httpx2.AsyncClient(base_url=address) as http:
        with anyio.fail_after(60):
            async with http.stream(*asked, headers=headers) as stream:
                lines = stream.aiter_lines()
                while verifier.seen < 3:
                    await anext(lines)
                verifier.raises = error
                async for _ in lines:  # it ends as a stream does that is complete
                    pass


@pytest.mark.parametrize("left", [frozenset[str](), frozenset({"goals:read"})])
async def test_a_stream_ends_soon_after_its_credential_grants_less(left: frozenset[str]) -> None:
    verifier = Changing()
    headers = {"Authorization": "Bearer anna"}
    async with listening(app_behind(verifier)) as address, httpx2.AsyncClient(base_url=address) as http:
        with anyio.fail_after(10):
            async with http.stream("GET", "/count", headers=headers) as stream:
                lines = stream.aiter_lines()
                verifier.scopes |= {"goals:write"}
                while verifier.seen < 3:
                    await anext(lines)
                verifier.scopes = left
                async for _ in lines:
                    pass


@dataclass(frozen=True)
class Meal:
    content: str


@agent(description="Cooks until it is told that the meal is done")
class Cook:
    def __init__(self, done: anyio.Event) -> None:
        self.done = done

    @achieves_goal(description="A meal", export=Export(remote=True, name="cook"))
    async def cook(self, said: UserInput) -> Meal:
        await self.done.wait()
        return Meal(said.content)


async def test_a_stream_of_events_ends_when_its_token_expires_and_a_call_that_runs_does_not(tmp_path: Path) -> None:
    done = anyio.Event()
    async with issuing() as issuer, guarded(tmp_path, Cook(done), auth=by(issuer)) as server:
        soon = issuer.token(exp=int(issuer.claims["iat"]) + 2)
        session = await opened(server, soon)
        headers = dict([session, ("Authorization", f"Bearer {soon}"), ("Accept", "text/event-stream")])
        answers = list[str]()

        async def call() -> None:
            cook = message("tools/call", name="cook", arguments={"content": "soup"})
            answers.append((await post(server, soon, cook, session)).text)

        async def listen() -> None:
            wanted = message("subscriptions/listen", _META, notifications={"toolsListChanged": True})
            route = ("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "subscriptions/listen")
            assert "acknowledged" in (await post(server, soon, wanted, *route)).text  # read to its end

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                tasks.start_soon(listen)
                async with server.http.stream("GET", "/mcp", headers=headers) as stream:
                    assert stream.status_code == 200
                    async for _ in stream.aiter_lines():
                        pass
                assert answers == []
                done.set()
        assert "soup" in answers[0]
        assert (await post(server, soon, message("ping"), session)).status_code == 401
        assert (await post(server, issuer.token(), message("ping"), session)).status_code == 200
