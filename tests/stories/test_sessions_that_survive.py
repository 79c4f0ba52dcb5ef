"""Handshake-era clients whose server is killed or replaced go on with their session; they never initialize again."""

from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult, Implementation

from tests.rooms.serve.served import text_of
from tests.stories.cooks import session
from tests.stories.servers import Running, running

SHOP = """
from mcp_types import CallToolResult, TextContent, Tool
from goalport.server.doors.mcp import raw_tool

async def order(context, params):
    wanted = {"type": "object", "properties": {"cake": {"type": "string"}}}
    capabilities = context.session.client_capabilities
    assert capabilities is not None and capabilities.elicitation is not None
    question = (params.arguments or {}).get("question", "Which cake?")
    answer = await context.session.elicit_form(question, wanted, related_request_id=context.request_id)
    name = context.session.client_params.client_info.name
    return CallToolResult(content=[TextContent(type="text", text=f"{answer.content['cake']} for {name}")])

order_tool = raw_tool(Tool(name="order", input_schema={"type": "object"}), order)
"""
FILES = {"tools/shop.py": SHOP}
KEYS = "k" * 32


async def choose(*_: Any, **__: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"cake": "carrot"})


async def order(client: Client) -> str:
    with anyio.fail_after(60):
        return text_of(await client.call_tool("order", {}))


async def kill(server: Running) -> None:
    server.process.kill()
    await server.process.wait()


async def test_a_client_goes_on_after_its_server_was_killed(tmp_path: Path) -> None:
    info = Implementation(name="Ada", version="1")
    async with (
        running(tmp_path, FILES) as first,
        first.client("http", "legacy", elicitation_callback=choose, client_info=info) as client,
    ):
        assert await order(client) == "carrot for Ada"
        await kill(first)
        for _ in range(2):
            async with running(tmp_path, {}, port=first.port) as again:
                assert await order(client) == "carrot for Ada"
                assert "order" in [tool.name for tool in (await client.list_tools()).tools]
                await kill(again)


class _InTurn(httpx2.AsyncHTTPTransport):
    """Sends the requests to several servers in turn."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__()
        self.sent = dict.fromkeys(ports, 0)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        port = min(self.sent, key=self.sent.__getitem__)
        self.sent[port] += 1
        request.url = request.url.copy_with(port=port)
        return await super().handle_async_request(request)


async def test_a_client_talks_to_two_servers_with_the_same_keys_in_turn(tmp_path: Path) -> None:
    async with (
        running(tmp_path, FILES, state_keys=KEYS) as first,
        running(tmp_path, {}, state_keys=KEYS) as second,
    ):
        in_turn = _InTurn([first.port, second.port])
        async with (
            httpx2.AsyncClient(transport=in_turn, timeout=30) as http,
            Client(streamable_http_client(f"{first.address}/mcp", http_client=http), mode="legacy") as client,
        ):
            for _ in range(6):
                assert "order" in [tool.name for tool in (await client.list_tools()).tools]
        assert min(in_turn.sent.values()) >= 3


async def test_a_resumed_session_is_told_of_changes_over_its_next_stream(tmp_path: Path) -> None:
    async with running(tmp_path, FILES) as first, session(first) as (_, headers):
        await kill(first)
    async with (
        running(tmp_path, {}, "--reload", port=first.port) as second,
        httpx2.AsyncClient(base_url=second.address, timeout=30) as http,
        http.stream("GET", "/mcp", headers=headers) as stream,
    ):
        assert stream.status_code == 200
        (tmp_path / "tools/shop.py").write_text(SHOP.replace('"order"', '"buy"'))
        with anyio.fail_after(60):
            async for line in stream.aiter_lines():
                if "notifications/tools/list_changed" in line:
                    break


async def test_two_calls_that_ask_at_once_in_one_session_get_their_own_answers(tmp_path: Path) -> None:
    asked, answers = list[str](), list[str]()
    both = anyio.Event()

    async def by_cook(_: Any, question: ElicitRequestParams) -> ElicitResult:
        asked.append(question.message)
        if len(asked) == 2:
            both.set()
        await both.wait()
        return ElicitResult(action="accept", content={"cake": f"the {question.message}"})

    async with (
        running(tmp_path, FILES) as server,
        server.client("http", "legacy", elicitation_callback=by_cook) as client,
    ):

        async def order_for(cook: str) -> None:
            answers.append(text_of(await client.call_tool("order", {"question": cook})))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as calls:
                for each in ("baker", "confectioner"):
                    calls.start_soon(order_for, each)
    assert sorted(answers) == ["the baker for mcp", "the confectioner for mcp"]
