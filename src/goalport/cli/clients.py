"""The MCP clients that goalport can be connected to: where each keeps its configuration, and the steps that follow.

Facts only: each client's entry, the place where it goes, and how it is given a key. `connect` prints and writes them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from goalport.server.auth.keys import KEY_VARIABLE

Transport = Literal["http", "stdio"]
Scope = Literal["user", "project"]
Entry = dict[str, object]


@dataclass(frozen=True)
class Machine:
    """The properties of this machine that decide where programs keep their configuration."""

    system: str
    """The platform, as in `sys.platform`: linux, darwin, win32."""
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
        """Where programs keep their configuration by Unix conventions, on macOS too."""
        return Path(self.environment.get("XDG_CONFIG_HOME") or self.home / ".config")


@dataclass(frozen=True)
class Subprocess:
    """A server that the client starts and talks to over stdin and stdout."""

    command: tuple[str, ...]
    name: str = "goalport"
    """The server's name in the client."""


@dataclass(frozen=True)
class Address:
    """A server that is already running at a URL."""

    url: str
    name: str = "goalport"
    """The server's name in the client."""

    @property
    def is_sse(self) -> bool:
        return urlsplit(self.url).path.rstrip("/").endswith("/sse")

    @property
    def is_exposed(self) -> bool:
        """Whether it is plain HTTP to another machine: bridges refuse that unless told that the network is trusted."""
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
    # Without `required`, its first turn begins before a server that it has to start is ready.
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
    """An entry of Open WebUI's tool servers; it does not start servers itself."""
    assert isinstance(target, Address)
    named = {"id": target.name, "name": target.name}
    return {"url": target.url, "type": "mcp", "auth_type": "none", "config": {"enable": True}, "info": named}


def bridged(target: Target, machine: Machine) -> Entry:
    """An entry for Claude Desktop, whose file allows only commands; mcp-remote is a command that connects to a URL."""
    if isinstance(target, Subprocess):
        return plain(target, machine)
    command = ["npx", "-y", "mcp-remote", target.url, *(["--allow-http"] if target.is_exposed else [])]
    # On Windows npx is a script, which a program can only start through the shell.
    command = ["cmd", "/c", *command] if machine.system == "win32" else command
    return {"command": command[0], "args": command[1:]}


def in_headers(entry: Entry, key: str) -> Entry:
    return {**entry, "headers": {"Authorization": f"Bearer {key}"}}


def in_headers_alone(entry: Entry, key: str) -> Entry:
    """For opencode, which would look for a login first."""
    return {**in_headers(entry, key), "oauth": False}


def by_variable(entry: Entry, _: str) -> Entry:
    """For Codex, which refuses a token in its file."""
    return {**entry, "bearer_token_env_var": KEY_VARIABLE}


def through_bridge(entry: Entry, key: str) -> Entry:
    """For mcp-remote. Some hosts split an argument at its space, so the header's value comes from the environment."""
    arguments = [*cast("Sequence[str]", entry["args"]), "--header", "Authorization:${GOALPORT_AUTHORIZATION}"]
    return {**entry, "args": arguments, "env": {"GOALPORT_AUTHORIZATION": f"Bearer {key}"}}


def of_open_webui(entry: Entry, key: str) -> Entry:
    return {**entry, "auth_type": "bearer", "key": key}


@dataclass(frozen=True)
class KeyWay:
    """How a client is given a key."""

    put: Callable[[Entry, str], Entry] = in_headers
    """The entry with the key, or with what stands for it."""
    reference: str = ""
    """What stands for the key in the file; empty: the client can read no variable there."""
    always: bool = False
    """Whether the reference stands in a user's own file too."""
    inputs: Sequence[Mapping[str, Any]] = ()
    """What the client asks the user for, as its file declares it."""
    then: str = f"Set the variable {KEY_VARIABLE} to the key where {{title}} is started: export {KEY_VARIABLE}=…"


