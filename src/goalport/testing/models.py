"""Models that answer by rules: a test defines the reply for each kind of prompt, and verifies the requests afterwards.

`ScriptedModels` is given to a platform in place of its models; it has a model of any name that an action asks for.
User guide, section 3.26.2.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from typing_extensions import TypeForm

from goalport.models.llm import (
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
from goalport.runtime.ai import Determination, Interaction, Request
from goalport.testing.invocations import InteractionMatch, LlmInvocation, PromptMatch
from goalport.testing.rules import Answers, PlainOutput, RequestPattern, Rules
from goalport.testing.scripted import USAGE, Script, pieces_of, reply_of

T = TypeVar("T")


class ScriptedModels(Models):
    """`models.when_create_object(contains("a fox"), Story).then_return(Story("…"))`.

    Everything above a model runs for real: tools, guards, templates, binding and repair, budgets. If several rules
    match a prompt, the newest is used; a prompt without a rule raises `UnexpectedPrompt`. Pass it to a platform as
    `models`. `usage` is the cost of each request of a model.
    """

    def __init__(self, *, usage: TokenUsage = USAGE) -> None:
        super().__init__(environment={})
        self.usage = usage
        self.calls: list[ModelCall] = []
        """The requests of models, with system prompt, tools and schema; the newest last."""
        self.rules = Rules()
        """The rules, and the record of requests."""

    @property
    def llm_invocations(self) -> list[LlmInvocation]:
        """The requests to an `Ai`, each of which may have taken several requests of a model; the newest last."""
        return self.rules.invocations

    def when_create_object(
        self, prompt: PromptMatch, kind: TypeForm[T], llm: InteractionMatch | None = None
    ) -> Answers[T]:
        """Define the reply when an object of exactly this type is asked for, by any method."""
        return cast("Answers[T]", self.rules.add(RequestPattern(prompt, kind, llm)))

    def when_generate_text(self, prompt: PromptMatch, llm: InteractionMatch | None = None) -> Answers[str]:
        """Define the reply when text is asked for: by `generate_text`, by `respond`, or as a stream."""
        return cast("Answers[str]", self.rules.add(RequestPattern(prompt, PlainOutput.TEXT, llm)))

    def when_evaluate_condition(
        self, prompt: PromptMatch, llm: InteractionMatch | None = None
    ) -> "Answers[bool | Determination]":
        """Define the result of evaluating a condition; the prompt contains the condition and the context."""
        return cast("Answers[bool | Determination]", self.rules.add(RequestPattern(prompt, Determination, llm)))

    def when_embed(self, text: PromptMatch) -> Answers[Sequence[float]]:
        """Define the vector of a text."""
        return cast("Answers[Sequence[float]]", self.rules.add(RequestPattern(text, PlainOutput.VECTOR)))

    def verify_create_object_matching(
        self, prompt: PromptMatch, kind: TypeForm[T], llm: InteractionMatch | None = None, *, times: int = 1
    ) -> None:
        """Raises `AssertionError` unless exactly `times` such requests asked for an object of this type."""
        self.rules.verify(RequestPattern(prompt, kind, llm), times)

    def verify_generate_text_matching(
        self, prompt: PromptMatch, llm: InteractionMatch | None = None, *, times: int = 1
    ) -> None:
        """Raises `AssertionError` unless exactly `times` such requests asked for text."""
        self.rules.verify(RequestPattern(prompt, PlainOutput.TEXT, llm), times)

    def verify_evaluate_condition_matching(
        self, prompt: PromptMatch, llm: InteractionMatch | None = None, *, times: int = 1
    ) -> None:
        """Raises `AssertionError` unless exactly `times` such conditions were evaluated."""
        self.rules.verify(RequestPattern(prompt, Determination, llm), times)

    def verify_embed_matching(self, text: PromptMatch, *, times: int = 1) -> None:
        """Raises `AssertionError` unless such texts were embedded exactly `times` times."""
        self.rules.verify(RequestPattern(text, PlainOutput.VECTOR), times)

    def verify_no_more_interactions(self) -> None:
        """Raises `AssertionError` when there was a request that no verification has matched."""
        self.rules.verify_rest()

    def choose(self, options: LlmOptions) -> LanguageModel:
        """A model with the name or the role in the options."""
        name = options.model or options.role or next(iter(options.first_of), "scripted")
        provider, _, short = name.rpartition(":")
        return _ScriptedLanguageModel(ModelCard(name=short, provider=provider or "test"), self)

    def embedding(self, name: str = "") -> EmbeddingService:
        """An embedding service of that name."""
        return _Embedder(name or "scripted", self.rules)

    def unready(self, name: str) -> str:
        """The empty text: every model is ready."""
        return ""


@dataclass(frozen=True, slots=True)
class _ScriptedLanguageModel:
    """One of the models, with the name that an action asked for."""

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
        if isinstance(origin, Request):
            request = origin
        else:  # a call that was made without an `Ai`
            request = Request(interaction=Interaction(llm=call.options), messages=call.messages, verb="reply")
        self.models.rules.note(request)
        return self.models.rules.script(request)

    def _blank(self) -> ModelReply:
        return ModelReply(message=AssistantMessage(), usage=self.models.usage, model=self.card.name)


@dataclass(frozen=True, slots=True)
class _Embedder:
    """One of the embedding services; the rules are applied to each text separately."""

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
