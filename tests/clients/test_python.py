"""The official Python client over real sockets and pipes, in both eras."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client

from tests.clients.asking import every_story
from tests.clients.conversation import check
from tests.clients.playing import follow_async, two_nights
from tests.clients.python_client import MODES, Person, report_of, tools_of
from tests.clients.running import Served, environment


def server(served: Served, transport: str, scratch: Path) -> Any:
    target = served.target(transport)
    if transport == "stdio":
        return StdioServerParameters(command=target[0], args=target[1:], env=environment(scratch))
    return sse_client(target[0]) if transport == "sse" else target[0]


@pytest.mark.parametrize(
    ("transport", "era"), [("sse", "legacy"), ("sse", "modern"), ("stdio", "legacy"), ("stdio", "modern")]
)
async def test_the_python_client_has_the_whole_conversation(
    served: Served, tmp_path: Path, transport: str, era: str
) -> None:
    with anyio.fail_after(60):
        report = await report_of(Client(server(served, transport, tmp_path), mode=MODES[era]))
    check(report, era)
    assert len(report["progress"]) >= 3


@pytest.mark.parametrize(("transport", "era"), [("sse", "modern"), ("stdio", "legacy")])
async def test_the_python_client_plays_the_adventure(shipped: Served, tmp_path: Path, transport: str, era: str) -> None:
    with anyio.fail_after(60):
        async with Client(server(shipped, transport, tmp_path), mode=MODES[era]) as client:
            await follow_async(two_nights(), tools_of(client))


@pytest.mark.parametrize(
    ("transport", "revision"),
    [
        *(("http", each) for each in ("2025-06-18", "2025-11-25", "2026-07-28")),
        *(("sse", "2025-06-18"), ("stdio", "2025-11-25"), ("stdio", "2026-07-28")),
    ],
)
async def test_the_python_client_answers_the_forms_of_every_revision(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str, revision: str
) -> None:
    era, person = "modern" if revision == "2026-07-28" else "legacy", Person()
    # The client has no option for it: its handshake always offers the newest revision that it knows.
    monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", revision)
    with anyio.fail_after(90):
        target = server(served, transport, tmp_path)
        async with Client(target, mode=MODES[era], elicitation_callback=person) as client:
            assert client.protocol_version == revision
            await follow_async(every_story(revision, f"python-{transport}-{revision}"), tools_of(client, person))
