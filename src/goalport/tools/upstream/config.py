"""The contents of `mcp_config.json` as records: upstream servers, and the tool groups made of their tools.

`read_config` accepts the files of Claude Desktop, Cursor and Claude Code (`mcpServers`), of VS Code (`servers` and
`inputs`), and an object of servers without such a key; `toolGroups` is our own. A mistake raises no error: it becomes a
line of `problems`, and the rest is usable. Values that may be secret are omitted from every `repr`, so that a log line
with a record in it contains none; they are also registered with `secrecy`, which hides them everywhere.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, cast, get_args
from urllib.parse import SplitResult, parse_qsl, urlsplit

from dotenv import dotenv_values
from pydantic import BeforeValidator, Field, ValidationInfo, ValidatorFunctionWrapHandler, WrapValidator

from goalport.base.handshake import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from goalport.base.words import offer
from goalport.tools import NAMING_STYLES, Approval, Permission
from goalport.tools.upstream.section import (
    OF_CALLER,
    OF_CALLER_ALONE,
    CarefulFlag,
    ConfigProblem,
    Count,
    Entry,
    Flag,
    Headers,
    JsonPath,
    Listed,
    NamedSecret,
    Objects,
    Place,
    Scopes,
    Seconds,
    Secret,
    SecretFile,
    Table,
    Text,
    Texts,
    Variables,
    Words,
    WrittenJson,
    canonical,
    named,
    names_of,
    note,
    one_of,
    read,
    read_json,
    text,
)

_Method = Literal["client_secret_basic", "client_secret_post"]
TransportKind = Literal["stdio", "http", "sse", "a2a"]
"""How a server is reached: as a process, by streamable HTTP, by HTTP with SSE (older servers), or as an A2A agent."""
OAuthGrant = Literal["authorization_code", "client_credentials", "jwt_bearer"]
"""The OAuth grant for an access token: a person's consent, the client's own credentials, or an assertion of a company's
identity provider."""
_KEY_IN_PATH: Final = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w=~-]{20,}")
"""Matches a random segment of a URL's path: some services use such a URL as the credential of a customer."""


def _approvals(value: object) -> object:
    if not isinstance(value, str | dict):
        raise note("should be a text or an object. It counts as always.", "always")
    return {"*": value} if isinstance(value, str) else cast("object", value)


Approvals = Annotated[
    Mapping[str, Annotated[Approval, one_of(get_args(Approval), "always")]], BeforeValidator(_approvals)
]


@dataclass(frozen=True)
class IdentityProvider(Entry):
    """A company's identity provider. It exchanges the ID token of a user who signed in for an ID-JAG assertion."""

    token_endpoint: Text = ""
    client_id: Text = ""
    """The client that the ID token was issued to."""
    client_secret: Secret = field(default="", repr=False)
    id_token: Secret = field(default="", repr=False)
    id_token_file: Place | None = None
    """A file with the ID token, read again for each exchange, since another program may renew the token."""


