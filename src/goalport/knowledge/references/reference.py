"""What every reference is: notes for the model, and tools to look further. User guide, section 3.10.1.

`notes()` and `tools()` do not wait, so a reference to something outside has to read it beforehand: see `refreshed`.
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
    """What a prompt can refer to. The names of its tools begin with its name, so those of two references differ."""

    @property
    def name(self) -> str:
        """The name for people and models, from which the prefix of the tools is made."""
        ...

    @property
    def description(self) -> str:
        """A sentence that says what it is."""
        ...

    def notes(self) -> str:
        """What a model should know to use it. Called again for each request to a model."""
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
    """A reference to which a user can add notes. Subclasses have the field `usage_notes`."""

    def with_usage_notes(self, text: str) -> Self:
        """A copy whose notes also have this text on how to use the reference."""
        return replace(self, usage_notes=text)


@dataclass(frozen=True, slots=True)
class NamedReferences(Mapping[str, LlmReference]):
    """What a file such as `references.yml` defines: references by name, contributors to prompts, and its mistakes."""

    references: Mapping[str, LlmReference] = field(default_factory=dict[str, LlmReference])
    contributors: Mapping[str, PromptContributor] = field(default_factory=dict[str, PromptContributor])
    """Personas and other contributors to the system prompt, by name."""
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    """The type of each entry as written in the file, by the name of its reference or contributor."""
    published: tuple[LlmReference, ...] = ()
    """The references that are to be published over MCP."""
    problems: tuple[str, ...] = ()
    """The mistakes in the file: sentences that begin with file and line. Entries without mistakes are loaded."""

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
    """A reference to something outside, such as a web page, that is read again when its policy says so."""

    async def refresh(self) -> None:
        """Read it if the policy says that it is due. A failure is not raised: the notes report it."""
        ...


@runtime_checkable
class QuestionAware(Protocol):
    """A reference that depends on the question to the model, for example because it searches for it in advance."""

    async def for_question(self, question: str, /) -> LlmReference:
        """The reference for one request: itself, or a copy for the question. Called before the request to the model."""
        ...


def described(reference: LlmReference) -> str:
    """The text about a reference in the system prompt: name, description, notes, and the prefix of its tools."""
    lines = [f"Reference: {reference.name}", reference.description, reference.notes()]
    if reference.tools():
        lines.append(f"Its tools have names that begin with {reference_prefix(reference.name)}")
    return "\n".join(filter(None, lines))


async def refreshed(*references: R) -> tuple[R, ...]:
    """Refresh all references that can be refreshed, concurrently. Returns the same references."""
    async with anyio.create_task_group() as group:
        for each in references:
            if isinstance(each, Refreshing):
                group.start_soon(each.refresh)
    return references
