"""Reading `mcp_config.json` into the records of `config`: the upstream servers, and the tool groups of their tools.

Accepts the files of Claude Desktop, Cursor and Claude Code (`mcpServers`), of VS Code (`servers` and `inputs`), and a
bare table of servers; `toolGroups` is our own. A mistake raises nothing: it becomes a line of `problems`, and the rest
is usable. `section`, below, reads one object and fills in variables; `jsonc` knows lines and columns.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeVar, cast, get_args
from urllib.parse import SplitResult, urlsplit

from dotenv import dotenv_values
from pydantic import BeforeValidator, ValidationInfo, ValidatorFunctionWrapHandler, WrapValidator

from goalport.base.words import offer
from goalport.tools import Approval
from goalport.tools.upstream.config import (
    GroupConfig,
    IdentityProvider,
    McpConfig,
    OAuthConfig,
    ServerConfig,
    TransportKind,
)
from goalport.tools.upstream.jsonc import JsonPath, WrittenJson, read_json
from goalport.tools.upstream.section import (
    OF_CALLER,
    OF_CALLER_ALONE,
    Entry,
    Flag,
    Objects,
    Place,
    SecretFile,
    Text,
    Texts,
    Variables,
    canonical,
    named,
    names_of,
    note,
    one_of,
    read,
    text,
)

T = TypeVar("T", bound=Entry)
_REACHED_BY: Final = frozenset({"command", "url", "serverurl", "httpurl"})
"""The keys by which an entry for a server is known."""
_WEB: Final = frozenset({"http", "https"})
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_TRANSPORTS: Final[Mapping[str, TransportKind]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "remote": "http",
    "streamablehttp": "http",
    "sse": "sse",
}


def _transport(value: object) -> TransportKind:
    known = _TRANSPORTS.get(canonical(value)) if isinstance(value, str) else None
    if known is None:
        came = f", but is {value!r}" if isinstance(value, str) else ""
        raise ValueError(f"should be stdio, http or sse{came}.")
    return known


def _approvals(value: object) -> object:
    if not isinstance(value, str | dict):
        raise note("should be a text or an object. It counts as always.", "always")
    return {"*": value} if isinstance(value, str) else cast("object", value)


def _auth(value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return handler(value)
    if value.lower() == "oauth":
        return OAuthEntry()
    token = text(value, info).strip().removeprefix("Bearer ")
    return OAuthEntry(token=token) if token else None


@dataclass(frozen=True)
class OAuthEntry(OAuthConfig):
    """`oauth` in the entry for a server, or its `auth`."""

    private_key_file: SecretFile = named("", "privateKeyFile", hidden=True)
    token: str = named("", hidden=True)
    """A token that is there in place of all else."""


@dataclass(frozen=True)
class ServerEntry(ServerConfig):
    """The entry for a server as it is written."""

    ignored: ClassVar[str] = (
        "alwaysAllow alwaysLoad autoApprove chatMenu description dev icon iconPath name title gallery id version roots"
        " sandboxEnabled serverInstructions sseReadTimeout startOnLaunch toolCallTimeout trust watchPaths"
    )
    name: str = named("")
    transport: TransportKind = named("stdio")
    stated_transport: Annotated[TransportKind | None, BeforeValidator(_transport)] = named(None, "type", "transport")
    command: str = named("")
    command_line: Texts = named((), "command")
    """The program, and after it the first of its arguments."""
    http_url: Text = ""
    env_file: Place | None = None
    enabled: Flag = True
    enabled_tools: Texts = named(())
    only_tools: Texts | None = named(None, "enabledTools", "includeTools", "tools")
    oauth: OAuthEntry | None = None
    auth: Annotated[OAuthEntry | None, WrapValidator(_auth)] = None


@dataclass(frozen=True)
class GroupEntry(GroupConfig):
    """The entry for a tool group as it is written."""

    role: str = named("")
    servers: Texts = named((), "servers", "server")
    approve: Approval = named("never")
    approve_tools: Mapping[str, Approval] = named(dict[str, Approval])
    approvals: Annotated[
        Mapping[str, Annotated[Approval, one_of(get_args(Approval), "always")]], BeforeValidator(_approvals)
    ] = named(dict[str, Approval], "approve")


@dataclass(frozen=True)
class _File(Entry):
    """The whole file: one object for each server and group, which are read one by one."""

    ignored: ClassVar[str] = "inputs $schema globalShortcut preferences"
    mcp_servers: Objects = field(default_factory=dict[str, dict[str, Any]])
    servers: Objects = field(default_factory=dict[str, dict[str, Any]])
    tool_groups: Objects = field(default_factory=dict[str, dict[str, Any]])


def read_config(path: Path, environment: Mapping[str, str]) -> McpConfig:
    """Read a file; there need not be one. Values of variables come from `environment`. Raises nothing."""
    written = read_json(path)
    data = written.data
    if not data:
        # Without a file, there is nothing to prepare for.
        return McpConfig(problems=tuple(written.problems), is_readable=data is not None)
    bare = _bare_entries(data)
    fresh = partial(Variables, environment, path.parent.absolute())
    variables = fresh()
    root = {key: value for key, value in data.items() if key not in bare}
    file, _ = read(_File, root, (), written, variables)
    keys = variables.keys[id(root)]
    servers: dict[str, ServerConfig | None] = {}
    for key, name, entry in (
        *((keys["mcp_servers"], *each) for each in file.mcp_servers.items()),
        *((keys["servers"], *each) for each in file.servers.items()),
        *(("", *each) for each in bare.items()),
    ):
        at = (key, name) if key else (name,)
        if name in servers:
            written.note(f"there are two servers called {name!r}; the first is used.", at)
        elif not name.strip():
            written.note("a server without a name is left out.", at)
        else:
            servers[name] = _server(name, entry, at, written, fresh())
    groups: dict[str, GroupConfig] = {}
    for role, entry in file.tool_groups.items():
        at = (keys["tool_groups"], role)
        if role.strip():
            groups[role] = _group(role, entry, at, written, fresh(), tuple(servers))
        else:
            written.note("a tool group without a role is left out.", at)
    usable = {name: each for name, each in servers.items() if each is not None}
    problems = sorted(written.problems, key=lambda each: (each.line or 0, each.column or 0))
    return McpConfig(usable, groups, tuple(problems))


def _bare_entries(data: Mapping[str, object]) -> Mapping[str, dict[str, Any]]:
    """The entries for servers in a file that consists of them."""
    others = {*names_of(_File), "inputs"}
    if any(canonical(key) in {"mcpservers", "servers"} and value is not None for key, value in data.items()):
        return {}
    found = {
        key: cast("dict[str, Any]", each)
        for key, each in data.items()
        if isinstance(each, dict) and canonical(key) not in others
    }
    reached = ((canonical(key), value) for each in found.values() for key, value in each.items())
    return found if any(key in _REACHED_BY and value is not None for key, value in reached) else {}


def _record(cls: type[T], entry: T, **changes: object) -> T:
    """A record of the class below that of the entry, which knows nothing of how it was written."""
    return cls(**{each.name: getattr(entry, each.name) for each in fields(cast("Any", cls))} | changes)


def _server(
    name: str, data: dict[str, Any], at: JsonPath, written: WrittenJson, variables: Variables
) -> ServerConfig | None:
    """One server. Mistakes are noted; None: it cannot be used. Of a disabled one no mistakes are noted."""
    entry, mistakes = read(ServerEntry, data, at, written, variables)
    url, (command, *more) = (entry.url or entry.http_url).strip(), entry.command_line or ("",)
    is_sse = not entry.http_url and _parts(url).path.rstrip("/").endswith("/sse")
    transport = entry.stated_transport or ("stdio" if command else "sse" if is_sse else "http")
    if entry.disabled or not entry.enabled:
        return ServerConfig(name, transport, disabled=True)
    auth = entry.auth or OAuthEntry()
    oauth = entry.oauth or (None if auth.token else entry.auth)
    headers = ({"Authorization": f"Bearer {auth.token}"} if auth.token else {}) | dict(entry.headers)
    of_caller = {key for key, value in headers.items() if any(f"${{{each}}}" in value for each in OF_CALLER)}
    file = dotenv_values(entry.env_file, interpolate=False) if entry.env_file else {}
    found = _record(
        ServerConfig,
        entry,
        name=name,
        transport=transport,
        command=command.strip(),
        args=(*more, *entry.args),
        env={key: value for key, value in {**file, **entry.env}.items() if value is not None},
        cwd=entry.cwd or variables.folder,
        url=url,
        headers={key: value for key, value in headers.items() if key not in of_caller},
        caller_headers={key: value for key, value in headers.items() if key in of_caller},
        forward_auth=entry.forward_auth and transport != "stdio",
        oauth=oauth and _record(OAuthConfig, oauth, private_key=oauth.private_key_file or oauth.private_key),
        enabled_tools=entry.only_tools or (),
        # An empty list of the tools that may be used means no tool, as it does for the hosts that know such a list.
        disabled_tools=("*",) if entry.only_tools == () else entry.disabled_tools,
        secrets=tuple(variables.secrets),
    )
    keys = variables.keys[id(data)]
    wrong = mistakes or [
        (reason, (*at, *(keys.get(str(each), each) for each in path))) for reason, path in _problems(found, entry)
    ]
    for reason, place, *_ in wrong:
        needed = " It is required." if entry.required else ""
        message = f"server {name!r} cannot be used: {reason}{needed}"
        written.note(message, place, server=name, is_fatal=entry.required)
    return None if wrong else found


def _problems(server: ServerConfig, entry: ServerEntry) -> Iterator[tuple[str, JsonPath]]:
    """What keeps a server from being used, and the path of the field that it belongs to."""
    for name, value in {**server.headers, **server.caller_headers}.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            yield (
                f"the header {name!r} cannot be sent: there is a character in it that none can have.",
                ("headers", name),
            )
        if name in server.caller_headers and not server.forward_auth:
            yield OF_CALLER_ALONE, ("headers", name) if name in entry.headers else ("auth",)
    if server.forward_auth and not server.caller_headers:
        yield "it says forward_auth, and none of its headers has ${caller.token} or ${caller.id}.", ("headers",)
    if server.transport == "stdio" and not server.command:
        yield f"it has no command; give it one, or {'say `type`: http' if server.url else 'a url'}.", ()
    elif server.transport != "stdio" and not server.url:
        yield "it has neither a command nor a url.", ()
    elif server.transport != "stdio" and not (_parts(server.url).hostname and _parts(server.url).scheme in _WEB):
        yield "its url should begin with http:// or https:// and name a host.", ("url",)
    if entry.cwd is not None and not entry.cwd.is_dir():
        yield "its cwd is no folder.", ("cwd",)
    for file, key, shown in ((entry.env_file, "env_file", "envFile"), (entry.ca_file, "ca_file", "caFile")):
        if file is not None and not file.is_file():
            yield f"its {shown} is no file.", (key,)
    if server.oauth is not None:
        key = "oauth" if entry.oauth else "auth"
        yield from ((f"its {key} {reason}", (key,)) for reason in _oauth_problems(server.oauth))


def _oauth_problems(oauth: OAuthConfig) -> Iterator[str]:
    """What is missing to obtain a token this way, each as the rest of a sentence."""
    client, secret, key, issuer = oauth.client_id, oauth.client_secret, oauth.private_key, oauth.issuer
    provider, document = oauth.identity_provider or IdentityProvider(), _parts(oauth.client_metadata_url)
    known = provider.token_endpoint and provider.client_id
    if secret and key:
        yield "has both a clientSecret and a privateKey; give one."
    if oauth.client_metadata_url and not (document.scheme == "https" and document.path.strip("/")):
        yield "has a clientMetadataUrl that is no https:// address of a document."
    if issuer and _parts(issuer).scheme not in _WEB:
        yield "has an issuer that is no address; it should begin with https://."
    if oauth.per_caller and oauth.grant != "authorization_code":
        yield f"has a login per_caller, and the grant {oauth.grant}, for which nobody signs in."
    if oauth.grant == "authorization_code" and key:
        yield "has a privateKey, which the grant authorization_code does not take."
    if oauth.grant == "authorization_code" and secret and not client:
        yield "has a clientSecret and no clientId."
    if oauth.grant == "client_credentials" and not (client and (secret or key)):
        yield "needs a clientId, and a clientSecret or a privateKey, for the grant client_credentials."
    if oauth.grant == "jwt_bearer" and not (client and secret and issuer):
        yield "needs clientId, clientSecret and issuer for the grant jwt_bearer."
    if oauth.grant == "jwt_bearer" and not known:
        yield "needs an identityProvider with tokenEndpoint and clientId for the grant jwt_bearer."
    if oauth.grant == "jwt_bearer" and known and not (provider.id_token or provider.id_token_file):
        yield "needs an idToken or an idTokenFile in its identityProvider."


def _parts(url: str) -> SplitResult:
    """The parts of an address; of none, they are empty."""
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else urlsplit("")
    except ValueError:
        return urlsplit("")


def _group(
    role: str,
    data: dict[str, Any],
    at: JsonPath,
    written: WrittenJson,
    variables: Variables,
    declared: tuple[str, ...],
) -> GroupConfig:
    """One group. Servers that it names and that are not declared are noted."""
    entry, mistakes = read(GroupEntry, data, at, written, variables)
    keys = variables.keys[id(data)]
    for number, name in enumerate(entry.servers):
        if name not in declared:
            message = f"tool group {role!r} names the server {name!r}, which is not there. {offer(name, declared)}"
            written.note(message, (*at, keys["servers"], number))
    # Where a pattern or a scope cannot be read, nobody knows which tools it was to keep away, and from whom.
    unsafe = any(field in {"servers", "include", "exclude", "scopes"} for *_, field in mistakes)
    for reason, place, _ in mistakes:
        written.note(f"tool group {role!r}{' has no tools' if unsafe else ''}: {reason}", place)
    approvals = dict(entry.approvals)
    return _record(
        GroupConfig,
        entry,
        role=role,
        servers=tuple(dict.fromkeys(entry.servers)) or declared,
        exclude=("*",) if unsafe else entry.exclude,
        resources=entry.resources and not unsafe,
        prompts=entry.prompts and not unsafe,
        approve=approvals.pop("*", "never"),
        approve_tools=approvals,
    )
