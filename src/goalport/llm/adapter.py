"""A pydantic-ai model or embedding model as one of ours: one request, one attempt, one reply.

The way in which a model is made to give an object is chosen here, by what is known of the model (`OutputMode`).
Above: `retries` makes failed requests again, `ai` calls the tools; below: `conversions` translates the records.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Generic, TypeVar

import anyio
import httpx2
from anyio.lowlevel import current_token
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.embeddings.base import EmbeddingModel
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, StreamedResponse

from goalport.errors import ModelRefused
from goalport.llm.conversions import (
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
from goalport.llm.messages import has_images
from goalport.llm.model import (
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
from goalport.llm.pricing import Pricing
from goalport.llm.provider_errors import SchemaRefused, provider_errors
from goalport.llm.providers import Endpoint
from goalport.llm.retries import TransientFailure

__all__ = ["ClientPerLoop", "PydanticAiEmbeddings", "PydanticAiModel"]

T = TypeVar("T")
_CHARACTERS_PER_TOKEN = 4
"""The estimate for a stream that ended before the provider said how many tokens there were."""
_TEXTS_PER_REQUEST = 1_000
"""Providers take about twice as many."""
_EMBEDDING_SECONDS = 60.0
"""The time-out of a request for vectors, where the provider's settings do not say."""


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
            some = await self._embed(texts[start : start + _TEXTS_PER_REQUEST])
            vectors += some
            vectors.usage += some.usage
        if vectors:
            self._dimensions = len(vectors[0])
        return vectors

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        seconds = self._endpoint.settings.timeout or _EMBEDDING_SECONDS
        with provider_errors(self._endpoint, self._model), anyio.fail_after(seconds):
            result = await self._client.user().embed(list(texts), input_type="document")
        check_vector_count(self._name, texts, result.embeddings)
        usage = TokenUsage(
            input_tokens=result.usage.input_tokens,
            output_tokens=result.usage.output_tokens,
            cost=self._pricing.cost_of_vectors(result),
        )
        return Vectors(map(list, result.embeddings), usage)
