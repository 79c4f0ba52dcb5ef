"""What `mcp_config.json` says, as records: upstream servers, and the tool groups made of their tools.

Data and nothing else: reading files is another module's, reaching the servers is `targets`'. Values that may be secret
are left out of every `repr`, so that a log line with a record in it gives nothing away.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from goalport.tools import NAMING_STYLES, Approval, Permission
from goalport.words import offer

__all__ = [
    "Approval",
    "GroupConfig",
    "McpConfig",
    "NamingConfig",
    "OAuthConfig",
    "Problem",
    "ServerConfig",
    "TransportKind",
]

TransportKind = Literal["stdio", "http", "sse"]


@dataclass(frozen=True)
class OAuthConfig:
    """How tokens for a server are got: by client credentials where there is a secret, else by a person's browser."""

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    """Scopes with spaces between; empty: what the server says it needs."""
    issuer: str = ""
    """The authorization server to which the client's secret belongs; it is sent nowhere else."""
    redirect_port: int = 0
    """The port of loopback on which a person's browser comes back; 0: any free one."""


@dataclass(frozen=True)
class ServerConfig:
    """One upstream server: how it is reached, and what it may cost. Variables in it are filled in already."""

    name: str
    transport: TransportKind
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Added to the few variables that a server inherits."""
    cwd: Path | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    oauth: OAuthConfig | None = None
    connect_timeout: float = 30.0
    """Seconds until the list of tools must have come, from the start of an attempt."""
    timeout: float = 60.0
    """Seconds that one call may take; what a person is waited for is not counted."""
    concurrency: int = 16
    """Calls that the server gets at once; others wait for their turn."""
    max_message_bytes: int = 16 * 1024 * 1024
    """How long one message or answer of the server may be; the connection to a server that sends a longer one ends."""
    shutdown_timeout: float = 2.0
    """Seconds in which a process ends by itself once its stdin is closed; then it is terminated, then killed."""
    disabled: bool = False
    required: bool = False
    """Without it nothing is served."""
    sampling: bool = False
    """Whether the server may ask our models."""
    pin: bool = False
    """Whether a tool that is not as it was when it was trusted is withheld."""
    enabled_tools: tuple[str, ...] = ()
    """Patterns of the only tools that may be used; empty: all."""
    disabled_tools: tuple[str, ...] = ()
    """Patterns of tools that are used by nobody."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What must never be shown, besides the values of `env` and `headers`: what variables were replaced by."""


@dataclass(frozen=True)
class NamingConfig:
    """How a group's tools are called: `rename` where it has the name, else `style`, then prefix and suffix."""

    prefix: str = ""
    suffix: str = ""
    rename: Mapping[str, str] = field(default_factory=dict[str, str])
    style: str = next(iter(NAMING_STYLES))
    """A name in `NAMING_STYLES`."""

    def __post_init__(self) -> None:
        if self.style not in NAMING_STYLES:
            raise ValueError(f"Unknown naming style {self.style!r}. {offer(self.style, NAMING_STYLES)}")


@dataclass(frozen=True)
class GroupConfig:
    """One tool group: tools of which servers, under which names, and who has to agree to a call."""

    role: str
    servers: tuple[str, ...]
    """Names as they are written; some may belong to servers that cannot be used, and are not in `McpConfig.servers`."""
    description: str = ""
    include: tuple[str, ...] = ()
    """Patterns of the tools' own names; empty: all."""
    exclude: tuple[str, ...] = ()
    naming: NamingConfig = field(default_factory=NamingConfig)
    permissions: frozenset[Permission] = frozenset()
    approve: Approval = "never"
    approve_tools: Mapping[str, Approval] = field(default_factory=dict[str, Approval])
    """By pattern of a tool's own name, for tools that are not like the rest."""
    provider: str = ""
    version: str = "0.1.0"
    pin: bool = False
    exports: bool = False
    """Whether the group's tools are published again."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with a file, in one line."""

    message: str
    path: Path | None = None
    line: int | None = None
    column: int | None = None
    server: str = ""
    """The server that cannot be used because of it; empty: none, or several."""
    is_fatal: bool = False
    """That server is required: nothing is to be served without it."""

    def __str__(self) -> str:
        place = ":".join(str(each) for each in (self.path, self.line, self.column) if each is not None)
        return f"{place}: {self.message}" if place else self.message


@dataclass(frozen=True)
class McpConfig:
    """All of it. What is wrong is in `problems`; the rest is usable."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, ServerConfig])
    groups: Mapping[str, GroupConfig] = field(default_factory=dict[str, GroupConfig])
    problems: tuple[Problem, ...] = ()
    is_readable: bool = True
    """Whether the file could be read at all; of what it says nothing is here otherwise."""