@dataclass(frozen=True)
class OAuthConfig(Entry):
    """How an access token is obtained for a server."""

    stated_grant: Annotated[OAuthGrant | None, one_of(get_args(OAuthGrant))] = named(None, "grant")
    """The grant that the entry names; None: it follows from the other settings."""
    client_id: Text = ""
    """The id of a client registered with the authorization server; empty: a client is registered when needed."""
    client_secret: NamedSecret = field(default="", repr=False)
    secret_in: Annotated[_Method, one_of(get_args(_Method))] = named("client_secret_basic", "tokenEndpointAuthMethod")
    """Whether the secret is sent in the header `Authorization` or in the body of a request."""
    private_key: Secret = named("", "privateKey", hidden=True)
    """A private key in PEM that signs client assertions (JWT), instead of a secret."""
    private_key_file: SecretFile = named("", "privateKeyFile", hidden=True)
    """The content of the file `privateKeyFile`, which becomes `private_key`."""
    signing_algorithm: Text = "RS256"
    client_metadata_url: Text = ""
    """The URL of a client metadata document, used instead of registration if the authorization server supports it."""
    identity_provider: IdentityProvider | None = None
    """The identity provider that issues the assertion for the authorization server, if `grant` is `jwt_bearer`."""
    scope: Words = named("", "scope", "scopes")
    """Scopes separated by spaces; empty: the scopes that the server asks for."""
    issuer: Text = named("", "issuer", "authServer")
    """The only authorization server that the client's secret or key is used for."""
    per_caller: Annotated[bool, BeforeValidator("per_caller".__eq__), one_of(("shared", "per_caller"))] = named(
        False, "login"
    )
    """Whether each caller signs in and has separate tokens; False: all callers share them."""
    redirect_port: Annotated[int, Field(strict=True, ge=0, le=65_535)] = named(0, "redirectPort", "callbackPort")
    """The port on 127.0.0.1 to which a person's browser is redirected; 0: always the same, by the server's name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "private_key", self.private_key_file or self.private_key)

    @property
    def grant(self) -> OAuthGrant:
        """The grant, named or derived from the other settings."""
        if self.stated_grant is not None:
            return self.stated_grant
        if self.identity_provider is not None:
            return "jwt_bearer"
        return "client_credentials" if self.client_secret or self.private_key else "authorization_code"

    def all_secrets(self) -> Iterator[str]:
        """All values that may be secret."""
        yield self.client_secret
        yield self.private_key
        if self.identity_provider is not None:
            yield self.identity_provider.client_secret
            yield self.identity_provider.id_token


@dataclass(frozen=True)
class ServerConfig(Entry):
    """One upstream server: how it is reached, and its limits. Variables are already replaced by values."""

    name: str
    transport: TransportKind
    command: str = ""
    args: Texts = field(default=(), repr=False)
    env: Table = named(dict[str, str], "env", "environment", hidden=True)
    """Environment variables of the process, added to the few that it inherits."""
    cwd: Place | None = named(None, "cwd", "workingDirectory")
    url: Text = named("", "url", "serverUrl", hidden=True)
    headers: Headers = field(default_factory=dict[str, str], repr=False)
    ca_file: Place | None = None
    """A file with certificates of authorities to trust in addition to those that the machine trusts."""
    oauth: OAuthConfig | None = None
    forward_auth: Flag = False
    """Whether the server gets the credentials of each caller, over a separate connection for each."""
    caller_headers: Mapping[str, str] = named(dict[str, str])
    """The headers that contain `${caller.token}` or `${caller.id}`, which are replaced for each caller."""
    listing_headers: Table = field(default_factory=dict[str, str], repr=False)
    """Headers instead of `caller_headers` for the connection that lists the tools, which has no caller."""
    max_callers: Count = 100
    """The most connections of callers at once; the one that was unused longest is closed for another."""
    protocol_version: Annotated[str, one_of((*HANDSHAKE_VERSIONS, *MODERN_VERSIONS))] = ""
    """The revision of MCP to use, or an older one if the server chooses that; empty: the newest that it supports."""
    connect_timeout: Seconds = named(30.0, "connectTimeout", "connectionTimeout", "startupTimeout")
    """Seconds in which a connection must be open and its tools listed."""
    timeout: Seconds = named(60.0, "timeout", "requestTimeout")
    """Seconds that one call may take, without the time in which it waits for a person."""
    concurrency: Count = 16
    """The most concurrent calls to the server; others wait."""
    max_message_bytes: Annotated[int, Field(strict=True, ge=1, le=2**31)] = 16 * 1024 * 1024
    """The most bytes of one message of the server; a longer message ends the connection."""
    shutdown_timeout: Seconds = 2.0
    """Seconds for a process to exit after its stdin is closed; then it is terminated, and as much later killed."""
    disabled: CarefulFlag = False
    required: CarefulFlag = False
    """Whether this program must not start serving while the server is down."""
    sampling: Flag = False
    """Whether the server may ask for completions of our models (`sampling/createMessage`)."""
    pin: CarefulFlag = False
    """Whether tools whose definition is new or changed are withheld until somebody trusts them."""
    enabled_tools: Texts = ()
    """Patterns of the tools that may be used; empty: all."""
    disabled_tools: Texts = named((), "disabledTools", "excludeTools")
    """Patterns of tools that may not be used."""
    secrets: tuple[str, ...] = named((), hidden=True)
    """Values of variables, which must not be shown anywhere."""

    @property
    def shown_address(self) -> str:
        """The command, or the URL without user, query and random segments, which may be secret."""
        if self.transport == "stdio":
            return self.command
        parts = urlsplit(self.url)
        path = "/".join("***" if _KEY_IN_PATH.fullmatch(each) else each for each in parts.path.split("/"))
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"

    def all_secrets(self) -> Iterator[str]:
        """All values that may be secret: of variables, `env`, `headers` and OAuth, and parts of the URL."""
        yield from self.secrets
        yield from self.env.values()
        for value in (*self.headers.values(), *self.listing_headers.values()):
            yield value
            # `Bearer x`: the second word alone is the secret.
            yield value.rpartition(" ")[2]
        if self.oauth is not None:
            yield from self.oauth.all_secrets()
        if self.url:
            parts = urlsplit(self.url)
            # A user name without a password may be an API key.
            yield parts.password or parts.username or ""
            yield from (each for each in parts.path.split("/") if _KEY_IN_PATH.fullmatch(each))
            yield from (value for _, value in parse_qsl(parts.query))
            yield parts.query


@dataclass(frozen=True)
class NamingConfig(Entry):
    """How a group's tools are named: by `rename` if it has the tool, else in `style`; then with prefix and suffix."""

    prefix: Text = ""
    suffix: Text = ""
    rename: Table = field(default_factory=dict[str, str])
    style: Annotated[str, one_of(NAMING_STYLES)] = next(iter(NAMING_STYLES))
    """A name in `NAMING_STYLES`."""

    def __post_init__(self) -> None:
        if self.style not in NAMING_STYLES:
            raise ValueError(f"Unknown naming style {self.style!r}. {offer(self.style, NAMING_STYLES)}")


