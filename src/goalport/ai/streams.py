"""`Streaming`: text and objects while a model writes them. User guide, section 3.22.

The iterators are generators: `contextlib.aclosing` around one, or its `aclose`, ends the request to the model at once.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from typing_extensions import TypeForm

from goalport.ai.engine import Engine, StreamedObject, prompt_text
from goalport.ai.interaction import Interaction, Request
from goalport.llm import TextDelta, ThinkingDelta, UserMessage

__all__ = ["Streaming"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Streaming:
    """`async for month in ai.streaming().objects("The two hottest months in Florida", Month): …`.

    Where the `Ai` has a template, its variables are given in place of the prompt.
    """

    engine: Engine = field(repr=False)
    interaction: Interaction

    async def text(self, prompt: str | Mapping[str, object]) -> AsyncGenerator[str]:
        """The model's text, piece by piece. Raises what `Ai.generate_text` raises."""
        async with aclosing(self._pieces(prompt, None)) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextDelta):
                    yield piece.text

    async def objects(self, prompt: str | Mapping[str, object], kind: TypeForm[T]) -> AsyncGenerator[T]:
        """One object after another, each as soon as it is whole and valid.

        Raises `InvalidModelOutput` for an object that is not valid, after those before it have been given.
        """
        async with aclosing(self._pieces(prompt, kind)) as pieces:
            async for piece in pieces:
                if isinstance(piece, StreamedObject):
                    yield cast("T", piece.value)

    async def objects_with_thinking(
        self, prompt: str | Mapping[str, object], kind: TypeForm[T]
    ) -> AsyncGenerator[StreamedObject[T] | ThinkingDelta]:
        """As `objects`, with the thoughts that the model shows between them."""
        async with aclosing(self._pieces(prompt, kind)) as pieces:
            async for piece in pieces:
                if not isinstance(piece, TextDelta):
                    yield cast("StreamedObject[T] | ThinkingDelta", piece)

    def _pieces(
        self, prompt: str | Mapping[str, object], kind: object
    ) -> AsyncGenerator[TextDelta | ThinkingDelta | StreamedObject[object]]:
        request = Request(
            interaction=replace(self.interaction, template=""),
            messages=(UserMessage(prompt_text(self.engine, self.interaction, prompt)),),
            output=kind,
            verb="streaming",
        )
        return self.engine.stream(request)
