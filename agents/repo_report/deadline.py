"""How long a piece of work may take, and whether anybody still wants it.

Not a clock for the whole run: every edge (git, the walk, the reader) is handed a deadline of its own by the agent.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self


def never() -> bool:
    """Answer for a run that nobody can cancel."""
    return False


@dataclass(frozen=True)
class Deadline:
    """The moment at which work must stop with what it has; a cancelled run is past it at once."""

    at: float
    cancelled: Callable[[], bool] = never

    @classmethod
    def after(cls, seconds: float, cancelled: Callable[[], bool] = never) -> Self:
        """Set the deadline some seconds from now."""
        return cls(time.monotonic() + seconds, cancelled)

    @property
    def passed(self) -> bool:
        """Whether to stop now."""
        return time.monotonic() >= self.at or self.cancelled()