@dataclass(frozen=True)
class GroupConfig(Entry):
    """One tool group: its servers and tools, their names in the group, and the calls that a person has to approve."""

    role: str = named("")
    servers: Texts = named((), "servers", "server")
    """Names of servers, also of those that cannot be used, which are not in `McpConfig.servers`."""
    description: Text = ""
    include: Texts = named((), "include", "includes", "tools")
    """Patterns of the tools' names at their server; empty: all."""
    exclude: Texts = named((), "exclude", "excludes")
    naming: NamingConfig = field(default_factory=NamingConfig)
    permissions: Annotated[frozenset[Annotated[Permission, one_of(Permission)]], Listed] = frozenset()
    approve: Approvals = field(default_factory=dict[str, Approval])
    """Which calls a person has to approve, by pattern of the tool's name at its server; `*` is for all other tools."""
    provider: Text = ""
    version: Text = "0.1.0"
    pin: CarefulFlag = False
    resources: Flag = False
    """Whether the group gets a tool for each server that lists and reads the server's resources."""
    exports: Flag = False
    """Whether the group's tools, and its resources if `resources` is set, are published over MCP."""
    prompts: Flag = False
    """Whether the prompts of its servers are published too, if `exports` is set."""
    scopes: Scopes | None = None
    """The scopes that a client needs for the published tools; None: by the hint `read_only` of each tool."""


