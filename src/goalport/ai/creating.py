"""Making one object with more ado than `Ai.create_object`. User guide, section 3.8.2."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from typing_extensions import TypeForm

from goalport.ai.engine import Engine, Request
from goalport.ai.interaction import Interaction
from goalport.llm import Message, UserMessage

__all__ = ["Creation"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Creation(Generic[T]):
    """An object that is about to be made; immutable, like the `Ai` that it came of."""

    engine: Engine = field(repr=False)
    interaction: Interaction
    kind: TypeForm[T]

    async def from_prompt(self, prompt: str, /) -> T:
        return await self.from_messages([UserMessage(prompt)])

    async def from_messages(self, messages: Iterable[Message], /) -> T:
        request = Request(interaction=self.interaction, messages=tuple(messages), output=self.kind, verb="creating")
        return cast("T", await self.engine.run(request))
