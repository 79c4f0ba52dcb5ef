"""A session id of the handshake era is valid on every server that has the key, and on no other."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types import INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from goalport.server.site import create_app
from tests.rooms.serve.served import state_of
from tests.rooms.site.test_guard import HEADERS, INITIALIZE, TOOLS

STEPS = """
from mcp_types import CallToolResult, TextContent, Tool
from goalport.server.doors.mcp import raw_tool

async def step(context, params):
    await context.session.report_progress(1, 2, "half")
    return CallToolResult(content=[TextContent(type="text", text="done")])

step_tool = raw_tool(Tool(name="step", input_schema={"type": "object"}), step)
"""
KEY, NEWER = "k" * 32, "n" * 32
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
CAPABILITIES: dict[str, Any] = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}},
}


@asynccontextmanager
async def server(root: Path, **settings: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of a server in memory, which takes the header `x-user` for whom a token names."""
    state = state_of(
        root, files={"tools/maths.py": TOOLS, "tools/steps.py": STEPS}, **{"state_keys": [KEY], **settings}
    )
    app = create_app(state.platform, state.publisher.workspace, state.settings)

    async def authenticated(scope: Any, receive: Any, send: Any) -> None:
        name = dict(scope["headers"]).get(b"x-user", b"").decode()
        token = AccessToken(token="t", client_id="app", scopes=[], subject=name, claims={"iss": "https://issuer"})
        user = AuthenticatedUser(token) if name else None
        before = auth_context_var.set(user)
        try:
            await app({**scope, "user": user}, receive, send)
        finally:
            auth_context_var.reset(before)

    transport = httpx2.ASGITransport(authenticated)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", headers=HEADERS) as client,
    ):
        yield client


async def opened(client: httpx2.AsyncClient, revision: str = "2025-11-25", **said: Any) -> dict[str, str]:
    """The headers of a session that was opened with these capabilities and client."""
    params = {**INITIALIZE["params"], "protocolVersion": revision, **said}
    response = await client.post("/mcp", json={**INITIALIZE, "params": params})
    assert response.status_code == 200
    return {"Mcp-Session-Id": response.headers["mcp-session-id"], "MCP-Protocol-Version": revision}


async def call(client: httpx2.AsyncClient, session: dict[str, str], **headers: str) -> httpx2.Response:
    with anyio.fail_after(60):
        return await client.post("/mcp", json=CALL, headers={**session, **headers})


def not_found(response: httpx2.Response) -> bool:
    """Whether it is the answer to an unknown session."""
    error = {"code": INVALID_REQUEST, "message": "Session not found"}
    return (response.status_code, response.json()) == (404, {"jsonrpc": "2.0", "id": None, "error": error})


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_a_session_is_known_to_another_server_with_the_same_key(tmp_path: Path, revision: str) -> None:
    async with server(tmp_path) as first, server(tmp_path) as second:
        session = await opened(first, revision)
        for client in (second, first, second):
            response = await call(client, session)
            assert '"text":"3"' in response.text
            assert response.headers.get("mcp-session-id") == session["Mcp-Session-Id"]


async def test_a_session_that_a_brief_call_opened_again_streams_what_later_calls_tell(tmp_path: Path) -> None:
    params = {"name": "step", "arguments": {}, "_meta": {"progressToken": 1}}
    async with server(tmp_path) as first, server(tmp_path) as second:
        session = await opened(first)
        assert (await call(second, session)).headers["content-type"] == "application/json"
        response = await second.post("/mcp", json={**CALL, "params": params}, headers=session)
    assert "notifications/progress" in response.text
    assert '"text":"done"' in response.text


async def test_a_log_level_that_is_asked_for_without_a_session_makes_no_call_a_stream(tmp_path: Path) -> None:
    level = {"jsonrpc": "2.0", "id": 3, "method": "logging/setLevel", "params": {"level": "error"}}
    async with server(tmp_path, stateless=True) as client:
        assert '"result"' in (await client.post("/mcp", json=level)).text
        response = await client.post("/mcp", json=CALL)
    assert response.headers["content-type"] == "application/json"
    assert '"text":"3"' in response.text


async def test_every_id_is_new_and_fits_into_a_header(tmp_path: Path) -> None:
    async with server(tmp_path) as client:
        ids = [(await opened(client, capabilities=CAPABILITIES))["Mcp-Session-Id"] for _ in range(3)]
    assert len(set(ids)) == 3
    for each in ids:
        assert each.isascii()
        assert each.isprintable()
        assert " " not in each
        assert len(each) < 400


