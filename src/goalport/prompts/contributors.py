"""Pieces of a system prompt, each asked for its text at each call. User guide, section 3.10."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from inspect import iscoroutine
from typing import Protocol, cast, runtime_checkable

__all__ = [
    "Conditional",
    "CurrentDate",
    "KnowledgeCutoffDate",
    "Persona",
    "PromptContributor",
    "RoleGoalBackstory",
    "Text",
    "contribution_of",
]


@runtime_checkable
class PromptContributor(Protocol):
    """Whatever adds to the system prompt."""

    def contribution(self) -> str:
        """The text for the call that is about to be made; an empty one adds nothing."""
        ...


def contribution_of(contributor: PromptContributor) -> str:
    """What a contributor adds now; a property is as good as a method. Raises `TypeError` for what is no text."""
    said = cast("Callable[[], object] | object", contributor.contribution)
    text: object = said() if callable(said) else said
    if isinstance(text, str):
        return text
    if iscoroutine(text):
        text.close()
    raise TypeError(
        f"Expected the contribution of {type(contributor).__name__} to be a text, but it gave {type(text).__name__}. "
        "Write a plain method that returns a str; what has to be awaited, await before the prompt."
    )


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is always the same."""

    text: str

    def contribution(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Persona:
    """Who the model is to be."""

    name: str
    persona: str
    """What kind of person, for example `A careful analyst who has seen many markets`."""
    voice: str
    """How it speaks."""
    objective: str
    """What it wants."""

    def contribution(self) -> str:
        return (
            f"You are {self.name}.\n"
            f"Your persona: {self.persona}.\n"
            f"Your objective is {self.objective}.\n"
            f"Your voice: {self.voice}."
        )


@dataclass(frozen=True, slots=True)
class RoleGoalBackstory:
    """Who the model is to be, in the terms of CrewAI."""

    role: str
    goal: str
    backstory: str

    def contribution(self) -> str:
        return f"Role: {self.role}\nGoal: {self.goal}\nBackstory: {self.backstory}"


@dataclass(frozen=True, slots=True)
class CurrentDate:
    """Which day it is."""

    today: Callable[[], date] = lambda: datetime.now(UTC).date()

    def contribution(self) -> str:
        return f"Current date: {self.today().isoformat()}"


@dataclass(frozen=True, slots=True)
class KnowledgeCutoffDate:
    """Until when the model has heard of the world."""

    day: date

    def contribution(self) -> str:
        return f"Knowledge cutoff: {self.day.isoformat()}"


@dataclass(frozen=True, slots=True)
class Conditional:
    """One of two texts, chosen at each call."""

    condition: Callable[[], bool]
    when_true: str
    when_false: str = ""

    def contribution(self) -> str:
        return self.when_true if self.condition() else self.when_false
