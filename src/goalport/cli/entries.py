"""How each MCP client writes down a server: where it runs, or the program that the client starts.

Pure facts: nothing here reads or writes a file. Below `clients`, above nothing of goalport.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

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
        return self.unix_configuration

    @property
    def unix_configuration(self) -> Path:
        """Where programs of a Unix tradition keep their files, on macOS too."""
        return Path(self.environment.get("XDG_CONFIG_HOME") or self.home / ".config")


@dataclass(frozen=True)
class Subprocess:
    """A server that the client starts itself and talks to over stdin and stdout."""

    command: tuple[str, ...]
    name: str = "goalport"
    """What the client calls it."""


@dataclass(frozen=True)
class Address:
    """A server that runs already, at a URL."""

    url: str
    name: str = "goalport"
    """What the client calls it."""

    @property
    def is_sse(self) -> bool:
        return urlsplit(self.url).path.rstrip("/").endswith("/sse")

    @property
    def needs_consent(self) -> bool:
        """Plain HTTP to another machine: bridges refuse it unless they are told that the network is trusted."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in {"localhost", "127.0.0.1"}


Target = Subprocess | Address


def plain(target: Target, _: Machine) -> Entry:
    match target:
        case Subprocess(command=command):
            return {"command": command[0], "args": list(command[1:])}
        case Address(url=url):
            return {"url": url}


def typed(target: Target, machine: Machine) -> Entry:
    kind = "stdio" if isinstance(target, Subprocess) else "sse" if target.is_sse else "http"
    return {"type": kind, **plain(target, machine)}


def streamable(target: Target, machine: Machine) -> Entry:
    if isinstance(target, Subprocess):
        return plain(target, machine)
    return {"type": "sse" if target.is_sse else "streamable-http", "url": target.url}


def opencode(target: Target, _: Machine) -> Entry:
    if isinstance(target, Subprocess):
        return {"type": "local", "command": list(target.command), "enabled": True}
    return {"type": "remote", "url": target.url, "enabled": True}


def copilot(target: Target, machine: Machine) -> Entry:
    kind = "local" if isinstance(target, Subprocess) else "sse" if target.is_sse else "http"
    return {"type": kind, **plain(target, machine), "tools": ["*"]}


def codex(target: Target, machine: Machine) -> Entry:
    # Without `required` its first turn begins before a server that it has to start is there.
    return plain(target, machine) | ({"required": True} if isinstance(target, Subprocess) else {})


def gemini(target: Target, machine: Machine) -> Entry:
    if isinstance(target, Address) and not target.is_sse:
        return {"httpUrl": target.url}
    return plain(target, machine)


def windsurf(target: Target, machine: Machine) -> Entry:
    return {"serverUrl": target.url} if isinstance(target, Address) else plain(target, machine)


def fast_agent(target: Target, machine: Machine) -> Entry:
    kind = "stdio" if isinstance(target, Subprocess) else "sse" if target.is_sse else "http"
    return {"transport": kind, **plain(target, machine)}


def goose(target: Target, _: Machine) -> Entry:
    if isinstance(target, Subprocess):
        way: Entry = {"type": "stdio", "cmd": target.command[0], "args": list(target.command[1:])}
    else:
        way = {"type": "sse" if target.is_sse else "streamable_http", "uri": target.url}
    return {"enabled": True, **way, "name": target.name, "timeout": 300}


def open_webui(target: Target, _: Machine) -> Entry:
    """One of its tool servers; it starts none itself."""
    assert isinstance(target, Address)
    named = {"id": target.name, "name": target.name}
    return {"url": target.url, "type": "mcp", "auth_type": "none", "config": {"enable": True}, "info": named}


def bridged(target: Target, machine: Machine) -> Entry:
    """Claude Desktop's file takes commands alone; mcp-remote is the command that speaks to a URL."""
    if isinstance(target, Subprocess):
        return plain(target, machine)
    command = ["npx", "-y", "mcp-remote", target.url, *(["--allow-http"] if target.needs_consent else [])]
    # On Windows npx is a script, which a program cannot start without the shell.
    command = ["cmd", "/c", *command] if machine.system == "win32" else command
    return {"command": command[0], "args": command[1:]}
