"""Agents that take their time, and calls of them that are spoken by hand. No test is in here."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2

from tests.proxies import RoundRobin
from tests.stories.servers import Running
from tests.web_servers import WebServer

COOK = """
import asyncio
import sys

import anyio
from pydantic import BaseModel
from goalport import Export, achieves_goal, action, agent

class Order(BaseModel):
    seconds: float

class Meal(BaseModel):
    content: str

def say(words):
    print(words, file=sys.stderr, flush=True)

async def cook(order):
    say("cooking begins")
    try:
        await anyio.sleep(order.seconds)
    except asyncio.CancelledError:
        say("cooking stops")
        raise
    say("cooking ends")
    return Meal(content="done")

@agent(description="Cooks while somebody waits")
class Cook:
    @achieves_goal(description="A meal", export=Export(remote=True, name="cook"))
    @action
    async def cook(self, order: Order) -> Meal:
        return await cook(order)

@agent(description="Cooks whether anybody waits or not")
class Caterer:
    @achieves_goal(description="A meal", export=Export(remote=True, name="cater", on_disconnect="detach"))
    @action
    async def cook(self, order: Order) -> Meal:
        return await cook(order)
"""
FILES = {"agents/cooks.py": COOK}
SECONDS = {"cook": 60.0, "cater": 1.0}
HEADERS = {"Accept": "application/json, text/event-stream"}
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(tool: str, **params: Any) -> dict[str, Any]:
    given = {"name": tool, "arguments": {"seconds": SECONDS[tool]}, **params}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": given}


def http_of(server: Running | RoundRobin | WebServer) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
    """An HTTP client of a server, or of the proxy before several."""
    return server.http() if isinstance(server, WebServer) else httpx2.AsyncClient(base_url=server.address, timeout=60)


@asynccontextmanager
async def session(
    server: Running | RoundRobin | WebServer, capabilities: Mapping[str, Any] | None = None
) -> AsyncGenerator[tuple[httpx2.AsyncClient, dict[str, str]]]:
    """A handshake-era session spoken by hand, so that its connections can be dropped."""
    async with http_of(server) as http:
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": dict(capabilities or {}), "clientInfo": info}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        opened = await http.post("/mcp", json=message, headers=HEADERS)
        headers = {**HEADERS, "Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        yield http, headers
