"""Models that answer by rules: a test says what to say to which prompts, and then verifies what was asked.

A catalogue to be given to a platform in the place of the real one: whichever model an action names, it is there.
User guide, section 3.26.2.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from typing_extensions import TypeForm

from goalport.ai import Determination, Interaction, Request
from goalport.llm import (
    AssistantMessage,
    EmbeddingService,
    LanguageModel,
    LlmOptions,
    ModelCall,
    ModelCard,
    ModelReply,
    Models,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    UserMessage,
)
from goalport.testing.invocations import LlmInvocation
from goalport.testing.prompts import InteractionMatch, PromptMatch
from goalport.testing.rules import Answers, Beside, Rules, Wanted
from goalport.testing.scripted import USAGE, Script, pieces_of, reply_of

__all__ = ["ScriptedModels"]

T = TypeVar("T")


class ScriptedModels(Models):
    """`models.when_create_object(contains("a fox"), Story).then_return(Story("…"))`.

    Everything above a model runs for real: tools, guards, templates, binding and repair, budgets. Of several rules for
    a prompt the newest counts; a prompt without one is an `UnexpectedPrompt`. Given to a platform as its `models`.
    `usage` is what each request of a model costs.
    """

    def __init__(self, *, usage: TokenUsage = USAGE) -> None:
        super().__init__(environment={})
        self.usage = usage
        self.calls: list[ModelCall] = []
        """Each request of a model, with its system prompt, tools and schema; the newest last."""
        self.rules = Rules()
        """What is said to what, and what was asked."""

    @property
    def llm_invocations(self) -> list[LlmInvocation]:
        """What was asked of an `Ai`, each of which may have taken several requests of a model; the newest last."""
        return self.rules.asked

    def when_create_object(
        self, prompt: PromptMatch, kind: TypeForm[T], llm: InteractionMatch | None = None
    ) -> Answers[T]:
        """What to say when an object of just this type is asked for, by whichever verb."""
        return cast("Answers[T]", self.rules.add(Wanted(prompt, kind, llm)))

    def when_generate_text(self, prompt: PromptMatch, llm: InteractionMatch | None = None) -> Answers[str]:
        """What to say when text is asked for: by `generate_text`, by `respond`, as a stream."""
        return cast("Answers[str]", self.rules.add(Wanted(prompt, Beside.TEXT, llm)))

    def when_evaluate_condition(
        self, prompt: PromptMatch, llm: InteractionMatch | None = None
    ) -> "Answers[bool | Determination]":
        """What to find when a condition is judged; its prompt holds the condition and the context."""
        return cast("Answers[bool | Determination]", self.rules.add(Wanted(prompt, Determination, llm)))

    def when_embed(self, text: PromptMatch) -> Answers[Sequence[float]]:
        """Which vector to give for a text."""
        return cast("Answers[Sequence[float]]", self.rules.add(Wanted(text, Beside.VECTOR)))

    def verify_create_object_matching(
        self, prompt: PromptMatch, kind: TypeForm[T], llm: InteractionMatch | None = None, *, times: int = 1
    ) -> None:
        """Raises `AssertionError` unless an object of this type was asked for so, just so often."""
        self.rules.verify(Wanted(prompt, kind, llm), times)

    def verify_generate_text_matching(
        self, prompt: PromptMatch, llm: InteractionMatch | None = None, *, times: int = 1
    ) -> None:
        """Raises `AssertionError` unless text was asked for so, just so often."""
        self.rules.verify(Wanted(prompt, Beside.TEXT, llm), times)

    def verify_evaluate_condition_matching(
        self, prompt: PromptMatch, llm: InteractionMatch | None = None, *, times: int = 1
    ) -> None:
        """Raises `AssertionError` unless a condition was judged so, just so often."""
        self.rules.verify(Wanted(prompt, Determination, llm), times)

    def verify_embed_matching(self, text: PromptMatch, *, times: int = 1) -> None:
        """Raises `AssertionError` unless such a text was embedded, just so often."""
        self.rules.verify(Wanted(text, Beside.VECTOR), times)

    def verify_no_more_interactions(self) -> None:
        """Raises `AssertionError` when something was asked that no verification was about."""
        self.rules.verify_rest()

    def choose(self, options: LlmOptions) -> LanguageModel:
        """A model of the name or the role that the options say."""
        name = options.model or options.role or next(iter(options.first_of), "scripted")
        provider, _, short = name.rpartition(":")
        return _Speaker(ModelCard(name=short, provider=provider or "test"), self)

    def embedding(self, name: str = "") -> EmbeddingService:
        """An embedding service of that name."""
        return _Embedder(name or "scripted", self.rules)

    def unready(self, name: str) -> str:
        """Nothing: every model can be asked."""
        return ""


@dataclass(frozen=True, slots=True)
class _Speaker:
    """One of the models, whose name an action said."""

    card: ModelCard
    models: ScriptedModels

    async def reply(self, call: ModelCall, /) -> ModelReply:
        return reply_of(self._script(call), call, self._blank())

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        for piece in pieces_of(self._script(call), call, self._blank()):
            if isinstance(piece, BaseException):
                raise piece
            yield piece

    def _script(self, call: ModelCall) -> Script:
        self.models.calls.append(call)
        origin = call.origin
        request = origin if isinstance(origin, Request) else _request_of(call)
        self.models.rules.note(request)
        return self.models.rules.script(request)

    def _blank(self) -> ModelReply:
        return ModelReply(message=AssistantMessage(), usage=self.models.usage, model=self.card.name)


@dataclass(frozen=True, slots=True)
class _Embedder:
    """One of the embedding services; each text is a request of its own to the rules."""

    name: str
    rules: Rules
    dimensions: int | None = None

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        return [list(self._vector(text)) for text in texts]

    def _vector(self, text: str) -> Sequence[float]:
        asked = Interaction(embedding_service=self.name)
        request = Request(interaction=asked, messages=(UserMessage(text),), verb="embed")
        self.rules.note(request)
        found = self.rules.script(request)
        if isinstance(found, BaseException):
            raise found
        return cast("Sequence[float]", found)


def _request_of(call: ModelCall) -> Request:
    """What a call is a part of that came from no `Ai`."""
    return Request(interaction=Interaction(llm=call.options), messages=call.messages, verb="reply")
