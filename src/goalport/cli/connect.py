"""`goalport connect`: connects a client to this server, by printing its configuration or by writing it.

It writes only after showing the difference and asking. Below the program; settings are below it.
"""

import json
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from goalport.cli.clients import CLIENTS, Address, Client, Entry, Machine, Scope, Subprocess, Target, Transport
from goalport.cli.config_files import Change, Unmergeable, merged, put
from goalport.cli.options import WorkspaceFolder, workspace_root
from goalport.cli.terminal import say, show, show_difference
from goalport.errors import BadInput, UnknownName
from goalport.settings import Settings, load_settings


@Parameter(name="*")
@dataclass(frozen=True)
class Way:
    """How a client reaches the server, and where that is written."""

    transport: Transport | None = None
    "http: a server that is running; stdio: the client starts one. Default: what works best with the client."
    url: str | None = None
    "The server's address, for instance https://agents.example.com/mcp. Default: host and port of the settings."
    name: str | None = None
    "The server's name in the client. Default: the name in the settings."
    scope: Scope | None = None
    "user: for all projects; project: for this workspace alone."


@dataclass(frozen=True)
class Connection:
    """A client's entry for this server, and the file to put it in."""

    client: Client
    name: str
    entry: Entry
    path: Path | None
    """The file; None: the client is configured on its own pages and by an environment variable."""

    @property
    def snippet(self) -> str:
        if self.path is None:
            return f"{self.client.variable}='{json.dumps([self.entry], ensure_ascii=False)}'"
        return put("", self.client.kind, (*self.client.section, self.name), self.entry).rstrip("\n")

    @property
    def then(self) -> str:
        return self.client.then.format(path=shlex.quote(str(self.path)), key=secrets.token_hex(16))


def connect(
    client: Annotated[str | None, Parameter(help=f"One of {', '.join(CLIENTS)}. Without it: a list of them.")] = None,
    /,
    *,
    way: Way = Way(),
    write: Annotated[bool, Parameter(negative="", help="Write it, after showing what changes.")] = False,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), negative="", help="Do not ask before writing.")] = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Print a client's configuration for this server and where it goes, or write it."""
    root = workspace_root(workspace)
    machine = Machine(sys.platform, Path.home(), os.environ, root)
    if client is None:
        return _list(machine)
    connection = _connection(_known(client), way, machine, load_settings(root))
    return _write(connection, asked=yes) if write else _print(connection)


def _list(machine: Machine) -> int:
    show(
        [
            {"client": client.name, "for": client.title, "file": place, "scope": scope}
            for client in CLIENTS.values()
            for scope, place in _places(client, machine)
        ],
        "text",
        none="",
    )
    return 0


def _places(client: Client, machine: Machine) -> Iterator[tuple[str, str]]:
    if client.variable:
        yield "", f"the variable {client.variable}"
    for scope, path in client.files.items():
        yield scope, str(path(machine))


def _known(name: str) -> Client:
    if name not in CLIENTS:
        raise UnknownName("client", name, CLIENTS)
    return CLIENTS[name]


def _connection(client: Client, way: Way, machine: Machine, settings: Settings) -> Connection:
    name = way.name or settings.name
    entry = client.entry(_target(client, name, way, machine, settings), machine)
    if not client.files:
        return Connection(client, name, entry, None)
    scope = way.scope or client.usual_scope
    if scope not in client.files:
        raise BadInput(f"{client.title} is connected per {client.usual_scope}; leave out --scope {scope}.")
    return Connection(client, name, entry, client.files[scope](machine).absolute())


def _target(client: Client, name: str, way: Way, machine: Machine, settings: Settings) -> Target:
    transport = way.transport or ("http" if way.url else client.transports[0])
    if transport == "http":
        return Address(_checked(way.url) if way.url else _local_url(settings), name)
    if way.url:
        raise BadInput(
            "--url goes with --transport http: over stdio the client starts the server itself. Leave one of them out."
        )
    if transport not in client.transports:
        raise BadInput(f"{client.title} starts no servers; leave out --transport {transport}.")
    return Subprocess((*_program(), "serve", "--workspace", str(machine.workspace), "--transport", "stdio"), name)


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadInput(f"--url was expected to look like http://127.0.0.1:8080/mcp, not {url!r}.")
    return url if parts.path.strip("/") else f"{url.rstrip('/')}/mcp"


def _local_url(settings: Settings) -> str:
    # If the server listens on all interfaces, clients on the same machine use loopback.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}/mcp"


def _program() -> tuple[str, ...]:
    """The command of this goalport with its absolute path, because clients start servers with a PATH of their own."""
    beside = Path(sys.executable).with_name("goalport.exe" if sys.platform == "win32" else "goalport")
    found = str(beside) if beside.exists() else shutil.which("goalport")
    return (found,) if found else (sys.executable, "-m", "goalport.cli")


def _print(connection: Connection) -> int:
    print(connection.snippet, flush=True)
    place = f"It goes into {connection.path}; with --write this command puts it there.\n" if connection.path else ""
    say(f"\n{place}{connection.then}")
    return 0


def _write(connection: Connection, *, asked: bool) -> int:
    client = connection.client
    if connection.path is None:
        print(connection.snippet, flush=True)
        raise BadInput(f"{client.title} has no file to write; leave out --write. {connection.then}")
    try:
        change = merged(connection.path, client.kind, client.section, connection.name, connection.entry)
    except Unmergeable:
        print(connection.snippet, flush=True)
        raise
    if change.is_nothing:
        say(f"{connection.path} says so already; nothing to do.")
        return 0
    show_difference(change.difference())
    if not (asked or _agreed(change)):
        say("Nothing was written.")
        return 1
    kept = change.apply()
    say(f"Wrote {connection.path}" + (f"; the old file is {kept}" if kept else "") + f"\n{connection.then}")
    return 0


def _agreed(change: Change) -> bool:
    if not sys.stdin.isatty():
        raise BadInput(f"Nobody is there to be asked; add --yes to write {change.path}.")
    say(f"Write {change.path}? [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
