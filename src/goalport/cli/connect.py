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
from goalport.cli.config_files import Unmergeable, merged, with_entry
from goalport.cli.options import WorkspaceFolder, workspace_root
from goalport.cli.terminal import Record, confirmed, say, show, show_difference
from goalport.errors import BadInput, UnknownName
from goalport.settings import Settings, load_settings


@Parameter(name="*")
@dataclass(frozen=True)
class ConnectOptions:
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
class ClientConfig:
    """A client's entry for this server, and the file to with_entry it in."""

    client: Client
    name: str
    entry: Entry
    path: Path | None
    """The file; None: the client is configured on its own pages and by an environment variable."""

    @property
    def snippet(self) -> str:
        if self.path is None:
            return f"{self.client.variable}='{json.dumps([self.entry], ensure_ascii=False)}'"
        return with_entry("", self.client.kind, (*self.client.section, self.name), self.entry).rstrip("\n")

    @property
    def then(self) -> str:
        return self.client.then.format(path=shlex.quote(str(self.path)), key=secrets.token_hex(16))


def connect(
    client: Annotated[str | None, Parameter(help=f"One of {', '.join(CLIENTS)}. Without it: a list of them.")] = None,
    /,
    *,
    options: ConnectOptions = ConnectOptions(),
    write: Annotated[
        bool, Parameter(negative="", help="Write it, after showing what changes.", show_default=False)
    ] = False,
    yes: Annotated[
        bool, Parameter(name=("--yes", "-y"), negative="", help="Do not ask before writing.", show_default=False)
    ] = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Print a client's configuration for this server and where it goes, or write it."""
    root = workspace_root(workspace)
    machine = Machine(sys.platform, Path.home(), os.environ, root)
    if client is None:
        show([each for known in CLIENTS.values() for each in _places(known, machine)], "text", none="")
        return 0
    if client not in CLIENTS:
        raise UnknownName("client", client, CLIENTS)
    config = _config(CLIENTS[client], options, machine, load_settings(root))
    if write:
        return _write(config, asked=yes)
    print(config.snippet, flush=True)
    place = f"It goes into {config.path}; with --write this command puts it there.\n" if config.path else ""
    say(f"\n{place}{config.then}")
    return 0


def _places(client: Client, machine: Machine) -> Iterator[Record]:
    """The places that a client's configuration may go to."""
    if client.variable:
        yield {"client": client.name, "for": client.title, "file": f"the variable {client.variable}", "scope": ""}
    for scope, path in client.files.items():
        yield {"client": client.name, "for": client.title, "file": str(path(machine)), "scope": scope}


def _config(client: Client, options: ConnectOptions, machine: Machine, settings: Settings) -> ClientConfig:
    name = options.name or settings.name
    entry = client.entry(_target(client, name, options, machine, settings), machine)
    if not client.files:
        return ClientConfig(client, name, entry, None)
    scope = options.scope or client.usual_scope
    if scope not in client.files:
        raise BadInput(f"{client.title} is connected per {client.usual_scope}; leave out --scope {scope}.")
    return ClientConfig(client, name, entry, client.files[scope](machine).absolute())


def _target(client: Client, name: str, options: ConnectOptions, machine: Machine, settings: Settings) -> Target:
    transport = options.transport or ("http" if options.url else client.transports[0])
    if transport == "http":
        return Address(_complete(options.url) if options.url else _local_url(settings), name)
    if options.url:
        raise BadInput(
            "--url goes with --transport http: over stdio the client starts the server itself. Leave one of them out."
        )
    if transport not in client.transports:
        raise BadInput(f"{client.title} starts no servers; leave out --transport {transport}.")
    return Subprocess((*_program(), "serve", "--workspace", str(machine.workspace), "--transport", "stdio"), name)


def _complete(url: str) -> str:
    """The address with the path of the server, if it has none. Raises `BadInput` for what is no HTTP address."""
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
    program = str(beside) if beside.exists() else shutil.which("goalport")
    return (program,) if program else (sys.executable, "-m", "goalport")


def _write(config: ClientConfig, *, asked: bool) -> int:
    client = config.client
    if config.path is None:
        print(config.snippet, flush=True)
        raise BadInput(f"{client.title} has no file to write; leave out --write. {config.then}")
    try:
        change = merged(config.path, client.kind, client.section, config.name, config.entry)
    except Unmergeable:
        print(config.snippet, flush=True)
        raise
    if change.is_nothing:
        say(f"{config.path} says so already; nothing to do.")
        return 0
    show_difference(change.difference())
    unattended = f"Nobody is there to be asked; add --yes to write {change.path}."
    if not asked and not confirmed(f"Write {change.path}?", unattended):
        say("Nothing was written.")
        return 1
    backup = change.apply()
    say(f"Wrote {config.path}" + (f"; the old file is {backup}" if backup else "") + f"\n{config.then}")
    return 0
