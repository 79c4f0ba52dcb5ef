"""What every reference is: notes for the model, and tools to look further. User guide, section 3.10.1.

Notes and tools are given at once, so what a reference knows from elsewhere is read before: `refreshed` does it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import anyio

from goalport.tools import Tool

__all__ = ["LlmReference", "Reference", "Refreshing", "refreshed"]

R = TypeVar("R")


@runtime_checkable
class LlmReference(Protocol):
    """What a prompt can refer to. Its tools are offered under its name as a prefix, so that several do not clash."""

    @property
    def name(self) -> str:
        """For people and models; the tools' prefix is made of it."""
        ...

    @property
    def description(self) -> str:
        """A sentence that says what it is."""
        ...

    def notes(self) -> str:
        """What a model should know to use it. They are read at each call of a model."""
        ...

    def tools(self) -> Sequence[Tool]:
        """The tools that a model may call to look further; there may be none."""
        ...


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference whose notes and tools never change."""

    name: str
    description: str
    text: str = ""
    """Its notes."""
    given_tools: tuple[Tool, ...] = ()

    def notes(self) -> str:
        return self.text

    def tools(self) -> Sequence[Tool]:
        return self.given_tools


@runtime_checkable
class Refreshing(Protocol):
    """A reference that knows something from elsewhere, and brings it up to date."""

    async def refresh(self) -> None:
        """Read it where its policy says that it is time. What cannot be read is said in the notes, and not raised."""
        ...


async def refreshed(*references: R) -> tuple[R, ...]:
    """The same references, after all of them were brought up to date, at the same time."""
    async with anyio.create_task_group() as group:
        for each in references:
            if isinstance(each, Refreshing):
                group.start_soon(each.refresh)
    return references
