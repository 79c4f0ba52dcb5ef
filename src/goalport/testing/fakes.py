"""A fake for everything that carries out requests to an `Ai`: it gives the responses that a test has prepared.

No models, tools or guards are involved, as a unit test of one action needs it. `goalport.testing.models` scripts only
the model, so that all the rest runs for real. User guide, section 3.26.1.
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
    """A response to a streamed request; other requests cannot use it."""

    pieces: tuple[object, ...]


class FakeEngine:
    """`engine = FakeEngine("Hello")`, and `engine.ai` is an `Ai` whose first response is "Hello".

    `responses` are given in order, whatever is asked; see `expect_response`. `templates` is where `Ai.with_template`
    finds its templates.
    """

    def __init__(self, *responses: object, templates: Templates | None = None) -> None:
        self.llm_invocations: list[LlmInvocation] = []
        """The requests, the newest last."""
        self._responses = deque(responses)
        self._templates = templates or Templates()

    @property
    def ai(self) -> Ai:
        """An `Ai` with default settings that this engine answers."""
        return Ai(self)

    @property
    def unused_responses(self) -> tuple[object, ...]:
        """The responses that were not used yet; of a stream, its pieces."""
        return tuple(each.pieces if isinstance(each, _Stream) else each for each in self._responses)

    def expect_response(self, *responses: object) -> None:
        """Add responses, one for each request.

        An object of the requested type; a text for `generate_text` and `respond`; None where the model may
        decline; a yes or no, or a `Determination`, for a condition; a vector for each text to embed; an exception,
        which is raised.
        """
        self._responses.extend(responses)

    def expect_stream(self, *pieces: object) -> None:
        """Add the response to a streamed request: texts, objects and `ThinkingDelta`s; an exception is raised."""
        self._responses.append(_Stream(pieces))

    def verify_responses_used(self) -> None:
        """Raises `AssertionError` when prepared responses were not used."""
        if self._responses:
            left = "\n".join(f"- {each!r}" for each in self.unused_responses)
            raise AssertionError(f"Expected all responses to be used, but nobody asked for these:\n{left}")

    async def run(self, request: Request, /) -> object:
        """The next response. Raises `AssertionError` when it does not fit the request, or there is none."""
        return self._answer(request, self._next(request))

    async def stream(self, request: Request, /) -> AsyncGenerator[Piece]:
        """The pieces of the next response; a response that is no stream comes in one piece."""
        found = self._next(request)
        for piece in found.pieces if isinstance(found, _Stream) else (found,):
            if isinstance(piece, ThinkingDelta):
                yield piece
            elif request.output is None:
                yield piece if isinstance(piece, TextDelta) else TextDelta(cast("str", self._answer(request, piece)))
            else:
                yield StreamedObject(self._answer(request, piece))

    async def embed(self, interaction: Interaction, texts: Sequence[str], /) -> list[list[float]]:
        """The next response, which must contain a vector for each text."""
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
        """Render a template to text. Raises `UnknownName` and `TemplateError`."""
        return self._templates.render(template, variables)

    def take(self, asked: object) -> object:
        """The next response, for any request. Raises `AssertionError` when there is none."""
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
