"""Guards: checks of what users send to a model and of what the model answers.

A guard's objection becomes an event, or ends the call when it is critical. A guard that fails has not said that a text
is fine, so the text does not pass. Above: `LlmEngine` and `structured_output` run a `GuardChain`.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from inspect import isawaitable
from typing import Protocol, cast, runtime_checkable

from goalport.base.errors import DeclarationError, GuardViolation, Signal
from goalport.base.events import Event, GuardTripped
from goalport.models.llm import Message, UserMessage


class Severity(StrEnum):
    """How bad a text is. A critical objection ends the call; anything less is only an event."""

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
    """Looks at texts and may object. Its methods may be `async`; one that is not must be quick.

    A method returns None when nothing is wrong. When it raises, the text does not pass. An attribute `name` names the
    guard in errors and events; without it the class does.
    """

    def check_input(self, text: str, /) -> Objection | Awaitable[Objection | None] | None:
        """Look at all that is sent to a model in the user's name."""
        ...

    def check_output(self, text: str, /) -> Objection | Awaitable[Objection | None] | None:
        """Look at what a model answered: its text, or the JSON of its object."""
        ...


@dataclass(frozen=True, slots=True)
class PatternGuard:
    """Objects to a text that matches a regular expression: `PatternGuard("(?i)password", "Asks for secrets")`.

    Raises `DeclarationError` for a pattern that is no regular expression.
    """

    pattern: str
    reason: str
    severity: Severity = Severity.CRITICAL
    on_input: bool = True
    on_output: bool = True

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise DeclarationError(
                "PatternGuard",
                expected="a regular expression",
                came=f"{self.pattern!r} is none ({error})",
                fix="Put a backslash before what is meant as it stands, or take `re.escape(…)`.",
            ) from error

    def check_input(self, text: str) -> Objection | None:
        found = self.on_input and re.search(self.pattern, text)
        return Objection(self.reason, self.severity) if found else None

    def check_output(self, text: str) -> Objection | None:
        found = self.on_output and re.search(self.pattern, text)
        return Objection(self.reason, self.severity) if found else None


@dataclass(frozen=True, slots=True)
class MaxLength:
    """Objects to input of more than so many characters. The length of a model's answer is limited by `max_tokens`."""

    characters: int
    severity: Severity = Severity.CRITICAL

    def check_input(self, text: str) -> Objection | None:
        if len(text) <= self.characters:
            return None
        return Objection(f"{len(text):,} characters, where {self.characters:,} are allowed", self.severity)

    def check_output(self, text: str) -> Objection | None:
        return None


@dataclass(frozen=True, slots=True)
class GuardChain:
    """The guards of one call, and where it happens."""

    guards: Sequence[Guard]
    """The guards of the platform, then those of the call."""
    place: tuple[str, str]
    """The id of the process and the name of the action."""
    emit: Callable[[Event], None]
    """Sends the event of an objection."""

    async def check_input(self, messages: Sequence[Message]) -> None:
        """Show the guards all user messages. Raises `GuardViolation` for a critical objection."""
        if self.guards:
            text = "\n\n".join(each.content for each in messages if isinstance(each, UserMessage))
            await self._check("check_input", text)

    async def check_output(self, text: str) -> None:
        """Show the guards what a model answered. Raises `GuardViolation` for a critical objection."""
        await self._check("check_output", text)

    async def _check(self, method: str, text: str) -> None:
        for guard in self.guards:
            name = str(getattr(guard, "name", "") or type(guard).__name__)
            try:
                found = getattr(guard, method)(text)
                objection = await cast("Awaitable[object]", found) if isawaitable(found) else cast("object", found)
            except (Signal, GuardViolation):
                raise
            except Exception as error:
                raise GuardViolation(name, f"it failed, so that nothing passes it ({type(error).__name__})") from error
            if objection is None:
                continue
            if not isinstance(objection, Objection) or objection.severity not in tuple(Severity):
                raise GuardViolation(name, f"it answered {objection!r} where an Objection or None was expected")
            severity, (process_id, action) = Severity(objection.severity), self.place
            self.emit(GuardTripped(name, severity, objection.reason, action, process_id=process_id))
            if severity is Severity.CRITICAL:
                raise GuardViolation(name, objection.reason)
