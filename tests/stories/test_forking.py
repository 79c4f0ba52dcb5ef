"""Actions that fork: their children end when they are told, and the server does not."""

import json
import signal
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent

from tests.stories.cooks import META
from tests.stories.servers import WAYS, Heard, running, spoken_to

FORKER = """
import multiprocessing
import os
import signal
import time

from pydantic import BaseModel
from goalport import Export, achieves_goal, agent

class Order(BaseModel):
    signal: int = 0

class Ended(BaseModel):
    content: str

def calculate(begun):
    begun.set()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass  # no call of the system, which a signal would interrupt

def fork(order):
    context = multiprocessing.get_context("fork")
    begun = context.Event()
    child = context.Process(target=calculate, args=(begun,), daemon=True)
    child.start()
    begun.wait(30)
    if not order.signal:
        return Ended(content=f"{child.pid} calculates")
    os.kill(child.pid, order.signal)
    child.join(30)
    code = child.exitcode
    child.kill()
    return Ended(content=f"ended with {code}")

@agent(description="Forks in a thread")
class Forker:
    @achieves_goal(description="A child", export=Export(remote=True, name="fork"))
    def fork(self, order: Order) -> Ended:
        return fork(order)

@agent(description="Forks beside the event loop")
class AsyncForker:
    @achieves_goal(description="A child", export=Export(remote=True, name="fork_beside_the_loop"))
    async def fork(self, order: Order) -> Ended:
        return fork(order)
"""
FILES = {"agents/forker.py": FORKER}
CODES = {signal.SIGTERM: -15, signal.SIGINT: -2}
"""How a child ends when the system ends it."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")


def text_of(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


@pytest.mark.parametrize(("transport", "era"), WAYS)
async def test_a_child_ends_when_it_is_told_and_the_server_does_not(connection: tuple[Client, Heard]) -> None:
    client, heard = connection
    with anyio.fail_after(200):
        for tool in ("fork", "fork_beside_the_loop"):
            for told, code in CODES.items():
                ended = await client.call_tool(tool, {"signal": told})
                assert text_of(ended) == f"ended with {code}"
    assert "a second signal" not in heard.text


async def test_children_do_not_hold_the_end_of_the_server(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, shutdown_seconds="60") as server:
        async with server.client("http", "auto") as client:
            for tool in ("fork", "fork_beside_the_loop"):
                assert "calculates" in text_of(await client.call_tool(tool, {}))
        with anyio.fail_after(60):
            server.process.send_signal(signal.SIGTERM)
            assert await server.process.wait() == 0


async def test_a_server_on_stdio_takes_its_children_with_it(tmp_path: Path) -> None:
    async with spoken_to(tmp_path, FILES, shutdown_seconds="60") as server:
        call = {"name": "fork", "arguments": {}, "_meta": META}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}
        await server.stdin.send(json.dumps(message).encode() + b"\n")
        assert "calculates" in (await server.stdout.receive()).decode()
        server.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            # What a child has inherited is closed when the last one has gone.
            assert await server.stdout.rest() == b""
            assert await server.process.wait() == 0
