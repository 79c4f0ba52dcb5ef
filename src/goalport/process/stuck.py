"""Help for a process that is stuck: who may give it, and what they may say. Asking them is `unsticking`'s work."""

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

__all__ = ["StuckCode", "StuckHandler", "StuckResult"]


class StuckCode(StrEnum):
    """What a handler came to."""

    REPLAN = "replan"
    """Something has changed: plan again."""
    NO_RESOLUTION = "no_resolution"
    """Nothing can be done here: ask the next handler, or stay stuck."""


@dataclass(frozen=True, slots=True)
class StuckResult:
    """What a handler came to, and why, in words."""

    code: StuckCode
    message: str = ""


@runtime_checkable
class StuckHandler(Protocol):
    """Whoever can help a stuck process on, for example by putting an object on its blackboard.

    An agent's class may be one: its instance is asked first. (User guide, section 3.6.10.)
    """

    def handle_stuck(self, process: Any, /) -> StuckResult | Awaitable[StuckResult]:
        """Try to help; `process` is the `AgentProcess`. Async functions are awaited, others run in a worker thread."""
        ...
