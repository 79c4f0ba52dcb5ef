"""The clients of the TypeScript SDK, 1.x and 2.x, over every transport and in the eras that they know."""

import json
from pathlib import Path

import pytest

from tests.clients.conversation import check
from tests.clients.playing import Heard, play
from tests.clients.running import CLIENTS, ROOT, Served, obeying, run, serving


@pytest.mark.parametrize("transport", ["http", "sse", "stdio"])
@pytest.mark.parametrize(("sdk", "era"), [("1", "legacy"), ("2", "legacy"), ("2", "modern")])
def test_a_typescript_client_has_the_whole_conversation(
    node: str, served: Served, tmp_path: Path, transport: str, sdk: str, era: str
) -> None:
    script = str(CLIENTS / "node" / f"client_{sdk}.mjs")
    client = run([node, script, "converse", transport, era, *served.target(transport)], tmp_path)
    assert client.returncode == 0, client.stderr
    check(json.loads(client.stdout), era)


@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize(("sdk", "era"), [("1", "legacy"), ("2", "legacy"), ("2", "modern")])
def test_a_typescript_client_plays_the_adventure(
    node: str, shipped: Served, tmp_path: Path, transport: str, sdk: str, era: str
) -> None:
    script = str(CLIENTS / "node" / f"client_{sdk}.mjs")
    with obeying([node, script, "obey", transport, era, *shipped.target(transport)], tmp_path) as tell:
        play(lambda request: Heard.of(tell(request.wire)))


def test_a_server_without_sessions_leads_through_the_adventure_too(node: str, tmp_path: Path) -> None:
    script = str(CLIENTS / "node" / "client_1.mjs")
    with serving(ROOT, tmp_path, "--stateless") as server:
        command = [node, script, "obey", "http", "legacy", *server.target("http")]
        with obeying(command, tmp_path) as tell:
            play(lambda request: Heard.of(tell(request.wire)))
