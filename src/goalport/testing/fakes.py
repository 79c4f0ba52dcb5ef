"""A stand-in for all that carries out what an `Ai` is asked for: it gives the responses that a test wrote down.

No model, no tools, no guards: what a unit test of one action wants. `goalport.testing.models` scripts the model alone,
so that all of these run for real. User guide, section 3.26.1.
"""

from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from goalport.ai import Ai, Interaction, Request, StreamedObject
from goalport.llm import TextDelta, ThinkingDelta, UserMessage
from goalport.prompts import Templates
from goalport.testing.invocations import LlmInvocation, answer_to

__all__ = ["FakeEngine"]

Piece = TextDelta | ThinkingDelta | StreamedObject[object]


@dataclass(frozen=True, slots=True)
class _Stream:
    """A response for one who streams; no answer to anybody else."""

    pieces: tuple[object, ...]


class FakeEngine:
    """`engine = FakeEngine("Hello")`, and `engine.ai` is an `Ai` whose first answer that is.

    `responses` are given in order, whatever is asked; see `expect_response`. `templates` are where `Ai.with_template`
    finds its templates.
    """

    def __init__(self, *responses: object, templates: Templates | None = None) -> None:
        self.llm_invocations: list[LlmInvocation] = []
        """What was asked, the newest last."""
        self._responses = deque(responses)
        self._templates = templates or Templates()

    @property
    def ai(self) -> Ai:
        """An `Ai` that is answered from here, without any settings."""
        return Ai(self)

    @property
    def unused_responses(self) -> tuple[object, ...]:
        """The responses that nobody asked for yet; of a stream, its pieces."""
        return tuple(each.pieces if isinstance(each, _Stream) else each for each in self._responses)

    def expect_response(self, *responses: object) -> None:
        """Give these next, one for each thing that is asked for.

        An object of the type that is wanted; a text for `generate_text` and `respond`; None where the model may
        decline; a yes or no, or a `Determination`, for a condition; a vector for each text to embed; an exception,
        which is raised.
        """
        self._responses.extend(responses)

    def expect_stream(self, *pieces: object) -> None:
        """Give these pieces next to one who streams: texts or objects, and `ThinkingDelta`s; an exception is raised."""
        self._responses.append(_Stream(pieces))

    def verify_responses_used(self) -> None:
        """Raises `AssertionError` when there are responses that nobody asked for."""
        if self._responses:
            left = "\n".join(f"- {each!r}" for each in self.unused_responses)
            raise AssertionError(f"Expected all responses to be used, but nobody asked for these:\n{left}")

    async def run(self, request: Request, /) -> object:
        """The next response, if it is one to this. Raises `AssertionError` when it is not, or there is none."""
        return self._answer(request, self._next(request))

    async def stream(self, request: Request, /) -> AsyncGenerator[Piece]:
        """The pieces of the next response; one that was not meant as a stream comes in one piece."""
        found = self._next(request)
        for piece in found.pieces if isinstance(found, _Stream) else (found,):
            if isinstance(piece, ThinkingDelta):
                yield piece
            elif request.output is None:
                yield piece if isinstance(piece, TextDelta) else TextDelta(cast("str", self._answer(request, piece)))
            else:
                yield StreamedObject(self._answer(request, piece))

    async def embed(self, interaction: Interaction, texts: Sequence[str], /) -> list[list[float]]:
        """The next response, which must have a vector for each text."""
        if not texts:
            return []
        messages = tuple(map(UserMessage, texts))
        request = Request(interaction=interaction, messages=messages, output=list[list[float]], verb="embed")
        vectors = cast("list[list[float]]", await self.run(request))
        if len(vectors) != len(texts):
            asked = self.llm_invocations[-1]
            raise AssertionError(f"Expected {len(texts)} vectors to answer {asked}, but {len(vectors)} are next.")
        return vectors

    def render(self, template: str, variables: Mapping[str, object], /) -> str:
        """The text that a template gives. Raises `UnknownName` and `TemplateError`."""
        return self._templates.render(template, variables)

    def take(self, asked: object) -> object:
        """The next response, for whatever was asked for. Raises `AssertionError` when there is none."""
        if not self._responses:
            raise AssertionError(
                f"Expected a response for {asked}, but there is none left. Give one with `expect_response` before."
            )
        said = self._responses.popleft()
        if isinstance(said, BaseException):
            raise said
        return said

    def _next(self, request: Request) -> object:
        invocation = LlmInvocation(request)
        self.llm_invocations.append(invocation)
        return self.take(invocation)

    def _answer(self, request: Request, said: object) -> object:
        if isinstance(said, BaseException):
            raise said
        return answer_to(request, said)
