"""The Inspector's page in a browser without a window, as a person uses it. No test is in here.

`node/inspector_page.mjs` drives the page. A step that the page does not take in time fails the test, with what the page
shows instead.
"""

import json
import re
import secrets
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.clients.running import CLIENTS, INSPECTOR, environment, obeying, started

__all__ = ["InspectorPage", "inspector_page"]

Seen = Mapping[str, Any]
"""What the page shows when it waits for the person: a question with its `message`, `notes`, `address` and `fields`, and
whether it is `complete`; or the `result` of the call."""
_READY: Final = re.compile(r"(?P<address>http://127\.0\.0\.1:\d+\?MCP_INSPECTOR_API_TOKEN=\w+)$", re.MULTILINE)
_SCRIPT: Final = str(CLIENTS / "node" / "inspector_page.mjs")
_ERAS: Final = {"2025-11-25": "legacy", "2026-07-28": "modern"}
"""The words of the Inspector's configuration."""
_MOST_SECONDS: Final = 600
"""For all that is done with one page."""


@dataclass(frozen=True)
class InspectorPage:
    """A page of the Inspector that is open in a browser."""

    tell: Callable[[Mapping[str, Any]], dict[str, Any]]

    def connect(self, revision: str) -> None:
        """Load the page anew, and connect to the server with a revision of the protocol."""
        assert self._step(server=revision)["revision"] == f"MCP {revision}"

    def call(self, tool: str, **fields: object) -> Seen:
        """Fill in the form of a tool, by its labels, and call the tool."""
        return self._step(tool=tool, fields=fields)

    def submit(self, **fields: object) -> Seen:
        """Fill in the form of the question that is shown, by its labels, and send it."""
        return self._step(press="Submit", fields=fields)

    def press(self, button: str) -> Seen:
        """Press a button of the question that is shown."""
        return self._step(press=button)

    def look_at(self, screen: str) -> str:
        """What a monitoring screen beside the tools says."""
        return self._step(look=screen)["text"]

    def _step(self, **request: object) -> dict[str, Any]:
        seen = self.tell(request)
        assert "error" not in seen, f"{request}\n{seen['error']}\nThe page shows:\n{seen['page']}"
        return seen


@contextmanager
def inspector_page(node: str, browser: str, server: str, scratch: Path) -> Generator[InspectorPage]:
    """The page, until the block ends. Its list has the server at an address once for each revision of `_ERAS`."""
    servers = {
        revision: {"type": "streamable-http", "url": server, "protocolEra": era} for revision, era in _ERAS.items()
    }
    file = scratch / "inspector.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    settings = {
        "HOST": "127.0.0.1",
        "CLIENT_PORT": str(_free_port()),
        "MCP_SANDBOX_PORT": "0",
        "MCP_APP_ORIGIN_PORT": "0",
        "MCP_AUTO_OPEN_ENABLED": "false",
        "MCP_INSPECTOR_API_TOKEN": secrets.token_hex(16),
        "MCP_INSPECTOR_SECRET_STORE": "memory",
    }
    # It says on stdout that it is ready.
    command = ["sh", "-c", 'exec "$@" >&2', "sh", node, INSPECTOR, "--web", "--config", str(file)]
    with (
        started(command, _READY, environment(scratch, **settings)) as ready,
        obeying([node, _SCRIPT, browser, ready["address"]], scratch, _MOST_SECONDS) as tell,
    ):
        yield InspectorPage(tell)


def _free_port() -> int:
    """A port of loopback that nobody has just now: the Inspector wants to know its own before it listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]
