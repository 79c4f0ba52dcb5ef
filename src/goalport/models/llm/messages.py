"""The messages of a conversation with a model: plain records, the same for every provider.

Nothing here knows a provider. `conversions` turns these records into pydantic-ai's, and the answers back.
User guide, section 3.8.3 (images).
"""

import mimetypes
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from goalport.base.errors import BadInput

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
    """The end of the content that holds at this moment only, so that the request is the same one without it."""


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
    """Whether a user shows the model an image."""
    return any(isinstance(each, UserMessage) and each.images for each in messages)
