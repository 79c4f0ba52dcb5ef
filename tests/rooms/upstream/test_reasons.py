"""Why a server over HTTP is down, in words that say what to do."""

from pathlib import Path

import pytest

from goalport.tools.upstream.config import ServerConfig, read_config
from goalport.tools.upstream.upstream_server import ServerState
from tests.rooms.documents.loopback import Page, certificate_for, serving
from tests.rooms.upstream.connected import connected
from tests.rooms.upstream.test_over_http import web


async def reason(config: ServerConfig) -> str:
    async with connected(config) as servers:
        return servers.server(config.name).last_error


async def test_a_certificate_that_nobody_trusts_is_said_and_a_file_lets_it_be_trusted(tmp_path: Path) -> None:
    for_server, _ = certificate_for("localhost", tmp_path)
    with serving(for_server) as site:
        url = f"https://localhost:{site.host.rpartition(':')[2]}/mcp"
        assert await reason(ServerConfig("web", "http", url=url)) == (
            "the certificate of localhost is not trusted (self-signed certificate): if it is right, "
            "name a file with the certificate of its authority in `caFile`"
        )
        (tmp_path / "mcp_config.json").write_text(
            f'{{"mcpServers": {{"web": {{"url": "{url}", "caFile": "certificate.pem"}}}}}}'
        )
        config = read_config(tmp_path / "mcp_config.json", {})
        assert "HTTP 404 Not Found" in await reason(config.servers["web"])


async def test_a_name_that_is_not_known_is_said() -> None:
    words = await reason(ServerConfig("web", "http", url="https://nowhere.invalid/mcp"))
    assert words.startswith("the name nowhere.invalid is not known (")
    assert words.endswith("): look at its url, or at the DNS of this machine")


async def test_plain_http_where_tls_is_expected_is_said() -> None:
    with serving() as site:
        words = await reason(ServerConfig("web", "http", url=f"https://{site.host}/mcp"))
    assert words.startswith("there is no TLS connection with 127.0.0.1 (")


@pytest.mark.parametrize(("transport", "path", "other"), [("http", "sse", "sse"), ("sse", "mcp", "http")])
async def test_an_address_of_the_other_transport_is_said_to_want_another_type(
    transport: str, path: str, other: str
) -> None:
    async with web() as address:
        config = ServerConfig("web", "sse" if transport == "sse" else "http", url=f"{address}/{path}")
        assert f"set its `type` to {other}" in await reason(config)


async def test_what_a_refusal_says_in_plain_text_is_told() -> None:
    with serving() as site:
        config = ServerConfig("web", "http", url=f"{site.address}/mcp")
        site.pages["/mcp"] = Page(b"Only allowed at\nlocalhost:80", 403, {"content-type": "text/plain"})
        assert (await reason(config)).endswith(", it says 'Only allowed at localhost:80'")
        site.pages["/mcp"] = Page(b"Forbidden\n", 403, {"content-type": "text/plain"})
        assert "it says" not in await reason(config)
        site.pages["/mcp"] = Page(b"<p>Go away</p>", 403, {"content-type": "text/html"})
        assert "it says" not in await reason(config)


async def test_a_server_that_wants_to_be_left_alone_for_a_time_is() -> None:
    with serving() as site:
        site.pages["/mcp"] = Page(b"no", status=429, headers={"retry-after": "90"})
        async with connected(ServerConfig("web", "http", url=f"{site.address}/mcp")) as servers:
            server = servers.server("web")
            await servers.until(lambda: server.state is ServerState.DOWN and server.retry_at > 0)
            assert "HTTP 429 Too Many Requests, it wants to be asked again in 90 s" in server.last_error
            asked = len(site.requests)
            with pytest.raises(Exception, match=r"is down; it is tried again in (8\d|90) s"):
                await server.client.connect()
            assert len(site.requests) == asked
