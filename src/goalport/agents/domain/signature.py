"""What a method's signature says: which parameters are inputs, which are services, and what the method gives.

Only annotations are read; nothing is called. The service types are passed in, as they are defined on higher floors.
"""

import inspect
import types
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated, Any, Literal, NewType, Protocol, TypeGuard, Union, cast, get_args, get_origin

from goalport.agents.blackboard import DEFAULT_BINDING, alternatives, field_kinds, is_alias, matcher, taken_apart
from goalport.agents.domain.values import Aggregation, Named, Provided, SomeOf, part_names
from goalport.agents.domain.wait_for import WaitFor, promised
from goalport.base.introspection import Origin
from goalport.base.type_expressions import open_in, parameters_of
from goalport.base.words import type_name

_UNUSABLE: tuple[object, ...] = (Any, object, inspect.Parameter.empty)


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter that is filled from the blackboard; a required one is a precondition."""

    name: str
    type: object
    binding: str = DEFAULT_BINDING
    required: bool = True
    default: object = None
    parts: "tuple[Input, ...]" = ()
    """The inputs that an aggregation is made of, one per field; the default of optional ones is `Parameter.empty`."""

    @property
    def leaves(self) -> "tuple[Input, ...]":
        """The inputs that are looked up on the blackboard: the parts or, where there are none, this one."""
        return tuple(replace(each, required=each.required and self.required) for each in self.parts) or (self,)


@dataclass(frozen=True, slots=True)
class Injected:
    """A parameter that is filled with a service of the framework."""

    name: str
    type: type


@dataclass(frozen=True, slots=True)
class ProvidedInput:
    """A parameter that is filled with the enclosing object or a service of the platform."""

    name: str
    type: type
    required: bool = True
    default: object = None


class Resolver(Protocol):
    """Fills the parameters that it supports; the process calls it."""

    def supports(self, parameter: inspect.Parameter, /) -> bool:
        """Whether it fills this parameter, whose annotation has been looked up."""
        ...


@dataclass(frozen=True, slots=True)
class Resolved:
    """A parameter that a resolver fills."""

    name: str
    parameter: inspect.Parameter
    resolver: Resolver


Parameter = Input | Injected | ProvidedInput | Resolved


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a method may give: an exit for each member of a union, with the types that it puts on the blackboard."""

    exits: tuple[tuple[object, ...], ...]
    type: object = None
    """The declared type without None; None when nothing comes out."""
    may_decline: bool = False
    may_wait: bool = False
    """Whether the method may return a question instead, whose answer is the output."""


def inputs_among(parameters: Iterable[Parameter]) -> tuple[Input, ...]:
    """The inputs among parameters that are looked up on the blackboard."""
    return tuple(leaf for each in parameters if isinstance(each, Input) for leaf in each.leaves)


def read_parameters(
    origin: Origin, services: frozenset[type], subject: type | None = None, resolvers: Sequence[Resolver] = ()
) -> tuple[Parameter, ...]:
    """The parameters of a bound method or function, in order.

    `subject` is the class of a method that is not bound: its first parameter is an input of that type. A parameter
    that one of the `resolvers` supports is left to the first of those, whatever its type.
    """
    hints = origin.hints()
    signature = inspect.signature(origin.function)
    if subject is not None and signature.parameters:
        hints[next(iter(signature.parameters))] = subject
    open_ = [each for each in signature.parameters.values() if each.name not in origin.filled]
    parameters = tuple(
        _claimed(each, hints, resolvers) or _read_parameter(origin, each, hints, services) for each in open_
    )
    _refuse_ambiguous(origin, parameters)
    return parameters


def _claimed(
    parameter: inspect.Parameter, hints: Mapping[str, object], resolvers: Sequence[Resolver]
) -> Resolved | None:
    typed = parameter.replace(annotation=hints.get(parameter.name, parameter.empty))
    found = next((each for each in resolvers if each.supports(typed)), None)
    return None if found is None else Resolved(parameter.name, typed, found)


def read_outputs(origin: Origin) -> Outputs:
    """What the return annotation promises. Raises `DeclarationError` where there is none that the planner can use."""
    hints = origin.hints()
    if "return" not in hints:
        raise origin.error(
            expected="a return annotation, which tells the planner what the method gives",
            came="there is none",
            fix="Add one: a type of your own, `T | None`, a union, or None.",
        )
    declared = _without_awaitable(hints["return"])
    members = alternatives(declared)
    given = [member for member in members if member is not types.NoneType]
    found = list(dict.fromkeys(promised(member) or member for member in given))
    for member in found:
        _refuse_open_question(origin, member)
        _check_type(origin, member, "as return type")
        _refuse_without_parts(origin, member)
    _refuse_yielding(origin, found)
    may_decline = bool(found) and len(given) < len(members)
    may_wait = any(promised(member) is not None for member in given)
    return Outputs(tuple(_exit_of(origin, member) for member in found), _joined(found), may_decline, may_wait)


