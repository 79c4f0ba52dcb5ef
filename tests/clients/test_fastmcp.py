"""FastMCP's client, from an environment of its own."""

import json
from pathlib import Path

import pytest

from tests.clients.conversation import check
from tests.clients.playing import Heard, play
from tests.clients.running import CLIENTS, Served, obeying, run


@pytest.mark.parametrize(
    ("transport", "era"), [("http", "legacy"), ("http", "modern"), ("sse", "legacy"), ("stdio", "modern")]
)
def test_the_client_of_fastmcp_has_the_whole_conversation(
    fastmcp_python: str, served: Served, tmp_path: Path, transport: str, era: str
) -> None:
    script = str(CLIENTS / "fastmcp_client.py")
    client = run([fastmcp_python, script, "converse", transport, era, *served.target(transport)], tmp_path)
    assert client.returncode == 0, client.stderr
    check(json.loads(client.stdout), era)


@pytest.mark.parametrize(("transport", "era"), [("http", "legacy"), ("http", "modern"), ("stdio", "modern")])
def test_the_client_of_fastmcp_plays_the_adventure(
    fastmcp_python: str, shipped: Served, tmp_path: Path, transport: str, era: str
) -> None:
    script = str(CLIENTS / "fastmcp_client.py")
    with obeying([fastmcp_python, script, "obey", transport, era, *shipped.target(transport)], tmp_path) as tell:
        play(lambda request: Heard.of(tell(request.wire)))
