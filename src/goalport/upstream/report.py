"""How an upstream server is, for people: nothing in it is secret."""

from dataclasses import dataclass
from enum import StrEnum

from goalport.upstream.config import Transport

__all__ = ["ServerReport", "ServerState"]


class ServerState(StrEnum):
    """Where a connection stands."""

    CONNECTING = "connecting"
    UP = "up"
    DOWN = "down"
    """It was tried, and will be tried again."""
    DISABLED = "disabled"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server at one moment."""

    name: str
    transport: Transport
    place: str
    """The command, or the address without user and query."""
    state: ServerState
    protocol: str
    """The revision that was agreed on; empty: there is no connection."""
    tools: int
    """How many it listed when it was last asked."""
    last_error: str
    notes: tuple[str, ...]
    """What is wrong with its list of tools."""
    uptime: float
    """Seconds since it was connected; 0: it is not."""
    calls: int
    failures: int
    """Calls that gave no result: time-outs, a server that went away, errors of the protocol."""
    latency: float
    """Seconds that the last call took."""
    connections: int
    """How often it has been connected."""
    required: bool
