"""What a tool gave: text for a model, content blocks, and the object behind them.

Knows nothing of the tool that gave it. The wire's content blocks are the only thing of MCP that the room uses, and they
pass through as they are. Their library is imported when the first result is made: it takes longer to import than all of
goalport, and most commands make none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeGuard, cast

from pydantic_core import PydanticSerializationError, core_schema, to_json

from goalport.errors import ToolError

if TYPE_CHECKING:
    from mcp_types import ContentBlock

__all__ = ["ToolResult", "block_types", "is_content"]


def block_types() -> tuple[type, ...]:
    """The classes of MCP's content blocks."""
    from mcp_types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent

    return TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of one call. An error is an outcome too: the model that called reads it and tries something else."""

    text: str = ""
    """What a model reads."""
    blocks: "tuple[ContentBlock, ...]" = ()
    """Images, audio, resources and texts, in the order in which they are to be shown; they come after `text`."""
    artifact: object = None
    """The object that the text describes, for code that calls the tool; no model sees it."""
    is_error: bool = False
    structured: Mapping[str, object] | None = None
    """The result as JSON data, valid against the output schema where the tool declares one; None: it is none."""
    error: BaseException | None = field(default=None, compare=False, repr=False)
    """The exception that the tool did not expect; `text` quotes it to the model that called, without secrets."""

    @property
    def content(self) -> "tuple[ContentBlock, ...]":
        """Text and blocks as blocks: what goes over the wire. There is at least one."""
        texts = (_block(self.text),) if self.text or not self.blocks else ()
        return (*texts, *self.blocks)

    @classmethod
    def of_text(cls, text: str) -> "ToolResult":
        return cls(text=text)

    @classmethod
    def of_error(cls, message: str) -> "ToolResult":
        """A failure, in words that say what to do next."""
        return cls(text=message, is_error=True)

    @classmethod
    def of_artifact(cls, text: str, artifact: object) -> "ToolResult":
        """A text for the model, and the object behind it for the program."""
        return cls(text=text, artifact=artifact)

    @classmethod
    def of(cls, value: object) -> "ToolResult":
        """What a function returned, as a result.

        None is the empty text, a string is the text, content blocks pass through, a result is itself, and anything
        else is its JSON with the object as artifact. Raises ToolError for a value that has no JSON.
        """
        match value:
            case ToolResult():
                return value
            case None:
                return cls()
            case Enum():
                return cls(text=_json(value.value), artifact=value)
            case str():
                return cls(text=value)
            case _ if (blocks := _blocks(value)) is not None:
                return cls(blocks=blocks)
            case _:
                return cls(text=_json(value), artifact=value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> core_schema.CoreSchema:
        """In the eyes of pydantic an object with nothing inside: the blocks' types may not be imported yet."""
        return core_schema.is_instance_schema(cls)


def is_content(value: object) -> "TypeGuard[ContentBlock]":
    """Whether a value is a content block of MCP."""
    return isinstance(value, block_types())


def _blocks(value: object) -> "tuple[ContentBlock, ...] | None":
    """The blocks that a value consists of, strings among them as text; None when it is something else."""
    if is_content(value):
        return (value,)
    if not isinstance(value, list | tuple):
        return None
    parts = cast("Sequence[object]", value)
    if not any(map(is_content, parts)) or not all(is_content(part) or isinstance(part, str) for part in parts):
        return None
    return tuple(_block(part) for part in parts)


def _block(part: object) -> "ContentBlock":
    from mcp_types import TextContent

    return part if is_content(part) else TextContent(type="text", text=str(part))


def _json(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return to_json(value, by_alias=True, inf_nan_mode="constants").decode()
    except (PydanticSerializationError, ValueError) as error:
        raise ToolError(
            f"The tool returned {type(value).__name__}, which cannot be written as JSON ({error}). "
            "A tool returns text, JSON-like data, pydantic models, dataclasses, content blocks or a ToolResult."
        ) from error
