"""The JSON Schema by which a model is asked for a type: rules of validation in it, framework fields not."""

from collections.abc import Callable
from typing import Any, cast, get_args

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from goalport.domain import FRAMEWORK_FIELDS, UserInput
from goalport.errors import DeclarationError
from goalport.tools.schemas import PlainSchema

__all__ = ["asked_schema"]

Schema = dict[str, Any]


def asked_schema(adapter: TypeAdapter[Any], kind: object, properties: Callable[[str], bool] | None) -> Schema:
    """The schema of what an adapter validates, an object of a class that contains itself at its root too.

    `properties` says which fields of `kind`, or of what it is a list of, are asked for. Raises `DeclarationError` when
    it would leave out one that has no default.
    """
    generator = _only(kind, properties) if properties else _AskedSchema
    return _rooted(adapter.json_schema(mode="validation", schema_generator=generator))


class _AskedSchema(PlainSchema):
    def dataclass_schema(self, schema: Any) -> Schema:
        found = super().dataclass_schema(schema)
        return _without(found, FRAMEWORK_FIELDS) if issubclass(schema["cls"], UserInput) else found


def _only(kind: object, wanted: Callable[[str], bool]) -> type[GenerateJsonSchema]:
    """A generator that leaves out what is not wanted of a class."""
    classes = (kind, *get_args(kind))

    class Filtered(_AskedSchema):
        def model_schema(self, schema: Any) -> Schema:
            return self._kept(super().model_schema(schema), schema["cls"])

        def dataclass_schema(self, schema: Any) -> Schema:
            return self._kept(super().dataclass_schema(schema), schema["cls"])

        def typed_dict_schema(self, schema: Any) -> Schema:
            return self._kept(super().typed_dict_schema(schema), schema.get("cls"))

        def _kept(self, found: Schema, of: object) -> Schema:
            if of not in classes:
                return found
            unwanted = frozenset(name for name in found.get("properties", {}) if not wanted(name))
            if needed := sorted(unwanted.intersection(found.get("required", ()))):
                raise _needed(of, needed)
            return _without(found, unwanted)

    return Filtered


def _without(schema: Schema, fields: frozenset[str]) -> Schema:
    kept = {name: value for name, value in schema.get("properties", {}).items() if name not in fields}
    required = [name for name in schema.get("required", ()) if name not in fields]
    rest = {key: value for key, value in schema.items() if key not in {"properties", "required"}}
    return {**rest, "properties": kept, **({"required": required} if required else {})}


def _rooted(schema: Schema) -> Schema:
    """A schema with the object at its root: pydantic gives a type that contains itself as a mere reference."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    definitions = cast("dict[str, Schema]", schema["$defs"])
    return {**definitions[reference.rpartition("/")[2]], "$defs": definitions}


def _needed(of: object, names: list[str]) -> DeclarationError:
    return DeclarationError(
        f"The properties of {getattr(of, '__name__', of)} that a model is asked for",
        expected="all that have no default",
        came=f"{', '.join(names)} would be left out",
        fix="Keep them, or give them defaults.",
    )
