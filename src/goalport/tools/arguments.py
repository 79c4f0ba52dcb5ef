"""A function's parameters as a schema, and JSON arguments turned into what the function is called with.

Reads the signature once; pydantic does the validating. It does not call the function.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo

from goalport.errors import BadInput, DeclarationError
from goalport.tools.places import place_of, type_hints
from goalport.tools.problems import argument_problems, listed, shortened
from goalport.tools.schemas import PlainSchema

__all__ = ["UNREADABLE", "Arguments", "read_arguments"]

UNREADABLE = (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError, TypeError, NameError)
"""What pydantic raises for a type that it cannot validate or describe."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parameters of one function."""

    model: type[BaseModel]
    """One field per parameter, under a name of our own: a parameter may be called what no pydantic field may."""
    parameters: Mapping[str, inspect.Parameter]
    """By the field's name."""

    @property
    def names(self) -> tuple[str, ...]:
        """What callers call the parameters."""
        return tuple(_wire_name(field) for field in self.model.model_fields.values())

    def schema(self, descriptions: Mapping[str, str]) -> dict[str, object]:
        """The JSON Schema of the arguments; `descriptions`, by parameter, stand where the annotation has none."""
        found = self.model.model_json_schema(schema_generator=PlainSchema)
        properties = found.get("properties", {})
        for field, parameter in self.parameters.items():
            described = properties[_wire_name(self.model.model_fields[field])]
            if parameter.name in descriptions:
                described.setdefault("description", descriptions[parameter.name])
        required = {"required": found["required"]} if "required" in found else {}
        definitions = {"$defs": found["$defs"]} if "$defs" in found else {}
        return {"type": "object", "properties": properties, **required, "additionalProperties": False, **definitions}

    def bind(self, arguments: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
        """Positional and named arguments for the function; BadInput with a line per field when they are not right."""
        try:
            filled = self.model.model_validate(dict(arguments))
        except ValidationError as error:
            raise BadInput(listed(shortened(argument_problems(error, arguments, self.names)))) from None
        positional: list[object] = []
        named: dict[str, object] = {}
        for field, parameter in self.parameters.items():
            value = getattr(filled, field)
            if parameter.kind is parameter.POSITIONAL_ONLY:
                given = field in filled.model_fields_set or isinstance(parameter.default, FieldInfo)
                positional.append(value if given else parameter.default)
            elif field in filled.model_fields_set or isinstance(parameter.default, FieldInfo):
                named[parameter.name] = value
        return positional, named


def read_arguments(function: Callable[..., object]) -> Arguments:
    """Read the parameters of a function; DeclarationError names the one that no schema can describe."""
    hints = type_hints(function)
    parameters = [*inspect.signature(function).parameters.values()]
    for parameter in parameters:
        _check(function, parameter, hints)
    by_field = {f"goalport_argument_{number}": parameter for number, parameter in enumerate(parameters)}
    fields: dict[str, Any] = {
        field: (hints[parameter.name], ... if parameter.default is parameter.empty else parameter.default)
        for field, parameter in by_field.items()
    }
    aliases = {field: parameter.name for field, parameter in by_field.items()}
    # Dataclasses among the types inherit this configuration: their fields come to the generator too, and keep their
    # names.
    config = ConfigDict(extra="forbid", alias_generator=lambda field: aliases.get(field, field))
    try:
        model = create_model("Arguments", __config__=config, **fields)
        model.model_json_schema(schema_generator=PlainSchema)
    except UNREADABLE as error:
        raise _unreadable(function, parameters, hints, error) from error
    return Arguments(model, by_field)


def _wire_name(field: FieldInfo) -> str:
    return field.validation_alias if isinstance(field.validation_alias, str) else field.alias or ""


def _check(function: Callable[..., object], parameter: inspect.Parameter, hints: Mapping[str, object]) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise DeclarationError(
            place_of(function),
            expected="parameters that are named one by one, so that a model can be told what to send",
            came=f"there is {parameter}",
            fix="Name each argument, or take one parameter that is a list or a dict.",
        )
    if parameter.name not in hints:
        raise DeclarationError(
            place_of(function),
            expected=f"a type for the parameter {parameter.name!r}",
            came="there is none",
            fix=_missing_type_fix(parameter),
        )


def _missing_type_fix(parameter: inspect.Parameter) -> str:
    if parameter.name == "self":
        return "Make the tool of an instance (`Tool.from_instance(Calculator())`), not of the class."
    return f"Write `{parameter.name}: float`, or whatever type it has."


def _unreadable(
    function: Callable[..., object], parameters: list[inspect.Parameter], hints: Mapping[str, Any], error: Exception
) -> DeclarationError:
    for parameter in parameters:
        try:
            TypeAdapter(hints[parameter.name]).json_schema(schema_generator=PlainSchema)
        except UNREADABLE as reason:
            return DeclarationError(
                place_of(function),
                expected=f"a type for the parameter {parameter.name!r} that JSON can express",
                came=f"it is {hints[parameter.name]!r} ({_first_line(reason)})",
                fix="Use numbers, strings, enums, lists, dicts, dataclasses, TypedDicts or pydantic models.",
            )
    return DeclarationError(
        place_of(function),
        expected="a signature that a JSON Schema can describe",
        came=_first_line(error),
        fix="Simplify the annotations or defaults.",
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
