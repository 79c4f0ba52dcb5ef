import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from goalport.server.site import create_app
from tests.rooms.serve.served import state_of

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
PAGE = "http://app.example.com"

TOOLS = """
from goalport import ToolGroup, tool

@tool(export=True)
def add(a: int, b: int) -> int:
    '''Add.'''
    return a + b

maths = ToolGroup.of("maths", add)
"""


@asynccontextmanager
async def http(root: Path, reached: str = "127.0.0.1", **settings: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of a server in memory, whose connections come to the address `reached`."""
    state = state_of(root, **settings)
    app = create_app(state.platform, state.publisher.workspace, state.settings)

    async def at_the_address(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "server": (reached, 8080)}, receive, send)

    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(at_the_address), base_url="http://127.0.0.1:8080") as client,
    ):
        yield client


async def initialize(client: httpx2.AsyncClient, path: str = "/mcp", **headers: str) -> httpx2.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(path, json=INITIALIZE, headers={**HEADERS, **given})


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080"])
async def test_the_machine_itself_is_always_answered(tmp_path: Path, host: str) -> None:
    async with http(tmp_path) as client:
        assert (await initialize(client, Host=host)).status_code == 200


@pytest.mark.parametrize("host", ["evil.example.com", "127.0.0.1.evil.example.com", "localhost.evil:80", "", "[::1"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/sse", "/messages/"])
async def test_another_host_is_refused_on_every_path(tmp_path: Path, host: str, path: str) -> None:
    async with http(tmp_path) as client:
        assert (await initialize(client, path, Host=host)).status_code == 421


async def test_of_two_hosts_none_is_answered(tmp_path: Path) -> None:
    async with http(tmp_path) as client:
        twice = [("Host", "evil.example.com"), ("Host", "127.0.0.1:8080"), *HEADERS.items()]
        assert (await client.post("/mcp", json=INITIALIZE, headers=twice)).status_code == 421


async def test_the_log_says_once_for_each_host_how_to_allow_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with http(tmp_path) as client:
        for host in ("agents.example.com:8080", "agents.example.com:8080", "other.example.com"):
            await initialize(client, Host=host)
    lines = [record.getMessage() for record in caplog.records if "Refused" in record.getMessage()]
    assert len(lines) == 2
    assert "GOALPORT_ALLOWED_HOSTS=agents.example.com" in lines[0]
    assert 'allowed_hosts = ["agents.example.com"] in server/settings.toml' in lines[0]


@pytest.mark.parametrize(
    ("allowed", "host", "status"),
    [
        ("agents.example.com", "agents.example.com", 200),
        ("agents.example.com", "agents.example.com:8443", 200),
        ("agents.example.com:8443", "agents.example.com:8443", 200),
        ("agents.example.com:8443", "agents.example.com:1", 421),
        ("agents.example.com:*", "agents.example.com:1", 200),
        ("*", "whatever.example.com", 200),
    ],
)
async def test_hosts_that_the_settings_name_are_answered(tmp_path: Path, allowed: str, host: str, status: int) -> None:
    async with http(tmp_path, allowed_hosts=[allowed]) as client:
        assert (await initialize(client, Host=host)).status_code == status


@pytest.mark.parametrize(
    ("address", "host"), [("192.0.2.7", "192.0.2.7:8080"), ("2001:db8::7", "[2001:db8::7]:8080"), ("::1", "[::1]")]
)
async def test_the_address_that_is_listened_on_is_answered(tmp_path: Path, address: str, host: str) -> None:
    async with http(tmp_path, host=address) as client:
        assert (await initialize(client, Host=host)).status_code == 200
        assert (await initialize(client, Host="198.51.100.1:8080")).status_code == 421


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://agents.example.com:8080", 200),
        ("https://agents.example.com:8080", 200),
        ("http://agents.example.com:9999", 403),
        ("http://agents.example.com", 403),
        ("chrome-extension://agents.example.com:8080", 403),
    ],
)
async def test_a_page_that_came_from_this_server_may_call_it(tmp_path: Path, origin: str, status: int) -> None:
    async with http(tmp_path, allowed_hosts=["agents.example.com"]) as client:
        response = await initialize(client, Host="agents.example.com:8080", Origin=origin)
    assert response.status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:6274", 200),
        ("http://127.0.0.1:3000", 200),
        ("http://127.0.0.1:8080", 200),
        (PAGE, 403),
        ("null", 403),
        ("http://localhost.evil.example.com", 403),
    ],
)
async def test_pages_of_this_machine_may_call_and_others_not(tmp_path: Path, origin: str, status: int) -> None:
    async with http(tmp_path) as client:
        assert (await initialize(client, Origin=origin)).status_code == status


@pytest.mark.parametrize("allowed", [PAGE, f"{PAGE}/", f"{PAGE}:*", "*"])
async def test_pages_that_the_settings_name_may_call(tmp_path: Path, allowed: str) -> None:
    async with http(tmp_path, allowed_origins=[allowed]) as client:
        response = await initialize(client, Origin=PAGE)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == PAGE
    assert "Mcp-Session-Id" in response.headers["access-control-expose-headers"]


async def test_the_log_says_how_to_allow_a_page(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with http(tmp_path) as client:
        await initialize(client, Origin=PAGE)
    assert f"GOALPORT_ALLOWED_ORIGINS={PAGE}" in caplog.text


async def preflight(client: httpx2.AsyncClient) -> httpx2.Response:
    asked = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "mcp-session-id",
    }
    return await client.request("OPTIONS", "/mcp", headers=asked)


async def test_a_browser_may_ask_before_it_calls_when_its_page_may_call(tmp_path: Path) -> None:
    async with http(tmp_path, allowed_origins=[PAGE]) as client:
        allowed = await preflight(client)
    async with http(tmp_path) as client:
        refused = await preflight(client)
    assert (allowed.status_code, refused.status_code) == (200, 403)
    assert "access-control-allow-origin" not in refused.headers


async def test_who_is_no_page_gets_no_header_for_pages(tmp_path: Path) -> None:
    async with http(tmp_path) as client:
        assert "access-control-allow-origin" not in (await initialize(client)).headers


async def test_a_body_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    async with http(tmp_path, max_body_bytes=1_000) as client:
        for path in ("/mcp", "/messages/?session_id=0"):
            response = await client.post(path, content=b'{"x": "' + b"y" * 2_000 + b'"}', headers=HEADERS)
            assert response.status_code == 413
            assert "1,000 bytes" in response.text
            assert "max_body_bytes" in response.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b'{"jsonrpc": "1.0"}',
        b'{"jsonrpc":"2.0","id":{},"method":3}',
        b"\xff\xfe",
        b"[" * 5_000,
    ],
    ids=["empty", "half", "batch", "text", "old", "odd", "bytes", "deep"],
)
@pytest.mark.parametrize("version", ["", "2026-07-28"])
async def test_what_is_no_message_is_refused_and_the_next_one_is_answered(
    tmp_path: Path, body: bytes, version: str
) -> None:
    async with http(tmp_path) as client:
        headers = {**HEADERS, **({"MCP-Protocol-Version": version} if version else {})}
        response = await client.post("/mcp", content=body, headers=headers)
        assert 400 <= response.status_code < 500
        assert "Traceback" not in response.text
        assert (await initialize(client)).status_code == 200


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_every_revision_with_a_handshake_is_spoken(tmp_path: Path, revision: str) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/maths.py").write_text(TOOLS)
    hello = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": revision}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
    async with http(tmp_path) as client:
        opened = await client.post("/mcp", json=hello, headers=HEADERS)
        assert f'"protocolVersion":"{revision}"' in opened.text
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": revision}
        answer = await client.post("/mcp", json=call, headers={**HEADERS, **session})
    assert '"text":"3"' in answer.text
    assert "resultType" not in answer.text


async def test_an_unknown_revision_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    async with http(tmp_path) as client:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        headers = {**HEADERS, "MCP-Protocol-Version": "2031-01-01"}
        response = await client.post("/mcp", json=message, headers=headers)
    assert response.status_code == 400
    assert "error" in response.json()


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_both_spellings_of_a_path_are_served(tmp_path: Path, path: str) -> None:
    async with http(tmp_path) as client:
        assert (await initialize(client, path)).status_code == 200


async def test_a_stateless_server_has_no_sessions(tmp_path: Path) -> None:
    async with http(tmp_path, stateless=True) as client:
        response = await initialize(client)
    assert response.status_code == 200
    assert "mcp-session-id" not in response.headers


@pytest.mark.parametrize("path", ["/health", "/health/"])
async def test_health_tells_how_much_is_served(tmp_path: Path, path: str) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/maths.py").write_text(TOOLS)
    (tmp_path / "tools/broken.py").write_text("1 / 0")
    async with http(tmp_path, state_keys=["s3cret" * 8]) as client:
        response = await client.get(path)
    assert response.status_code == 200
    told = response.json()
    assert (told["status"], told["name"], told["tools"], told["loadProblems"]) == ("ok", "goalport", 2, 1)
    assert told["toolGroups"] == {"maths": {"status": "up", "tools": 1}}
    assert "s3cret" not in json.dumps(told)


async def test_health_tells_that_an_upstream_server_is_down_and_nothing_that_it_wrote(tmp_path: Path) -> None:
    dying = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no login for svc with s3cret')"]}
    config = {"mcpServers": {"db": dying}, "toolGroups": {"data": {"servers": ["db"], "include": ["*"]}}}
    (tmp_path / "mcp_config.json").write_text(json.dumps(config))
    async with http(tmp_path, upstream_wait_seconds=20) as client:
        response = await client.get("/health")
    told = response.json()
    assert told["toolGroups"] == {"data": {"status": "down", "tools": 0}}
    assert told["upstreamServers"]["db"]["status"] == "down"
    assert "s3cret" not in response.text


@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example.com", 421), ("10.9.9.9", 421), ("agents.example.com", 200), ("10.1.2.3:80", 200)],
)
async def test_health_answers_for_allowed_hosts_and_the_address_that_was_reached(
    tmp_path: Path, host: str, status: int
) -> None:
    async with http(tmp_path, allowed_hosts=["agents.example.com"], reached="10.1.2.3") as client:
        assert (await client.get("/health", headers={"Host": host})).status_code == status


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/"), ("GET", "/nothing"), ("POST", "/health"), ("DELETE", "/sse")]
)
async def test_what_is_not_served_is_not_found_or_not_allowed(tmp_path: Path, method: str, path: str) -> None:
    async with http(tmp_path) as client:
        assert (await client.request(method, path)).status_code in {404, 405}


TRICKS = ["http://localhost:80@evil.com", "http://[::1].evil.com", "http://localhost:80/x", "http://127.0.0.1 evil.com"]


@pytest.mark.parametrize("origin", TRICKS)
async def test_an_origin_that_only_begins_like_this_machine_is_refused(tmp_path: Path, origin: str) -> None:
    async with http(tmp_path) as client:
        assert (await initialize(client, Origin=origin)).status_code == 403


@pytest.mark.parametrize("host", ["localhost:80@evil.com", "[::1].evil.com", "localhost:x", "127.0.0.1:80:80"])
async def test_a_host_that_only_begins_like_this_machine_is_refused(tmp_path: Path, host: str) -> None:
    async with http(tmp_path) as client:
        assert (await initialize(client, Host=host)).status_code == 421


@pytest.mark.parametrize(("origin", "allowed"), [("http://evil.com", None), ("http://localhost:3000",) * 2])
async def test_only_pages_that_are_allowed_may_read_the_health(
    tmp_path: Path, origin: str, allowed: str | None
) -> None:
    async with http(tmp_path) as client:
        response = await client.get("/health", headers={"Origin": origin})
    assert response.status_code == 200
    assert response.headers.get("access-control-allow-origin") == allowed
