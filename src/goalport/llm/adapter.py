"""A model of pydantic-ai as ours: one request, one reply, once.

How a model is made to give an object is decided here, by what is known of it: it writes by the schema (native), calls a
tool whose arguments are the object, or is told the schema in words. `retrying` asks again; `ai` calls the tools.
"""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Literal

import anyio
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from goalport.errors import ModelRefused
from goalport.llm.connection import Connection
from goalport.llm.failures import SchemaRefused, translated
from goalport.llm.messages import AssistantMessage
from goalport.llm.model import (
    FinishReason,
    ModelCall,
    ModelCard,
    ModelReply,
    OutputSpec,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolSpec,
)
from goalport.llm.options import LlmOptions
from goalport.llm.pricing import Pricing
from goalport.llm.providers import Endpoint
from goalport.llm.retrying import PassingFailure
from goalport.llm.transcript import arguments_of, has_images, heard, told

__all__ = ["AdaptedModel"]

_OUTPUT_TOOL = "final_result"
_TOKEN = 4
"""Characters of one token, where nobody says how many there were."""
_FENCE_BEGIN = re.compile(r"```\w*\n")
_FENCE_END = "```"
_FINISHES: Mapping[str | None, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_call": "tool_call",
    "content_filter": "refusal",
    "error": "error",
}
_Mode = Literal["text", "native", "tool", "prompted"]


class AdaptedModel:
    """A model of a provider. Its errors are ours; a `PassingFailure` is one that may pass."""

    def __init__(self, card: ModelCard, connection: Connection[Model], endpoint: Endpoint, model: str) -> None:
        self._card = card
        self._pricing = Pricing(model, card.prices)
        self._connection = connection
        self._endpoint = endpoint
        self._name = model
        self._refused: set[str] = set()

    @property
    def card(self) -> ModelCard:
        return self._card

    async def reply(self, call: ModelCall, /) -> ModelReply:
        model = self._sighted(call)
        mode = self._mode(model, call)
        try:
            return self._reply(await self._ask(model, call, mode), call, mode)
        except SchemaRefused:
            if not self._may_ask_otherwise(model, call, mode):
                raise
            return self._reply(await self._ask(model, call, "tool"), call, "tool")

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """A time-out counts from one piece to the next."""
        model = self._sighted(call)
        mode = self._mode(model, call)
        try:
            async with aclosing(self._stream(model, call, mode)) as pieces:
                async for piece in pieces:
                    yield piece
        except SchemaRefused:
            if not self._may_ask_otherwise(model, call, mode):
                raise
            async with aclosing(self._stream(model, call, "tool")) as pieces:
                async for piece in pieces:
                    yield piece

    async def aclose(self) -> None:
        await self._connection.aclose()

    def _sighted(self, call: ModelCall) -> Model:
        """The model, when it can take the images of the call."""
        with translated(self._endpoint, self._name):
            model = self._connection.user()
        if has_images(call.messages) and not self._sees(model):
            raise ModelRefused(
                f"{self._card.provider}:{self._card.name} takes no images. Choose a model that does, or leave them out."
            )
        return model

    def _sees(self, model: Model) -> bool:
        known = self._card.vision
        return model.profile.get("supports_image_input", True) if known is None else known

    def _mode(self, model: Model, call: ModelCall) -> _Mode:
        if call.output is None:
            return "text"
        if model.profile.get("supports_json_schema_output", False) and call.output.name not in self._refused:
            return "native"
        return "tool" if model.profile.get("supports_tools", True) else "prompted"

    def _may_ask_otherwise(self, model: Model, call: ModelCall, mode: _Mode) -> bool:
        """A tool's arguments are not held to the schema, so a provider that refuses one there may take it here."""
        if mode != "native" or call.output is None or not model.profile.get("supports_tools", True):
            return False
        self._refused.add(call.output.name)
        return True

    async def _ask(self, model: Model, call: ModelCall, mode: _Mode) -> ModelResponse:
        seconds = self._seconds(call)
        with translated(self._endpoint, self._name), anyio.fail_after(seconds):
            return await model_request(
                model,
                told(call.messages, vision=self._sees(model)),
                model_settings=_settings(call.options),
                model_request_parameters=_parameters(call, mode),
                instrument=False,
            )

    async def _stream(
        self, model: Model, call: ModelCall, mode: _Mode
    ) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        seconds = self._seconds(call)
        with translated(self._endpoint, self._name):
            async with AsyncExitStack() as stack:
                # No scope may be open while a piece is handed out, so each wait has its own.
                with anyio.fail_after(seconds):
                    streamed = await stack.enter_async_context(
                        model_request_stream(
                            model,
                            told(call.messages, vision=self._sees(model)),
                            model_settings=_settings(call.options),
                            model_request_parameters=_parameters(call, mode),
                            instrument=False,
                        )
                    )
                stack.callback(self._report_partial_usage, streamed, call)
                pieces = _Pieces(_output_name(call) if mode == "tool" else "")
                events = aiter(streamed)
                while True:
                    with anyio.fail_after(seconds):
                        event = await anext(events, None)
                    if event is None:
                        break
                    if (piece := pieces.of(event)) is not None:
                        yield piece
                response = streamed.get()
        if response.finish_reason is None:  # `wire` knows the dialects that say more
            raise PassingFailure(f"{self._endpoint.provider}:{self._name} stopped in the middle of its answer.")
        yield self._reply(response, call, mode)

    def _report_partial_usage(self, streamed: StreamedResponse, call: ModelCall) -> None:
        """Tell what a stream used that was not read to its end."""
        response = streamed.get()
        if call.on_partial_usage is None or response.state == "complete":
            return
        written = sum(len(str(getattr(part, "content", "") or getattr(part, "args", ""))) for part in response.parts)
        used, said = response.usage, sum(len(each.content) for each in call.messages)
        used = replace(
            used,
            input_tokens=used.input_tokens or said // _TOKEN,
            output_tokens=max(used.output_tokens, written // _TOKEN),
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

    def _reply(self, response: ModelResponse, call: ModelCall, mode: _Mode) -> ModelReply:
        output_tool = _output_name(call) if mode == "tool" else ""
        message = heard(response, output_tool)
        finish = _FINISHES.get(response.finish_reason, "unknown")
        output = (
            None if mode == "text" or message.calls or finish == "refusal" else _output(message, response, output_tool)
        )
        if output is not None and finish == "tool_call":
            finish = "stop"
        elif message.calls and finish in {"stop", "unknown"}:
            finish = "tool_call"
        named, usage = response.model_name or self._name, self._usage(response)
        return ModelReply(message=message, output=output, usage=usage, model=named, finish=finish)


class _Pieces:
    """Which events of a stream are pieces of its answer: its text, or the arguments of the tool that is its object."""

    def __init__(self, output_tool: str) -> None:
        self._by_tool = output_tool
        self._output_parts: set[int] = set()

    def of(self, event: ModelResponseStreamEvent) -> TextDelta | ThinkingDelta | None:
        thought, text = "", ""
        match event:
            case PartStartEvent(part=TextPart(content=content)) if not self._by_tool:
                text = content
            case PartDeltaEvent(delta=TextPartDelta(content_delta=content)) if not self._by_tool:
                text = content
            case PartStartEvent(part=ThinkingPart(content=content)):
                thought = content
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(content))):
                thought = content
            case PartStartEvent(part=ToolCallPart(tool_name=name) as part) if name == self._by_tool:
                self._output_parts.add(event.index)
                text = arguments_of(part) if part.args else ""
            case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=str(content))) if event.index in self._output_parts:
                text = content
            case _:
                pass
        if thought:
            return ThinkingDelta(thought)
        return TextDelta(text) if text else None


