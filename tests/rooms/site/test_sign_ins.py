"""The page that ends a sign-in to an upstream server, which a process asked its caller for."""

import json
from pathlib import Path

import anyio
import httpx2

from tests.rooms.rest.web import PROCESS, web
from tests.rooms.upstream.signing_in import Greeter, doorkeeper, free_port


async def browse(url: str) -> httpx2.Response:
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
        return await browser.get(url)


async def test_a_sign_in_ends_at_the_server_and_the_process_goes_on(tmp_path: Path) -> None:
    port = free_port()
    async with doorkeeper() as keeper:
        keeper.is_open = True
        server = {"url": f"{keeper.address}/mcp", "auth": "oauth"}
        config = {"mcpServers": {"guarded": server}, "toolGroups": {"doors": {"servers": ["guarded"]}}}
        (tmp_path / "mcp_config.json").write_text(json.dumps(config))
        async with web(tmp_path, Greeter, port=port, upstream_wait_seconds=20) as served:
            keeper.is_open = False
            state = (await served.start("greet", {"content": "hello"})).json()
            address = state["url"]
            assert f"redirect_uri=http%3A%2F%2F127.0.0.1%3A{port}%2Foauth%2Fcallback" in address
            unknown = await browse(f"http://127.0.0.1:{port}/oauth/callback?code=c0de&state=guessed")
            page = await browse(address)
            again = await browse(str(page.url))
            with anyio.fail_after(60):
                while "result" not in state:
                    state = (await served.http.get(f"{PROCESS}/{state['processId']}")).json()
    assert (unknown.status_code, page.status_code, again.status_code) == (404, 200, 404)
    assert "You are signed in" in page.text
    assert page.headers["cache-control"] == "no-store"
    assert state["result"] == {"content": "hello"}
