"""`goalport connect`: connects a client to this server, by printing its configuration or by writing it.

It writes only after showing the difference and asking. Below the program; settings are below it.
"""

import json
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, cast
from urllib.parse import urlsplit

from cyclopts import Parameter

from goalport.base.errors import BadInput, UnknownName
from goalport.base.hosts import http_url
from goalport.base.secrecy import hide
from goalport.cli.clients import CLIENTS, Address, Client, Entry, Machine, Scope, Subprocess, Target, Transport
from goalport.cli.config_files import Unmergeable, merged, with_entry
from goalport.cli.options import Unasked, WorkspaceFolder, given_text, workspace_root
from goalport.cli.terminal import Record, confirmed, say, show, show_difference
from goalport.server.auth.key_file import KEY_VARIABLE, PREFIX, is_whole
from goalport.workspace.settings import Settings, load_settings

_BRIDGED: Final = "GOALPORT_AUTHORIZATION"
_ASKED: Final = "goalport-key"


def in_headers(entry: Entry, key: str) -> Entry:
    return {**entry, "headers": {"Authorization": f"Bearer {key}"}}


def in_headers_alone(entry: Entry, key: str) -> Entry:
    """For opencode, which would look for a login first."""
    return {**in_headers(entry, key), "oauth": False}


def by_variable(entry: Entry, _: str) -> Entry:
    """For Codex, which refuses a token in its file."""
    return {**entry, "bearer_token_env_var": KEY_VARIABLE}


def bridged(entry: Entry, key: str) -> Entry:
    """For mcp-remote. Some hosts split an argument at its space, so the header's value comes from the environment."""
    arguments = [*cast("Sequence[str]", entry["args"]), "--header", f"Authorization:${{{_BRIDGED}}}"]
    return {**entry, "args": arguments, "env": {_BRIDGED: f"Bearer {key}"}}


def of_open_webui(entry: Entry, key: str) -> Entry:
    return {**entry, "auth_type": "bearer", "key": key}


@dataclass(frozen=True)
class _Way:
    """The way by which one client gets a key."""

    put: Callable[[Entry, str], Entry] = in_headers
    """The entry with the key, or with what stands for it."""
    reference: str = ""
    """What stands for the key in the file; empty: the client can read no variable there."""
    always: bool = False
    """Whether the reference stands in a user's own file too."""
    inputs: Sequence[Mapping[str, Any]] = ()
    """What the client asks the user for, as its file declares it."""
    then: str = f"Set the variable {KEY_VARIABLE} to the key where {{title}} is started: export {KEY_VARIABLE}=…"


_WAYS: Final[Mapping[str, _Way]] = {
    "claude-desktop": _Way(bridged),
    "claude-code": _Way(reference=f"${{{KEY_VARIABLE}}}"),
    "cursor": _Way(reference=f"${{env:{KEY_VARIABLE}}}"),
    "vscode": _Way(
        reference=f"${{input:{_ASKED}}}",
        always=True,
        inputs=({"type": "promptString", "id": _ASKED, "description": "Key of the goalport server", "password": True},),
        then="VS Code asks for the key when it first starts the server, and keeps it in its own store of secrets.",
    ),
    "codex": _Way(by_variable, reference=KEY_VARIABLE, always=True),
    "gemini": _Way(reference=f"${{{KEY_VARIABLE}}}"),
    "qwen": _Way(reference=f"${{{KEY_VARIABLE}}}"),
    "opencode": _Way(in_headers_alone, reference=f"{{env:{KEY_VARIABLE}}}"),
    "fast-agent": _Way(reference=f"${{{KEY_VARIABLE}}}"),
    "open-webui": _Way(of_open_webui),
}
"""All others take headers, and read no variables in them."""


@dataclass(frozen=True)
class KeyInClient:
    """A client's entry with a key, and what else its file and its user need for it."""

    entry: Entry
    inputs: Sequence[Mapping[str, Any]]
    then: str
    """What the user does with the key; empty: nothing."""
    is_written: bool
    """Whether the entry holds the key itself."""


def key_in(client: Client, entry: Entry, scope: Scope | None, key: str) -> KeyInClient:
    """The entry of a client in a file of this scope with a key."""
    way = _WAYS.get(client.name, _Way())
    if way.reference and (way.always or scope == "project"):
        return KeyInClient(way.put(entry, way.reference), way.inputs, way.then.format(title=client.title), False)
    return KeyInClient(way.put(entry, key), (), "", True)


_NO_KEY_OVER_STDIO: Final = (
    "--key goes with --transport http. Over stdio the client starts the server itself, as the user of this machine;"
    " leave --key out."
)


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
    key: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    "The key or token that the client sends, @FILE to read it, or - for standard input. Default: that in GOALPORT_KEY."


