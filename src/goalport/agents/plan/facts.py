"""Facts: what can be true of a process, as values.

A fact names itself when it is printed, because explanations are read by people and by models; nothing ever takes that
text apart again. Whether a type is a subtype of another is no concern of this room: an operator lists as its effects
every fact that it makes true. Floor 1, below everything else in the room.
"""

from dataclasses import dataclass
from typing import TypeAlias

from goalport.base.words import with_article

ITSELF = "it"
"""The binding of an object that nobody named."""


@dataclass(frozen=True, slots=True)
class Available:
    """An object of the type is there; with a binding of its own, under that name."""

    type: object
    """Any hashable type expression: a class, `list[Story]`, …"""
    binding: str = ITSELF

    def __str__(self) -> str:
        return with_article(self.type) if self.binding == ITSELF else f"{with_article(self.type)} named {self.binding}"


@dataclass(frozen=True, slots=True)
class LastResult:
    """An object of the type is the last thing that was added, which is what a trigger waits for."""

    type: object

    def __str__(self) -> str:
        return f"{with_article(self.type)} as the last result"


@dataclass(frozen=True, slots=True)
class HasRun:
    """The action has run."""

    action: str

    def __str__(self) -> str:
        return f"{self.action} has run"


@dataclass(frozen=True, slots=True)
class Holds:
    """A named condition holds."""

    condition: str

    def __str__(self) -> str:
        return f"condition {self.condition}"


@dataclass(frozen=True, slots=True)
class GroupAvailable:
    """A tool group plays the role and has the tools that are required of it."""

    role: str
    tools: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"tool group {self.role}" + (f" with {', '.join(self.tools)}" if self.tools else "")


Fact: TypeAlias = Available | LastResult | HasRun | Holds | GroupAvailable
