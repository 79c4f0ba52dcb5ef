"""Guards: what looks at the text of a user before a model sees it, and at a model's before anybody uses it."""

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

__all__ = ["Guard", "Objection", "Severity"]


class Severity(StrEnum):
    """How bad it is. Critical stops the call; anything less is an event."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Objection:
    """What a guard has against a text."""

    reason: str
    severity: Severity = Severity.CRITICAL


@runtime_checkable
class Guard(Protocol):
    """Whoever may object. Either method may be `async`, else it must be quick; None means that nothing is wrong.

    One that raises lets nothing pass. An attribute `name` names it in errors and events, else its class does.
    """

    def check_input(self, text: str, /) -> Objection | Awaitable[Objection | None] | None:
        """Look at what goes to a model in the user's name, all of it."""
        ...

    def check_output(self, text: str, /) -> Objection | Awaitable[Objection | None] | None:
        """Look at what a model gave: its text, or the JSON of its object."""
        ...