def _output(message: AssistantMessage, response: ModelResponse, output_tool: str) -> str | None:
    """The JSON text of the object: what the output tool was given, else what was written, without a fence around it."""
    for part in response.parts:
        if isinstance(part, ToolCallPart) and part.tool_name == output_tool:
            return arguments_of(part)
    said = message.content.strip()
    begin = _FENCE_BEGIN.match(said)
    if begin and said.endswith(_FENCE_END) and begin.end() <= len(said) - len(_FENCE_END):
        return said[begin.end() : -len(_FENCE_END)].removesuffix("\n") or None
    return message.content or None


def _parameters(call: ModelCall, mode: _Mode) -> ModelRequestParameters:
    tools = [_tool(each) for each in call.tools]
    if call.output is None or mode == "text":
        return ModelRequestParameters(function_tools=tools)
    if mode == "tool":
        return ModelRequestParameters(
            function_tools=tools,
            output_mode="tool",
            output_tools=[_output_tool(call.output, _output_name(call))],
            allow_text_output=False,
        )
    wanted = OutputObjectDefinition(
        json_schema=dict(call.output.schema), name=call.output.name, description=call.output.description or None
    )
    return ModelRequestParameters(function_tools=tools, output_mode=mode, output_object=wanted)


def _tool(spec: ToolSpec) -> ToolDefinition:
    return ToolDefinition(
        name=spec.name, description=spec.description, parameters_json_schema=dict(spec.input_schema), strict=False
    )


def _output_name(call: ModelCall) -> str:
    """What the tool is called whose arguments are the object: as no other tool of the call is."""
    name = _OUTPUT_TOOL
    while any(each.name == name for each in call.tools):
        name += "_"
    return name


def _output_tool(spec: OutputSpec, name: str) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description=spec.description or f"Give the {spec.name} that was asked for, and end with it.",
        parameters_json_schema=dict(spec.schema),
        kind="output",
        strict=False,
    )


def _settings(options: LlmOptions) -> ModelSettings:
    settings = ModelSettings()
    if options.thinking is not None:
        settings["thinking"] = options.thinking
    for name in ("temperature", "top_p", "top_k", "max_tokens", "frequency_penalty", "presence_penalty"):
        if (value := getattr(options, name)) is not None:
            settings[name] = value
    return settings
