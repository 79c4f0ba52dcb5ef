"""FastMCP's client, from an environment of its own."""

import json
from pathlib import Path

import pytest

from tests.clients.conversation import check
from tests.clients.running import CLIENTS, Served, run


@pytest.mark.parametrize(
    ("transport", "mode"), [("http", "legacy"), ("http", "auto"), ("sse", "auto"), ("stdio", "auto")]
)
def test_the_client_of_fastmcp_has_the_whole_conversation(
    fastmcp_python: str, served: Served, tmp_path: Path, transport: str, mode: str
) -> None:
    script = str(CLIENTS / "fastmcp_client.py")
    client = run([fastmcp_python, script, transport, mode, *served.target(transport)], tmp_path)
    assert client.returncode == 0, client.stderr
    check(json.loads(client.stdout))
