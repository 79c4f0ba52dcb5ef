"""Why a type has no JSON Schema: which field of which class is to blame, in words for its author.

Asked only once it is known that there is none. Below: schemas. Above: whoever describes types to models and clients.
"""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, get_args

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaMode
from typing_extensions import is_typeddict

from goalport.blackboard import field_kinds
from goalport.tools.schemas import PlainSchema
from goalport.words import type_name

__all__ = ["UNREADABLE", "why_not_json"]

UNREADABLE = (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError, TypeError, NameError)
"""What pydantic raises for a type that it cannot describe."""


def why_not_json(kind: object, error: Exception, mode: JsonSchemaMode = "validation") -> str:
    """The field that keeps a type from JSON and the class that has it; the error, where it is the type itself."""
    return next(_culprits(kind, mode, []), str(error).partition("\n")[0].rstrip("."))


def _culprits(kind: Any, mode: JsonSchemaMode, seen: list[object]) -> Iterator[str]:
    """The innermost fields of a type, and of what it is made of, that JSON cannot express."""
    if any(kind is each for each in seen):
        return
    seen.append(kind)
    for part in get_args(kind):
        yield from _culprits(part, mode, seen)
    for name, field in _fields(kind).items():
        if not _is_expressible(field, mode):
            inner = next(_culprits(field, mode, seen), "")
            yield (
                inner or f"the field {name!r} of {type_name(kind)} is of the type {type_name(field)}, which has no JSON"
            )


def _fields(kind: Any) -> Mapping[str, object]:
    cls: Any = getattr(kind, "__origin__", kind)
    fields: Mapping[str, FieldInfo] | None = getattr(kind, "model_fields", None)
    if fields is not None:
        # Metadata may say how a value is written that has no JSON by itself.
        return {name: Annotated[each.annotation, *each.metadata, None] for name, each in fields.items()}
    return field_kinds(kind) if is_dataclass(cls) or is_typeddict(cls) else {}


def _is_expressible(kind: Any, mode: JsonSchemaMode) -> bool:
    try:
        TypeAdapter(kind).json_schema(mode=mode, schema_generator=PlainSchema)
    except UNREADABLE:
        return False
    return True
