"""The seam: what the rooms above ask of a language model, whoever provides it.

A model answers one request. It calls no tools, checks no types and keeps no conversation: that is the work of `ai`.
`goalport.testing` has a scripted model that stands here too, so that everything above runs for real.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from math import inf
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field

from goalport.llm.messages import AssistantMessage, FinishReason, Message
from goalport.llm.options import LlmOptions

__all__ = [
    "FinishReason",
    "LanguageModel",
    "ModelCall",
    "ModelCard",
    "ModelReply",
    "OutputSpec",
    "Prices",
    "Retry",
    "TextDelta",
    "ThinkingDelta",
    "TokenUsage",
    "ToolSpec",
]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it."""

    name: str
    description: str
    input_schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """The object that a reply is to be, as a JSON Schema; how a model is made to keep to it is the adapter's choice."""

    name: str
    schema: Mapping[str, object]
    description: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """A request failed in a way that passes, and is about to be made again."""

    attempt: int
    """How often it has been made: 1 before the first repetition."""
    attempts: int
    """How often it is made at most."""
    delay_seconds: float
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCall:
    """One request."""

    messages: tuple[Message, ...]
    options: LlmOptions = field(default_factory=LlmOptions)
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None
    """None: text."""
    timeout: float = 60.0
    """Seconds that one attempt may take, where neither the options nor the provider's settings say."""
    on_retry: Callable[[Retry], None] | None = None
    """Told before each wait for another attempt."""
    on_partial_usage: "Callable[[TokenUsage], None] | None" = None
    """Told what a stream used that ended before its whole reply: it was closed early, or it broke off. What the
    provider had not said by then is estimated, at four characters a token."""
    origin: object = None
    """The `goalport.ai.Request` that it is a part of, for those who record or script models; it goes to no provider."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenUsage:
    """What one request, or several, used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    """Of the input tokens, those that the provider had kept."""
    cost: float = 0.0
    """In US dollars; 0 when the price is not known. What is no amount is refused: it would fit any budget."""

    def __post_init__(self) -> None:
        if not 0 <= self.cost < inf:
            raise ValueError(f"Expected a cost in US dollars, 0 or more, but came {self.cost!r}.")

    @property
    def tokens(self) -> int:
        """All tokens, in and out."""
        return self.input_tokens + self.output_tokens

    @property
    def spent(self) -> tuple[int, int, float]:
        """Input tokens, output tokens and cost."""
        return self.input_tokens, self.output_tokens, self.cost

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cost=self.cost + other.cost,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelReply:
    """What came back."""

    message: AssistantMessage
    output: str | None = None
    """The JSON text of the object that was asked for, when the reply holds it, however the provider was made to give
    it; it may still be no JSON at all. None: none was asked for, or the model called tools, or gave nothing."""
    usage: TokenUsage = TokenUsage()
    model: str = ""
    """The name under which the provider answered."""
    finish: FinishReason = "stop"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A further piece of the text, or of the object's JSON text, of a reply that is being written."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A further piece of what the model lets see of its thoughts."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """US dollars per million tokens."""

    input: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    output: Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCard:
    """What is known of a model."""

    name: str
    """Without the provider."""
    provider: str
    """For example `openai`."""
    knowledge_cutoff: date | None = None
    prices: Prices | None = None
    """What the settings say; None: pydantic-ai's data are asked."""
    contributors: tuple[str, ...] = ()
    """Texts for the system prompt of every call of this model."""
    vision: bool | None = None
    """Whether it takes images; None: not known, the provider decides."""


@runtime_checkable
class LanguageModel(Protocol):
    """A model that can be asked."""

    @property
    def card(self) -> ModelCard:
        """What is known of it."""
        ...

    async def reply(self, call: ModelCall, /) -> ModelReply:
        """Ask, and wait for the whole answer. Raises `ModelError`, by its kind."""
        ...

    def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """Ask, and get the answer piece by piece; the last item is all of it. Raises `ModelError`, by its kind.

        Closing the generator ends the request.
        """
        ...
