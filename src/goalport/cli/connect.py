"""`goalport connect`: connects a client to this server, by printing its configuration or by writing it.

What differs between clients is in `clients.toml`. JSON and TOML files are written after showing the difference and
asking. If a file cannot be changed without the risk of losing data, the entry is printed instead.
"""

import copy
import io
import json
import os
import re
import secrets
import shlex
import shutil
import stat
import sys
import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from importlib.resources import files as files_of_package
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast
from urllib.parse import urlsplit

from cyclopts import Parameter

from goalport.base.errors import BadInput, GoalportError, UnknownName
from goalport.base.files import replace_file
from goalport.base.hosts import http_url
from goalport.base.secrecy import hide
from goalport.base.strict_json import read_json
from goalport.cli.options import Unasked, WorkspaceFolder, given_text, workspace_root
from goalport.cli.terminal import confirmed, say, show, show_difference
from goalport.server.auth.keys import KEY_VARIABLE, PREFIX, is_whole
from goalport.workspace.settings import Settings, load_settings

Transport = Literal["http", "stdio"]
Scope = Literal["user", "project"]
Entry = dict[str, Any]
_REPLACED: Final = frozenset({"args", "cmd", "command", "httpUrl", "serverUrl", "transport", "type", "uri", "url"})
"""The keys that say how to reach a server: if the new entry lacks one, it is removed from the old entry."""
_SET: Final = _REPLACED | {"bearer_token_env_var", "env", "headers", "oauth"}
"""The keys whose values in an old entry are replaced; mappings are merged. Values of other keys are kept."""
_NO_KEY_OVER_STDIO: Final = (
    "--key goes with --transport http. Over stdio the client starts the server itself, as the user of this machine;"
    " leave --key out."
)


@dataclass(frozen=True)
class Machine:
    """The properties of this machine that decide where programs keep their configuration."""

    system: str
    """The platform, as in `sys.platform`: linux, darwin, win32."""
    home: Path
    environment: Mapping[str, str]
    workspace: Path


@dataclass(frozen=True)
class KeyWay:
    """How a client is configured with an API key; `clients.toml` explains the fields."""

    entry: Entry = field(default_factory=lambda: {"headers": {"Authorization": "Bearer {key}"}})
    reference: str = ""
    always: bool = False
    inputs: Sequence[Mapping[str, Any]] = ()
    then: str = f"Set the variable {KEY_VARIABLE} to the key where {{title}} is started: export {KEY_VARIABLE}=…"


@dataclass(frozen=True)
class Client:
    """How an MCP client is configured; `clients.toml` explains the fields."""

    name: str
    title: str
    then: str
    files: Mapping[Scope, str] = field(default_factory=dict[Scope, str])
    on_windows: Mapping[Scope, str] = field(default_factory=dict[Scope, str])
    variable: str = ""
    format: Literal["json", "toml", "yaml"] = "json"
    section: Sequence[str] = ("mcpServers",)
    transports: Sequence[Transport] = ("http", "stdio")
    stdio: Entry = field(default_factory=lambda: {"command": "{program}", "args": "{arguments}"})
    http: Entry = field(default_factory=lambda: {"url": "{url}"})
    sse: Entry | None = None
    streamable: str = "http"
    key: KeyWay = KeyWay()

    def file(self, scope: Scope, machine: Machine) -> Path:
        """The client's configuration file for a scope."""
        home, environment = machine.home, machine.environment
        # By Unix conventions, which some programs follow on macOS too.
        config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
        data = {
            "darwin": home / "Library" / "Application Support",
            "win32": Path(environment.get("APPDATA") or home / "AppData" / "Roaming"),
        }.get(machine.system, config)
        files = self.files if machine.system != "win32" else {**self.files, **self.on_windows}
        places = {"home": home, "workspace": machine.workspace, "config": config, "data": data}
        return Path(_filled(files[scope], places))


def _filled(template: Any, values: Mapping[str, object]) -> Any:
    """A part of an entry, with names in braces replaced by their values; a list within a list is spliced into it."""
    match template:
        case str():
            for name, value in values.items():
                if template == f"{{{name}}}":
                    return value if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownVariableType]
                template = template.replace(f"{{{name}}}", str(value))
            return template
        case dict():
            parts = cast("dict[str, Any]", template)
            return {name: _filled(part, values) for name, part in parts.items()}
        case list():
            filled: list[Any] = []
            for each in cast("list[Any]", template):
                part = _filled(each, values)
                filled += part if isinstance(part, list) else [part]
            return filled
        case _:
            return template


