"""The MCP clients that goalport can be connected to: where each keeps its configuration and what an entry looks like.

Pure facts: nothing here reads or writes a file. Below `connect`, above nothing of goalport.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

Transport = Literal["http", "stdio"]
Scope = Literal["user", "project"]
Entry = dict[str, object]


@dataclass(frozen=True)
class Machine:
    """What decides where programs keep their configuration."""

    system: str
    """As `sys.platform` says it: linux, darwin, win32."""
    home: Path
    environment: Mapping[str, str]
    workspace: Path

    @property
    def application_data(self) -> Path:
        if self.system == "darwin":
            return self.home / "Library" / "Application Support"
        if self.system == "win32":
            return Path(self.environment.get("APPDATA") or self.home / "AppData" / "Roaming")
        return Path(self.environment.get("XDG_CONFIG_HOME") or self.home / ".config")


@dataclass(frozen=True)
class Subprocess:
    """A server that the client starts itself and talks to over stdin and stdout."""

    command: tuple[str, ...]


@dataclass(frozen=True)
class Address:
    """A server that runs already, at a URL."""

    url: str

    @property
    def is_sse(self) -> bool:
        return urlsplit(self.url).path.rstrip("/").endswith("/sse")

    @property
    def needs_consent(self) -> bool:
        """Plain HTTP to another machine: bridges refuse it unless they are told that the network is trusted."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in {"localhost", "127.0.0.1"}


Target = Subprocess | Address


@dataclass(frozen=True)
class Client:
    """A program that speaks MCP, as far as its configuration file goes."""

    name: str
    title: str
    section: Literal["mcpServers", "servers"]
    files: Mapping[Scope, Callable[[Machine], Path]]
    """The first scope is the usual one."""
    entry: Callable[[Target, Machine], Entry]
    transports: tuple[Transport, ...]
    """The first transport is the usual one."""
    then: str
    """What a person does once the file is written; `{path}` is the file."""

    @property
    def usual_scope(self) -> Scope:
        return next(iter(self.files))


def _plain(target: Target, _: Machine) -> Entry:
    match target:
        case Subprocess(command):
            return {"command": command[0], "args": list(command[1:])}
        case Address(url):
            return {"url": url}


def _typed(target: Target, machine: Machine) -> Entry:
    kind = "stdio" if isinstance(target, Subprocess) else "sse" if target.is_sse else "http"
    return {"type": kind, **_plain(target, machine)}


def _streamable(target: Target, machine: Machine) -> Entry:
    if isinstance(target, Subprocess):
        return _plain(target, machine)
    return {"type": "sse" if target.is_sse else "streamable-http", "url": target.url}


def _bridged(target: Target, machine: Machine) -> Entry:
    """Claude Desktop's file takes commands alone; mcp-remote is the command that speaks to a URL."""
    if isinstance(target, Subprocess):
        return _plain(target, machine)
    command = ["npx", "-y", "mcp-remote", target.url, *(["--allow-http"] if target.needs_consent else [])]
    # On Windows npx is a script, which a program cannot start without the shell.
    command = ["cmd", "/c", *command] if machine.system == "win32" else command
    return {"command": command[0], "args": command[1:]}


def _ready(name: str) -> Callable[[Machine], Path]:
    return lambda machine: machine.workspace / "server" / "clients" / f"{name}.json"


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            name="claude-desktop",
            title="Claude Desktop",
            section="mcpServers",
            files={"user": lambda machine: machine.application_data / "Claude" / "claude_desktop_config.json"},
            entry=_bridged,
            transports=("stdio", "http"),
            then="Quit Claude Desktop entirely and start it again; the tools are in the chat's tool menu.",
        ),
        Client(
            name="claude-code",
            title="Claude Code",
            section="mcpServers",
            files={"project": lambda machine: machine.workspace / ".mcp.json"},
            entry=_typed,
            transports=("http", "stdio"),
            then="Start claude in that folder and approve the server; /mcp shows its state.",
        ),
        Client(
            name="cursor",
            title="Cursor",
            section="mcpServers",
            files={
                "user": lambda machine: machine.home / ".cursor" / "mcp.json",
                "project": lambda machine: machine.workspace / ".cursor" / "mcp.json",
            },
            entry=_plain,
            transports=("http", "stdio"),
            then="Restart Cursor, or switch the server on in its settings under MCP.",
        ),
        Client(
            name="vscode",
            title="VS Code",
            section="servers",
            files={
                "project": lambda machine: machine.workspace / ".vscode" / "mcp.json",
                "user": lambda machine: machine.application_data / "Code" / "User" / "mcp.json",
            },
            entry=_typed,
            transports=("http", "stdio"),
            then="Open the file in VS Code and press Start above the entry; the tools are in agent mode.",
        ),
        Client(
            name="inspector",
            title="MCP Inspector",
            section="mcpServers",
            files={"project": _ready("inspector")},
            entry=_streamable,
            transports=("http", "stdio"),
            then="Run: npx @modelcontextprotocol/inspector --config {path}",
        ),
        Client(
            name="mcpo",
            title="mcpo, for Open WebUI",
            section="mcpServers",
            files={"project": _ready("mcpo")},
            entry=_streamable,
            transports=("http", "stdio"),
            then="Run: uvx --with 'mcp<2' --with 'fastapi<0.130' mcpo --port 8000 --config {path}",
        ),
    )
}