_ASKED_BY_VSCODE = KeyWay(
    reference="${input:goalport-key}",
    always=True,
    inputs=(
        {"type": "promptString", "id": "goalport-key", "description": "Key of the goalport server", "password": True},
    ),
    then="VS Code asks for the key when it first starts the server, and keeps it in its own store of secrets.",
)
_IN_VARIABLE = KeyWay(reference=f"${{{KEY_VARIABLE}}}")


@dataclass(frozen=True)
class Client:
    """An MCP client, as far as its configuration is concerned."""

    name: str
    title: str
    files: Mapping[Scope, Callable[[Machine], Path]]
    """The file for each scope, the usual scope first; empty if the client is configured on its own pages."""
    entry: Callable[[Target, Machine], Entry]
    then: str
    """What the user does after the file was written; `{path}` is the file, `{key}` a new secret."""
    transports: tuple[Transport, ...] = ("http", "stdio")
    """The supported transports, the usual one first."""
    key: KeyWay = KeyWay()
    section: tuple[str, ...] = ("mcpServers",)
    """The path of the section for servers in the file."""
    kind: Literal["json", "toml", "yaml"] = "json"
    variable: str = ""
    """The environment variable that lists its servers, for a client without a file."""

    @property
    def usual_scope(self) -> Scope:
        return next(iter(self.files))


MCPO = (
    "uvx --with 'mcp<2' --with 'fastapi<0.130' mcpo@0.0.20 --host 127.0.0.1 --port 8000"
    " --cors-allow-origins http://localhost:3000 --api-key {key}"
)
"""By default mcpo listens on all interfaces, for web pages of every origin and without a key."""


def _shipped(name: str) -> Mapping[Scope, Callable[[Machine], Path]]:
    return {"project": lambda machine: machine.workspace / "server" / "clients" / f"{name}.json"}


def _home(path: str) -> Mapping[Scope, Callable[[Machine], Path]]:
    return {"user": lambda machine: machine.home / path}


