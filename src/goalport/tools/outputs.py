"""What a function returns, as a schema and as a result.

The return type is published as the output schema, and what comes is checked against it. One that is no object is the
member `result` of one, as with goals: some clients take a bare number or list for a broken result.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from types import NoneType
from typing import Any, Final, cast, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import is_typeddict

from goalport.errors import DeclarationError, ToolError
from goalport.tools.finite import may_hold_odd_numbers, odd_numbers_in_words
from goalport.tools.places import place_of, type_hints
from goalport.tools.results import ToolResult, block_types
from goalport.tools.schema_errors import UNREADABLE, why_not_json
from goalport.tools.schemas import PlainSchema, rooted
from goalport.words import shortened, validation_problems

__all__ = ["Output", "read_output"]

_UNDESCRIBED: Final = (None, NoneType, Any, object)
"""Return types of which there is nothing to publish."""


@dataclass(frozen=True, slots=True)
class Output:
    """The declared return type; `schema` is None where it says nothing, and for content blocks and results."""

    adapter: TypeAdapter[Any] | None = None
    schema: Mapping[str, object] | None = None
    is_wrapped: bool = False
    """Whether the value is the member `result` of the object that the schema describes."""

    def result(self, value: object) -> ToolResult:
        """What the function returned, as a result; ToolError when it is not what was declared."""
        if self.adapter is None:
            return _undeclared(value)
        if isinstance(value, ToolResult):
            return value
        try:
            kept = self.adapter.validate_python(value)
            plain = self.adapter.dump_python(kept, mode="json", by_alias=True, warnings="error")
            text = self.adapter.dump_json(kept, by_alias=True).decode()
        except ValidationError as error:
            raise _not_as_declared("; ".join(shortened(validation_problems(error, value)))) from error
        except PydanticSerializationError as error:
            raise _not_as_declared(" ".join(str(error).split())) from error
        if may_hold_odd_numbers(text) and (words := odd_numbers_in_words(plain)):
            raise ToolError(f"The tool has a fault: what it returned cannot be sent: {words}")
        if self.is_wrapped:
            return replace(ToolResult.of(kept), structured={"result": plain})
        return ToolResult(text=text, artifact=kept, structured=plain)


def read_output(function: Callable[..., object]) -> Output:
    """Read the return annotation of a function; there need not be one."""
    declared: Any = type_hints(function).get("return")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _unusable(function, "it is a generator", "Return a list instead of yielding.")
    if not _is_object(declared):
        _check(function, declared)
        return _of_value(declared)
    try:
        return _of_adapter(TypeAdapter(declared))
    except UNREADABLE as error:
        why = why_not_json(declared, error, "serialization")
        raise _unusable(function, why, "Give its fields types that JSON can express.") from error


def _of_value(declared: Any) -> Output:
    """The output of a type without fields; one that cannot be described is text."""
    if declared in _UNDESCRIBED or _is_awaitable(declared) or _has_content(declared):
        return Output()
    try:
        return _of_adapter(TypeAdapter(declared))
    except UNREADABLE:
        return Output()


def _undeclared(value: object) -> ToolResult:
    """A value of no declared type: structured as declared ones are, as far as it is JSON at all."""
    result = ToolResult.of(value)
    if value is None or result is value or result.blocks:
        return result
    plain: object = to_jsonable_python(value, by_alias=True)
    if may_hold_odd_numbers(result.text) and odd_numbers_in_words(plain):
        return result
    structured = cast("dict[str, object]", plain) if isinstance(plain, dict) else {"result": plain}
    return replace(result, structured=structured)


def _of_adapter(adapter: TypeAdapter[Any]) -> Output:
    schema = rooted(adapter.json_schema(mode="serialization", schema_generator=PlainSchema))
    if not schema.keys() - {"title", "description"}:
        return Output()
    if schema.get("type") == "object":
        return Output(adapter, schema)
    return Output(adapter, _wrapped(schema), is_wrapped=True)


def _wrapped(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema of an object whose member `result` is what the given one describes."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **definitions}


def _has_content(declared: object) -> bool:
    """Whether a type is, or has in it, content blocks or results, which are not written as JSON."""
    if any(map(_has_content, get_args(declared))):
        return True
    return inspect.isclass(declared) and issubclass(declared, (ToolResult, *block_types()))


def _not_as_declared(problems: str) -> ToolError:
    return ToolError(f"The tool has a fault: what it returned is not of its declared type ({problems}).")


def _is_object(declared: object) -> bool:
    kind: Any = getattr(declared, "__origin__", declared)
    if not inspect.isclass(kind) or issubclass(kind, (ToolResult, *block_types())):
        return False
    return issubclass(kind, BaseModel) or is_dataclass(kind) or is_typeddict(kind)


def _check(function: Callable[..., object], declared: object) -> None:
    if declared is None or _is_awaitable(declared):
        return
    try:
        TypeAdapter(cast("Any", declared))
    except UNREADABLE as error:
        raise _unusable(
            function,
            f"it is {declared!r}, which has no JSON ({str(error).partition('. ')[0]})",
            "Return text, JSON-like data, a pydantic model or dataclass, content blocks, or ToolResult.of_artifact(…).",
        ) from error


def _is_awaitable(declared: object) -> bool:
    kind = getattr(declared, "__origin__", declared)
    return isinstance(kind, type) and hasattr(kind, "__await__")


def _unusable(function: Callable[..., object], came: str, fix: str) -> DeclarationError:
    return DeclarationError(
        place_of(function), expected="a return type that can be given to a model", came=came, fix=fix
    )
