"""How JSON Schemas are made of types here: without the titles that repeat the names of fields.

A model pays for every word of a schema; a title that says `A` for the field `a` tells it nothing.
"""

from collections.abc import Mapping
from typing import Any, cast

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from goalport.tools.finite import odd_numbers_in_words

__all__ = ["PlainSchema", "rooted", "with_items", "without_fields"]


def with_items(schema: Mapping[str, Any]) -> dict[str, Any]:
    """An array's schema with `items` in place of `prefixItems`: VS Code and model APIs refuse arrays without them.

    It takes more than before, an element's type in another's place; what reads the values still refuses that.
    """
    rest = {name: value for name, value in schema.items() if name != "prefixItems"}
    others: list[Any] = [rest["items"]] if isinstance(rest.get("items"), dict) else []
    places: list[Any] = [*schema.get("prefixItems", ()), *others]
    kinds = [each for number, each in enumerate(places) if each not in places[:number]]
    return {**rest, "items": kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}}


def rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with the object at its root: pydantic gives a type that contains itself as a mere reference."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    definitions = cast("dict[str, dict[str, Any]]", schema["$defs"])
    return {**definitions[reference.rpartition("/")[2]], "$defs": definitions}


def without_fields(schema: dict[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    """An object's schema without some of its properties, which clients and models shall neither see nor send."""
    if not fields & schema.get("properties", {}).keys():
        return schema
    kept = {name: value for name, value in schema["properties"].items() if name not in fields}
    required = [name for name in schema.get("required", ()) if name not in fields]
    rest = {key: value for key, value in schema.items() if key not in {"properties", "required"}}
    return {**rest, "properties": kept, **({"required": required} if required else {})}


class PlainSchema(GenerateJsonSchema):
    """Pydantic's schema without made-up titles and with `items` for each array.

    Defaults that JSON cannot express are left out silently.
    """

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic declares it so

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def tuple_schema(self, schema: Any) -> Any:
        return with_items(super().tuple_schema(schema))

    def p_arguments_schema(self, *given: Any, **named: Any) -> Any:
        return with_items(super().p_arguments_schema(*given, **named))

    def encode_default(self, dft: Any) -> Any:
        """A default as JSON. Raises `PydanticSerializationError` for what JSON does not have, which is left out."""
        encoded = super().encode_default(dft)
        if words := odd_numbers_in_words(encoded):
            raise PydanticSerializationError(words)
        return encoded
