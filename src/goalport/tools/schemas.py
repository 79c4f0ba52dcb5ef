"""JSON Schemas of types, and the reason why a type has none.

Schemas have no titles that repeat the names of fields, since a model pays for every word. The reason names the field of
the class that has no schema, in words for its author; it is searched for only after the schema could not be made.
"""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from itertools import islice
from math import isfinite
from typing import Annotated, Any, Final, cast, get_args

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import PydanticSerializationError
from typing_extensions import is_typeddict

from goalport.blackboard import field_kinds
from goalport.words import type_name

__all__ = [
    "UNREADABLE",
    "PlainSchema",
    "may_hold_non_finite",
    "non_finite_in_words",
    "non_finite_numbers",
    "rooted",
    "why_not_json",
    "with_items",
    "without_fields",
]

_MOST: Final = 5
_SIGNS: Final = ("null", "NaN", "Infinity")


def may_hold_non_finite(written: str) -> bool:
    """Whether this JSON may contain a non-finite number: pydantic writes NaN as null or by name."""
    return any(sign in written for sign in _SIGNS)


def non_finite_in_words(value: object) -> str:
    """A message that names the first few non-finite numbers and says what to do instead; empty when there are none."""
    found = list(islice(non_finite_numbers(value), _MOST))
    if not found:
        return ""
    return f"{' and '.join(found)}, and JSON has no such number. Return None or a text where there is no number."


def non_finite_numbers(value: object, path: str = "") -> Iterator[str]:
    """A phrase for each NaN or infinity in JSON-like data, with its place: `sizes[0] is inf`."""
    if isinstance(value, float):
        if not isfinite(value):
            yield f"{path or 'it'} is {value}"
    elif isinstance(value, Mapping):
        for key, each in cast("Mapping[object, object]", value).items():
            yield from non_finite_numbers(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(cast("list[object]", value)):
            yield from non_finite_numbers(each, f"{path}[{index}]")


def with_items(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an array with `items` in place of `prefixItems`: VS Code and model APIs refuse arrays without them.

    It accepts more than before: an element's type in another position. Validation of the values still refuses that.
    """
    rest = {name: value for name, value in schema.items() if name != "prefixItems"}
    others: list[Any] = [rest["items"]] if isinstance(rest.get("items"), dict) else []
    places: list[Any] = [*schema.get("prefixItems", ()), *others]
    kinds = [each for number, each in enumerate(places) if each not in places[:number]]
    return {**rest, "items": kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}}


def rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the object at its root: for a type that contains itself pydantic returns only a reference."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    definitions = cast("dict[str, dict[str, Any]]", schema["$defs"])
    return {**definitions[reference.rpartition("/")[2]], "$defs": definitions}


def without_fields(schema: dict[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    """The schema of an object without some of its properties, which clients and models must neither see nor send."""
    if not fields & schema.get("properties", {}).keys():
        return schema
    kept = {name: value for name, value in schema["properties"].items() if name not in fields}
    required = [name for name in schema.get("required", ()) if name not in fields]
    rest = {key: value for key, value in schema.items() if key not in {"properties", "required"}}
    return {**rest, "properties": kept, **({"required": required} if required else {})}


class PlainSchema(GenerateJsonSchema):
    """Pydantic's schema without made-up titles and with `items` for each array.

    Defaults that JSON cannot express are omitted without a warning.
    """

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic declares it so

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def tuple_schema(self, schema: Any) -> Any:
        return with_items(super().tuple_schema(schema))

    def p_arguments_schema(self, *given: Any, **named: Any) -> Any:
        return with_items(super().p_arguments_schema(*given, **named))

    def encode_default(self, dft: Any) -> Any:
        """A default as JSON. Raises `PydanticSerializationError` for one that has no JSON; pydantic then omits it."""
        encoded = super().encode_default(dft)
        if words := non_finite_in_words(encoded):
            raise PydanticSerializationError(words)
        return encoded


UNREADABLE = (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError, TypeError, NameError)
"""What pydantic raises for a type that it cannot describe."""


def why_not_json(kind: object, error: Exception, mode: JsonSchemaMode = "validation") -> str:
    """The field that JSON cannot express, with its class; the error's message, where it is the type itself."""
    return next(_culprits(kind, mode, []), str(error).partition("\n")[0].rstrip("."))


def _culprits(kind: Any, mode: JsonSchemaMode, seen: list[object]) -> Iterator[str]:
    """The innermost fields, in a type and in the types that it consists of, that JSON cannot express."""
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
        # Metadata may define a serialization for a type that has none by itself.
        return {name: Annotated[each.annotation, *each.metadata, None] for name, each in fields.items()}
    return field_kinds(kind) if is_dataclass(cls) or is_typeddict(cls) else {}


def _is_expressible(kind: Any, mode: JsonSchemaMode) -> bool:
    try:
        TypeAdapter(kind).json_schema(mode=mode, schema_generator=PlainSchema)
    except UNREADABLE:
        return False
    return True
