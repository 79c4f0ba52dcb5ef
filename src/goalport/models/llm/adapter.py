"""Gives models and embedding models of pydantic-ai our interface: one request, one attempt, one reply.

This module chooses how a model is made to give an object (`OutputMode`), by what is known of the model. It prices each
reply by the settings, or else by pydantic-ai's price data. The HTTP client is made here too; what differs between APIs
is in `dialects`. Importing this module takes seconds.
Above: `provider_models` makes failed requests again; below: `conversions` translates the records.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeVar

import anyio
import httpx2
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.embeddings.base import EmbeddingModel
from pydantic_ai.embeddings.result import EmbeddingResult
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, StreamedResponse, create_async_httpx2_client

from goalport.base.errors import ModelRefused
from goalport.base.observe.spans import send_trace
from goalport.models.llm.conversions import (
    FINISHES,
    OutputMode,
    output_text,
    output_tool_name,
    piece_of,
    to_assistant_message,
    to_model_messages,
    to_model_settings,
    to_request_parameters,
)
from goalport.models.llm.dialects import NO_KEY, Endpoint
from goalport.models.llm.model import (
    ModelCall,
    ModelCard,
    ModelReply,
    Prices,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    TransientFailure,
    Vectors,
    check_vector_count,
    has_images,
)
from goalport.models.llm.provider_errors import SchemaRefused, check_responses, provider_errors

T = TypeVar("T")
Close = Callable[[], Awaitable[None]]
"""Closes the connections."""
_CHARACTERS_PER_TOKEN = 4
"""The estimate for a stream that ended before the provider said how many tokens there were."""
_TEXTS_PER_REQUEST = 1_000
"""The most texts in one request for vectors; providers accept about twice as many."""
_EMBEDDING_SECONDS = 60.0
"""The time-out of a request for vectors, where the provider's settings do not say."""
_CONNECT_SECONDS = 5.0
_KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_PRICE_DATA = ("genai_prices.data", "genai_prices.data_units", "genai_prices.validation", "genai_prices.decompose")


class Pricing:
    """Prices the replies of one model; `model` is the provider's name for it, which some replies lack."""

    def __init__(self, model: str, configured: Prices | None = None) -> None:
        self._model, self._configured = model, configured

    def usage(self, given: ModelResponse | EmbeddingResult) -> TokenUsage:
        """What was used, with its cost in US dollars: 0 when the price is not known."""
        used = given.usage
        usage = TokenUsage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
        )
        if self._configured is not None:
            return replace(usage, cost=self._configured.of(usage))
        # A reply may name a deployment or an alias that the data do not know; then the requested name counts.
        for name in dict.fromkeys((given.model_name or self._model, self._model)):
            with suppress(LookupError, ValueError):
                return replace(usage, cost=float(replace(given, model_name=name).cost().total_price))
        return usage


def _client(endpoint: Endpoint) -> httpx2.AsyncClient:
    # The time-out of a request is set by `PydanticAiModel`; nothing below may give up earlier.
    client = create_async_httpx2_client(timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS))
    settings = endpoint.settings
    paths = {"/chat/completions": settings.completions_path, "/embeddings": settings.embeddings_path}

    async def prepare(request: httpx2.Request) -> None:
        for usual, own in paths.items():
            if own and request.url.path.endswith(usual):
                request.url = request.url.copy_with(path=f"/{own.lstrip('/')}")
        for name in _KEY_HEADERS:  # a server might refuse the stand-in for a key, which it does not know
            if not endpoint.api_key and request.headers.get(name, "").removeprefix("Bearer ") == NO_KEY:
                del request.headers[name]

    client.event_hooks["request"] += [prepare, send_trace]
    check_responses(client, endpoint.dialect.stream_end)
    return client