_TABLES = tomllib.loads((files_of_package("goalport.cli") / "clients.toml").read_text(encoding="utf-8"))
CLIENTS: Final[Mapping[str, Client]] = {
    name: Client(name=name, key=KeyWay(**table.pop("key", {})), **table) for name, table in _TABLES.items()
}


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
    """A client's entry for this server, and the file for it."""

    client: Client
    name: str
    entry: Entry
    path: Path | None
    """The file; None: the client is configured on its own pages and by an environment variable."""
    inputs: Sequence[Mapping[str, Any]] = ()
    """What the client asks its user for, in the form of its file."""
    key_then: str = ""
    """What the user has to do with the key."""
    has_key: bool = False
    """Whether the entry contains the key itself, and not only a reference to it."""

    @property
    def snippet(self) -> str:
        """The text to print: the content of a file with this entry alone, or the environment variable."""
        if self.path is None:
            return f"{self.client.variable}='{json.dumps([self.entry], ensure_ascii=False)}'"
        return self.added_to("").rstrip("\n")

    @property
    def then(self) -> str:
        """What the user has to do next."""
        warning = ""
        # A file with the key in a repository could be published.
        if self.has_key and self.path and any((each / ".git").exists() for each in self.path.resolve().parents):
            warning = (
                f"warning: {self.path} holds the key and is in a git repository. Keep it out of what is committed."
            )
        after = self.client.then.format(path=shlex.quote(str(self.path)), secret=secrets.token_hex(16))
        return "\n".join(filter(None, [self.key_then, warning, after]))

    def added_to(self, text: str) -> str:
        """The text of a file with the entry added; the unchanged text if it has the entry already.

        Raises `ValueError` for a text that cannot be changed without the risk of losing data.
        """
        if self.client.format == "toml":
            from tomlkit import dumps, parse

            content = _mapping(parse(text), "the file")
        else:
            content, dumps = _mapping(read_json(text) if text.strip() else {}, "the file"), None
        before = copy.deepcopy(content)
        known: MutableMapping[str, Any] = content
        for key in (*self.client.section, self.name):
            known = _mapping(known.setdefault(key, {}), repr(key))
        for key in _REPLACED - self.entry.keys():
            known.pop(key, None)
        for key, value in self.entry.items():
            had: object = known.get(key)
            if isinstance(had, MutableMapping) and isinstance(value, Mapping):
                cast("MutableMapping[Any, Any]", had).update(cast("Mapping[Any, Any]", value))
            elif key in _SET or key not in known:
                known[key] = value
        if self.inputs:
            inputs: object = content.setdefault("inputs", [])
            if not isinstance(inputs, list):
                raise ValueError(f"'inputs' was expected to be a list, not a {type(inputs).__name__}")
            listed = cast("list[Any]", inputs)
            listed += [dict(each) for each in self.inputs if each["id"] not in (one.get("id") for one in listed)]
        if text.strip() and content == before:
            return text
        if dumps is not None:
            return dumps(content)
        if self.client.format == "yaml":
            from ruamel.yaml import YAML as Writer  # noqa: N811 - it is the library's class

            written, yaml = io.StringIO(), cast("Any", Writer())
            yaml.width = 1_000_000
            yaml.dump(content, written)
            return written.getvalue()
        margin = re.search(r"^([ \t]+)\S", text, re.MULTILINE)  # JSON is indented as it was before
        return json.dumps(content, indent=margin[1] if margin else 2, ensure_ascii=False) + "\n"


