"""A conversation in pydantic-ai's terms, and back.

A model's own message goes back as it came, signatures of thoughts included. Every call that it made is answered, for
providers refuse a conversation in which one is not: the call by which it gave its object, and those that nobody made.
"""

from collections.abc import Sequence
from typing import assert_never

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from goalport.llm.images import Image
from goalport.llm.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolReply, UserMessage

__all__ = ["arguments_of", "has_images", "heard", "told"]

_UNANSWERED = "Received."
_IMAGE_LEFT_OUT = "(An image is left out: you cannot see images.)"


def has_images(messages: Sequence[Message]) -> bool:
    """Whether a user shows the model something."""
    return any(isinstance(each, UserMessage) and each.images for each in messages)


def told(messages: Sequence[Message], *, vision: bool = True) -> list[ModelMessage]:
    """What the provider is told. Without `vision`, images that tools gave are left out, and that is said."""
    said: list[ModelMessage] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            said.append(_response(message))
        else:
            _request(said).append(_part(message, vision=vision))
    _answer_all(said)
    return said


def heard(response: ModelResponse, output_tool: str) -> AssistantMessage:
    """What the model said; the call of the tool by which it gave its object is none of its calls."""
    calls = [
        ToolCall(part.tool_call_id, part.tool_name, arguments_of(part))
        for part in response.parts
        if isinstance(part, ToolCallPart) and part.tool_name != output_tool
    ]
    refusal = (response.provider_details or {}).get("refusal")
    return AssistantMessage(
        content="".join(part.content for part in response.parts if isinstance(part, TextPart)) or str(refusal or ""),
        calls=tuple(calls),
        thinking="".join(part.content for part in response.parts if isinstance(part, ThinkingPart)),
        native=response,
    )


def arguments_of(call: ToolCallPart) -> str:
    """The arguments as the model wrote them; pydantic-ai would put what is no JSON into some of its own."""
    return (call.args or "{}") if isinstance(call.args, str) else call.args_as_json_str()


def _response(message: AssistantMessage) -> ModelResponse:
    if isinstance(message.native, ModelResponse):
        return message.native
    text = [TextPart(message.content)] if message.content else []
    calls = [ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in message.calls]
    return ModelResponse(parts=[*text, *calls])


def _request(said: list[ModelMessage]) -> list[ModelRequestPart]:
    """The parts of the request that is being put together."""
    if not said or not isinstance(said[-1], ModelRequest):
        said.append(ModelRequest(parts=[]))
    last = said[-1]
    assert isinstance(last, ModelRequest)
    assert isinstance(last.parts, list)
    return last.parts


def _part(message: SystemMessage | UserMessage | ToolReply, *, vision: bool) -> ModelRequestPart:
    match message:
        case SystemMessage():
            return SystemPromptPart(message.content)
        case UserMessage():
            return UserPromptPart(_with_images(message.content, message.images) if message.images else message.content)
        case ToolReply():
            content = _with_images(message.content, message.images) if message.images and vision else message.content
            if message.images and not vision:
                content = f"{message.content}\n{_IMAGE_LEFT_OUT}".strip()
            outcome = "failed" if message.is_error else "success"
            return ToolReturnPart(message.name, content, message.call_id, outcome=outcome)
        case _:
            assert_never(message)


def _with_images(text: str, images: Sequence[Image]) -> list[UserContent]:
    content = [BinaryContent(image.data, media_type=image.media_type) for image in images]
    return [text, *content] if text else [*content]


def _answer_all(said: list[ModelMessage]) -> None:
    """Answer the calls that nobody answered, before anything else that is said after them."""
    for place, message in enumerate(said):
        if not isinstance(message, ModelResponse) or not (calls := message.tool_calls):
            continue
        if place + 1 == len(said):
            said.append(ModelRequest(parts=[]))
        following = said[place + 1]
        if not isinstance(following, ModelRequest):
            following = ModelRequest(parts=[])
            said.insert(place + 1, following)
        returns = [part for part in following.parts if isinstance(part, ToolReturnPart)]
        answered = {part.tool_call_id for part in returns}
        missing = [
            ToolReturnPart(call.tool_name, _UNANSWERED, call.tool_call_id)
            for call in calls
            if call.tool_call_id not in answered
        ]
        others = [part for part in following.parts if not isinstance(part, ToolReturnPart)]
        following.parts = [*returns, *missing, *others]
