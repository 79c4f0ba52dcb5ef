"""The contents of `mcp_config.json` as records: upstream servers, and the tool groups made of their tools.

Data only: `config_file` reads it, `servers` connects by it. Values that may be secret are left out of every `repr`, so
that a log line with a record in it gives nothing away; `secrecy`, below, is told of them and hides them everywhere.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from pydantic import BeforeValidator, Field

from goalport.base.handshake import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from goalport.base.words import offer
from goalport.tools import NAMING_STYLES, Approval, Permission
from goalport.tools.upstream.jsonc import ConfigProblem
from goalport.tools.upstream.section import (
    CarefulFlag,
    Count,
    Entry,
    Flag,
    Headers,
    Listed,
    NamedSecret,
    Place,
    Scopes,
    Seconds,
    Secret,
    Table,
    Text,
    Texts,
    Words,
    named,
    one_of,
)

_Method = Literal["client_secret_basic", "client_secret_post"]
TransportKind = Literal["stdio", "http", "sse"]
"""How a server is reached: as a process, by streamable HTTP, or by the HTTP with SSE of older servers."""
OAuthGrant = Literal["authorization_code", "client_credentials", "jwt_bearer"]
"""What an access token is given for: a person's consent, the client's own credentials, or the word of a company's
identity provider."""
_KEY_IN_PATH: Final = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w=~-]{20,}")
"""A random part of an address; some services know their customers by such an address alone."""


@dataclass(frozen=True)
class IdentityProvider(Entry):
    """A company's identity provider. It exchanges the ID token of a user who signed in there for access to a server."""

    token_endpoint: Text = ""
    client_id: Text = ""
    """The client that the ID token was issued to."""
    client_secret: Secret = field(default="", repr=False)
    id_token: Secret = field(default="", repr=False)
    id_token_file: Place | None = None
    """A file with the ID token, read anew for each exchange, as another program may renew it."""


