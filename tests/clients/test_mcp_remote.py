"""mcp-remote, the bridge for hosts that can only start local servers: driven by the official Python client."""

from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.clients.conversation import check
from tests.clients.playing import follow_async, two_nights
from tests.clients.python_client import MODES, report_of, tools_of
from tests.clients.running import MCP_REMOTE, Served, environment


@pytest.mark.parametrize(("transport", "era"), [("http", "modern"), ("sse", "legacy")])
async def test_the_conversation_passes_through_mcp_remote(
    node: str, served: Served, tmp_path: Path, transport: str, era: str
) -> None:
    arguments = [MCP_REMOTE, served.target(transport)[0], "--allow-http", "--transport", f"{transport}-only"]
    bridge = StdioServerParameters(command=node, args=arguments, env=environment(tmp_path))
    with anyio.fail_after(60):
        report = await report_of(Client(bridge, mode=MODES[era]))
    check(report, era)


@pytest.mark.parametrize("era", ["modern"])
async def test_the_adventure_is_played_through_mcp_remote(node: str, shipped: Served, tmp_path: Path, era: str) -> None:
    arguments = [MCP_REMOTE, shipped.target("http")[0], "--allow-http", "--transport", "http-only"]
    bridge = StdioServerParameters(command=node, args=arguments, env=environment(tmp_path))
    with anyio.fail_after(60):
        async with Client(bridge, mode=MODES[era]) as client:
            await follow_async(two_nights(), tools_of(client))
