"""A pydantic-ai model or embedding model as one of ours: one request, one attempt, one reply.

The way in which a model is made to give an object is chosen here, by what is known of the model (`OutputMode`). So is
the price of a reply: what the settings say, else pydantic-ai's price data. Those are asked once for each model and day,
because asking them takes longer than everything else that is done with a reply.
Above: `retries` makes failed requests again, `ai` calls the tools; below: `conversions` translates the records.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, Generic, TypeVar

import anyio
import httpx2
from anyio.lowlevel import current_token
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.embeddings.base import EmbeddingModel
from pydantic_ai.embeddings.result import EmbeddingResult
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.usage import RequestUsage

from goalport.base.errors import ModelRefused
from goalport.models.llm.conversions import (
    OutputMode,
    StreamPieces,
    finish_reason,
    output_text,
    output_tool_name,
    to_assistant_message,
    to_model_messages,
    to_model_settings,
    to_request_parameters,
)
from goalport.models.llm.endpoints import Endpoint
from goalport.models.llm.messages import has_images
from goalport.models.llm.model import (
    ModelCall,
    ModelCard,
    ModelReply,
    Prices,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    Vectors,
    check_vector_count,
)
from goalport.models.llm.provider_errors import SchemaRefused, provider_errors
from goalport.models.llm.retries import TransientFailure

_MILLION: Final = 1_000_000
_PRICED_FIELDS: Final = frozenset({"input_tokens", "output_tokens", "cache_read_tokens"})
_MOST_CACHED: Final = 100
T = TypeVar("T")
_CHARACTERS_PER_TOKEN = 4
"""The estimate for a stream that ended before the provider said how many tokens there were."""
_TEXTS_PER_REQUEST = 1_000
"""Providers take about twice as many."""
_EMBEDDING_SECONDS = 60.0
"""The time-out of a request for vectors, where the provider's settings do not say."""


@dataclass(frozen=True, slots=True)
class _Rates:
    """US dollars per million tokens, where each token of a kind costs the same."""

    input: float
    cache_read: float
    output: float

    def of(self, usage: RequestUsage) -> float:
        fresh = usage.input_tokens - usage.cache_read_tokens
        cost = fresh * self.input + usage.cache_read_tokens * self.cache_read + usage.output_tokens * self.output
        return cost / _MILLION


class Pricing:
    """Prices the replies of one model; `model` is the name that the provider gives it, which not every reply tells."""

    def __init__(self, model: str, configured: Prices | None = None) -> None:
        self._model = model
        self._configured = None if configured is None else _Rates(configured.input, configured.input, configured.output)
        self._cached: dict[object, _Rates | None] = {}

    def cost(self, response: ModelResponse) -> float:
        """The cost in US dollars; 0 when the price is not known."""
        if self._configured is not None:
            return self._configured.of(response.usage)
        # A reply may bear the name of a deployment or an alias that the data do not know; then the asked name counts.
        for name in dict.fromkeys((response.model_name or self._model, self._model)):
            named = replace(response, model_name=name)
            try:
                rates = self._rates(named) if _is_plain(named.usage) else None
                return float(named.cost().total_price) if rates is None else rates.of(named.usage)
            except (LookupError, ValueError):
                continue
        return 0.0

    def cost_of_vectors(self, result: EmbeddingResult) -> float:
        """The cost in US dollars; 0 when the price is not known."""
        if self._configured is not None:
            return self._configured.of(result.usage)
        for name in dict.fromkeys((result.model_name or self._model, self._model)):
            try:
                return float(replace(result, model_name=name).cost().total_price)
            except (LookupError, ValueError):
                continue
        return 0.0

    def _rates(self, response: ModelResponse) -> _Rates | None:
        """The rates for replies like this one; None when the price depends on more than the number of tokens."""
        details = response.provider_details or {}
        tier = frozenset((key, each) for key, each in details.items() if isinstance(each, str))
        like = (response.model_name, response.provider_url, response.timestamp.date(), tier)
        if like not in self._cached:
            if len(self._cached) >= _MOST_CACHED:
                self._cached.clear()
            self._cached[like] = _looked_up(response)
        return self._cached[like]


def _is_plain(usage: RequestUsage) -> bool:
    """Whether nothing was used that has a price of its own: audio, thoughts, writing to a cache."""
    return not any(count for name, count in vars(usage).items() if name not in _PRICED_FIELDS and name != "details")


