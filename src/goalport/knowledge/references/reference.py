"""What every reference is: notes for the model, and tools to look further. User guide, section 3.10.1.

Notes and tools are given at once, so what a reference knows from elsewhere is read before: `refreshed` does it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, TypeVar, runtime_checkable

import anyio

from goalport.base.errors import UnknownName
from goalport.models.prompts import PromptContributor
from goalport.tools import Tool, reference_prefix

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


@dataclass(frozen=True, slots=True)
class UsageNotes:
    """A reference to which a user can add notes. It has the field `usage_notes`."""

    def with_usage_notes(self, text: str) -> Self:
        """A copy that tells the model how to use it."""
        return replace(self, usage_notes=text)


@dataclass(frozen=True, slots=True)
class NamedReferences(Mapping[str, LlmReference]):
    """References by name, as a file such as `references.yml` gives them, and what else the file has."""

    references: Mapping[str, LlmReference] = field(default_factory=dict[str, LlmReference])
    contributors: Mapping[str, PromptContributor] = field(default_factory=dict[str, PromptContributor])
    """Personas and other contributors to the system prompt, by name."""
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    """The type of each entry as the file says it, by the name of what it makes."""
    published: tuple[LlmReference, ...] = ()
    """The references that are to be published over MCP."""
    problems: tuple[str, ...] = ()
    """What is wrong with the file: sentences that begin with the place. The other entries are here."""

    def __getitem__(self, name: str) -> LlmReference:
        return self.references[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.references)

    def __len__(self) -> int:
        return len(self.references)

    def reference(self, name: str) -> LlmReference:
        """The reference of that name. Raises `UnknownName`."""
        if name not in self.references:
            raise UnknownName("reference", name, self.references)
        return self.references[name]

    def contributor(self, name: str) -> PromptContributor:
        """The contributor of that name. Raises `UnknownName`."""
        if name not in self.contributors:
            raise UnknownName("prompt contributor", name, self.contributors)
        return self.contributors[name]


@runtime_checkable
class Refreshing(Protocol):
    """A reference to something outside, such as a web page, which it reads again when it is time."""

    async def refresh(self) -> None:
        """Read it where its policy says that it is time. What cannot be read is said in the notes, and not raised."""
        ...


@runtime_checkable
class QuestionAware(Protocol):
    """A reference that depends on what a model is asked, such as one that searches for it before the model does."""

    async def for_question(self, question: str, /) -> LlmReference:
        """The reference for one request: itself, or a copy that fits the question. It is called before the model is."""
        ...


def described(reference: LlmReference) -> str:
    """What a model is told of a reference: its name, description and notes, and how its tools are named."""
    lines = [f"Reference: {reference.name}", reference.description, reference.notes()]
    if reference.tools():
        lines.append(f"Its tools have names that begin with {reference_prefix(reference.name)}")
    return "\n".join(filter(None, lines))


async def refreshed(*references: R) -> tuple[R, ...]:
    """The same references, after all of them were brought up to date, at the same time."""
    async with anyio.create_task_group() as group:
        for each in references:
            if isinstance(each, Refreshing):
                group.start_soon(each.refresh)
    return references