def _home_or_project(path: str) -> Mapping[Scope, Callable[[Machine], Path]]:
    return {**_home(path), "project": lambda machine: machine.workspace / path}


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            name="claude-desktop",
            title="Claude Desktop",
            files={"user": lambda machine: machine.application_data / "Claude" / "claude_desktop_config.json"},
            entry=bridged,
            transports=("stdio", "http"),
            key=KeyWay(through_bridge),
            then="Quit Claude Desktop entirely and start it again; the tools are in the chat's tool menu.",
        ),
        Client(
            name="claude-code",
            title="Claude Code",
            files={"project": lambda machine: machine.workspace / ".mcp.json"},
            entry=typed,
            key=_IN_VARIABLE,
            then="Start claude in that folder and approve the server; /mcp shows its state.",
        ),
        Client(
            name="cursor",
            title="Cursor",
            files=_home_or_project(".cursor/mcp.json"),
            entry=plain,
            key=KeyWay(reference=f"${{env:{KEY_VARIABLE}}}"),
            then="Restart Cursor, or switch the server on in its settings under MCP.",
        ),
        Client(
            name="vscode",
            title="VS Code",
            files={
                "project": lambda machine: machine.workspace / ".vscode" / "mcp.json",
                "user": lambda machine: machine.application_data / "Code" / "User" / "mcp.json",
            },
            entry=typed,
            section=("servers",),
            key=_ASKED_BY_VSCODE,
            then="Open the file in VS Code and press Start above the entry; the tools are in agent mode.",
        ),
        Client(
            name="inspector",
            title="MCP Inspector",
            files=_shipped("inspector"),
            entry=streamable,
            then="Run: npx @modelcontextprotocol/inspector --config {path}",
        ),
        Client(
            name="mcpo",
            title="mcpo, for Open WebUI",
            files=_shipped("mcpo"),
            entry=streamable,
            then=f"Run, with the address of your Open WebUI as the origin:\n{MCPO} --config {{path}}",
        ),
        Client(
            name="codex",
            title="Codex",
            section=("mcp_servers",),
            kind="toml",
            files=_home(".codex/config.toml"),
            entry=codex,
            key=KeyWay(by_variable, reference=KEY_VARIABLE, always=True),
            then="Start codex again; /mcp lists its servers. It ends a call after 300 s, whatever it hears meanwhile.",
        ),
        Client(
            name="gemini",
            title="Gemini CLI",
            files=_home_or_project(".gemini/settings.json"),
            entry=gemini,
            key=_IN_VARIABLE,
            then="Start gemini again; /mcp lists its servers.",
        ),
        Client(
            name="qwen",
            title="Qwen Code",
            files=_home_or_project(".qwen/settings.json"),
            entry=gemini,
            key=_IN_VARIABLE,
            then="Start qwen again; /mcp lists its servers.",
        ),
        Client(
            name="opencode",
            title="opencode",
            section=("mcp",),
            files={
                "user": lambda machine: machine.unix_configuration / "opencode" / "opencode.json",
                "project": lambda machine: machine.workspace / "opencode.json",
            },
            entry=opencode,
            key=KeyWay(in_headers_alone, reference=f"{{env:{KEY_VARIABLE}}}"),
            then="Start opencode again; `opencode mcp list` shows its servers.",
        ),
        Client(
            name="copilot",
            title="Copilot CLI",
            files=_home(".copilot/mcp-config.json"),
            entry=copilot,
            then="Start copilot again, and also whenever this server was started again; /mcp show lists its servers.",
        ),
        Client(
            name="fast-agent",
            title="fast-agent",
            section=("mcp", "servers"),
            kind="yaml",
            files={"project": lambda machine: machine.workspace / "fastagent.config.yaml"},
            entry=fast_agent,
            key=_IN_VARIABLE,
            then="Start fast-agent in that folder, and name the server in `servers` of an agent.",
        ),
        Client(
            name="zed",
            title="Zed",
            section=("context_servers",),
            files={
                "user": lambda machine: (
                    (machine.application_data if machine.system == "win32" else machine.unix_configuration)
                    / ("Zed" if machine.system == "win32" else "zed")
                    / "settings.json"
                ),
                "project": lambda machine: machine.workspace / ".zed" / "settings.json",
            },
            entry=plain,
            then="Zed reads its settings at once; a green dot under Agent Panel, Settings says that it is connected.",
        ),
        Client(
            name="windsurf",
            title="Windsurf",
            files=_home(".codeium/windsurf/mcp_config.json"),
            entry=windsurf,
            then="Press Refresh under Plugins in the Cascade panel.",
        ),
        Client(
            name="lm-studio",
            title="LM Studio",
            files=_home(".lmstudio/mcp.json"),
            entry=plain,
            then="LM Studio reads the file at once; switch the server on in the chat's Program tab.",
        ),
        Client(
            name="goose",
            title="goose",
            section=("extensions",),
            kind="yaml",
            files={
                "user": lambda machine: (
                    machine.application_data / "Block" / "goose" / "config" / "config.yaml"
                    if machine.system == "win32"
                    else machine.unix_configuration / "goose" / "config.yaml"
                )
            },
            entry=goose,
            then="Start a new session of goose.",
        ),
        Client(
            name="open-webui",
            title="Open WebUI",
            files={},
            entry=open_webui,
            variable="TOOL_SERVER_CONNECTIONS",
            transports=("http",),
            key=KeyWay(of_open_webui),
            then="Start Open WebUI with this variable, or add the address under Admin Settings, External Tools, with"
            " the type MCP (Streamable HTTP).\nA container calls the machine that it runs on host.docker.internal: if"
            " goalport is there, give that name with --url, and let goalport answer to it:"
            " goalport serve --allowed-host host.docker.internal",
        ),
    )
}
