"""Reading `mcp_config.json` into the records of `config`: the upstream servers, and the tool groups of their tools.

Accepts the files of Claude Desktop, Cursor and Claude Code (`mcpServers`), of VS Code (`servers` and `inputs`), and a
bare table of servers; `toolGroups` is our own. A mistake raises nothing: it becomes a line of `problems`, and the rest
is usable. `section`, below, reads single settings and fills in variables; `jsonc` knows lines and columns.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

from dotenv import dotenv_values

from goalport.caller import require_scopes
from goalport.handshake import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from goalport.tools import NAMING_STYLES, Permission
from goalport.upstream.config import (
    Approval,
    GroupConfig,
    McpConfig,
    NamingConfig,
    ServerConfig,
    TransportKind,
)
from goalport.upstream.jsonc import read_json
from goalport.upstream.oauth_section import read_oauth
from goalport.upstream.section import OF_CALLER, Notes, Section, Variables
from goalport.words import offer

__all__ = ["read_config"]

_SERVERS: Final = ("mcpServers", "servers")
_GROUPS: Final = "toolGroups"
_REACHED_BY: Final = ("command", "url", "serverUrl", "httpUrl")
"""The keys by which an entry for a server is known."""
_APPROVALS: Final = ("never", "always", "destructive")


def read_config(path: Path, environment: Mapping[str, str]) -> McpConfig:
    """Read a file; there need not be one. Values of variables come from `environment`. Raises nothing."""
    written = read_json(path)
    notes = Notes(written, list(written.problems))
    variables = Variables(environment, path.parent.absolute())
    if not written.is_object:
        if not written.problems:
            notes.add(f"it should be an object with {_SERVERS[0]} and {_GROUPS}.", ())
        return McpConfig(problems=tuple(notes.problems), is_readable=False)
    root = Section(written.data, (), notes, variables)
    declared = dict(_declared(root))
    servers = {name: read_server(name, each) for name, each in declared.items()}
    groups = {role: _group(role, each, tuple(declared)) for role, each in _roles(root)}
    root.ignore("inputs", "$schema", "globalShortcut", "preferences")
    root.note_unknown_keys()
    usable = {name: each for name, each in servers.items() if each is not None}
    return McpConfig(usable, groups, tuple(notes.problems))


def _declared(root: Section) -> Iterator[tuple[str, Section]]:
    """The entries for servers, by name, under whichever key they are."""
    seen: set[str] = set()
    root.ignore(*_SERVERS)
    gathered = any(root.get(key)[0] is not None for key in _SERVERS)
    for name, section in [each for key in _SERVERS for each in root.sections(key)] if gathered else _bare_entries(root):
        if name in seen:
            section.notes.add(f"there are two servers called {name!r}; the first is used.", section.at)
        elif not name.strip():
            section.notes.add("a server without a name is left out.", section.at)
        else:
            seen.add(name)
            yield name, section


def _bare_entries(root: Section) -> list[tuple[str, Section]]:
    """The entries of a file that consists of them."""
    root.ignore(_GROUPS, "inputs")
    found = root.sections()
    if not any(each.get(*_REACHED_BY)[0] is not None for _, each in found):
        return []
    root.ignore(*(name for name, _ in found))
    return found


def _roles(root: Section) -> Iterator[tuple[str, Section]]:
    for role, section in root.sections(_GROUPS):
        if role.strip():
            yield role, section
        else:
            section.notes.add("a tool group without a role is left out.", section.at)


def _group(role: str, section: Section, declared: tuple[str, ...]) -> GroupConfig:
    """One group. Servers that it names and that are not declared are noted."""
    servers = section.texts("servers", "server")
    for number, name in enumerate(servers):
        if name not in declared:
            at = (*section.at, "servers", number)
            section.notes.add(
                f"tool group {role!r} names the server {name!r}, which is not there. {offer(name, declared)}", at
            )
    approvals = cast("dict[str, Approval]", section.choices("approve", _APPROVALS, "always"))
    include = section.texts("include", "includes", "tools")
    exclude = section.texts("exclude", "excludes")
    scopes = _scopes(section)
    # Where a pattern or a scope cannot be read, nobody knows which tools it was to keep away, and from whom.
    is_unsafe = bool(section.mistakes)
    found = GroupConfig(
        role,
        tuple(dict.fromkeys(servers)) or declared,
        description=section.text("description"),
        include=include,
        exclude=("*",) if is_unsafe else exclude,
        naming=_naming(section.section("naming"), role),
        permissions=frozenset(_permissions(section)),
        approve=approvals.pop("*", "never"),
        approve_tools=approvals,
        provider=section.text("provider"),
        version=section.text("version") or GroupConfig.version,
        pin=section.flag("pin", careful=True),
        resources=section.flag("resources") and not is_unsafe,
        exports=section.flag("exports"),
        prompts=section.flag("prompts"),
        scopes=scopes,
    )
    section.note_unknown_keys()
    for message, at in section.mistakes:
        section.notes.add(f"tool group {role!r}{' has no tools' if is_unsafe else ''}: {message}", at)
    return found


def _scopes(section: Section) -> tuple[str, ...] | None:
    value, at = section.get("scopes")
    found = section.texts("scopes")
    try:
        require_scopes("scopes", found)
    except TypeError as error:
        section.mistakes.append((str(error), at))
    return None if value is None else found


def _naming(section: Section | None, role: str) -> NamingConfig:
    if section is None:
        return NamingConfig()
    found = NamingConfig(
        prefix=section.text("prefix"),
        suffix=section.text("suffix"),
        rename=section.table("rename"),
        style=section.word("style", tuple(NAMING_STYLES)) or NamingConfig.style,
    )
    section.note_unknown_keys()
    for message, at in section.mistakes:
        section.notes.add(f"naming of the tool group {role!r}: {message}", at)
    return found


def _permissions(section: Section) -> Iterator[Permission]:
    known = {each.value: each for each in Permission}
    for word in section.texts("permissions"):
        if word.lower() in known:
            yield known[word.lower()]
        else:
            section.notes.add(f"unknown permission {word!r}. {offer(word, known)}", (*section.at, "permissions"))


_TRANSPORTS: Final[dict[str, TransportKind]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "remote": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
_OF_OTHER_HOSTS: Final = (
    "alwaysAllow alwaysLoad autoApprove chatMenu description dev icon iconPath name title gallery id version roots"
    " sandboxEnabled serverInstructions sseReadTimeout startOnLaunch toolCallTimeout trust watchPaths"
)
"""Keys of other hosts in an entry, for their own windows and approvals. They mean nothing here."""
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_ENABLED_TOOLS: Final = ("enabledTools", "includeTools", "tools")
_CONNECT_TIMEOUT: Final = ("connectTimeout", "connectionTimeout", "startupTimeout")
_MOST_AT_ONCE: Final = 10_000


def read_server(name: str, section: Section) -> ServerConfig | None:
    """One server. Mistakes are noted; None: it cannot be used. Of a disabled one no mistakes are noted."""
    command, args = _command(section)
    url = section.text("url", "serverUrl", "httpUrl").strip()
    transport = _transport(section)
    is_enabled = section.get("enabled")[0] is None or section.flag("enabled")
    disabled = section.flag("disabled", careful=True) or not is_enabled
    required = section.flag("required", careful=True)
    found = ServerConfig(
        name,
        transport or "stdio",
        command=command,
        args=args,
        env=_environment(section),
        # What is relative, is relative to the folder of the file.
        cwd=section.variables.folder / Path(section.text("cwd", "workingDirectory")).expanduser(),
        url=url,
        ca_file=section.variables.folder / Path(written).expanduser() if (written := section.text("caFile")) else None,
        oauth=read_oauth(section),
        disabled=disabled,
        required=required,
        sampling=section.flag("sampling"),
        pin=section.flag("pin", careful=True),
        protocol_version=section.word("protocolVersion", (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS)),
        enabled_tools=section.texts(*_ENABLED_TOOLS),
        # An empty list of the tools that may be used means no tool, as it does for the hosts that know such a list.
        disabled_tools=("*",)
        if section.get(*_ENABLED_TOOLS)[0] == []
        else section.texts("disabledTools", "excludeTools"),
    )
    found = _with_limits(_with_headers(found, section), section)
    found = replace(found, secrets=tuple(section.secrets))
    section.ignore(*_OF_OTHER_HOSTS.split())
    section.note_unknown_keys()
    if disabled:
        return ServerConfig(name, found.transport, disabled=True)
    _check(found, section)
    for message, at in section.mistakes:
        needed = " It is required." if required else ""
        section.notes.add(f"server {name!r} cannot be used: {message}{needed}", at, server=name, is_fatal=required)
    return None if section.mistakes else found


def _transport(section: Section) -> TransportKind | None:
    """How a server is reached: as its entry says, else by the keys that it has."""
    said, at = section.get("type", "transport")
    if isinstance(said, str):
        spelled = said.lower().replace("-", "").replace("_", "")
        if spelled not in _TRANSPORTS:
            section.mistakes.append((f"type should be stdio, http or sse, but is {said!r}.", at))
        return _TRANSPORTS.get(spelled)
    if said is not None:
        section.mistakes.append(("type should be stdio, http or sse.", at))
    if section.get("command")[0] is not None:
        return "stdio"
    if section.get("httpUrl")[0] is not None:
        return "http"
    url, _ = section.get("url", "serverUrl")
    return "sse" if isinstance(url, str) and _path_of(url).rstrip("/").endswith("/sse") else "http"


def _command(section: Section) -> tuple[str, tuple[str, ...]]:
    """The program and its arguments; a command that is a list holds both."""
    command, *more = section.texts("command") or ("",)
    return command.strip(), (*more, *section.texts("args"))


def _environment(section: Section) -> dict[str, str]:
    """The variables for a server's process: those of its file, then those of its entry."""
    written = section.text("envFile")
    found: dict[str, str] = {}
    if written:
        file = section.variables.folder / Path(written).expanduser()
        if file.is_file():
            found = {key: value for key, value in dotenv_values(file, interpolate=False).items() if value is not None}
        else:
            section.mistakes.append(("its envFile is no file.", (*section.at, "envFile")))
    return found | section.table("env", "environment")


