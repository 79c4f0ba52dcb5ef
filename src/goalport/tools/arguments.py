"""The arguments of a tool that is made from a function: their JSON Schema, and binding a caller's values to parameters.

The signature is read once, and pydantic validates. The function is not called here. Parameters may also be listed
explicitly. Some parameters are not filled by the model but injected: a process, a context, or whatever else is current
where the tool is called. A type is injected if it has a classmethod `__goalport_current__`, which returns the current
object or raises a `GoalportError`, or if `Annotated` marks it with what has a `__goalport_provided__`, which takes the
type; so packages above add such types, and this one knows none of them.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from goalport.agents.blackboard import alternatives
from goalport.base.errors import BadInput, DeclarationError, GoalportError, ToolError
from goalport.base.introspection import Origin
from goalport.base.words import corrections, first_line, validation_problems, with_article
from goalport.tools.schemas import UNREADABLE, PlainSchema, why_not_json

CURRENT = "__goalport_current__"
"""Marks what only a process has."""
PREPARE: Final[ContextVar[Callable[[Sequence[type], object], Awaitable[None]] | None]] = ContextVar(
    "goalport_prepare", default=None
)
"""Enters the services of these types before a tool that takes them is called; the second argument is not used."""
_PROVIDED = "__goalport_provided__"


@dataclass(frozen=True, slots=True)
class Injection:
    """How one parameter is filled at each call."""

    kind: type
    is_optional: bool
    """Whether None is injected when there is no current object."""
    current: Callable[[], object]

    def value(self) -> object:
        """Return the current object. Raises `ToolError` when there is none and the parameter is not optional."""
        try:
            found = self.current()
        except GoalportError as error:
            if self.is_optional:
                return None
            raise ToolError(f"The tool needs {with_article(self.kind)}: {error}") from error
        if found is None and not self.is_optional:
            raise ToolError(f"The tool needs {with_article(self.kind)}, and it was called where there is none.")
        return found


def injection_of(hint: Any) -> Injection | None:
    """The injection of a parameter with this annotation; None when the caller fills it."""
    marked, *markers = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    members = alternatives(marked)
    kinds = [each for each in members if each is not NoneType]
    if len(kinds) != 1 or not isinstance(kinds[0], type):
        return None
    kind, provided = kinds[0], next((found for each in markers if (found := getattr(each, _PROVIDED, None))), None)
    current = getattr(kind, CURRENT, None) if provided is None else partial(provided, kind)
    return None if current is None else Injection(kind, len(kinds) < len(members), current)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool whose parameters are listed: `Tool.of(…, parameters=[Parameter("a", int, "The first")])`.

    `type` is any type that JSON can express; what a model sends is converted to it.
    """

    name: str
    type: Any = str
    description: str = ""
    required: bool = True
    default: object = None
    """The value when the parameter is optional and was not sent; with None the tool receives no such argument."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parameters of one function."""

    model: type[BaseModel]
    """One field per parameter, under a generated name, since pydantic does not allow every name for a field."""
    parameters: Mapping[str, "_Slot"]
    """The parameters by field name, in the order of the signature, including those that are injected."""

    @property
    def injected(self) -> tuple[type, ...]:
        """The types of the parameters that callers do not see."""
        return tuple(each.injection.kind for each in self.parameters.values() if each.injection is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters that callers see."""
        return tuple(_wire_name(field) for field in self.model.model_fields.values())

    def schema(self, descriptions: Mapping[str, str]) -> dict[str, object]:
        """The JSON Schema of the arguments. `descriptions`, by parameter, are used where the annotation has none."""
        found = self.model.model_json_schema(schema_generator=PlainSchema)
        properties = found.get("properties", {})
        for field, slot in self.parameters.items():
            if slot.injection is None and slot.name in descriptions:
                described = properties[_wire_name(self.model.model_fields[field])]
                described.setdefault("description", descriptions[slot.name])
        required = {"required": found["required"]} if "required" in found else {}
        definitions = {"$defs": found["$defs"]} if "$defs" in found else {}
        return {"type": "object", "properties": properties, **required, "additionalProperties": False, **definitions}

    def check(self, arguments: Mapping[str, object]) -> BaseModel:
        """Return the validated arguments. Raises `BadInput`, with a line for each field that is wrong."""
        try:
            return self.model.model_validate(dict(arguments))
        except ValidationError as error:
            raise BadInput(corrections(validation_problems(error, arguments, self.names))) from None

    def bind(self, arguments: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
        """Return the positional and the named arguments for the function. Raises `BadInput`, as `check` does."""
        filled = self.check(arguments)
        positional: list[object] = []
        named: dict[str, object] = {}
        for field, slot in self.parameters.items():
            value = slot.injection.value() if slot.injection else getattr(filled, field)
            given = slot.is_always_given or field in filled.model_fields_set
            if slot.is_positional:
                positional.append(value if given else slot.default)
            elif given:
                named[slot.name] = value
        return positional, named


@dataclass(frozen=True, slots=True)
class _Slot:
    """One parameter of the function, and how its argument is passed."""

    name: str
    default: object = inspect.Parameter.empty
    is_positional: bool = False
    injection: Injection | None = None
    """How the parameter is injected; None when the caller fills it."""

    @property
    def is_always_given(self) -> bool:
        return self.injection is not None or isinstance(self.default, FieldInfo)


def read_arguments(function: Callable[..., object]) -> Arguments:
    """Read the parameters of a function. Raises `DeclarationError` with the parameter that has no schema."""
    hints = Origin(function).hints()
    slots: list[_Slot] = []
    for parameter in inspect.signature(function).parameters.values():
        _check(function, parameter, hints)
        positional = parameter.kind is parameter.POSITIONAL_ONLY
        slots.append(_Slot(parameter.name, parameter.default, positional, injection_of(hints[parameter.name])))
    return _arguments(str(Origin(function)), slots, hints)


def listed_arguments(where: str, parameters: Iterable[Parameter]) -> Arguments:
    """The arguments of a tool whose parameters are listed. Raises `DeclarationError`, as `read_arguments` does."""
    slots: list[_Slot] = []
    hints: dict[str, Any] = {}
    for each in parameters:
        if each.name in hints:
            raise DeclarationError(
                where,
                expected="parameters with different names",
                came=f"there are two called {each.name!r}",
                fix="Rename one.",
            )
        kind: Any = each.type if each.required or each.default is not None else each.type | None
        hints[each.name] = Annotated[kind, Field(description=each.description)] if each.description else kind
        default = None if each.default is None else Field(default=each.default)
        slots.append(_Slot(each.name, inspect.Parameter.empty if each.required else default))
    return _arguments(where, slots, hints)


def _arguments(where: str, slots: list[_Slot], hints: Mapping[str, Any]) -> Arguments:
    by_field = {f"goalport_argument_{number}": slot for number, slot in enumerate(slots)}
    seen = {field: slot for field, slot in by_field.items() if slot.injection is None}
    fields: dict[str, Any] = {
        field: (hints[slot.name], ... if slot.default is inspect.Parameter.empty else slot.default)
        for field, slot in seen.items()
    }
    aliases = {field: slot.name for field, slot in seen.items()}
    # Dataclasses among the types inherit this configuration: their fields come to the generator too, and keep their
    # names.
    config = ConfigDict(extra="forbid", alias_generator=lambda field: aliases.get(field, field))
    try:
        model = create_model("Arguments", __config__=config, **fields)
        model.model_json_schema(schema_generator=PlainSchema)
    except UNREADABLE as error:
        raise _unreadable(where, [*aliases.values()], hints, error) from error
    return Arguments(model, by_field)


def _wire_name(field: FieldInfo) -> str:
    return field.validation_alias if isinstance(field.validation_alias, str) else field.alias or ""


def _check(function: Callable[..., object], parameter: inspect.Parameter, hints: Mapping[str, object]) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise Origin(function).error(
            expected="parameters that are named one by one, so that a model can be told what to send",
            came=f"there is {parameter}",
            fix="Name each argument, or take one parameter that is a list or a dict.",
        )
    if parameter.name not in hints:
        raise Origin(function).error(
            expected=f"a type for the parameter {parameter.name!r}",
            came="there is none",
            fix="Make the tool of an instance (`Tool.from_instance(Calculator())`), not of the class."
            if parameter.name == "self"
            else f"Write `{parameter.name}: float`, or whatever type it has.",
        )


def _unreadable(where: str, names: list[str], hints: Mapping[str, Any], error: Exception) -> DeclarationError:
    for name in names:
        try:
            TypeAdapter(hints[name]).json_schema(schema_generator=PlainSchema)
        except UNREADABLE as reason:
            return DeclarationError(
                where,
                expected=f"a type for the parameter {name!r} that JSON can express",
                came=f"it is {hints[name]!r} ({why_not_json(hints[name], reason)})",
                fix="Use numbers, strings, enums, lists, dicts, dataclasses, TypedDicts or pydantic models, or for a"
                " service `Annotated[…, Provided]`.",
            )
    return DeclarationError(
        where,
        expected="a signature that a JSON Schema can describe",
        came=first_line(str(error)),
        fix="Simplify the annotations or defaults.",
    )
