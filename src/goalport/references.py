"""References: what a prompt refers to, with notes for the model and tools to look further. User guide, section 3.10.1.

Below: `tools`. Above: `ai` puts the notes into the system prompt and offers the tools.
"""

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
