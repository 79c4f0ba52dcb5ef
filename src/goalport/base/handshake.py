"""The answer to `initialize` over stdio, sent before anything else is loaded.

A host starts its server and waits a limited time for the answer to `initialize`; loading agents and their libraries
takes longer than some hosts wait. The answer does not depend on what is loaded, so a thread sends it at once, and the
client's later messages wait until the server is ready. The server also receives `initialize`, but its own answer, which
is the same, is dropped. The module is not in `doors.mcp`, because importing anything from there first loads the MCP
SDK, which takes too long. Above: `doors.mcp`, `site` and `cli`.
"""

import json
import os
import threading
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dotenv import dotenv_values

from goalport import __version__

INSTRUCTIONS: Final = (
    "Each tool named after a goal plans and runs an agent until the goal is reached and answers with its output."
    " An error says what was missing or went wrong; correct the call rather than repeat it."
    " An answer with processId, status and questions is not the result yet: it says which tool to call next."
)
"""The instructions that a client receives when it connects."""
_CAPABILITIES: Final = {
    "completions": {},
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}
TASKS: Final = "io.modelcontextprotocol/tasks"
SKILLS: Final = "io.modelcontextprotocol/skills"
"""With `TASKS`, the extensions that the server declares to clients of MCP 2026-07-28."""
HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS: Final = ("2026-07-28",)

_MOST_BYTES: Final = 4 * 1024 * 1024
"""The most bytes that are read from a client before the server is ready."""
_CHUNK: Final = 65_536


class EarlyHandshake:
    """Reads what a client sends over stdio while the server is loaded, and answers its first request."""

    def __init__(self, workspace: Path) -> None:
        self.answered: int | str | None = None
        """The id of the request that was answered here; None: no request was."""
        self._workspace = workspace
        self._read = b""
        self._output = os.dup(1)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def wait(self) -> bytes:
        """Wait for the client's first line; return all bytes read by then, `b""` if the client closed stdin at once."""
        self._thread.join()
        return self._read

    def _listen(self) -> None:
        while b"\n" not in self._read and len(self._read) < _MOST_BYTES and (chunk := os.read(0, _CHUNK)):
            self._read += chunk
        with suppress(ValueError, RecursionError):
            match json.loads(self._read.partition(b"\n")[0]):
                case {"jsonrpc": "2.0", "id": int() | str() as identity, **request} if not isinstance(identity, bool):
                    if (result := _result_of(request, self._workspace)) is not None:
                        answer = {"jsonrpc": "2.0", "id": identity, "result": result}
                        os.write(self._output, f"{json.dumps(answer, ensure_ascii=False)}\n".encode())
                        self.answered = identity
                case _:
                    pass
        os.close(self._output)


def _server_name(workspace: Path) -> str:
    """The setting `name`, read early. Invalid settings are reported later, when all of them are loaded."""
    with suppress(OSError, ValueError):
        variables = dotenv_values(workspace / ".env", encoding="utf-8") | os.environ
        given = {name.upper(): value for name, value in variables.items() if value}
        files = [workspace / "server" / f"settings.{each}toml" for each in (f"{given.get('GOALPORT_PROFILE')}.", "")]
        said = [tomllib.loads(each.read_text("utf-8")).get("name") for each in files if each.is_file()]
        name = next((each for each in (given.get("GOALPORT_NAME"), *said) if each), None)
        if isinstance(name, str) and name:
            return name
    return "goalport"


def _result_of(request: Mapping[str, Any], workspace: Path) -> dict[str, Any] | None:
    """The result of `initialize`, or of `server/discover`, which clients of MCP 2026-07-28 may send in its place.

    None for any other or an invalid request: the server itself answers it once it is loaded.
    """
    match request:
        case {
            "method": "initialize",
            "params": {
                "protocolVersion": str(version),
                "capabilities": dict(),
                "clientInfo": {"name": str(), "version": str()},
            },
        }:
            return {
                "capabilities": _CAPABILITIES,
                "instructions": INSTRUCTIONS,
                "protocolVersion": version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
                "serverInfo": {"name": _server_name(workspace), "version": __version__},
            }
        case {
            "method": "server/discover",
            "params": {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": version,
                    "io.modelcontextprotocol/clientCapabilities": dict(),
                }
            },
        } if version in MODERN_VERSIONS:
            server = {"name": _server_name(workspace), "version": __version__}
            return {
                "cacheScope": "private",
                "capabilities": {**_CAPABILITIES, "extensions": {SKILLS: {}, TASKS: {}}},
                "instructions": INSTRUCTIONS,
                "resultType": "complete",
                "supportedVersions": list(MODERN_VERSIONS),
                "ttlMs": 0,
                "_meta": {"io.modelcontextprotocol/serverInfo": server},
            }
        case _:
            return None
