"""Conversions between our records and pydantic-ai's: messages, requests, replies and the events of streams.

A model's own message is sent back unchanged, with its signatures of thoughts. Providers refuse a conversation with an
unanswered tool call. So each call gets an answer, also the call whose arguments are the object that was asked for, and
calls that nobody carried out. Above: `adapter`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, cast

from pydantic_ai import messages as wire
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from goalport.models.llm.model import (
    AssistantMessage,
    FinishReason,
    LlmOptions,
    Message,
    ModelCall,
    SystemMessage,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolReply,
    UserMessage,
)

OutputMode = Literal["text", "native", "tool", "prompted"]
"""How a model is made to give an object: its provider enforces the schema (native), the object is the arguments of a
tool, or the schema is in the prompt. `text`: no object is asked for."""
_UNANSWERED = "Received."
_IMAGE_LEFT_OUT = "(An image is left out: you cannot see images.)"
_OUTPUT_TOOL = "final_result"
_FENCE_BEGIN = re.compile(r"```\w*\n")
_FENCE_END = "```"
FINISHES: Mapping[str | None, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_call": "tool_call",
    "content_filter": "refusal",
    "error": "error",
}
"""Our finish reasons by those of pydantic-ai; any other is `unknown`."""


def to_model_messages(messages: Sequence[Message], *, vision: bool = True) -> list[wire.ModelMessage]:
    """The messages for the provider. Without `vision`, a note replaces the images that tools returned."""
    converted: list[wire.ModelMessage] = []
    for message in messages:
        if not isinstance(message, AssistantMessage):
            part, last = _part(message, vision=vision), converted[-1] if converted else None
            if isinstance(last, wire.ModelRequest):
                last.parts = [*last.parts, part]
            else:
                converted.append(wire.ModelRequest(parts=[part]))
        elif isinstance(message.native, wire.ModelResponse):
            converted.append(message.native)
        else:
            text = [wire.TextPart(message.content)] if message.content else []
            calls = [wire.ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in message.calls]
            converted.append(wire.ModelResponse(parts=[*text, *calls]))
    _answer_all(converted)
    return converted


def _part(message: SystemMessage | UserMessage | ToolReply, *, vision: bool) -> wire.ModelRequestPart:
    if isinstance(message, SystemMessage):
        return wire.SystemPromptPart(message.content)
    images = [wire.BinaryContent(each.data, media_type=each.media_type) for each in message.images]
    text = message.content
    if isinstance(message, UserMessage):
        return wire.UserPromptPart([*([text] if text else []), *images] if images else text)
    if images and not vision:
        text, images = f"{text}\n{_IMAGE_LEFT_OUT}".strip(), []
    content = [*([text] if text else []), *images] if images else text
    outcome = "failed" if message.is_error else "success"
    return wire.ToolReturnPart(message.name, content, message.call_id, outcome=outcome)


def to_assistant_message(response: wire.ModelResponse, output_tool: str) -> AssistantMessage:
    """The message in a response. A call of the output tool is no tool call: it holds the object."""
    calls = [
        ToolCall(part.tool_call_id, part.tool_name, _arguments_json(part))
        for part in response.parts
        if isinstance(part, wire.ToolCallPart) and part.tool_name != output_tool
    ]
    refusal = (response.provider_details or {}).get("refusal")
    return AssistantMessage(
        content="".join(part.content for part in response.parts if isinstance(part, wire.TextPart))
        or str(refusal or ""),
        calls=tuple(calls),
        thinking="".join(part.content for part in response.parts if isinstance(part, wire.ThinkingPart)),
        native=response,
    )


def _arguments_json(call: wire.ToolCallPart) -> str:
    """The arguments as the model wrote them; pydantic-ai would wrap text that is not JSON in an object of its own."""
    return (call.args or "{}") if isinstance(call.args, str) else call.args_as_json_str()


def _answer_all(messages: list[wire.ModelMessage]) -> None:
    """Answer the tool calls that nobody answered, directly after the response that made them."""
    for place, message in enumerate(messages):
        if not isinstance(message, wire.ModelResponse) or not (calls := message.tool_calls):
            continue
        following = messages[place + 1] if place + 1 < len(messages) else None
        if not isinstance(following, wire.ModelRequest):
            messages.insert(place + 1, following := wire.ModelRequest(parts=[]))
        returns = [part for part in following.parts if isinstance(part, wire.ToolReturnPart)]
        answered = {part.tool_call_id for part in returns}
        missing = [
            wire.ToolReturnPart(call.tool_name, _UNANSWERED, call.tool_call_id)
            for call in calls
            if call.tool_call_id not in answered
        ]
        others = [part for part in following.parts if not isinstance(part, wire.ToolReturnPart)]
        following.parts = [*returns, *missing, *others]


def piece_of(
    event: wire.ModelResponseStreamEvent, output_tool: str, output_parts: set[int]
) -> TextDelta | ThinkingDelta | None:
    """The piece of the answer that an event brings: of its text, or of the arguments of the output tool.

    `output_parts` are the indexes of the calls of that tool in the answer; each event that begins one adds to them.
    """
    thought, text = "", ""
    match event:
        case wire.PartStartEvent(part=wire.TextPart(content=content)) if not output_tool:
            text = content
        case wire.PartDeltaEvent(delta=wire.TextPartDelta(content_delta=content)) if not output_tool:
            text = content
        case wire.PartStartEvent(part=wire.ThinkingPart(content=content)):
            thought = content
        case wire.PartDeltaEvent(delta=wire.ThinkingPartDelta(content_delta=str(content))):
            thought = content
        case wire.PartStartEvent(part=wire.ToolCallPart(tool_name=name) as part) if name == output_tool:
            output_parts.add(event.index)
            text = _arguments_json(part) if part.args else ""
        case wire.PartDeltaEvent(index=at, delta=wire.ToolCallPartDelta(args_delta=str(content))) if at in output_parts:
            text = content
        case _:
            pass
    if thought:
        return ThinkingDelta(thought)
    return TextDelta(text) if text else None


def output_text(message: AssistantMessage, response: wire.ModelResponse, output_tool: str) -> str | None:
    """The JSON text of the object: the arguments of the output tool, else the text without a fence around it."""
    for part in response.parts:
        if isinstance(part, wire.ToolCallPart) and part.tool_name == output_tool:
            return _arguments_json(part)
    text = message.content.strip()
    begin = _FENCE_BEGIN.match(text)
    if begin and text.endswith(_FENCE_END) and begin.end() <= len(text) - len(_FENCE_END):
        return text[begin.end() : -len(_FENCE_END)].removesuffix("\n") or None
    return message.content or None


def to_request_parameters(call: ModelCall, mode: OutputMode) -> ModelRequestParameters:
    """The tools and the output of a call, with the object asked for in this mode."""
    tools = [
        ToolDefinition(
            name=each.name,
            description=each.description,
            parameters_json_schema=dict(each.input_schema),
            strict=False,
        )
        for each in call.tools
    ]
    if call.output is None or mode == "text":
        return ModelRequestParameters(function_tools=tools)
    name, description, schema = call.output.name, call.output.description, dict(call.output.schema)
    if mode == "tool":
        output_tool = ToolDefinition(
            name=output_tool_name(call),
            description=description or f"Give the {name} that was asked for, and end with it.",
            parameters_json_schema=schema,
            kind="output",
            strict=False,
        )
        return ModelRequestParameters(
            function_tools=tools, output_mode="tool", output_tools=[output_tool], allow_text_output=False
        )
    wanted = OutputObjectDefinition(json_schema=schema, name=name, description=description or None)
    return ModelRequestParameters(function_tools=tools, output_mode=mode, output_object=wanted)


def output_tool_name(call: ModelCall) -> str:
    """The name of the tool whose arguments are the object; no other tool of the call has it."""
    name = _OUTPUT_TOOL
    while any(each.name == name for each in call.tools):
        name += "_"
    return name


def to_model_settings(options: LlmOptions) -> ModelSettings:
    """The hyperparameters of a call; the adapter itself sees to the time-out."""
    names = ("thinking", "temperature", "top_p", "top_k", "max_tokens", "frequency_penalty", "presence_penalty")
    given = {name: getattr(options, name) for name in names}
    return cast("ModelSettings", {name: each for name, each in given.items() if each is not None})
