"""Limits of connections: how many may be open at once, in total and from each address.

`Connections` counts and logs them and decides; `protocol`, above, asks it for each new connection.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from goalport.base.hosts import source_of
from goalport.base.observe import RareLog
from goalport.workspace.settings import Settings

RETRY_SECONDS: Final = 10
"""Seconds after which a client may try again that was refused because there were too many connections."""
_log = logging.getLogger(__name__)
_MOST: Final = 10_000
_FEWEST_SPARE: Final = 32
_SPARE: Final = 1 / 8
"""The share of the file descriptors that is kept free for files, databases and upstream servers."""
_OF_ONE_ADDRESS: Final = 3 / 4
_NEARLY_ALL: Final = 0.9


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of connections, of request headers and of waiting for a client."""

    header_bytes: int
    header_lines: int
    header_seconds: float
    """The most seconds from the connection, or the first byte of a later request, to the end of its headers."""
    stall_seconds: float
    """The most seconds without a byte of a request body received, or of a response read by the client."""
    connections: int
    of_one_address: int
    descriptors: int
    """The most files and sockets that this process may have open."""

    @classmethod
    def of(cls, settings: Settings) -> "ConnectionLimits":
        """The limits of these settings; a number of connections of 0 is derived from the limit of descriptors."""
        descriptors = _descriptors()
        fitting = min(_MOST, descriptors - max(_FEWEST_SPARE, int(descriptors * _SPARE)))
        connections = settings.max_connections or max(1, fitting)
        return cls(
            header_bytes=settings.max_header_bytes,
            header_lines=settings.max_header_lines,
            header_seconds=settings.header_seconds,
            stall_seconds=settings.stall_seconds,
            connections=connections,
            of_one_address=settings.max_connections_per_address or max(1, int(connections * _OF_ONE_ADDRESS)),
            descriptors=descriptors,
        )


class Connections:
    """The open connections of one server."""

    def __init__(self, limits: ConnectionLimits, note_refusal: Callable[[str], None] = lambda _: None) -> None:
        """`note_refusal` is called with the name of the setting that refuses a connection."""
        self.limits = limits
        self._note_refusal = note_refusal
        self._open: Counter[str] = Counter()
        self._total = 0
        self.rare_log = RareLog()
        self.ending = False
        """Whether the server shuts down, so that each connection ends with its next answer."""
        self.refusing = False
        """Whether it has closed what requests need, so that those which still come are refused."""

    def admit(self, address: str, descriptor: int) -> bool:
        """Count a connection from this address with this file descriptor; False, uncounted, if there are too many."""
        source, limits = source_of(address), self.limits
        # The system assigns the lowest free descriptor, so its number approximates how many are in use.
        if descriptor >= _NEARLY_ALL * limits.descriptors:
            text = (
                "File descriptors run short: %d of %d are in use. Raise the limit (ulimit -n), or end what takes them."
            )
            self.rare_log.log(_log.warning, "descriptors", text, descriptor, limits.descriptors)
        if self._total >= limits.connections:
            text = "Refused a connection from %s: %d are open, as many as may be (max_connections)."
            self.rare_log.log(_log.warning, "refused", text, address, self._total)
            self._note_refusal("max_connections")
            return False
        if self._open[source] >= limits.of_one_address:
            text = "Refused a connection from %s: it has %d open, as many as it may (max_connections_per_address)."
            self.rare_log.log(_log.warning, "address", text, address, self._open[source])
            self._note_refusal("max_connections_per_address")
            return False
        self._open[source] += 1
        self._total += 1
        if self._total >= _NEARLY_ALL * limits.connections:
            self.rare_log.log(
                _log.warning,
                "nearly",
                "%d of %d connections are open (max_connections).",
                self._total,
                limits.connections,
            )
        return True

    @property
    def number(self) -> int:
        """How many are open."""
        return self._total

    def forget(self, address: str) -> None:
        """No longer count a connection that was admitted and is closed."""
        source = source_of(address)
        self._total -= 1
        self._open[source] -= 1
        if not self._open[source]:
            del self._open[source]


def _descriptors() -> int:
    """The most files and sockets that this process may have open."""
    if sys.platform == "win32":
        return _MOST + _FEWEST_SPARE
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2 * _MOST if soft == resource.RLIM_INFINITY else soft