def _looked_up(response: ModelResponse) -> _Rates | None:
    prices = vars(response.cost().model_price).values()
    if not all(isinstance(each, Decimal) for each in prices if each is not None):
        return None
    nothing, fresh, cached, written = (
        float(replace(response, usage=usage).cost().total_price)
        for usage in (
            RequestUsage(),
            RequestUsage(input_tokens=_MILLION),
            RequestUsage(input_tokens=_MILLION, cache_read_tokens=_MILLION),
            RequestUsage(output_tokens=_MILLION),
        )
    )
    return None if nothing else _Rates(fresh, cached, written)


class ClientPerLoop(Generic[T]):
    """An HTTP client for the running event loop, and what is made of it (`user`), kept until it is closed.

    The connections of a client belong to the event loop in which they were opened. Another loop (a second
    `invoke_sync`, the next test) gets a client of its own.
    """

    def __init__(self, client: Callable[[], httpx2.AsyncClient], user: Callable[[httpx2.AsyncClient], T]) -> None:
        self._make_client = client
        self._make_user = user
        self._loop: object = None
        self._made: tuple[httpx2.AsyncClient, T] | None = None

    def user(self) -> T:
        """What was made of the client of this event loop; it is made now if need be."""
        loop = current_token()
        if self._made is None or self._loop != loop:
            client = self._make_client()
            self._loop, self._made = loop, (client, self._make_user(client))
        return self._made[1]

    async def aclose(self) -> None:
        """Close the connections of this event loop; those of another loop ended with it."""
        made, self._made = self._made, None
        if made is not None and self._loop == current_token():
            await made[0].aclose()