@dataclass(frozen=True)
class OAuthConfig(Entry):
    """How an access token is obtained for a server."""

    stated_grant: Annotated[OAuthGrant | None, one_of(get_args(OAuthGrant))] = named(None, "grant")
    """The grant that the entry names; None: the one that its other settings mean."""
    client_id: Text = ""
    """A client that is registered with the authorization server; empty: one is registered when it is needed."""
    client_secret: NamedSecret = field(default="", repr=False)
    secret_in: Annotated[_Method, one_of(get_args(_Method))] = named("client_secret_basic", "tokenEndpointAuthMethod")
    """Whether the secret is sent in the header `Authorization` or in the body of a request."""
    private_key: Secret = named("", "privateKey", hidden=True)
    """A key in PEM that signs what proves who the client is, in place of a secret."""
    signing_algorithm: Text = "RS256"
    client_metadata_url: Text = ""
    """The address of a document about the client, which stands for a registration where a server takes it."""
    identity_provider: IdentityProvider | None = None
    """Whom the grant for the authorization server comes from, if `grant` is `jwt_bearer`."""
    scope: Words = named("", "scope", "scopes")
    """Scopes with spaces between; empty: what the server says it needs."""
    issuer: Text = named("", "issuer", "authServer")
    """The authorization server that the client's secret or key is for, and no other."""
    per_caller: Annotated[bool, BeforeValidator("per_caller".__eq__), one_of(("shared", "per_caller"))] = named(
        False, "login"
    )
    """Whether each caller signs in, and has tokens of their own."""
    redirect_port: Annotated[int, Field(strict=True, ge=0, le=65_535)] = named(0, "redirectPort", "callbackPort")
    """The port of loopback that a person's browser is sent back to; 0: one that is always the same for the server."""

    @property
    def grant(self) -> OAuthGrant:
        """What an access token is asked for with."""
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
    """One upstream server: how it is reached, and its limits. Variables are already replaced by their values."""

    name: str
    transport: TransportKind
    command: str = ""
    args: Texts = field(default=(), repr=False)
    env: Table = named(dict[str, str], "env", "environment", hidden=True)
    """Added to the few variables that a server inherits."""
    cwd: Place | None = named(None, "cwd", "workingDirectory")
    url: Text = named("", "url", "serverUrl", hidden=True)
    headers: Headers = field(default_factory=dict[str, str], repr=False)
    ca_file: Place | None = None
    """The certificates of authorities that its certificate may come from, beside those that the machine trusts."""
    oauth: OAuthConfig | None = None
    forward_auth: Flag = False
    """Whether the server gets the credentials of whoever calls, over a connection of their own."""
    caller_headers: Mapping[str, str] = named(dict[str, str])
    """The headers with `${caller.token}` and `${caller.id}` in them, which are filled for each caller."""
    listing_headers: Table = field(default_factory=dict[str, str], repr=False)
    """Sent in their place by the connection that lists the tools, which no caller has asked for."""
    max_callers: Count = 100
    """Connections of callers to the server at once, at most; the longest unused one makes room for another."""
    protocol_version: Annotated[str, one_of((*HANDSHAKE_VERSIONS, *MODERN_VERSIONS))] = ""
    """A revision of the protocol, or an older one that the server chooses; empty: the newest that it speaks."""
    connect_timeout: Seconds = named(30.0, "connectTimeout", "connectionTimeout", "startupTimeout")
    """Seconds from the start of an attempt until the list of tools must have come."""
    timeout: Seconds = named(60.0, "timeout", "requestTimeout")
    """Seconds that one call may take; time in which a person is waited for does not count."""
    concurrency: Count = 16
    """Calls that are sent to the server at once, at most; others wait."""
    max_message_bytes: Annotated[int, Field(strict=True, ge=1, le=2**31)] = 16 * 1024 * 1024
    """Bytes that one message or answer of the server may have; a longer one ends the connection."""
    shutdown_timeout: Seconds = 2.0
    """Seconds that a process has to exit once its stdin is closed; it is then terminated, and as long after killed."""
    disabled: CarefulFlag = False
    required: CarefulFlag = False
    """Whether nothing is served without it."""
    sampling: Flag = False
    """Whether the server may ask for completions of our models (`sampling/createMessage`)."""
    pin: CarefulFlag = False
    """Whether a tool whose definition changed since it was trusted is withheld."""
    enabled_tools: Texts = ()
    """Patterns of the only tools that may be used; empty: all."""
    disabled_tools: Texts = named((), "disabledTools", "excludeTools")
    """Patterns of tools that may not be used."""
    secrets: tuple[str, ...] = named((), hidden=True)
    """Values of variables, which must never be shown."""

    @property
    def shown_address(self) -> str:
        """The command, or the address without user, query and random parts: nothing that may be secret."""
        if self.transport == "stdio":
            return self.command
        parts = urlsplit(self.url)
        path = "/".join("***" if _KEY_IN_PATH.fullmatch(each) else each for each in parts.path.split("/"))
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"

    def all_secrets(self) -> Iterator[str]:
        """All values that may be secret: of variables, `env`, `headers` and OAuth, and in the address."""
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
            # A user without a password is a key.
            yield parts.password or parts.username or ""
            yield from (each for each in parts.path.split("/") if _KEY_IN_PATH.fullmatch(each))
            yield from (value for _, value in parse_qsl(parts.query))
            yield parts.query


@dataclass(frozen=True)
class NamingConfig(Entry):
    """The names of a group's tools: by `rename` where it has the name, else in `style`; then with prefix and suffix."""

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
    """One tool group: which tools of which servers, under which names, and which calls a person approves first."""

    role: str
    servers: Texts
    """Names as they are written; those of servers that cannot be used are not in `McpConfig.servers`."""
    description: Text = ""
    include: Texts = named((), "include", "includes", "tools")
    """Patterns of the tools' own names; empty: all."""
    exclude: Texts = named((), "exclude", "excludes")
    naming: NamingConfig = field(default_factory=NamingConfig)
    permissions: Annotated[frozenset[Annotated[Permission, one_of(Permission)]], Listed] = frozenset()
    approve: Approval = "never"
    approve_tools: Mapping[str, Approval] = field(default_factory=dict[str, Approval])
    """Exceptions from `approve`, by pattern of the tool's own name."""
    provider: Text = ""
    version: Text = "0.1.0"
    pin: CarefulFlag = False
    resources: Flag = False
    """Whether the group has a tool for each of its servers that lists and reads the resources there."""
    exports: Flag = False
    """Whether the group's tools, and its resources if it has them, are published as those of this server."""
    prompts: Flag = False
    """Whether the prompts of its servers are published too, if its tools are."""
    scopes: Scopes | None = None
    """The scopes that a client needs to call one of them; None: those that the hints of each tool ask for."""


@dataclass(frozen=True)
class McpConfig:
    """The whole file. `problems` says what is wrong; the rest is usable."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, ServerConfig])
    groups: Mapping[str, GroupConfig] = field(default_factory=dict[str, GroupConfig])
    problems: tuple[ConfigProblem, ...] = ()
    is_readable: bool = True
    """Whether the file could be read at all; where it could not, there are no servers and groups."""