@dataclass(frozen=True)
class ClientConfig:
    """A client's entry for this server, and the file to with_entry it in."""

    client: Client
    name: str
    entry: Entry
    path: Path | None
    """The file; None: the client is configured on its own pages and by an environment variable."""
    key: KeyInClient | None = None
    """How the client is given a key; None: it gets none."""

    @property
    def snippet(self) -> str:
        if self.path is None:
            return f"{self.client.variable}='{json.dumps([self.entry], ensure_ascii=False)}'"
        return with_entry("", self.client.kind, self.place, self.entry, self.inputs).rstrip("\n")

    @property
    def place(self) -> tuple[str, ...]:
        return (*self.client.section, self.name)

    @property
    def inputs(self) -> Sequence[Mapping[str, object]]:
        return self.key.inputs if self.key else ()

    @property
    def is_private(self) -> bool:
        return self.key is not None and self.key.is_written

    @property
    def then(self) -> str:
        after = self.client.then.format(path=shlex.quote(str(self.path)), key=secrets.token_hex(16))
        return "\n".join(filter(None, [self.key and self.key.then, self._caution, after]))

    @property
    def _caution(self) -> str:
        """A warning where the file with the key is in a repository, from which it could be published."""
        if not self.is_private or self.path is None:
            return ""
        place = self.path.resolve()
        if not any((folder / ".git").exists() for folder in place.parents):
            return ""
        return f"warning: {self.path} holds the key and is in a git repository. Keep it out of what is committed."


def connect(
    client: Annotated[str | None, Parameter(help=f"One of {', '.join(CLIENTS)}. Without it: a list of them.")] = None,
    /,
    *,
    options: ConnectOptions = ConnectOptions(),
    write: bool = False,
    yes: Unasked = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Print a client's configuration for this server and where it goes, or write it.

    Parameters
    ----------
    write
        Write it, after showing what changes.

    Examples:
        goalport connect
        goalport connect cursor
        goalport connect claude-desktop --write
        goalport connect vscode --transport http --url https://agents.example.com/mcp
    """
    root = workspace_root(workspace)
    machine = Machine(sys.platform, Path.home(), os.environ, root)
    if client is None:
        show([each for known in CLIENTS.values() for each in _places(known, machine)], "text", none="")
        return 0
    if client not in CLIENTS:
        raise UnknownName("client", client, CLIENTS)
    settings = load_settings(root)
    config = _config(CLIENTS[client], options, machine, settings)
    if settings.asks_for_keys and config.key is None and not options.url:
        say("The server asks for a key: add --key KEY. `goalport keys new NAME` makes one.")
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
    key = _key(options.key, machine)
    target = _target(client, name, options, machine, settings)
    if options.key and isinstance(target, Subprocess):
        raise BadInput(_NO_KEY_OVER_STDIO)
    entry = client.entry(target, machine)
    scope = options.scope or (client.usual_scope if client.files else None)
    if scope is not None and scope not in client.files:
        raise BadInput(f"{client.title} is connected per {client.usual_scope}; leave out --scope {scope}.")
    path = client.files[scope](machine).absolute() if scope else None
    if not key or isinstance(target, Subprocess):
        return ClientConfig(client, name, entry, path)
    if target.needs_consent:
        say(f"warning: the key is sent to {target.url} without encryption; an address with https:// protects it.")
    with_key = key_in(client, entry, scope, key)
    return ClientConfig(client, name, with_key.entry, path, with_key)


def _key(given: str | None, machine: Machine) -> str:
    """The key of the option, of standard input or of the environment; empty: none. Raises `BadInput`."""
    if given is None:
        key = machine.environment.get(KEY_VARIABLE, "").strip()
    else:
        key = given_text("@-" if given == "-" else given).strip()
    if given is not None and not key:
        raise BadInput("--key is empty. Leave it out for a server that asks for no key.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise BadInput("The key has characters that no key has; was it copied whole?")
    if key.startswith(PREFIX) and not is_whole(key):
        raise BadInput("The key is mistyped or cut off: its last characters do not fit the others.")
    return key


def _target(client: Client, name: str, options: ConnectOptions, machine: Machine, settings: Settings) -> Target:
    transport = options.transport or ("http" if options.url or options.key else client.transports[0])
    if transport == "http":
        return Address(_complete(options.url) if options.url else f"{http_url(settings.host, settings.port)}/mcp", name)
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
        change = merged(config.path, client.kind, config.place, config.entry, config.inputs)
    except Unmergeable:
        print(config.snippet, flush=True)
        raise
    if change.is_nothing:
        say(f"{config.path} says so already; nothing to do.")
        return 0
    show_difference(map(hide, change.difference()))
    unattended = f"Nobody is there to be asked; add --yes to write {change.path}."
    if not asked and not confirmed(f"Write {change.path}?", unattended):
        say("Nothing was written.")
        return 1
    backup = change.apply(private=config.is_private)
    say(f"Wrote {config.path}" + (f"; the old file is {backup}" if backup else "") + f"\n{config.then}")
    return 0
