"""`Creation`: one object, made step by step: with examples, of some fields only, from messages or a template.

It is immutable, like the `Ai` that begins it. User guide, section 3.8.2 ("Returning a Specific Type").
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar, cast

from typing_extensions import TypeForm

from goalport.ai.engine import Engine
from goalport.ai.interaction import Interaction, Request, checked_messages
from goalport.llm import Message, UserMessage
from goalport.prompts import Example

__all__ = ["Creation"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Creation(Generic[T]):
    """`await ai.creating(Story).with_example("A short one", Story("Once …")).from_prompt("A story about a fox")`."""

    engine: Engine = field(repr=False)
    interaction: Interaction
    kind: TypeForm[T]
    """The type of the object."""
    examples: tuple[tuple[str, T], ...] = ()
    properties: Callable[[str], bool] | None = None
    """Decides by name which fields the model is asked for; None: all."""

    def with_example(self, description: str, value: T) -> Self:
        """Show the model a good object: it is added to the system prompt as JSON, below its description."""
        return replace(self, examples=(*self.examples, (description, value)))

    def with_property_filter(self, wanted: Callable[[str], bool] | Iterable[str]) -> Self:
        """Ask for some fields only: those with these names, or those for whose names a function returns True.

        The others keep their defaults, whatever the model says, and examples do not show them. A field must pass all
        filters. Raises `TypeError` for a single string.
        """
        if isinstance(wanted, str):
            raise TypeError(f"Expected names of fields, or a function, but came one string; write [{wanted!r}].")
        before, chosen = self.properties, wanted if callable(wanted) else frozenset(wanted).__contains__

        def both(name: str) -> bool:
            return (before is None or before(name)) and chosen(name)

        return replace(self, properties=both)

    async def from_prompt(self, prompt: str) -> T:
        """Make the object from a prompt. Raises what `Ai.create_object` raises."""
        return await self.from_messages((UserMessage(prompt),))

    async def from_template(self, name: str, /, **variables: object) -> T:
        """Make the object from a template's text for these variables; see `goalport.prompts.Templates`.

        Raises `UnknownName` and `TemplateError` besides what `Ai.create_object` raises.
        """
        return await self.from_prompt(self.engine.render(name, variables))

    async def from_messages(self, messages: Iterable[Message]) -> T:
        """Make the object from a conversation, the newest message last. Raises what `Ai.create_object` raises."""
        shown = tuple(
            Example.of(description, cast("Any", self.kind), value, self.properties)
            for description, value in self.examples
        )
        contributors = (*self.interaction.contributors, *shown)
        request = Request(
            interaction=replace(self.interaction, contributors=contributors, template=""),
            messages=checked_messages(messages),
            output=self.kind,
            properties=self.properties,
            verb="creating",
        )
        return cast("T", await self.engine.run(request))
