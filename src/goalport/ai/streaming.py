"""Getting text and objects of a model as they come. Above: `Ai.streaming`; below: one request of an engine."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from goalport.ai.engine import Engine, Request
from goalport.ai.interaction import Interaction
from goalport.llm import TextDelta, UserMessage

__all__ = ["Streaming"]


@dataclass(frozen=True, slots=True)
class Streaming:
    """Answers piece by piece; immutable, like the `Ai` that it came of."""

    engine: Engine = field(repr=False)
    interaction: Interaction

    async def text(self, prompt: str, /) -> AsyncIterator[str]:
        """The text as it comes."""
        request = Request(interaction=self.interaction, messages=(UserMessage(prompt),), verb="streaming.text")
        async for piece in self.engine.stream(request):
            if isinstance(piece, TextDelta):
                yield piece.text