def _read_parameter(
    origin: Origin, parameter: inspect.Parameter, hints: Mapping[str, object], services: frozenset[type]
) -> Parameter:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise origin.error(
            expected="parameters that are named one by one", came=f"there is {parameter}", fix="Name each input."
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise origin.error(
            expected="parameters that can be given by name",
            came=f"{name!r} can only be given by position",
            fix="Drop the `/`.",
        )
    if name not in hints:
        raise origin.error(
            expected=f"a type for the parameter {name!r}", came="there is none", fix=f"Write `{name}: SomeType`."
        )
    kind, markers = _unwrapped(hints[name])
    members = [member for member in alternatives(kind) if member is not types.NoneType]
    default = None if parameter.default is parameter.empty else parameter.default
    optional = len(members) < len(alternatives(kind)) or parameter.default is not parameter.empty
    if any(marker is Provided or isinstance(marker, Provided) for marker in markers):
        return ProvidedInput(name, _single_class(origin, name, members), required=not optional, default=default)
    if len(members) == 1 and isinstance(members[0], type) and members[0] in services:
        return Injected(name, members[0])
    found = _read_input(origin, name, members, markers)
    parts = _parts(origin, name, found.type) if found.binding == DEFAULT_BINDING else ()
    return Input(name, found.type, found.binding, not optional, default, tuple(parts))


def _read_input(origin: Origin, name: str, members: list[object], markers: tuple[object, ...]) -> Input:
    if len(members) != 1:
        raise origin.error(
            expected=f"one type for the parameter {name!r}",
            came=f"it is a union of {len(members)}",
            fix="Give the alternatives a common base class, or write an action for each.",
        )
    wanted = promised(members[0])
    if wanted is not None:
        raise origin.error(
            expected=f"an object for the parameter {name!r}",
            came=f"it is a question, {type_name(members[0])}",
            fix=f"Take what the answer comes to: `{name}: {type_name(wanted)}`.",
        )
    _check_type(origin, members[0], f"for the parameter {name!r}")
    named = [
        marker.name if isinstance(marker, Named) else None
        for marker in markers
        if isinstance(marker, Named) or marker is Named
    ]
    return Input(name, members[0], named[0] or name if named else DEFAULT_BINDING)


def _parts(origin: Origin, name: str, kind: object) -> Iterator[Input]:
    """The inputs that an aggregation is made of. A part that is an aggregation itself is looked up as a whole."""
    whole, arguments = taken_apart(kind)
    if not (isinstance(whole, type) and issubclass(whole, Aggregation)):
        return
    _refuse_without_parts(origin, whole)
    hints = {**origin.hints(whole), **(field_kinds(kind) if arguments else {})}
    signature = inspect.signature(whole).parameters
    for part in part_names(whole):
        declared, markers = _unwrapped(hints[part])
        members = [member for member in alternatives(declared) if member is not types.NoneType]
        found = _read_input(origin, f"{name}.{part}", members, markers)
        default = None if signature[part].default is inspect.Parameter.empty else inspect.Parameter.empty
        optional = default is not None or len(members) < len(alternatives(declared))
        yield Input(part, found.type, found.binding, required=not optional, default=default)


def _refuse_ambiguous(origin: Origin, parameters: tuple[Parameter, ...]) -> None:
    inputs = [each for each in parameters if isinstance(each, Input)]
    for one, other in combinations(inputs, 2):
        if one.type == other.type and (one.binding == other.binding or DEFAULT_BINDING in {one.binding, other.binding}):
            raise origin.error(
                expected="to know which object goes to which parameter",
                came=f"{one.name!r} and {other.name!r} are both {type_name(one.type)}",
                fix='Mark both with a name: `Annotated[T, Named("first")]`, `Annotated[T, Named("second")]`.',
            )


def _without_awaitable(kind: object) -> object:
    kind, _ = _unwrapped(kind)
    origin = get_origin(kind)
    if isinstance(origin, type) and hasattr(origin, "__await__"):
        return _unwrapped(get_args(kind)[-1])[0]
    return types.NoneType if kind is None else kind


def _exit_of(origin: Origin, member: object) -> tuple[object, ...]:
    if not _is_some_of(member):
        return (member,)
    hints = {**origin.hints(member), **field_kinds(member)}
    parts = [part for name in part_names(member) for part in alternatives(_unwrapped(hints[name])[0])]
    return (member, *(part for part in parts if part is not types.NoneType))


def _refuse_without_parts(origin: Origin, member: object) -> None:
    if _is_some_of(member) and not part_names(member):
        raise origin.error(
            expected="a result of several parts to have fields",
            came=f"{member.__name__} has no fields",
            fix=f"Give {member.__name__} a field `part: T | None = None` for each part.",
        )


def _refuse_open_question(origin: Origin, member: object) -> None:
    if isinstance(member, type) and issubclass(member, WaitFor):
        own = member is not WaitFor
        raise origin.error(
            expected="the type that an answer comes to",
            came=f"it is {member.__name__} alone",
            fix=f"Declare `class {member.__name__}(WaitFor[T])`." if own else "Write `WaitFor[T]`.",
        )


def _refuse_yielding(origin: Origin, found: Sequence[object]) -> None:
    if not (inspect.isgeneratorfunction(origin.function) or inspect.isasyncgenfunction(origin.function)):
        return
    classes = [get_origin(member) or member for member in found]
    if not any(isinstance(each, type) and issubclass(each, (Iterable, AsyncIterable)) for each in classes):
        declared = type_name(_joined(list(found)))
        raise origin.error(
            expected=f"a method that returns {declared}",
            came="it has a `yield`, so it returns a generator",
            fix=f"Return the object; collect several in a `list[{declared}]`, and tell how far it is by"
            " `context.progress`.",
        )


def _is_some_of(member: object) -> TypeGuard[type[SomeOf]]:
    return isinstance(member, type) and issubclass(member, SomeOf)


def _refuse_open(origin: Origin, kind: object, where: str) -> None:
    for parameter in open_in(kind):
        bases = (origin.owner or object).__mro__
        base = next((each.__name__ for each in bases if parameter in parameters_of(each)), "")
        raise origin.error(
            expected=f"a type {where} that is known",
            came=f"it is {type_name(kind)}, and nothing says what {parameter.__name__} is",
            fix=f"Derive the class that you deploy from `{base}[…]`, with a type of your own as {parameter.__name__}."
            if base
            else f"Write a type of your own in place of {parameter.__name__}.",
        )


def _check_type(origin: Origin, kind: object, where: str) -> None:
    _refuse_open(origin, kind, where)
    if kind in _UNUSABLE or get_origin(kind) is Literal:
        raise origin.error(
            expected=f"a type of your own {where}",
            came=f"it is {type_name(kind)}, which any object would match" if kind in _UNUSABLE else f"it is {kind}",
            fix="Define a class for it: the planner tells objects apart by their types.",
        )
    try:
        matcher(kind)(None)
    except TypeError as error:
        raise origin.error(
            expected=f"a type {where} that objects can be tested against",
            came=f"it is {type_name(kind)}" if str(error).startswith("Expected") else str(error).rstrip("."),
            fix="Use a class, a @runtime_checkable protocol, or a collection such as list[T].",
        ) from error


def _single_class(origin: Origin, name: str, members: list[object]) -> type:
    if len(members) == 1 and isinstance(members[0], type):
        return members[0]
    raise origin.error(
        expected=f"a class for the provided parameter {name!r}",
        came=f"it is {' | '.join(map(type_name, members))}",
        fix="Annotate it with the class of the service: `Annotated[Service, Provided]`.",
    )


def _unwrapped(hint: object) -> tuple[object, tuple[object, ...]]:
    """An annotation without `Annotated` and aliases, and the markers that it had, also inside `… | None`.

    A NewType counts as the type that it is made of, since at run time its values look like any others.
    """
    if isinstance(hint, NewType) or is_alias(hint):
        return _unwrapped(cast("Any", hint).__supertype__ if isinstance(hint, NewType) else hint.__value__)
    if get_origin(hint) is Annotated:
        kind, markers = _unwrapped(get_args(hint)[0])
        return kind, (*markers, *get_args(hint)[1:])
    if get_origin(hint) in (Union, types.UnionType):
        parts = [_unwrapped(part) for part in get_args(hint)]
        return _joined([part for part, _ in parts]), tuple(marker for _, markers in parts for marker in markers)
    return hint, ()


def _joined(members: list[object]) -> object:
    """The union of types; None where there are none."""
    if not members:
        return None
    return members[0] if len(members) == 1 else Union[tuple(members)]  # noqa: UP007 - built at run time
