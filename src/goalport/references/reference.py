"""A reference: a name, what it is about, notes on its use, and tools. User guide, section 3.10.1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from goalport.tools import Tool

__all__ = ["LlmReference", "Reference"]


@runtime_checkable
class LlmReference(Protocol):
    """What a prompt can refer to. Its tools are offered under its name as a prefix, so that several do not clash."""

    @property
    def name(self) -> str:
        """For people and models; the tools' prefix is made of it."""
        ...

    @property
    def description(self) -> str:
        """What it is, in a sentence."""
        ...

    def notes(self) -> str:
        """What a model should know to make use of it; asked for at each call."""
        ...

    def tools(self) -> Sequence[Tool]:
        """What a model may call to look further; none is fine."""
        ...


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference that is known beforehand."""

    name: str
    description: str
    text: str = ""
    """Its notes."""
    given_tools: tuple[Tool, ...] = ()

    def notes(self) -> str:
        return self.text

    def tools(self) -> Sequence[Tool]:
        return self.given_tools
