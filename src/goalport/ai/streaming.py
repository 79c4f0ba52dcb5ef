"""`Streaming`: text and objects as a model makes them. User guide, section 3.22.

The iterators are generators: `contextlib.aclosing` around one, or its `aclose`, ends the request of the model at once
when somebody has seen enough.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from typing_extensions import TypeForm

from goalport.ai.engine import Engine, Request, StreamedObject
from goalport.ai.interaction import Interaction
from goalport.llm import TextDelta, ThinkingDelta, UserMessage

__all__ = ["Streaming"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Streaming:
    """`async for month in ai.streaming().objects("The two hottest months in Florida", Month): …`.

    Where the `Ai` has a template, its variables are given in the prompt's place.
    """

    engine: Engine = field(repr=False)
    interaction: Interaction

    async def text(self, prompt: str | Mapping[str, object]) -> AsyncGenerator[str]:
        """The model's text, piece by piece. Raises what `Ai.generate_text` raises, when it happens."""
        async with aclosing(self._pieces(prompt, None)) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextDelta):
                    yield piece.text

    async def objects(self, prompt: str | Mapping[str, object], kind: TypeForm[T]) -> AsyncGenerator[T]:
        """One object after another, each as soon as it is whole and valid.

        Raises `InvalidModelOutput` for one that is not; those before it have been given by then.
        """
        async with aclosing(self._pieces(prompt, kind)) as pieces:
            async for piece in pieces:
                if isinstance(piece, StreamedObject):
                    yield cast("T", piece.value)

    async def objects_with_thinking(
        self, prompt: str | Mapping[str, object], kind: TypeForm[T]
    ) -> AsyncGenerator[StreamedObject[T] | ThinkingDelta]:
        """As `objects`, and between them what the model lets see of its thoughts."""
        async with aclosing(self._pieces(prompt, kind)) as pieces:
            async for piece in pieces:
                if not isinstance(piece, TextDelta):
                    yield cast("StreamedObject[T] | ThinkingDelta", piece)

    def _pieces(
        self, prompt: str | Mapping[str, object], kind: object
    ) -> AsyncGenerator[TextDelta | ThinkingDelta | StreamedObject[object]]:
        request = Request(
            interaction=replace(self.interaction, template=""),
            messages=(UserMessage(self._text(prompt)),),
            output=kind,
            verb="streaming",
        )
        return self.engine.stream(request)

    def _text(self, prompt: str | Mapping[str, object]) -> str:
        template = self.interaction.template
        if isinstance(prompt, str) and not template:
            return prompt
        if isinstance(prompt, Mapping) and template:
            return self.engine.render(template, prompt)
        wanted = "the template's variables, as a mapping" if template else "a prompt; `with_template` names a template"
        raise TypeError(f"Expected {wanted}, but came {prompt!r}.")
