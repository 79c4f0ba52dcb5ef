"""How calls over HTTP are answered: in one piece, or as a stream when something may come before the answer."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.stories.cooks import FILES, HEADERS, META, request, session
from tests.stories.servers import Running, running

ERAS = pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
TASTER = """
from mcp_types import CallToolResult, TextContent, Tool
from goalport.serve import raw_tool

async def taste(context, params):
    return CallToolResult(content=[TextContent(type="text", text="fine")])

taster = raw_tool(Tool(name="taste", input_schema={"type": "object"}), taste)
"""


@asynccontextmanager
async def caller(server: Running, era: str) -> AsyncGenerator[tuple[httpx2.AsyncClient, dict[str, str]]]:
    """A client spoken by hand, and its headers for a call of `cook`."""
    if era == "2025-11-25":
        async with session(server) as pair:
            yield pair
    else:
        routing = {"MCP-Protocol-Version": era, "Mcp-Method": "tools/call", "Mcp-Name": "cook"}
        async with httpx2.AsyncClient(base_url=server.address, timeout=20) as http:
            yield http, {**HEADERS, **routing}


def cook(era: str, seconds: float = 0, **meta: object) -> dict[str, Any]:
    known: dict[str, Any] = META if era == "2026-07-28" else {}
    return request("cook", arguments={"seconds": seconds}, _meta={**known, **meta})


def answer_in(events: str) -> dict[str, Any]:
    """The answer that ends a stream of events."""
    return json.loads(events.rpartition("data: ")[2])


@ERAS
async def test_a_quick_call_is_answered_in_one_piece(tmp_path: Path, era: str) -> None:
    async with running(tmp_path, FILES) as server, caller(server, era) as (http, headers):
        answer = await http.post("/mcp", json=cook(era), headers=headers)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["result"]["structuredContent"] == {"content": "done"}


@ERAS
async def test_a_call_that_asks_for_progress_is_answered_by_a_stream(tmp_path: Path, era: str) -> None:
    async with running(tmp_path, FILES) as server, caller(server, era) as (http, headers):
        answer = await http.post("/mcp", json=cook(era, progressToken=1), headers=headers)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert "notifications/progress" in answer.text
        assert answer_in(answer.text)["result"]["structuredContent"] == {"content": "done"}


@ERAS
async def test_a_call_that_takes_long_is_answered_by_a_stream_after_all(tmp_path: Path, era: str) -> None:
    async with running(tmp_path, FILES) as server, caller(server, era) as (http, headers):
        answer = await http.post("/mcp", json=cook(era, seconds=1.5), headers=headers)
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers.get("mcp-session-id") == headers.get("Mcp-Session-Id")
        assert answer.text.startswith(": ping")
        assert answer_in(answer.text)["result"]["structuredContent"] == {"content": "done"}


async def test_a_session_that_asked_for_the_log_is_answered_by_streams(tmp_path: Path) -> None:
    async with running(tmp_path, FILES) as server, caller(server, "2025-11-25") as (http, headers):
        wish = {"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "debug"}}
        await http.post("/mcp", json=wish, headers=headers)
        answer = await http.post("/mcp", json=cook("2025-11-25"), headers=headers)
        assert "notifications/message" in answer.text
        assert answer_in(answer.text)["result"]["structuredContent"] == {"content": "done"}


async def test_a_tool_that_may_ask_back_is_answered_by_a_stream(tmp_path: Path) -> None:
    files = {**FILES, "tools/taster.py": TASTER}
    async with running(tmp_path, files) as server, caller(server, "2025-11-25") as (http, headers):
        call: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "taste", "arguments": {}},
        }
        answer = await http.post("/mcp", json=call, headers=headers)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer_in(answer.text)["result"]["content"][0]["text"] == "fine"


async def test_what_is_no_message_is_refused_as_ever(tmp_path: Path) -> None:
    async with running(tmp_path, FILES) as server, caller(server, "2025-11-25") as (http, headers):
        for body in ('{"method": "tools/call"', '["tools/call"]', '{"method": "tools/call", "params": []}'):
            answer = await http.post("/mcp", content=body, headers={**headers, "Content-Type": "application/json"})
            assert answer.status_code == 400
