"""Running guards: what they object to becomes an event, or ends the call.

A guard that fails has not said that a text is fine, so the text does not pass. Above: the engines; below: `guards`.
"""

import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import cast

from goalport.ai.engine import Operation
from goalport.ai.guards import Guard, Objection, Severity
from goalport.errors import DeclarationError, GuardViolation, Signal
from goalport.events import GuardTripped
from goalport.llm import Message, UserMessage

__all__ = ["Guarding", "MaxLength", "PatternGuard"]


@dataclass(frozen=True, slots=True)
class Guarding:
    """The guards of one call, the platform's before the call's own, and whom to tell."""

    guards: Sequence[Guard]
    operation: Operation

    async def check_input(self, messages: Sequence[Message]) -> None:
        """Show the guards all that is said in the user's name. Raises `GuardViolation` for a critical objection."""
        if self.guards:
            text = "\n\n".join(each.content for each in messages if isinstance(each, UserMessage))
            await self._show("check_input", text)

    async def check_output(self, text: str) -> None:
        """Show the guards what a model gave. Raises `GuardViolation` for a critical objection."""
        await self._show("check_output", text)

    async def _show(self, method: str, text: str) -> None:
        for guard in self.guards:
            name = _name(guard)
            try:
                found = getattr(guard, method)(text)
                objection = await cast("Awaitable[object]", found) if isawaitable(found) else cast("object", found)
            except (Signal, GuardViolation):
                raise
            except Exception as error:
                raise GuardViolation(name, f"it failed, so that nothing passes it ({type(error).__name__})") from error
            if objection is not None:
                self._heed(name, objection)

    def _heed(self, name: str, objection: object) -> None:
        if not isinstance(objection, Objection) or objection.severity not in tuple(Severity):
            raise GuardViolation(name, f"it answered {objection!r} where an Objection or None was expected")
        process_id, action = self.operation.place
        severity = Severity(objection.severity)
        self.operation.emit(GuardTripped(name, severity, objection.reason, action, process_id=process_id))
        if severity is Severity.CRITICAL:
            raise GuardViolation(name, objection.reason)


@dataclass(frozen=True, slots=True)
class PatternGuard:
    """Objects to a text in which a regular expression is found: `PatternGuard("(?i)password", "Asks for secrets")`."""

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
        return self._search(text) if self.on_input else None

    def check_output(self, text: str) -> Objection | None:
        return self._search(text) if self.on_output else None

    def _search(self, text: str) -> Objection | None:
        return Objection(self.reason, self.severity) if re.search(self.pattern, text) else None


@dataclass(frozen=True, slots=True)
class MaxLength:
    """Objects to what people say when it is longer than so many characters; of models, `max_tokens` asks that."""

    characters: int
    severity: Severity = Severity.CRITICAL

    def check_input(self, text: str) -> Objection | None:
        if len(text) <= self.characters:
            return None
        return Objection(f"{len(text):,} characters, where {self.characters:,} are allowed", self.severity)

    def check_output(self, text: str) -> Objection | None:
        return None


def _name(guard: object) -> str:
    return str(getattr(guard, "name", "") or type(guard).__name__)