@pytest.mark.parametrize("settings", [{"state_keys": [NEWER]}, {"name": "other"}, {"state_ttl_seconds": 1e-9}])
async def test_a_session_is_unknown_where_its_id_cannot_be_valid(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with server(tmp_path) as first, server(tmp_path, **settings) as second:
        session = await opened(first)
        assert not_found(await call(second, session))
        assert (await call(first, session)).status_code == 200


async def test_a_session_stays_valid_while_keys_are_rotated(tmp_path: Path) -> None:
    async with server(tmp_path) as first, server(tmp_path, state_keys=[NEWER, KEY]) as second:
        assert (await call(second, await opened(first))).status_code == 200


async def test_an_id_that_was_changed_is_unknown(tmp_path: Path) -> None:
    async with server(tmp_path) as first, server(tmp_path) as second:
        sound = (await opened(first))["Mcp-Session-Id"]
        changed = sound[:40] + ("A" if sound[40] != "A" else "B") + sound[41:]
        for wrong in (changed, sound[:-8], sound + "AAAA", sound.removeprefix("v1."), "0" * 32, "A" * 5_000):
            assert not_found(await call(second, {"Mcp-Session-Id": wrong})), wrong
        assert not_found(await second.post("/mcp", json=CALL, headers={b"Mcp-Session-Id": b"v1.\xe9"}))


async def test_a_session_is_unknown_to_everybody_but_its_caller(tmp_path: Path) -> None:
    async with server(tmp_path) as first, server(tmp_path) as second:
        response = await first.post("/mcp", json=INITIALIZE, headers={"x-user": "ada"})
        session = {"Mcp-Session-Id": response.headers["mcp-session-id"]}
        for client in (first, second):
            assert not_found(await call(client, session))
            assert not_found(await call(client, session, **{"x-user": "bob"}))
            assert (await call(client, session, **{"x-user": "ada"})).status_code == 200
            assert not_found(await call(client, session, **{"x-user": "bob"}))
            assert (await call(client, session, **{"x-user": "ada"})).status_code == 200


async def test_requests_of_a_session_that_come_at_once_are_all_answered(tmp_path: Path) -> None:
    statuses: list[int] = []
    async with server(tmp_path) as first, server(tmp_path, max_sessions=1) as second:
        session = await opened(first)

        async def ping(number: int) -> None:
            message = {"jsonrpc": "2.0", "id": number, "method": "ping"}
            statuses.append((await second.post("/mcp", json=message, headers=session)).status_code)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(ping, number)
    assert statuses == [200] * 20


async def test_a_session_that_its_client_ended_is_unknown_to_that_server_only(tmp_path: Path) -> None:
    async with server(tmp_path) as first, server(tmp_path) as second:
        session = await opened(first)
        assert (await second.delete("/mcp", headers=session)).status_code == 200
        assert not_found(await call(second, session))
        assert (await call(first, session)).status_code == 200


async def test_an_end_by_somebody_else_ends_nothing(tmp_path: Path) -> None:
    async with server(tmp_path) as client:
        response = await client.post("/mcp", json=INITIALIZE, headers={"x-user": "ada"})
        session = {"Mcp-Session-Id": response.headers["mcp-session-id"], "x-user": "ada"}
        assert not_found(await client.delete("/mcp", headers={**session, "x-user": "bob"}))
        assert (await call(client, session)).status_code == 200


async def test_clients_of_more_sessions_than_are_remembered_go_on_nevertheless(tmp_path: Path) -> None:
    async with server(tmp_path, max_sessions=2) as client:
        sessions = [await opened(client) for _ in range(5)]
        for session in (*sessions, *sessions):
            assert (await call(client, session)).status_code == 200


async def test_a_session_takes_no_task_whatever_it_has_asked_for(tmp_path: Path) -> None:
    wanted = [("logging/setLevel", {"level": "error"}), ("resources/subscribe", {"uri": "goalport://goals"})]
    async with server(tmp_path) as client:
        before = len(asyncio.all_tasks())
        session = await opened(client)
        for method, params in wanted:
            message = {"jsonrpc": "2.0", "id": 3, "method": method, "params": params}
            assert '"result"' in (await client.post("/mcp", json=message, headers=session)).text
        assert '"text":"3"' in (await call(client, session)).text
        with anyio.fail_after(60):
            while len(asyncio.all_tasks()) > before + SHARED:
                await anyio.sleep(0.01)


SHARED = 1
"""The tasks that all event streams share, from the first one on."""


async def test_only_the_latest_ended_sessions_are_remembered(tmp_path: Path) -> None:
    async with server(tmp_path, max_sessions=1) as client:
        sessions = [await opened(client) for _ in range(2)]
        for session in sessions:
            await client.delete("/mcp", headers=session)
        assert not_found(await call(client, sessions[1]))
        assert (await call(client, sessions[0])).status_code == 200


@pytest.mark.parametrize(
    "content",
    [{f"x{n * n * n}": {"y": n} for n in range(1_000)}, {"x": {"y": "y" * 100_000}}],
    ids=["as it is", "decrypted"],
)
async def test_a_session_whose_id_would_be_too_long_counts_as_one_without_capabilities(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    async with server(tmp_path) as first, server(tmp_path) as second:
        session = await opened(first, capabilities={"experimental": content})
        assert len(session["Mcp-Session-Id"]) < 400
        for client in (first, second):
            assert (await call(client, session)).status_code == 200


async def test_an_initialize_that_is_refused_opens_nothing_that_lasts(tmp_path: Path) -> None:
    async with server(tmp_path) as first, server(tmp_path) as second:
        refused = await first.post("/mcp", json={**INITIALIZE, "params": {"protocolVersion": "2025-11-25"}})
        assert '"error"' in refused.text
        assert not_found(await call(second, {"Mcp-Session-Id": refused.headers["mcp-session-id"]}))
        unread = await first.post("/mcp", json=INITIALIZE, headers={"Accept": "text/html"})
        assert unread.status_code == 406