def _mapping(value: object, where: str) -> MutableMapping[str, Any]:
    if not isinstance(value, MutableMapping):
        raise ValueError(f"{where} was expected to hold names and values, not a {type(value).__name__}")  # noqa: TRY004 - of a file
    return cast("MutableMapping[str, Any]", value)


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

    Args:
        write: Write it, after showing what changes.

    Examples:
        goalport connect
        goalport connect cursor
        goalport connect claude-desktop --write
        goalport connect vscode --transport http --url https://agents.example.com/mcp
    """
    root = workspace_root(workspace)
    machine = Machine(sys.platform, Path.home(), os.environ, root)
    if client is None:
        places = [
            {"client": each.name, "for": each.title, "file": place, "scope": scope}
            for each in CLIENTS.values()
            for scope, place in [
                *([("", f"the variable {each.variable}")] if each.variable else []),
                *((scope, str(each.file(scope, machine))) for scope in each.files),
            ]
        ]
        show(places, "text", none="")
        return 0
    if client not in CLIENTS:
        raise UnknownName("client", client, CLIENTS)
    settings = load_settings(root)
    config = _config(CLIENTS[client], options, machine, settings)
    if settings.uses_keys and not options.url and not (config.has_key or config.key_then):
        say("The server asks for a key: add --key KEY. `goalport keys new NAME` makes one.")
    if write:
        return _write(config, asked=yes)
    print(config.snippet, flush=True)
    place = f"It goes into {config.path}; with --write this command puts it there.\n" if config.path else ""
    say(f"\n{place}{config.then}")
    return 0


def _config(client: Client, options: ConnectOptions, machine: Machine, settings: Settings) -> ClientConfig:
    name, key = options.name or settings.name, _key(options.key, machine)
    transport = options.transport or ("http" if options.url or options.key else client.transports[0])
    url = _url(options, settings) if transport == "http" else ""
    if transport == "stdio" and options.url:
        raise BadInput(
            "--url goes with --transport http: over stdio the client starts the server itself. Leave one of them out."
        )
    if transport not in client.transports:
        raise BadInput(f"{client.title} starts no servers; leave out --transport {transport}.")
    usual = next(iter(client.files), None)
    scope = options.scope or usual
    if scope is not None and scope not in client.files:
        raise BadInput(f"{client.title} is connected per {usual}; leave out --scope {scope}.")
    path = client.file(scope, machine).absolute() if scope else None
    if not url:
        if options.key:
            raise BadInput(_NO_KEY_OVER_STDIO)
        # With its absolute path, because clients start servers with another PATH.
        beside = Path(sys.executable).with_name("goalport.exe" if sys.platform == "win32" else "goalport")
        program = str(beside) if beside.exists() else shutil.which("goalport")
        command = [program] if program else [sys.executable, "-m", "goalport"]
        command += ["serve", "--workspace", str(machine.workspace), "--transport", "stdio"]
        values = {"name": name, "command": command, "program": command[0], "arguments": command[1:]}
        return ClientConfig(client, name, _filled(client.stdio, values), path)
    parts = urlsplit(url)
    is_sse = parts.path.rstrip("/").endswith("/sse")
    # Plain HTTP to another machine: bridges refuse that without the option `--allow-http`.
    is_exposed = parts.scheme == "http" and parts.hostname not in {"localhost", "127.0.0.1"}
    kind, allowed = "sse" if is_sse else client.streamable, ["--allow-http"] if is_exposed else list[str]()
    values = {"name": name, "url": url, "kind": kind, "allow_http": allowed}
    entry = _filled(client.sse if is_sse and client.sse else client.http, values)
    if entry.get("command") == "npx" and machine.system == "win32":
        # There npx is a script, which a program can only start through the shell.
        entry = {"command": "cmd", "args": ["/c", "npx", *entry["args"]]}
    if not key:
        return ClientConfig(client, name, entry, path)
    if is_exposed:
        say(f"warning: the key is sent to {url} without encryption; an address with https:// protects it.")
    way = client.key
    refers = way.reference and (way.always or scope == "project")
    for name_of_part, part in _filled(way.entry, {"key": way.reference if refers else key}).items():
        entry[name_of_part] = [*entry[name_of_part], *part] if isinstance(part, list) else part
    if refers:
        return ClientConfig(client, name, entry, path, way.inputs, way.then.format(title=client.title))
    return ClientConfig(client, name, entry, path, has_key=True)


def _key(given: str | None, machine: Machine) -> str:
    """The key of the option, of standard input or of the environment; empty: none. Raises `BadInput`."""
    if given is None:
        key = machine.environment.get(KEY_VARIABLE, "").strip()
    else:
        key = given_text("@-" if given == "-" else given).strip()
        if not key:
            raise BadInput("--key is empty. Leave it out for a server that asks for no key.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise BadInput("The key has characters that no key has; was it copied whole?")
    if key.startswith(PREFIX) and not is_whole(key):
        raise BadInput("The key is mistyped or cut off: its last characters do not fit the others.")
    return key


def _url(options: ConnectOptions, settings: Settings) -> str:
    if not options.url:
        return f"{http_url(settings.host, settings.port)}/mcp"
    parts = urlsplit(options.url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadInput(f"--url was expected to look like http://127.0.0.1:8080/mcp, not {options.url!r}.")
    return options.url if parts.path.strip("/") else f"{options.url.rstrip('/')}/mcp"


def _write(config: ClientConfig, *, asked: bool) -> int:
    """Write the entry into its file after a yes, and return the exit code; else print it and raise `GoalportError`."""
    path, client = config.path, config.client
    if path is None:
        print(config.snippet, flush=True)
        raise BadInput(f"{client.title} has no file to write; leave out --write. {config.then}")
    before = after = ""
    hindered = "it is YAML, which is not rewritten here"
    if client.format != "yaml":
        try:
            before = path.read_bytes().decode() if path.exists() else ""
            after, hindered = config.added_to(before), ""
        except ValueError as error:
            hindered = str(error)
    if hindered:
        print(config.snippet, flush=True)
        raise GoalportError(f"{path} is left as it is: {hindered}. Add the entry by hand. {config.then}")
    if path.exists() and after == before:
        say(f"{path} says so already; nothing to do.")
        return 0
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    show_difference(map(hide, unified_diff(*lines, f"{path} (now)", f"{path} (then)")))
    if not asked and not confirmed(f"Write {path}?", f"Nobody is there to be asked; add --yes to write {path}."):
        say("Nothing was written.")
        return 1
    real = path.resolve()  # a link may lead into a repository of dot files
    kept = ""
    if real.exists():
        backup = real.with_name(f"{real.name}.bak")
        shutil.copy2(real, backup)
        kept = f"; the old file is {backup}"
        if config.has_key:
            real.chmod(stat.S_IMODE(real.stat().st_mode) & stat.S_IRWXU)
    replace_file(real, after)
    say(f"Wrote {path}{kept}\n{config.then}")
    return 0
