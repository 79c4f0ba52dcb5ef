"""How much a server may send by itself, and how much of that is passed on or logged.

What counts are notifications and requests, without the answers to our calls. The session makes a task of each such
message, so a server that sends them without end would keep a core busy for ever. Above: `connection`, which ends when
there are too many, and the transports.
"""

from collections import Counter
from time import monotonic
from typing import Any, Final

_AT_ONCE: Final = 25_000
_A_SECOND: Final = 500
_PROGRESS: Final = 1_000
"""Messages about the progress of one call that are passed on in ten seconds."""
_PERIOD: Final = 10.0
"""Seconds in which bursts are counted."""


class BurstLimit:
    """Lets so many records of one kind through in ten seconds: a server decides how many there are."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._since = 0.0
        self._counts: Counter[object] = Counter()

    def allows(self, kind: object = None) -> bool:
        """Whether one more record of this kind is let through now."""
        if monotonic() - self._since > _PERIOD:
            self._since, self._counts = monotonic(), Counter()
        self._counts[kind] += 1
        return self._counts[kind] <= self._limit


class Inflow:
    """The messages that one connection gets."""

    def __init__(self) -> None:
        self.fault = ""
        """Why the connection has to end; empty: there have not been too many."""
        self._left: float = _AT_ONCE
        self._counted_at = monotonic()
        self._progress = BurstLimit(_PROGRESS)

    def admits(self, message: Any) -> bool:
        """Whether a message is to be read: not where the server sends too much, or tells a call's progress too often.

        None stands for what was no message.
        """
        if message is not None and not hasattr(message, "method"):
            return True
        now = monotonic()
        self._left = min(_AT_ONCE, self._left + (now - self._counted_at) * _A_SECOND) - 1
        self._counted_at = now
        if self._left < 0:
            self.fault = f"it sent more than {_AT_ONCE:,} messages of its own at once, or {_A_SECOND} a second for long"
            return False
        if getattr(message, "method", "") != "notifications/progress":
            return True
        params: Any = getattr(message, "params", None) or {}
        return self._progress.allows(str(params.get("progressToken")))
