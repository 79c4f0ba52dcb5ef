"""The official Python client over real sockets and pipes, in both eras."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client

from tests.clients.conversation import check
from tests.clients.playing import play_async
from tests.clients.python_client import MODES, report_of, tools_of
from tests.clients.running import Served, environment


def server(served: Served, transport: str, scratch: Path) -> Any:
    target = served.target(transport)
    if transport == "stdio":
        return StdioServerParameters(command=target[0], args=target[1:], env=environment(scratch))
    return sse_client(target[0]) if transport == "sse" else target[0]


@pytest.mark.parametrize("transport", ["http", "sse", "stdio"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_python_client_has_the_whole_conversation(
    served: Served, tmp_path: Path, transport: str, era: str
) -> None:
    with anyio.fail_after(60):
        report = await report_of(Client(server(served, transport, tmp_path), mode=MODES[era]))
    check(report, era)
    assert len(report["progress"]) >= 3


@pytest.mark.parametrize("transport", ["http", "sse", "stdio"])
@pytest.mark.parametrize("era", MODES)
async def test_the_python_client_plays_the_adventure(shipped: Served, tmp_path: Path, transport: str, era: str) -> None:
    with anyio.fail_after(60):
        async with Client(server(shipped, transport, tmp_path), mode=MODES[era]) as client:
            await play_async(tools_of(client))
