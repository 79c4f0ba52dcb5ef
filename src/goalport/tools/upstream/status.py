"""The state of upstream servers and of their groups, in words for people and models; nothing in it is secret.

Those above show these records. `upstream_server` makes `ServerReport`, `upstream_groups` makes `GroupReport`.
"""

import errno
import re
import socket
import ssl
from dataclasses import dataclass
from enum import StrEnum
from shutil import which
from time import monotonic
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import ValidationError

from goalport.base.errors import causes, leaves
from goalport.base.words import error_summary, field_path, one_line, shortened, validation_reason
from goalport.tools import ToolGroup
from goalport.tools.upstream.config import ServerConfig, TransportKind
from goalport.tools.upstream.connection import ConnectionLost

_LIMIT: Final = 500
"""Characters of a reason."""
_MOST_FAULTS: Final = 3
_FOR_PROGRAMMERS: Final = re.compile(
    r" \[type=[^\n]*\]$|^\s*For (?:further|more) information (?:visit|check:) \S*$", re.MULTILINE
)
"""What pydantic and httpx2 add to their messages, also to those that others pass on."""


class ServerState(StrEnum):
    """The state of the connection to a server."""

    CONNECTING = "connecting"
    UP = "up"
    DOWN = "down"
    """It was tried, and will be tried again."""
    SIGN_IN = "sign_in"
    """A person has to sign in first. A call asks for it, where somebody can be asked."""
    DISABLED = "disabled"
    STOPPED = "stopped"

    @property
    def callable(self) -> bool:
        """Whether the tools of such a server can be called."""
        return self in {ServerState.UP, ServerState.SIGN_IN}


def why_unavailable(name: str, state: ServerState, retry_at: float) -> str:
    """Why the tools of a server cannot be called now, in a sentence for models; empty: they can.

    The error itself is left out, as it may hold what the server wrote: it is for those who run us. `retry_at` is in
    seconds of the monotonic clock.
    """
    match state:
        case ServerState.UP:
            return ""
        case ServerState.SIGN_IN:
            return f"The server {name!r} wants a person to sign in."
        case ServerState.DISABLED:
            return f"The server {name!r} is disabled in mcp_config.json: remove its `disabled`."
        case ServerState.CONNECTING:
            return f"The server {name!r} is being connected."
        case ServerState.DOWN:
            seconds = retry_at - monotonic()
            soon = f"in {seconds:.0f} s" if seconds >= 1 else "at once"
            return f"The server {name!r} is down; it is tried again {soon}."
        case ServerState.STOPPED:
            return f"The server {name!r} is stopped."


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server at one moment."""

    name: str
    transport: TransportKind
    address: str
    """The command, or the address without user and query."""
    state: ServerState
    protocol: str
    """The revision that was agreed on; empty: there is no connection."""
    tools: int
    """How many it listed when it was last asked, as for resources (with templates) and prompts."""
    resources: int
    prompts: int
    last_error: str
    notes: tuple[str, ...]
    """What is wrong with its list of tools."""
    calls: int
    failures: int
    """Calls that gave no result: time-outs, a server that went away, errors of the protocol."""
    connections: int
    """How often it has been connected."""
    required: bool = False
    """Whether nothing may be served without it."""
    callers: int = 0
    """Connections of callers whose credentials it gets, or who signed in to it themselves."""


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A group of upstream tools at one moment."""

    role: str
    status: Literal["up", "degraded", "down", "disabled"]
    """Whether all, some or none of its servers can be called; disabled: the configuration wants none of them."""
    servers: tuple[str, ...]
    group: ToolGroup | None
    """The tools that can be called; None: none can."""
    why: str
    """What is wrong, in sentences without secrets."""


def failure_reason(config: ServerConfig, error: BaseException, *known: str) -> str:
    """Why a connection could not be made, or ended, in a line for those who run us.

    `known` is what the transport knows of it; what the error says already is not repeated.
    """
    leaf = next(leaves(error))
    words = _described(config, leaf)
    more = [each for each in known if each and each not in words]
    plain = (_FOR_PROGRAMMERS.sub("", each).rstrip() for each in (words, *more))
    return one_line("; ".join(filter(None, plain)), _LIMIT)


def _described(config: ServerConfig, error: BaseException) -> str:
    match error:
        case ConnectionLost():
            return str(error)
        case TimeoutError():
            return f"its tools were not listed within {config.connect_timeout:g} s"
        case OSError(errno=errno.ENOENT) if config.cwd is not None and not config.cwd.is_dir():
            return f"there is no folder {str(config.cwd)!r} to start it in"
        case OSError(errno=errno.ENOENT) if config.transport == "stdio":
            fix = "install it, or give its full path"
            if which(config.command.partition(" ")[0]):
                fix = "move its arguments to `args`"
            return f"there is no command {config.command!r}: {fix}"
        case OSError(errno=errno.EACCES | errno.ENOEXEC) if config.transport == "stdio":
            return f"the command {config.command!r} is no program, or may not be run"
        case _ if type(error).__name__ in {"ConnectError", "ConnectTimeout"}:
            return _unreachable(config, error)
        case ValidationError():
            return f"it does not keep to the protocol: {error_text(error)}"
        case _:
            return error_summary(error)


def _unreachable(config: ServerConfig, error: BaseException) -> str:
    host = urlsplit(config.url).hostname
    for each in causes(error, implicit=True):
        match each:
            case ssl.SSLCertVerificationError():
                return (
                    f"the certificate of {host} is not trusted ({each.verify_message}): if it is right, "
                    "name a file with the certificate of its authority in `caFile`"
                )
            case ssl.SSLError():
                return f"there is no TLS connection with {host} ({each.reason}): look at the scheme and port of its url"
            case socket.gaierror():
                return f"the name {host} is not known ({each.strerror}): look at its url, or at the DNS of this machine"
            case _:
                continue
    return f"nothing answers at {config.shown_address}"


def error_text(error: Exception) -> str:
    """The message of an error; of a message that breaks the protocol, its first faults."""
    if not isinstance(error, ValidationError):
        return str(error)
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    # Without what came: it is the server's, and may be a secret.
    lines = [f"{field_path(each['loc'])}: {validation_reason(each['msg'])}" for each in faults]
    return "; ".join(shortened(lines, _MOST_FAULTS))
