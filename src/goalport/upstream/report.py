"""How an upstream server is, for people: nothing in it is secret."""

from dataclasses import dataclass
from enum import StrEnum
from time import monotonic

from goalport.upstream.config import Transport

__all__ = ["ServerReport", "ServerState", "absence_of"]


class ServerState(StrEnum):
    """Where a connection stands."""

    CONNECTING = "connecting"
    UP = "up"
    DOWN = "down"
    """It was tried, and will be tried again."""
    DISABLED = "disabled"
    STOPPED = "stopped"


def absence_of(name: str, state: ServerState, retry_at: float) -> str:
    """Why the tools of a server cannot be called now, in a sentence; empty: they can.

    Not what went wrong: that is for those who run us, as it may hold what the server wrote. `retry_at` is in seconds of
    the monotonic clock.
    """
    match state:
        case ServerState.UP:
            return ""
        case ServerState.DISABLED:
            return f"The server {name!r} is disabled in mcp_config.json: take its `disabled` away."
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
