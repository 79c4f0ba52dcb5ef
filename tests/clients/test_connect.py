"""What `goalport connect` prints, used as it is: a host that reads it reaches the server.

The hosts themselves are not here; most of them are built on the TypeScript SDK, so its client stands for them.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conversation import check
from tests.clients.running import CLIENTS, GOALPORT, INSPECTOR, MCP_REMOTE, Served, run

HOSTS = ["claude-desktop", "claude-code", "cursor", "vscode"]


def printed(served: Served, scratch: Path, client: str, transport: str) -> dict[str, Any]:
    """The configuration file of a client, as the command prints it."""
    command = [GOALPORT, "connect", client, "--workspace", str(served.workspace), "--transport", transport]
    if transport == "http":
        command += ["--url", *served.target("http")]
    done = run(command, scratch)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def started_by(node: str, entry: dict[str, Any]) -> Sequence[str]:
    """What the TypeScript client is told, to do what a host does with an entry of its configuration."""
    if "url" in entry:
        return ["http", "legacy", entry["url"]]
    command, arguments = entry["command"], entry["args"]
    if command == "npx":
        # npx fetches the newest mcp-remote; the one that the lock names is here already.
        assert arguments[:2] == ["-y", "mcp-remote"]
        command, arguments = node, [MCP_REMOTE, *arguments[2:]]
    return ["stdio", "legacy", command, *arguments]


@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize("host", HOSTS)
def test_the_configuration_of_a_host_leads_to_the_server(
    node: str, served: Served, tmp_path: Path, host: str, transport: str
) -> None:
    configuration = printed(served, tmp_path, host, transport)
    entry = configuration["servers" if host == "vscode" else "mcpServers"]["goalport"]
    client = run([node, str(CLIENTS / "node" / "client_1.mjs"), *started_by(node, entry)], tmp_path)
    assert client.returncode == 0, client.stderr
    check(json.loads(client.stdout), "legacy")


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_the_inspector_takes_the_configuration_that_is_made_for_it(
    node: str, served: Served, tmp_path: Path, transport: str
) -> None:
    file = tmp_path / "inspector.json"
    file.write_text(json.dumps(printed(served, tmp_path, "inspector", transport)))
    where = ["--config", str(file), "--server", "goalport"]
    inspector = run([node, INSPECTOR, "--cli", *where, "--method", "tools/list", "--format", "json", "-q"], tmp_path)
    assert inspector.returncode == 0, inspector.stderr
    assert "shout" in {tool["name"] for tool in json.loads(inspector.stdout)["result"]["tools"]}