def _with_headers(server: ServerConfig, section: Section) -> ServerConfig:
    """The server with its headers, of which some are filled for each caller."""
    forward_auth = section.flag("forwardAuth") and server.transport != "stdio"
    headers = _headers(section, OF_CALLER if forward_auth else ())
    of_caller = {name for name, value in headers.items() if any(f"${{{each}}}" in value for each in OF_CALLER)}
    return replace(
        server,
        headers={name: value for name, value in headers.items() if name not in of_caller},
        forward_auth=forward_auth,
        caller_headers={name: value for name, value in headers.items() if name in of_caller},
        listing_headers=section.table("listingHeaders"),
    )


def _with_limits(server: ServerConfig, section: Section) -> ServerConfig:
    return replace(
        server,
        connect_timeout=section.seconds(*_CONNECT_TIMEOUT, default=ServerConfig.connect_timeout),
        timeout=section.seconds("timeout", "requestTimeout", default=ServerConfig.timeout),
        concurrency=section.count("concurrency", ServerConfig.concurrency, _MOST_AT_ONCE, least=1),
        max_callers=section.count("maxCallers", ServerConfig.max_callers, _MOST_AT_ONCE, least=1),
        max_message_bytes=section.count("maxMessageBytes", ServerConfig.max_message_bytes, 2**31, least=1),
        shutdown_timeout=section.seconds("shutdownTimeout", default=ServerConfig.shutdown_timeout),
    )


