"""The clients of the TypeScript SDK, 1.x and 2.x, over every transport and in the eras that they know."""

import json
from pathlib import Path

import pytest

from tests.clients.conversation import check
from tests.clients.running import CLIENTS, Served, run


@pytest.mark.parametrize("transport", ["http", "sse", "stdio"])
@pytest.mark.parametrize(("sdk", "era"), [("1", "legacy"), ("2", "legacy"), ("2", "modern")])
def test_a_typescript_client_has_the_whole_conversation(
    node: str, served: Served, tmp_path: Path, transport: str, sdk: str, era: str
) -> None:
    script = str(CLIENTS / "node" / f"client_{sdk}.mjs")
    client = run([node, script, transport, era, *served.target(transport)], tmp_path)
    assert client.returncode == 0, client.stderr
    check(json.loads(client.stdout), era)
