"""What is said to a model and what it says: plain records, the same for every provider.

Nothing here knows a provider; `adapter` turns these into what one understands, and back.
"""

from dataclasses import dataclass
from typing import Literal

from goalport.llm.images import Image

__all__ = ["AssistantMessage", "FinishReason", "Message", "SystemMessage", "ToolCall", "ToolReply", "UserMessage"]


FinishReason = Literal["stop", "length", "tool_call", "refusal", "error", "unknown"]
"""Why a model stopped; `length`: it was cut off."""


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Instructions that stand above the conversation."""

    content: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a person, or the program in a person's place, says."""

    content: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish that a tool be called."""

    id: str
    name: str
    arguments: str = "{}"
    """As the model wrote it: meant to be a JSON object, and not always one."""


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What a model said."""

    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    """The tools it wants called, in order; each is answered by a `ToolReply`."""
    thinking: str = ""
    """What it let see of its thoughts."""
    native: object = None
    """The provider's own form of the message, sent back as it was: signatures of thoughts live there."""
    finish: FinishReason = "stop"
    """Why it ended, of what `Ai.respond` gives; `length`: it was cut off by `max_tokens`."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a tool gave, for the model that called it."""

    call_id: str
    name: str
    content: str
    images: tuple[Image, ...] = ()
    is_error: bool = False


Message = SystemMessage | UserMessage | AssistantMessage | ToolReply
"""One entry of a conversation."""
