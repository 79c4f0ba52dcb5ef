"""The first answer of a server over stdio, given before anything else is loaded.

A host starts its server and counts the seconds until `initialize` is answered; loading agents and the libraries that
they need takes longer than some hosts wait. The answer depends on nothing that is loaded, so a thread gives it at once;
what the client says next waits until the server is there. The server itself gets the client's message too, and its own
answer to it, the same, is dropped. Standard library only, but for `.env`; `serve` and `cli` are above.
"""

import json
import os
import threading
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from dotenv import dotenv_values

from goalport import __version__

__all__ = ["INSTRUCTIONS", "EarlyHandshake"]

INSTRUCTIONS: Final = (
    "Each tool named after a goal plans and runs an agent until the goal is reached and answers with its output."
    " An error says what was missing or went wrong; correct the call rather than repeat it."
    " An answer with processId, status and questions is not the result yet: it says which tool to call next."
)
"""What a client is told of this server when it connects."""
_CAPABILITIES: Final = {
    "completions": {},
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}
_WITH_HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_WITHOUT: Final = ("2026-07-28",)

_LONGEST: Final = 4 * 1024 * 1024
"""Bytes that a client may send before the server is there."""
_CHUNK: Final = 65_536


class EarlyHandshake:
    """What a client sends over stdio while the server is loaded, and the answer to its first request."""

    def __init__(self, workspace: Path) -> None:
        self.answered: int | str | None = None
        """The id of the request that has its answer."""
        self._workspace = workspace
        self._said = b""
        self._output = os.dup(1)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def wait(self) -> bytes:
        """What the client has said by now, its first line at least; nothing when it has left."""
        self._thread.join()
        return self._said

    def _listen(self) -> None:
        while b"\n" not in self._said and len(self._said) < _LONGEST and (chunk := os.read(0, _CHUNK)):
            self._said += chunk
        self._handle(self._said.partition(b"\n")[0])
        os.close(self._output)

    def _handle(self, line: bytes) -> None:
        with suppress(ValueError, RecursionError):
            message: object = json.loads(line)
            if isinstance(message, dict):
                self._answer(cast("dict[str, Any]", message))

    def _answer(self, message: Mapping[str, Any]) -> None:
        identity, params = message.get("id"), message.get("params")
        known = isinstance(identity, int | str) and not isinstance(identity, bool)
        if not known or message.get("jsonrpc") != "2.0" or not isinstance(params, dict):
            return
        making = {"initialize": _initialized, "server/discover": _discovered}.get(str(message.get("method")))
        result = making(cast("dict[str, Any]", params), name_of(self._workspace)) if making else None
        if result is not None:
            answer = json.dumps({"jsonrpc": "2.0", "id": identity, "result": result}, ensure_ascii=False)
            os.write(self._output, f"{answer}\n".encode())
            self.answered = identity


def name_of(workspace: Path) -> str:
    """The server's name as the settings will say it. What is wrong with them is told when they are read."""
    with suppress(OSError, ValueError):
        variables = dotenv_values(workspace / ".env", encoding="utf-8") | os.environ
        given = next((value for name, value in variables.items() if value and name.upper() == "GOALPORT_NAME"), None)
        file = workspace / "server" / "settings.toml"
        name = given or (tomllib.loads(file.read_text("utf-8")).get("name") if file.is_file() else None)
        if isinstance(name, str) and name:
            return name
    return "goalport"


def _initialized(params: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The answer of the handshake; None: the server has to say what is wrong with the request."""
    match params:
        case {"protocolVersion": str(version), "capabilities": dict(), "clientInfo": {"name": str(), "version": str()}}:
            return {
                "capabilities": _CAPABILITIES,
                "instructions": INSTRUCTIONS,
                "protocolVersion": version if version in _WITH_HANDSHAKE else _WITH_HANDSHAKE[-1],
                "serverInfo": {"name": name, "version": __version__},
            }
        case _:
            return None


def _discovered(params: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The answer to clients that shake no hands; None as above."""
    match params.get("_meta"):
        case {"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": dict()}:
            return (
                None
                if version not in _WITHOUT
                else {
                    "cacheScope": "private",
                    "capabilities": _CAPABILITIES,
                    "instructions": INSTRUCTIONS,
                    "resultType": "complete",
                    "supportedVersions": list(_WITHOUT),
                    "ttlMs": 0,
                    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": name, "version": __version__}},
                }
            )
        case _:
            return None
