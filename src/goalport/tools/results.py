"""`ToolResult`, the result of a tool: text for a model, content blocks, and the object behind them.

The return type of a function is published as the output schema, and its results are checked against it. A value that
is no JSON object is wrapped as `{"result": …}`, as for goals, because some clients reject a bare number or list. The
content blocks are the only part of MCP that this package uses; their library is imported when the first result is
created, since that takes longer than importing all of goalport.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from enum import Enum
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, core_schema, to_json, to_jsonable_python
from typing_extensions import is_typeddict

from goalport.base.errors import DeclarationError, ToolError
from goalport.base.introspection import Origin
from goalport.base.words import one_line, shortened, validation_problems
from goalport.tools.schemas import (
    UNREADABLE,
    PlainSchema,
    may_hold_non_finite,
    non_finite_in_words,
    rooted,
    why_not_json,
)

if TYPE_CHECKING:
    from mcp_types import ContentBlock


def block_types() -> tuple[type, ...]:
    """The classes of MCP's content blocks."""
    from mcp_types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent

    return TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one call. An error is a result too: the model reads it and tries something else."""

    text: str = ""
    """The text for the model."""
    blocks: "tuple[ContentBlock, ...]" = ()
    """Images, audio, resources and texts, in the order to show them, after `text`."""
    artifact: object = None
    """The object that the text describes, for code that calls the tool; models do not see it."""
    is_error: bool = False
    structured: Mapping[str, object] | None = None
    """The result as a JSON object, valid against the tool's output schema if it has one; None: there is none."""
    error: BaseException | None = field(default=None, compare=False, repr=False, metadata={"stored": False})
    """The unexpected exception that the tool raised; `text` quotes it to the model, without secrets."""
    cause: BaseException | None = field(default=None, compare=False, repr=False, metadata={"stored": False})
    """The exception behind a failure that the tool describes in `text`: for the log and for code, not for models."""

    @property
    def content(self) -> "tuple[ContentBlock, ...]":
        """Text and blocks as content blocks, as MCP transmits them; there is at least one."""
        texts = (_text_block(self.text),) if self.text or not self.blocks else ()
        return (*texts, *self.blocks)

    @classmethod
    def of_text(cls, text: str) -> "ToolResult":
        return cls(text=text)

    @classmethod
    def of_error(cls, message: str, cause: BaseException | None = None) -> "ToolResult":
        """A failure; the message should say what to do next. `cause` is for the log; models do not see it."""
        return cls(text=message, is_error=True, cause=cause)

    @classmethod
    def of_artifact(cls, text: str, artifact: object) -> "ToolResult":
        """A text for the model and an object for the program."""
        return cls(text=text, artifact=artifact)

    @classmethod
    def of(cls, value: object) -> "ToolResult":
        """Convert the return value of a function into a result.

        None becomes the empty text, a string the text, content blocks the blocks; a result is returned unchanged, and
        anything else becomes JSON text, with the object as artifact. Raises `ToolError` for a value without JSON.
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
        """Let pydantic check for an instance only: the types of the blocks may not be imported yet."""
        return core_schema.is_instance_schema(cls)


def _blocks(value: object) -> "tuple[ContentBlock, ...] | None":
    """The value as content blocks, with strings as text blocks; None if it has no block, or also other values."""
    types = block_types()
    parts = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
    if not any(isinstance(each, types) for each in parts) or not all(isinstance(each, (*types, str)) for each in parts):
        return None
    return tuple(_text_block(each) if isinstance(each, str) else cast("ContentBlock", each) for each in parts)


def _text_block(text: str) -> "ContentBlock":
    from mcp_types import TextContent

    return TextContent(type="text", text=text)


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


_UNDESCRIBED: Final = (NoneType, Any, object)
"""Return types for which no schema is published."""


@dataclass(frozen=True, slots=True)
class Output:
    """The declared return type; `schema` is None if no schema is published, as for content blocks and results."""

    adapter: TypeAdapter[Any] | None = None
    schema: Mapping[str, object] | None = None
    is_wrapped: bool = False
    """Whether the value is wrapped as `{"result": value}`, as the schema says."""

    def result(self, value: object) -> ToolResult:
        """Convert a return value into a result. Raises `ToolError` if it is not of the declared type."""
        if isinstance(value, ToolResult):
            return value
        if self.adapter is None:
            result = ToolResult.of(value)
            if value is None or result.blocks:
                return result
            plain: object = to_jsonable_python(value, by_alias=True)
            if may_hold_non_finite(result.text) and non_finite_in_words(plain):
                return result
            structured = cast("dict[str, object]", plain) if isinstance(plain, dict) else {"result": plain}
            return replace(result, structured=structured)
        try:
            kept = self.adapter.validate_python(value)
            plain = self.adapter.dump_python(kept, mode="json", by_alias=True, warnings="error")
            text = self.adapter.dump_json(kept, by_alias=True).decode()
        except (ValidationError, PydanticSerializationError) as error:
            is_invalid = isinstance(error, ValidationError)
            why = "; ".join(shortened(validation_problems(error, value))) if is_invalid else one_line(str(error))
            message = f"The tool has a fault: what it returned is not of its declared type ({why})."
            raise ToolError(message) from error
        if may_hold_non_finite(text) and (words := non_finite_in_words(plain)):
            raise ToolError(f"The tool has a fault: what it returned cannot be sent: {words}")
        if self.is_wrapped:
            return replace(ToolResult.of(kept), structured={"result": plain})
        return ToolResult(text=text, artifact=kept, structured=cast("dict[str, object]", plain))


def read_output(function: Callable[..., object]) -> Output:
    """Read the return annotation of a function, if it has one."""
    declared: Any = Origin(function).hints().get("return")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _unusable(function, "it is a generator", "Return a list instead of yielding.")
    kind: Any = getattr(declared, "__origin__", declared)
    is_object = (
        inspect.isclass(kind)
        and not issubclass(kind, (ToolResult, *block_types()))
        and (issubclass(kind, BaseModel) or is_dataclass(kind) or is_typeddict(kind))
    )
    if not is_object and (declared is None or (isinstance(kind, type) and hasattr(kind, "__await__"))):
        return Output()
    adapter: TypeAdapter[Any] | None = None
    try:
        adapter = TypeAdapter(declared)
        if not is_object and (declared in _UNDESCRIBED or _has_content(declared)):
            return Output()
        schema = rooted(adapter.json_schema(mode="serialization", schema_generator=PlainSchema))
    except UNREADABLE as error:
        if is_object:
            why = why_not_json(declared, error, "serialization")
            raise _unusable(function, why, "Give its fields types that JSON can express.") from error
        if adapter is None:
            why = f"it is {declared!r}, which has no JSON ({str(error).partition('. ')[0]})"
            fix = "Return text, JSON-like data, a pydantic model or dataclass, content blocks, or"
            raise _unusable(function, why, f"{fix} ToolResult.of_artifact(…).") from error
        return Output()  # without a schema, the output is text
    if not schema.keys() - {"title", "description"}:
        return Output()
    if schema.get("type") == "object":
        return Output(adapter, schema)
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    wrapped = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return Output(adapter, wrapped | {key: schema[key] for key in ("$defs",) if key in schema}, is_wrapped=True)


def _has_content(declared: object) -> bool:
    """Whether a type is or contains content blocks or results, which are not serialized as JSON."""
    if any(map(_has_content, get_args(declared))):
        return True
    return inspect.isclass(declared) and issubclass(declared, (ToolResult, *block_types()))


def _unusable(function: Callable[..., object], came: str, fix: str) -> DeclarationError:
    return Origin(function).error(expected="a return type that can be given to a model", came=came, fix=fix)