def _headers(section: Section, kept: Collection[str]) -> dict[str, str]:
    headers = {name: value.strip() for name, value in section.table("headers", kept=kept).items()}
    auth, _ = section.get("auth")
    token = section.text("auth").strip() if isinstance(auth, str) and auth.lower() != "oauth" else ""
    if token:
        headers = {"Authorization": f"Bearer {token.removeprefix('Bearer ')}", **headers}
    for name, value in headers.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            reason = f"the header {name!r} cannot be sent: there is a character in it that none can have."
            section.mistakes.append((reason, (*section.at, "headers", name)))
    return headers


def _check(server: ServerConfig, section: Section) -> None:
    """Note what is missing to reach a server."""
    if section.mistakes:
        return
    if server.transport == "stdio" and not server.command:
        fix = "give it one, or say `type`: http." if server.url else "give it one, or a url."
        section.mistakes.append((f"it has no command; {fix}", section.at))
    elif server.transport != "stdio" and not server.url:
        section.mistakes.append(("it has neither a command nor a url.", section.at))
    elif server.transport != "stdio" and not _is_web(server.url):
        section.mistakes.append(("its url should begin with http:// or https:// and name a host.", section.at))
    elif server.cwd is not None and not server.cwd.is_dir():
        section.mistakes.append(("its cwd is no folder.", (*section.at, "cwd")))
    elif server.ca_file is not None and not server.ca_file.is_file():
        section.mistakes.append(("its caFile is no file.", (*section.at, "caFile")))
    elif server.forward_auth and not server.caller_headers:
        reason = "it says forward_auth, and none of its headers has ${caller.token} or ${caller.id}."
        section.mistakes.append((reason, (*section.at, "headers")))


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _path_of(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""