@dataclass(frozen=True)
class McpConfig:
    """The whole file. `problems` says what is wrong; the rest is usable."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, ServerConfig])
    groups: Mapping[str, GroupConfig] = field(default_factory=dict[str, GroupConfig])
    problems: tuple[ConfigProblem, ...] = ()
    is_readable: bool = True
    """Whether the file could be read at all; if not, there are no servers and groups."""


_REACHED_BY: Final = frozenset({"command", "url", "serverurl", "httpurl"})
"""The keys that show that an object is an entry for a server."""
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


def _auth(value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
    """Read the key `auth`: settings of OAuth, the word `oauth`, or a bearer token."""
    if not isinstance(value, str):
        return handler(value)
    return OAuthConfig() if value.lower() == "oauth" else text(value, info).strip().removeprefix("Bearer ") or None


@dataclass(frozen=True)
class ServerEntry(ServerConfig):
    """The entry for a server as it is in the file."""

    ignored: ClassVar[str] = (
        "alwaysAllow alwaysLoad autoApprove chatMenu description dev icon iconPath name title gallery id version roots"
        " sandboxEnabled serverInstructions sseReadTimeout startOnLaunch toolCallTimeout trust watchPaths"
    )
    name: str = named("")
    transport: TransportKind = named("stdio")
    stated_transport: Annotated[TransportKind | None, BeforeValidator(_transport)] = named(None, "type", "transport")
    command: str = named("")
    command_line: Texts = named((), "command")
    """The program; if `command` is a list, its other items are the first arguments."""
    http_url: Text = ""
    env_file: Place | None = None
    enabled: Flag = True
    enabled_tools: Texts = named(())
    only_tools: Texts | None = named(None, "enabledTools", "includeTools", "tools")
    auth: Annotated[OAuthConfig | None, WrapValidator(_auth)] = None
    """OAuth; at run time also a `str`, which is a bearer token."""


@dataclass(frozen=True)
class _File(Entry):
    """The whole file: the objects of servers and groups, each of which is read later."""

    ignored: ClassVar[str] = "inputs $schema globalShortcut preferences"
    mcp_servers: Objects = field(default_factory=dict[str, dict[str, Any]])
    servers: Objects = field(default_factory=dict[str, dict[str, Any]])
    a2a_servers: Objects = named(dict[str, dict[str, Any]], "a2aServers")
    tool_groups: Objects = field(default_factory=dict[str, dict[str, Any]])


def read_config(path: Path, environment: Mapping[str, str]) -> McpConfig:
    """Read a file, which may be missing. Variables are replaced by values in `environment`. Raises nothing."""
    written = read_json(path)
    data = written.data
    if not data:
        # A missing or empty file is common; skip the work below.
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
        *((keys["a2a_servers"], *each) for each in file.a2a_servers.items()),
        *(("", *each) for each in bare.items()),
    ):
        at = (key, name) if key else (name,)
        if name in servers:
            written.note(f"there are two servers called {name!r}; the first is used.", at)
        elif not name.strip():
            written.note("a server without a name is left out.", at)
        else:
            is_agent = key == keys.get("a2a_servers")
            servers[name] = _server(name, entry, at, written, fresh(), is_agent=is_agent)
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
    """The entries for servers in a file that has them at its top level."""
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


def _server(
    name: str, data: dict[str, Any], at: JsonPath, written: WrittenJson, variables: Variables, *, is_agent: bool
) -> ServerConfig | None:
    """One server, or agent; None: it cannot be used. Mistakes are noted, unless the entry is disabled."""
    entry, mistakes = read(ServerEntry, data, at, written, variables)
    url, (command, *more) = (entry.url or entry.http_url).strip(), entry.command_line or ("",)
    is_sse = not entry.http_url and _parts(url).path.rstrip("/").endswith("/sse")
    transport = entry.stated_transport or ("stdio" if command else "sse" if is_sse else "http")
    if is_agent:
        transport = "a2a"
    if entry.disabled or not entry.enabled:
        return ServerConfig(name, transport, disabled=True)
    auth: object = entry.auth
    token = auth if isinstance(auth, str) else ""
    headers = ({"Authorization": f"Bearer {token}"} if token else {}) | dict(entry.headers)
    of_caller = {key for key, value in headers.items() if any(f"${{{each}}}" in value for each in OF_CALLER)}
    file = dotenv_values(entry.env_file, interpolate=False) if entry.env_file else {}
    plain = {each.name: getattr(entry, each.name) for each in fields(ServerConfig)}
    changes = dict[str, Any](
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
        oauth=entry.oauth or (None if token else entry.auth),
        enabled_tools=entry.only_tools or (),
        # An empty list of allowed tools means no tool, as in other hosts that have such a list.
        disabled_tools=("*",) if entry.only_tools == () else entry.disabled_tools,
        secrets=tuple(variables.secrets),
    )
    found = ServerConfig(**plain | changes)
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
    """Reasons why a server cannot be used, each with the path of the field to blame."""
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
    is_agent = server.transport == "a2a"
    if server.transport == "stdio":
        if not server.command:
            yield f"it has no command; give it one, or {'say `type`: http' if server.url else 'a url'}.", ()
    elif not (_parts(server.url).hostname and _parts(server.url).scheme in _WEB):
        lacking = "no url" if is_agent else "neither a command nor a url"
        wrong = "its url should begin with http:// or https:// and name a host."
        yield (wrong, ("url",)) if server.url else (f"it has {lacking}.", ())
    if is_agent and find_spec("a2a") is None:
        yield 'calling agents needs `pip install "goalport[a2a]"`.', ()
    for path, exists, key, what in (
        (entry.cwd, Path.is_dir, "cwd", "cwd is no folder"),
        (entry.env_file, Path.is_file, "env_file", "envFile is no file"),
        (entry.ca_file, Path.is_file, "ca_file", "caFile is no file"),
    ):
        if path is not None and not exists(path):
            yield f"its {what}.", (key,)
    key = "oauth" if entry.oauth else "auth"
    for reason in _oauth_problems(server.oauth) if server.oauth is not None else ():
        yield f"its {key} {reason}", (key,)


def _oauth_problems(oauth: OAuthConfig) -> Iterator[str]:
    """What is wrong with the settings of OAuth, each as the rest of a sentence."""
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
    """The parts of a URL; all are empty if it is invalid."""
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
    """One group. Names of servers that are not declared are noted."""
    entry, mistakes = read(GroupConfig, data, at, written, variables)
    keys = variables.keys[id(data)]
    for number, name in enumerate(entry.servers):
        if name not in declared:
            message = f"tool group {role!r} names the server {name!r}, which is not there. {offer(name, declared)}"
            written.note(message, (*at, keys["servers"], number))
    # A pattern or scope that cannot be read may have been meant to withhold tools, so the group gets none.
    unsafe = any(field in {"servers", "include", "exclude", "scopes"} for *_, field in mistakes)
    for reason, place, _ in mistakes:
        written.note(f"tool group {role!r}{' has no tools' if unsafe else ''}: {reason}", place)
    return replace(
        entry,
        role=role,
        servers=tuple(dict.fromkeys(entry.servers)) or declared,
        exclude=("*",) if unsafe else entry.exclude,
        resources=entry.resources and not unsafe,
        prompts=entry.prompts and not unsafe,
    )
