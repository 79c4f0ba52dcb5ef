"""The interface to models: what the rooms above ask of a language model or an embedding model of any provider.

A model answers one request. It calls no tools, checks no types and keeps no conversation: that is the work of `ai`.
Messages are plain records, the same for every provider; `conversions` turns them into pydantic-ai's, and answers back.
`goalport.testing` has a scripted model with the same interface, so that everything above runs in tests as it does
for real. User guide, sections 3.8.1, 3.8.3 (images) and 3.23.2.
"""

import mimetypes
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from datetime import date
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from goalport.base.errors import BadInput, ModelUnavailable
from goalport.base.words import shown
from goalport.models.prompts import Persona

_MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/tiff", "image/heic")
mimetypes.add_type("image/webp", ".webp")
mimetypes.add_type("image/heic", ".heic")

FinishReason = Literal["stop", "length", "tool_call", "refusal", "error", "unknown"]
"""Why a model stopped writing. `length` means that the answer was cut off by `max_tokens`."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is sent to a model with a prompt. Raises `BadInput` for another media type, or for no bytes."""

    media_type: str
    """For example `image/png`."""
    data: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not self.media_type.startswith("image/"):
            raise BadInput(f"Expected the media type of an image, like image/png, but came {self.media_type!r}.")
        if not self.data:
            raise BadInput("Expected an image, but it has no bytes.")

    @classmethod
    def from_path(cls, path: str | Path) -> Self:
        """Read an image from a file. The ending of its name says which type it is.

        Raises `BadInput` when the name says no type of image, and `OSError` when the file cannot be read.
        """
        return cls.from_bytes(Path(path).name, Path(path).read_bytes())

    @classmethod
    def from_bytes(cls, filename: str, data: bytes) -> Self:
        """Make an image of bytes; the ending of the file name says which type it is. Raises `BadInput` otherwise."""
        media_type, _ = mimetypes.guess_type(filename)
        if media_type not in _MEDIA_TYPES:
            raise BadInput(
                f"Cannot tell what kind of image {filename!r} is. "
                f"Name the type: Image(media_type, data), with one of {', '.join(_MEDIA_TYPES)}."
            )
        return cls(media_type, data)


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Instructions to the model that apply to the whole conversation."""

    content: str
    notice: str = ""
    """The end of the content that is true only now: a request that differs in nothing else counts as the same one."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a person says, or the program that speaks for a person."""

    content: str
    images: tuple[Image, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it has neither a text nor an image."""
        return not (self.images or self.content.strip())


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The request of a model to call a tool."""

    id: str
    name: str
    arguments: str = "{}"
    """The text that the model wrote. It should be a JSON object, but models do not always write one."""


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What a model said."""

    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    """The tools that the model wants to call, in order. Each call is answered by a `ToolReply`."""
    thinking: str = ""
    """The part of the model's thoughts that the provider shows."""
    native: object = None
    """The message in the provider's own form. It is sent back unchanged, because it holds signatures of thoughts."""
    finish: FinishReason = "stop"
    """Why the answer of `Ai.respond` ended. `length` means that it was cut off by `max_tokens`."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The result of a tool, for the model that called it."""

    call_id: str
    """The `id` of the `ToolCall` that this answers."""
    name: str
    content: str
    images: tuple[Image, ...] = ()
    is_error: bool = False


Message = SystemMessage | UserMessage | AssistantMessage | ToolReply
"""One entry of a conversation."""


def has_images(messages: Iterable[Message]) -> bool:
    """Whether a message of the user has an image."""
    return any(isinstance(each, UserMessage) and each.images for each in messages)


Thinking = Literal["minimal", "low", "medium", "high", "xhigh"]
"""How much effort a model puts into thinking before it answers, for models that can think."""


class LlmOptions(BaseModel):
    """Which model to ask, and its hyperparameters. An option that is None is left to the provider.

    At most one of `model`, `role`, `auto` and `first_of` chooses the model; without any of them the default model is
    asked. Raises pydantic's `ValidationError` for two of them, and for a value that is out of its range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Annotated[str, Field(min_length=1)] | None = None
    """The name of a model, with or without its provider: `gpt-4.1-mini`, `openai:gpt-4.1-mini`."""
    role: Annotated[str, Field(min_length=1)] | None = None
    """A role that the settings give to a model: `best`, `cheapest`."""
    auto: bool = False
    """Whether the platform chooses the model."""
    first_of: tuple[str, ...] = ()
    """Names of models; the first one that is available is asked."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """How random the answer is: 0 for the least; providers allow up to 1 or 2."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share of probability from which tokens are sampled, above 0 and up to 1."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """The number of most probable tokens from which each token is sampled."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The number of tokens that the model may write in one reply; a longer reply is cut off."""
    frequency_penalty: FiniteFloat | None = None
    """How much less probable a token becomes each time that it was written."""
    presence_penalty: FiniteFloat | None = None
    """How much less probable a token becomes once it was written."""
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds that one attempt of a request may take; None: as the settings say."""
    thinking: Thinking | bool | None = None
    """How hard the model thinks first. True: as hard as it does by default. False: not at all."""
    persona: Persona | str | None = None
    """The character that the model plays, which the system prompt says: a `Persona`, or a text about the person."""

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        chosen = [self.model is not None, self.role is not None, self.auto, bool(self.first_of)]
        if sum(chosen) > 1:
            raise ValueError("should name the model once: by model, by role, by auto or by first_of")
        return self

    def but(self, **changes: Any) -> Self:
        """A copy with some options changed. Raises pydantic's `ValidationError`, as a new one would.

        A change of `model`, `role`, `auto` or `first_of` replaces whichever of these four was set before.
        """
        ways = ("model", "role", "auto", "first_of")
        kept = self.model_dump(exclude_unset=True, exclude=set(ways) if changes.keys() & set(ways) else None)
        return type(self).model_validate(kept | changes)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is described to a model."""

    name: str
    description: str
    input_schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """The object that a model is asked for, as a JSON Schema; the adapter decides how it is enforced."""

    name: str
    schema: Mapping[str, object]
    description: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """A request failed in a way that may pass, and is about to be made again."""

    attempt: int
    """How many attempts have been made: 1 before the first repetition."""
    attempts: int
    """How many attempts are made at most."""
    delay_seconds: float
    """Seconds until the next attempt."""
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenUsage:
    """The tokens and the money that one or more requests used. Raises `ValueError` for a cost that is no amount."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    """How many of the input tokens the provider read from its cache."""
    cost: float = 0.0
    """In US dollars; 0 when the price is not known. NaN and infinity are refused: they would pass any budget."""

    def __post_init__(self) -> None:
        if not 0 <= self.cost < inf:
            raise ValueError(f"Expected a cost in US dollars, 0 or more, but came {self.cost!r}.")

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    @property
    def spent(self) -> tuple[int, int, float]:
        """Input tokens, output tokens, and cost in US dollars."""
        return self.input_tokens, self.output_tokens, self.cost

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cost=self.cost + other.cost,
        )

    def __sub__(self, earlier: "TokenUsage") -> "TokenUsage":
        """What was used after an earlier sum of the same requests."""
        return TokenUsage(
            input_tokens=self.input_tokens - earlier.input_tokens,
            output_tokens=self.output_tokens - earlier.output_tokens,
            cache_read_tokens=self.cache_read_tokens - earlier.cache_read_tokens,
            cost=max(self.cost - earlier.cost, 0.0),  # sums of fractions are not exact
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCall:
    """One request to a language model."""

    messages: tuple[Message, ...]
    options: LlmOptions = field(default_factory=LlmOptions)
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None
    """The object that is wanted; None: text."""
    timeout: float = 60.0
    """Seconds that one attempt may take when neither the options nor the provider's settings say."""
    on_retry: Callable[[Retry], None] | None = None
    """Called before each wait for another attempt."""
    on_partial_usage: Callable[[TokenUsage], None] | None = None
    """Called with the usage of a stream that ended early, because it was closed or broke off. If the provider had not
    reported the number of tokens, they are estimated at four characters each."""
    request: object = None
    """The `goalport.runtime.Request` that this belongs to, for code that records or scripts models. It is not sent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelReply:
    """The reply of a model to one request."""

    message: AssistantMessage
    output: str | None = None
    """The JSON text of the object that was asked for, in whichever way the provider gave it; it may still not be valid
    JSON. None when no object was asked for, when the model called tools, and when it gave nothing."""
    usage: TokenUsage = TokenUsage()
    model: str = ""
    """The name of the model as the provider gives it in its answer."""
    finish: FinishReason = "stop"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the text, or of the object's JSON text, while a reply is written."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """The next piece of the thoughts that the model shows."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """The prices of a model, in US dollars per million tokens."""

    input: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    output: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    def of(self, usage: TokenUsage) -> float:
        """The cost of these tokens, in US dollars."""
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCard:
    """What is known of a model."""

    name: str
    """Without the provider."""
    provider: str
    """For example `openai`."""
    knowledge_cutoff: date | None = None
    prices: Prices | None = None
    """The prices for replies without a cost; None: the prices that pydantic-ai knows."""
    contributors: tuple[str, ...] = ()
    """Texts for the system prompt of every call of this model."""
    vision: bool | None = None
    """Whether the model takes images; None: not known, so the provider decides."""


@runtime_checkable
class LanguageModel(Protocol):
    """A language model that can be asked."""

    @property
    def card(self) -> ModelCard:
        """What is known of the model."""
        ...

    async def reply(self, call: ModelCall, /) -> ModelReply:
        """Ask, and wait for the whole reply. Raises the kind of `ModelError` that fits."""
        ...

    def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """Ask, and get the reply piece by piece. The last item is the whole reply.

        Closing the generator ends the request. Raises the kind of `ModelError` that fits.
        """
        ...


class Vectors(list[list[float]]):
    """Vectors, and what it cost to make them. A plain list counts as a request that cost nothing."""

    def __init__(self, vectors: Iterable[list[float]] = (), usage: TokenUsage | None = None) -> None:
        super().__init__(vectors)
        self.usage = usage or TokenUsage()


def check_vector_count(service: str, texts: Sequence[str], vectors: object) -> None:
    """Raise `ModelUnavailable` unless there are as many vectors as texts: else it is unclear which belongs to which."""
    if not isinstance(vectors, Sized):
        raise ModelUnavailable(
            f"The embedding service {service!r} gave {shown(vectors)}; expected a list with a vector for each text."
        )
    if len(vectors) != len(texts):
        raise ModelUnavailable(
            f"The embedding service {service!r} was given {len(texts)} texts, and {len(vectors)} vectors came."
        )


@runtime_checkable
class EmbeddingService(Protocol):
    """A model that turns texts into vectors."""

    @property
    def name(self) -> str:
        """The name by which it is chosen."""
        ...

    @property
    def dimensions(self) -> int | None:
        """The length of its vectors; None until the first one is known."""
        ...

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        """One vector for each text, in order. Returned as `Vectors`, their cost is counted too.

        Raises the kind of `ModelError` that fits.
        """
        ...


class TransientFailure(ModelUnavailable):
    """One attempt of a request failed, and another may succeed."""

    def __init__(self, message: str, retry_after: float | None = None, *, unreachable: bool = False) -> None:
        self.retry_after = retry_after
        """Seconds that the provider asks to wait; None: it did not say."""
        self.unreachable = unreachable
        """Whether there was no connection at all: most often a wrong address, or a server that does not run."""
        super().__init__(message)


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class LlmOperations(BaseModel):
    """The limits and defaults of all requests: the table `[llm_operations]` of the settings.

    What a call sets for itself takes precedence. User guide, section 3.22 (`embabel.agent.platform.llm-operations`):
    its keys and defaults, and those of our tool loop.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    generate_examples_by_default: bool = True
    """Whether the prompt for an object shows a made-up example of one."""
    maybe_prompt_template: str = ""
    """The template that tells a model when to say that it knows too little; empty: the built-in text."""
    default_timeout: Seconds = 60.0
    """Seconds that one request to a model may take when neither its options nor its provider's settings say."""
    data_binding_max_attempts: Count = 10
    """How many times a model is asked for an object while its replies cannot be read."""
    data_binding_fixed_backoff_millis: Annotated[int, Field(ge=0)] = 30
    """Milliseconds between two of these attempts."""
    max_turns: Count = 20
    """The number of replies to one request that may call tools; the calls of the last of them are not made."""
    tool_timeout: Seconds = 60.0
    """Seconds that one call of a tool may take. The model is told of a time-out, and may go on in another way."""
    tool_result_characters: Count = 100_000
    """The most characters of a tool's result that a model gets at once; it reads on with a tool."""
    parallel_tools: bool = True
    """Whether several calls in one reply run at the same time. Their results keep the order of the calls."""
    unknown_tool_attempts: Count = 3
    """How many replies in a row may call only tools that do not exist; the model is told which tools exist."""
    empty_reply: Literal["accept", "nudge"] = "accept"
    """What happens when a model gives no text where one is wanted: it is accepted, or the model is asked once more."""