class PydanticAiModel:
    """A language model of a provider, asked once for each call.

    Its errors are `ModelError`s; a `TransientFailure` may pass by itself.
    """

    def __init__(self, card: ModelCard, client: ClientPerLoop[Model], endpoint: Endpoint, model: str) -> None:
        self._card = card
        self._pricing = Pricing(model, card.prices)
        self._client = client
        self._endpoint = endpoint
        self._name = model
        self._refused: set[str] = set()

    @property
    def card(self) -> ModelCard:
        return self._card

    async def reply(self, call: ModelCall, /) -> ModelReply:
        model = self._model_for(call)
        mode = self._mode(model, call)
        try:
            return self._reply(await self._ask(model, call, mode), call, mode)
        except SchemaRefused:
            if not self._falls_back_to_tool(model, call, mode):
                raise
            return self._reply(await self._ask(model, call, "tool"), call, "tool")

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """The time-out applies to the wait for each piece."""
        model = self._model_for(call)
        mode = self._mode(model, call)
        try:
            async with aclosing(self._stream(model, call, mode)) as pieces:
                async for piece in pieces:
                    yield piece
        except SchemaRefused:
            if not self._falls_back_to_tool(model, call, mode):
                raise
            async with aclosing(self._stream(model, call, "tool")) as pieces:
                async for piece in pieces:
                    yield piece

    async def aclose(self) -> None:
        await self._client.aclose()

    def _model_for(self, call: ModelCall) -> Model:
        """The model. Raises `ModelRefused` when the call has images and the model takes none."""
        with provider_errors(self._endpoint, self._name):
            model = self._client.user()
        if has_images(call.messages) and not self._takes_images(model):
            raise ModelRefused(
                f"{self._card.provider}:{self._card.name} takes no images. Choose a model that does, or leave them out."
            )
        return model

    def _takes_images(self, model: Model) -> bool:
        known = self._card.vision
        return model.profile.get("supports_image_input", True) if known is None else known

    def _mode(self, model: Model, call: ModelCall) -> OutputMode:
        if call.output is None:
            return "text"
        if model.profile.get("supports_json_schema_output", False) and call.output.name not in self._refused:
            return "native"
        return "tool" if model.profile.get("supports_tools", True) else "prompted"

    def _falls_back_to_tool(self, model: Model, call: ModelCall, mode: OutputMode) -> bool:
        """Whether to ask again with the schema as a tool's: there, providers do not enforce it and refuse less."""
        if mode != "native" or call.output is None or not model.profile.get("supports_tools", True):
            return False
        self._refused.add(call.output.name)
        return True

    async def _ask(self, model: Model, call: ModelCall, mode: OutputMode) -> ModelResponse:
        seconds = self._seconds(call)
        with provider_errors(self._endpoint, self._name), anyio.fail_after(seconds):
            return await model_request(
                model,
                to_model_messages(call.messages, vision=self._takes_images(model)),
                model_settings=to_model_settings(call.options),
                model_request_parameters=to_request_parameters(call, mode),
                instrument=False,
            )

    async def _stream(
        self, model: Model, call: ModelCall, mode: OutputMode
    ) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        seconds = self._seconds(call)
        with provider_errors(self._endpoint, self._name):
            async with AsyncExitStack() as stack:
                # No scope may be open while a piece is handed out, so each wait has its own.
                with anyio.fail_after(seconds):
                    streamed = await stack.enter_async_context(
                        model_request_stream(
                            model,
                            to_model_messages(call.messages, vision=self._takes_images(model)),
                            model_settings=to_model_settings(call.options),
                            model_request_parameters=to_request_parameters(call, mode),
                            instrument=False,
                        )
                    )
                stack.callback(self._report_partial_usage, streamed, call)
                pieces = StreamPieces(output_tool_name(call) if mode == "tool" else "")
                events = aiter(streamed)
                while True:
                    with anyio.fail_after(seconds):
                        event = await anext(events, None)
                    if event is None:
                        break
                    if (piece := pieces.of(event)) is not None:
                        yield piece
                response = streamed.get()
        if response.finish_reason is None:  # `provider_errors` checks the dialects that say more
            raise TransientFailure(f"{self._endpoint.provider}:{self._name} stopped in the middle of its answer.")
        yield self._reply(response, call, mode)

    def _report_partial_usage(self, streamed: StreamedResponse, call: ModelCall) -> None:
        """Report what a stream used that was not read to its end."""
        response = streamed.get()
        if call.on_partial_usage is None or response.state == "complete":
            return
        written = sum(len(str(getattr(part, "content", "") or getattr(part, "args", ""))) for part in response.parts)
        used, asked = response.usage, sum(len(each.content) for each in call.messages)
        used = replace(
            used,
            input_tokens=used.input_tokens or asked // _CHARACTERS_PER_TOKEN,
            output_tokens=max(used.output_tokens, written // _CHARACTERS_PER_TOKEN),
        )
        call.on_partial_usage(self._usage(replace(response, usage=used)))

    def _usage(self, response: ModelResponse) -> TokenUsage:
        return TokenUsage(
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            cache_read_tokens=response.usage.cache_read_tokens,
            cost=self._pricing.cost(response),
        )

    def _seconds(self, call: ModelCall) -> float:
        return call.options.timeout or self._endpoint.settings.timeout or call.timeout

    def _reply(self, response: ModelResponse, call: ModelCall, mode: OutputMode) -> ModelReply:
        output_tool = output_tool_name(call) if mode == "tool" else ""
        message = to_assistant_message(response, output_tool)
        finish = finish_reason(response)
        given = mode != "text" and not message.calls and finish != "refusal"
        output = output_text(message, response, output_tool) if given else None
        if output is not None and finish == "tool_call":
            finish = "stop"
        elif message.calls and finish in {"stop", "unknown"}:
            finish = "tool_call"
        named, usage = response.model_name or self._name, self._usage(response)
        return ModelReply(message=message, output=output, usage=usage, model=named, finish=finish)


class PydanticAiEmbeddings:
    """An embedding service of a provider, asked once for each thousand texts."""

    def __init__(
        self, name: str, client: ClientPerLoop[EmbeddingModel], endpoint: Endpoint, model: str, prices: Prices | None
    ) -> None:
        self._name = name
        self._client = client
        self._endpoint = endpoint
        self._model = model
        self._pricing = Pricing(model, prices)
        self._dimensions: int | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimensions(self) -> int | None:
        return self._dimensions

    async def embed(self, texts: Sequence[str], /) -> Vectors:
        vectors = Vectors()
        for start in range(0, len(texts), _TEXTS_PER_REQUEST):
            some = texts[start : start + _TEXTS_PER_REQUEST]
            seconds = self._endpoint.settings.timeout or _EMBEDDING_SECONDS
            with provider_errors(self._endpoint, self._model), anyio.fail_after(seconds):
                result = await self._client.user().embed(list(some), input_type="document")
            check_vector_count(self._name, some, result.embeddings)
            vectors += map(list, result.embeddings)
            vectors.usage += TokenUsage(
                input_tokens=result.usage.input_tokens,
                output_tokens=result.usage.output_tokens,
                cost=self._pricing.cost_of_vectors(result),
            )
        if vectors:
            self._dimensions = len(vectors[0])
        return vectors

    async def aclose(self) -> None:
        await self._client.aclose()