class PydanticAiModel:
    """A language model of a provider, asked once for each call.

    It raises `ModelError`s; after a `TransientFailure` another attempt may succeed.
    """

    def __init__(self, card: ModelCard, model: Model, name: str, endpoint: Endpoint) -> None:
        """`name` is the provider's name for the model."""
        self.card, self._model, self._name, self._endpoint = card, model, name, endpoint
        self._pricing = Pricing(name, card.prices)
        self._refused: set[str] = set()
        """The names of the objects whose schemas the provider refused to enforce."""

    async def reply(self, call: ModelCall, /) -> ModelReply:
        async with aclosing(self._ask(call, by_piece=False)) as replies:
            return [each async for each in replies if isinstance(each, ModelReply)][-1]

    def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """The time-out applies to the wait for each piece."""
        return self._ask(call, by_piece=True)

    async def _ask(self, call: ModelCall, *, by_piece: bool) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        modes = self._modes(call)
        for mode in modes:
            try:
                if by_piece:
                    async with aclosing(self._stream(call, mode)) as pieces:
                        async for piece in pieces:
                            yield piece
                else:
                    with provider_errors(self._endpoint, self._name), anyio.fail_after(self._seconds(call)):
                        response = await model_request(self._model, **self._wire(call, mode))
                    yield self._reply(response, call, mode)
                return
            except SchemaRefused:
                if call.output is None or mode == modes[-1]:
                    raise
                self._refused.add(call.output.name)

    def _modes(self, call: ModelCall) -> list[OutputMode]:
        """The ways to get the object, in order: the next one is used when the provider refuses the schema.

        Providers do not enforce the schema of a tool, and so refuse it less often. Raises `ModelRefused` when the call
        has images and the model takes none.
        """
        if has_images(call.messages) and not self._takes_images:
            raise ModelRefused(
                f"{self.card.provider}:{self.card.name} takes no images. Choose a model that does, or leave them out."
            )
        if call.output is None:
            return ["text"]
        profile = self._model.profile
        native = profile.get("supports_json_schema_output", False) and call.output.name not in self._refused
        tools = profile.get("supports_tools", True)
        modes: list[OutputMode] = [*(["native"] if native else []), *(["tool"] if tools else [])]
        return modes or ["prompted"]

    @property
    def _takes_images(self) -> bool:
        known = self.card.vision
        return self._model.profile.get("supports_image_input", True) if known is None else known

    def _wire(self, call: ModelCall, mode: OutputMode) -> dict[str, Any]:
        """A call as pydantic-ai takes it."""
        return {
            "messages": to_model_messages(call.messages, vision=self._takes_images),
            "model_settings": to_model_settings(call.options),
            "model_request_parameters": to_request_parameters(call, mode),
            "instrument": False,
        }

    async def _stream(
        self, call: ModelCall, mode: OutputMode
    ) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        seconds = self._seconds(call)
        with provider_errors(self._endpoint, self._name):
            async with AsyncExitStack() as stack:
                # No cancel scope may be open at a `yield`, so each wait has its own.
                with anyio.fail_after(seconds):
                    request = model_request_stream(self._model, **self._wire(call, mode))
                    streamed = await stack.enter_async_context(request)
                stack.callback(self._report_partial_usage, streamed, call)
                output_tool, output_parts = output_tool_name(call) if mode == "tool" else "", set[int]()
                events = aiter(streamed)
                while True:
                    with anyio.fail_after(seconds):
                        event = await anext(events, None)
                    if event is None:
                        break
                    if (piece := piece_of(event, output_tool, output_parts)) is not None:
                        yield piece
                response = streamed.get()
        if response.finish_reason is None:  # `check_responses` checks the dialects that say more
            raise TransientFailure(f"{self._endpoint.provider}:{self._name} stopped in the middle of its answer.")
        yield self._reply(response, call, mode)

    def _report_partial_usage(self, streamed: StreamedResponse, call: ModelCall) -> None:
        """Report the usage of a stream that was not read to its end."""
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
        call.on_partial_usage(self._pricing.usage(replace(response, usage=used)))

    def _seconds(self, call: ModelCall) -> float:
        return call.options.timeout or self._endpoint.settings.timeout or call.timeout

    def _reply(self, response: ModelResponse, call: ModelCall, mode: OutputMode) -> ModelReply:
        output_tool = output_tool_name(call) if mode == "tool" else ""
        message = to_assistant_message(response, output_tool)
        finish = FINISHES.get(response.finish_reason, "unknown")
        given = mode != "text" and not message.calls and finish != "refusal"
        output = output_text(message, response, output_tool) if given else None
        if output is not None and finish == "tool_call":
            finish = "stop"
        elif message.calls and finish in {"stop", "unknown"}:
            finish = "tool_call"
        named, usage = response.model_name or self._name, self._pricing.usage(response)
        return ModelReply(message=message, output=output, usage=usage, model=named, finish=finish)


class PydanticAiEmbeddings:
    """An embedding service of a provider, asked once for each thousand texts."""

    def __init__(self, card: ModelCard, name: str, model: EmbeddingModel, asked: str, endpoint: Endpoint) -> None:
        """`asked` is the provider's name for the model."""
        self.name, self._model, self._asked, self._endpoint = name, model, asked, endpoint
        self._pricing = Pricing(asked, card.prices)
        self.dimensions: int | None = None

    async def embed(self, texts: Sequence[str], /) -> Vectors:
        vectors, seconds = Vectors(), self._endpoint.settings.timeout or _EMBEDDING_SECONDS
        for start in range(0, len(texts), _TEXTS_PER_REQUEST):
            some = texts[start : start + _TEXTS_PER_REQUEST]
            with provider_errors(self._endpoint, self._asked), anyio.fail_after(seconds):
                result = await self._model.embed(list(some), input_type="document")
            check_vector_count(self.name, some, result.embeddings)
            vectors += map(list, result.embeddings)
            vectors.usage += self._pricing.usage(result)
        if vectors:
            self.dimensions = len(vectors[0])
        return vectors


def language_model(card: ModelCard, model: str, endpoint: Endpoint) -> tuple[PydanticAiModel, Close]:
    """A model at an endpoint, and the function that closes its connections; `model` is the provider's name for it."""
    made, close = _opened(endpoint, model, endpoint.dialect.model)
    return PydanticAiModel(card, made, model, endpoint), close


def embedding_service(card: ModelCard, name: str, model: str, endpoint: Endpoint) -> tuple[PydanticAiEmbeddings, Close]:
    """An embedding service at an endpoint, and the function that closes its connections."""
    assert endpoint.dialect.embeddings is not None, "the catalogue refuses providers without embedding models"
    made, close = _opened(endpoint, model, endpoint.dialect.embeddings)
    return PydanticAiEmbeddings(card, name, made, model, endpoint), close


def _opened(endpoint: Endpoint, model: str, make: Callable[[Endpoint, str, httpx2.AsyncClient], T]) -> tuple[T, Close]:
    """What a dialect makes with a new client. First imports what libraries would import later, on the event loop."""
    for name in (*_PRICE_DATA, *endpoint.dialect.imports):
        import_module(name)
    with provider_errors(endpoint, model):
        client = _client(endpoint)
        return make(endpoint, model, client), client.aclose
