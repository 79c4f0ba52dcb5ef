"""Answering upstream servers that want a model asked (MCP, `sampling/createMessage`), where their entry allows it.

The platform's default model answers, whatever the server would rather have; no tools are offered to it, and what the
server wrote is taken as it is.
"""

import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from goalport.ai import Ai
from goalport.errors import BadInput
from goalport.llm import AssistantMessage, Image, UserMessage

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Sampling"]

_MOST_TOKENS = 4_096
"""What a server may have written for one request, however much it asks for."""


class Sampling:
    """Asks our default model for servers."""

    def __init__(self, ai: Callable[[], Ai], model: Callable[[], str]) -> None:
        self._ai = ai
        self._model = model

    async def __call__(self, server: str, request: "CreateMessageRequestParams", /) -> "CreateMessageResult":
        """What the model says. Raises `GoalportError` when it says nothing, or the request cannot be understood."""
        from mcp_types import CreateMessageResult, TextContent

        if request.tools:
            raise BadInput("Models are asked without tools here. Ask without.")
        limits: dict[str, Any] = {"max_tokens": max(1, min(request.max_tokens, _MOST_TOKENS))}
        if request.temperature is not None:
            limits["temperature"] = request.temperature
        ai = self._ai().with_default_llm().with_llm(**limits).with_id(f"sampling for {server}")
        if request.system_prompt:
            ai = ai.with_system_prompt(request.system_prompt)
        said = await ai.respond([_message(each.role, each.content) for each in request.messages])
        words = TextContent(type="text", text=said.content)
        return CreateMessageResult(role="assistant", content=words, model=self._model(), stop_reason="endTurn")


def _message(role: str, content: Any) -> UserMessage | AssistantMessage:
    blocks = cast("list[Any]", content if isinstance(content, list) else [content])
    texts: list[str] = []
    images: list[Image] = []
    for block in blocks:
        match block.type:
            case "text":
                texts.append(block.text)
            case "image" if role == "user":
                images.append(_image(block.mime_type, block.data))
            case kind:
                raise BadInput(
                    f"A model cannot be asked with {kind} from {role} here. Send texts, or images of the user."
                )
    text = "\n\n".join(texts)
    return UserMessage(text, tuple(images)) if role == "user" else AssistantMessage(text)


def _image(media_type: str, data: str) -> Image:
    try:
        return Image(media_type, base64.b64decode(data, validate=True))
    except binascii.Error:
        raise BadInput("The data of an image are no base64.") from None
